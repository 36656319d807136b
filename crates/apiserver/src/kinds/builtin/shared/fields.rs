//! Reads and writes fields with Go's notion of absent values.

use serde_json::Value;

/// Changes a nested object, if it exists.
pub(in crate::kinds::builtin) fn within(object: &mut Value, key: &str, change: impl FnOnce(&mut Value)) {
    if let Some(part) = object.get_mut(key).filter(|part| part.is_object()) {
        change(part);
    }
}

/// Sets an absent field. Like Go's defaulting of fields that are not pointers, this treats the empty text as absent.
pub(in crate::kinds::builtin) fn set(object: &mut Value, key: &str, value: Value) {
    if let Value::Object(fields) = object {
        let present = fields.get(key).is_some_and(|value| !value.is_null() && *value != "");
        if !present {
            fields.insert(key.to_owned(), value);
        }
    }
}

/// Sets an absent field that is a pointer in Go, for which the empty text is a value.
pub(in crate::kinds::builtin) fn set_pointer(object: &mut Value, key: &str, value: Value) {
    if let Value::Object(fields) = object
        && fields.get(key).is_none_or(Value::is_null)
    {
        fields.insert(key.to_owned(), value);
    }
}

/// Sets a field; null removes it.
pub(in crate::kinds::builtin) fn put(object: &mut Value, field: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        if value.is_null() {
            fields.remove(field);
        } else {
            fields.insert(field.to_owned(), value);
        }
    }
}

/// Iterates over the objects in a list. An absent list has none.
pub(in crate::kinds::builtin) fn elements<'a>(
    object: &'a mut Value,
    key: &str,
) -> impl Iterator<Item = &'a mut Value> {
    object
        .get_mut(key)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter(|element| element.is_object())
}

/// Returns a list; empty if it is absent.
pub(in crate::kinds::builtin) fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object[field].as_array().map_or(&[], Vec::as_slice)
}

/// Returns a text; empty if it is absent.
pub(in crate::kinds::builtin) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

/// Restores metadata that belongs to the write itself, or that is validated, in an object that was reset to its old state.
pub(in crate::kinds::builtin) fn keep_write(mut written: Value, new: &mut Value) {
    for field in ["generateName", "managedFields", "resourceVersion", "uid"] {
        put(&mut new["metadata"], field, written[field].take());
    }
}
