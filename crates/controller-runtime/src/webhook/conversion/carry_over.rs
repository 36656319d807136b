//! Fields of an object that its Rust type does not know. Pure.

use serde_json::Value;

/// Moves fields of `raw` that are missing in `known`, the same object as its type encodes it, to the same path of `converted`, if
/// that has an object there without such a field. Empty values are not moved: types leave them out, although they know the field.
pub(super) fn carry_over(raw: Value, known: &Value, converted: &mut Value) {
    match (raw, known, converted) {
        (Value::Object(raw), Value::Object(known), Value::Object(converted)) => {
            for (key, value) in raw {
                match (known.get(&key), converted.get_mut(&key)) {
                    (Some(known), Some(converted)) => carry_over(value, known, converted),
                    (None, None) if !is_empty(&value) => {
                        converted.insert(key, value);
                    }
                    _ => {}
                }
            }
        }
        // Elements correspond only if there are equally many.
        (Value::Array(raw), Value::Array(known), Value::Array(converted))
            if raw.len() == known.len() && raw.len() == converted.len() =>
        {
            for ((raw, known), converted) in raw.into_iter().zip(known).zip(converted) {
                carry_over(raw, known, converted);
            }
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
    }
}
