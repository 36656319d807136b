//! Cells from fields of objects: texts, numbers, lists, labels and conditions, and the placeholders for absent ones.

use serde_json::{Value, json};

use super::text_at;

pub(super) const NONE: &str = "<none>";
pub(super) const UNSET: &str = "<unset>";
pub(super) const UNKNOWN: &str = "<unknown>";

/// Returns a text, or `none` if it is absent or empty.
pub(super) fn or(object: &Value, pointer: &str, none: &str) -> Value {
    json!(text_at(object, pointer).filter(|text| !text.is_empty()).unwrap_or(none))
}

/// Returns a number, or `<none>` if it is absent.
pub(super) fn count(object: &Value, pointer: &str) -> Value {
    let found = object.pointer(pointer).and_then(Value::as_i64);
    found.map_or(json!(NONE), |count| json!(count))
}

pub(super) fn joined(list: &Value, separator: &str, none: &str) -> Value {
    let texts: Vec<&str> = array(list).iter().map(plain).collect();
    json!(if texts.is_empty() { none.to_owned() } else { texts.join(separator) })
}

pub(super) fn labels(labels: &Value) -> Value {
    // JSON objects keep their keys sorted, so the order is that of Go's text form.
    let pairs =
        labels.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", plain(value)));
    let pairs: Vec<String> = pairs.collect();
    json!(if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") })
}

/// Returns status and reason of the first condition of a type.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<(&'a str, &'a str)> {
    let found = array(&object["status"]["conditions"]).iter().find(|condition| condition["type"] == kind)?;
    Some((plain(&found["status"]), plain(&found["reason"])))
}

pub(super) fn array(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn plain(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
