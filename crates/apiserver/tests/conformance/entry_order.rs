//! The order of `metadata.managedFields`.
//!
//! A server sorts the entries by operation, time, manager, version and subresource. Times are not those of the recording:
//! where seconds passed between two writes there, none may have passed here. So the recorded entries are put into the
//! order that they have here, provided that it is the one which the times here give.

use serde_json::Value;

/// The recorded entries in the order of the actual ones; `None` if these are not in the order of their times, or are
/// other entries altogether.
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

/// What tells two entries of one object apart.
fn identity(entry: &Value) -> [&str; 4] {
    ["manager", "operation", "apiVersion", "subresource"].map(|field| text(entry, field))
}

/// Times of a fixed format sort as texts; an absent field comes first.
fn text<'a>(entry: &'a Value, field: &str) -> &'a str {
    entry.get(field).and_then(Value::as_str).unwrap_or_default()
}
