//! Which names a definition gets, and when it is established.

use serde_json::{Map, Value, json};

use super::{all, put};
use crate::registry::Served;
use crate::server::Server;
use crate::verbs::{metadata, update};

/// Gives every definition the names that are free, and establishes those that got all of theirs.
///
/// One pass may free names for the next, so passes are repeated while they change anything, at most as often as there
/// are definitions.
pub(super) fn settle(server: &Server, served: &Served) {
    let passes = all(server, served).len() + 1;
    for _ in 0..passes {
        let mut changed = false;
        for (key, revision, definition) in all(server, served) {
            let others: Vec<Value> = all(server, served)
                .into_iter()
                .filter(|(other, _, _)| *other != key)
                .map(|(_, _, definition)| definition)
                .collect();
            let mut next = definition.clone();
            accept_names(server, &mut next, &others);
            if next != definition {
                track(server, served, &definition, &mut next);
                changed |= put(server, served, &key, revision, &next);
            }
            let Some(stored) = server.read(|store| store.get(served.storage(), &key).cloned()) else {
                continue;
            };
            let definition = served.value(&stored);
            let mut next = definition.clone();
            if condition(&definition, "NamesAccepted") == "True"
                && condition(&definition, "Established") != "True"
                && !metadata::is_terminating(&definition)
            {
                let why = "the initial names have been accepted";
                set_condition(server, &mut next, "Established", "True", "InitialNamesAccepted", why);
                track(server, served, &definition, &mut next);
                changed |= put(server, served, &key, stored.revision, &next);
            }
        }
        if !changed {
            return;
        }
    }
}

/// Ownership of what the server itself writes into the status.
pub(super) fn track(server: &Server, served: &Served, old: &Value, new: &mut Value) {
    update::track_as(server, served, "kube-apiserver", "status", Some(old), new);
}

/// The status of a condition, empty if there is none.
pub(super) fn condition<'a>(definition: &'a Value, kind: &str) -> &'a str {
    conditions(definition)
        .iter()
        .find(|condition| condition["type"] == kind)
        .and_then(|condition| condition["status"].as_str())
        .unwrap_or_default()
}

fn conditions(definition: &Value) -> &[Value] {
    definition["status"]["conditions"].as_array().map_or(&[], Vec::as_slice)
}

/// Sets a condition; the time changes only with the status.
pub(super) fn set_condition(
    server: &Server,
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
        _ => json!(server.clock.now_seconds()),
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

/// Names that are in use by other definitions of the group.
#[derive(Default)]
struct Used {
    resources: Vec<String>,
    kinds: Vec<String>,
}

impl Used {
    fn by(others: &[Value], group: &str) -> Self {
        let mut used = Self::default();
        for other in others.iter().filter(|other| other["spec"]["group"] == group) {
            let names = &other["status"]["acceptedNames"];
            let text = |field: &str| names[field].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
            used.resources.extend(["plural", "singular"].into_iter().filter_map(text));
            used.resources.extend(texts(&names["shortNames"]));
            used.kinds.extend(["kind", "listKind"].into_iter().filter_map(text));
        }
        used
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Accepts the requested names that nobody else has, and says so in the conditions.
fn accept_names(server: &Server, definition: &mut Value, others: &[Value]) {
    let group = definition["spec"]["group"].as_str().unwrap_or_default().to_owned();
    let requested = definition["spec"]["names"].clone();
    let mut accepted: Map<String, Value> =
        definition["status"]["acceptedNames"].as_object().cloned().unwrap_or_default();
    let used = Used::by(others, &group);
    let mut conflict: Option<(&str, String)> = None;
    for (field, reason, taken) in [
        ("plural", "PluralConflict", &used.resources),
        ("singular", "SingularConflict", &used.resources),
        ("shortNames", "ShortNamesConflict", &used.resources),
        ("kind", "KindConflict", &used.kinds),
        ("listKind", "ListKindConflict", &used.kinds),
    ] {
        let wanted = &requested[field];
        if accepted.get(field) == Some(wanted) {
            continue;
        }
        let names = if wanted.is_array() {
            texts(wanted)
        } else {
            wanted.as_str().map(str::to_owned).into_iter().collect()
        };
        let already = texts(accepted.get(field).unwrap_or(&Value::Null));
        let clashes: Vec<String> = names
            .iter()
            .filter(|name| !already.contains(name) && taken.contains(name))
            .map(|name| format!("\"{name}\" is already in use"))
            .collect();
        match clashes.as_slice() {
            [] if wanted.is_null() => {
                accepted.remove(field);
            }
            [] => {
                accepted.insert(field.to_owned(), wanted.clone());
            }
            [one] => conflict = Some((reason, one.clone())),
            many => conflict = Some((reason, format!("[{}]", many.join(", ")))),
        }
    }
    match requested.get("categories") {
        Some(categories) => accepted.insert("categories".to_owned(), categories.clone()),
        None => accepted.remove("categories"),
    };
    for always in ["plural", "kind"] {
        accepted.entry(always).or_insert_with(|| json!(""));
    }
    if !definition["status"].is_object() {
        definition["status"] = json!({});
    }
    definition["status"]["acceptedNames"] = Value::Object(accepted);
    let (accepted, reason, message) = match &conflict {
        None => ("True", "NoConflicts", "no conflicts found"),
        Some((reason, message)) => ("False", *reason, message.as_str()),
    };
    set_condition(server, definition, "NamesAccepted", accepted, reason, message);
    if condition(definition, "Established") != "True" {
        let (reason, message) = if conflict.is_none() {
            ("Installing", "the initial names have been accepted")
        } else {
            ("NotAccepted", "not all names are accepted")
        };
        set_condition(server, definition, "Established", "False", reason, message);
    }
}
