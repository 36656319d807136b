//! Conditions of a definition.

use serde_json::{Value, json};

/// Returns the status of a condition; empty if it is missing.
pub(crate) fn condition<'a>(definition: &'a Value, kind: &str) -> &'a str {
    conditions(definition)
        .iter()
        .find(|condition| condition["type"] == kind)
        .and_then(|condition| condition["status"].as_str())
        .unwrap_or_default()
}

fn conditions(definition: &Value) -> &[Value] {
    definition["status"]["conditions"].as_array().map_or(&[], Vec::as_slice)
}

/// Adds or replaces a condition. `lastTransitionTime` becomes `now` only if the status changes.
pub(crate) fn set_condition(
    now: &str,
    definition: &mut Value,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
) {
    let mut list = conditions(definition).to_vec();
    let old = list.iter().position(|condition| condition["type"] == kind);
    let time = match old {
        Some(at) if list[at]["status"] == status => list[at]["lastTransitionTime"].clone(),
        _ => json!(now),
    };
    let new = json!({
        "type": kind, "status": status, "lastTransitionTime": time, "reason": reason, "message": message,
    });
    match old {
        Some(at) => list[at] = new,
        None => list.push(new),
    }
    if !definition["status"].is_object() {
        definition["status"] = json!({});
    }
    definition["status"]["conditions"] = Value::Array(list);
}
