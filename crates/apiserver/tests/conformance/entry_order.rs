//! Order of `metadata.managedFields`.
//!
//! A server sorts the entries by operation, time, manager, version and subresource. Writes that were seconds apart in the
//! recording may have equal times here. The recorded entries are therefore sorted like the actual ones, provided that
//! these are sorted correctly.

use serde_json::Value;

/// Returns the recorded entries in the order of the actual ones; `None` if these are not sorted, or are other entries.
pub(crate) fn adjusted(expected: &[Value], actual: &[Value]) -> Option<Vec<Value>> {
    if expected.len() != actual.len() || !actual.is_sorted_by_key(rank) {
        return None;
    }
    let same =
        |entry: &Value| expected.iter().find(|expected| identity(expected) == identity(entry)).cloned();
    actual.iter().map(same).collect()
}

fn rank(entry: &Value) -> [&str; 5] {
    ["operation", "time", "manager", "apiVersion", "subresource"].map(|field| text(entry, field))
}

/// Returns the key of an entry within its object.
fn identity(entry: &Value) -> [&str; 4] {
    ["manager", "operation", "apiVersion", "subresource"].map(|field| text(entry, field))
}

/// Returns a field as text, by which times of a fixed format are ordered; an absent field comes first.
fn text<'a>(entry: &'a Value, field: &str) -> &'a str {
    entry.get(field).and_then(Value::as_str).unwrap_or_default()
}
