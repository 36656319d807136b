//! Conversion of fields to Go structs without JSON, as apimachinery's converter of unstructured objects does after a
//! strategic merge or an apply.
//!
//! It is less strict than a JSON decoder: integers are truncated to 32 bits if the type has no more, and whole floats are integers.

use serde_json::{Number, Value};

use super::go_decoding::{fits, go_type, illegal_base64, layout, quantity_refusal};
use super::go_types::{GoPlace, last_names};
use super::{Cursor, JsonType, ValueKind};
use crate::{go, go_struct};

/// Converts `value` to the form of its Go struct.
///
/// # Errors
/// Go's message for the first value, in the order of declarations, that does not fit its type. `value` is then restored in part.
pub(super) fn restore(schema: Cursor<'_>, value: &mut Value) -> Result<(), String> {
    restore_at(schema, value, GoPlace { definition: None, field: "", depth: 0 })
}

fn restore_at(schema: Cursor<'_>, value: &mut Value, place: GoPlace<'_>) -> Result<(), String> {
    let element = GoPlace { depth: place.depth + 1, ..place };
    let expected = match schema.kind() {
        ValueKind::Of(expected) => expected,
        ValueKind::IntOrString if schema.format() == Some("int-or-string") => return int_or_string(value),
        ValueKind::IntOrString => return quantity_refusal(value).map_or(Ok(()), |why| Err(why.to_owned())),
        ValueKind::Any | ValueKind::Opaque => return Ok(()),
    };
    match (expected, &mut *value) {
        (_, Value::Null) => Ok(()),
        (JsonType::Object, Value::Object(fields)) => {
            let definition = schema.definition_name();
            let refusals = fields.iter_mut().filter_map(|(name, value)| {
                let restored = match (schema.property(name), schema.additional()) {
                    (Some(property), _) => {
                        restore_at(property, value, GoPlace { definition, field: name, depth: 0 })
                    }
                    (None, Some(schema)) => restore_at(schema, value, element),
                    (None, None) => Ok(()),
                };
                Some((name, restored.err()?))
            });
            // Go restores the fields of a struct in the order of their declaration, and stops at the first error.
            let message = || go_struct::message(last_names(definition?));
            let place = |name: &str| message().and_then(|message| go_struct::declared_place(message, name));
            let first = refusals.min_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
            first.map_or(Ok(()), |(_, why)| Err(why))
        }
        (JsonType::Array, Value::Array(items)) => {
            let Some(schema) = schema.items() else { return Ok(()) };
            items.iter_mut().try_for_each(|item| restore_at(schema, item, element))
        }
        (JsonType::String, Value::String(text)) if schema.format() == Some("date-time") => {
            go::time(text, layout(schema)).map(drop)
        }
        (JsonType::String, value) if schema.format() == Some("date-time") => {
            Err(format!("json: cannot unmarshal {} into Go value of type string", go::json_type(value)))
        }
        (JsonType::String, value) if schema.is_bytes() => bytes(value),
        (JsonType::Integer, Value::Number(number)) => integer(schema, number),
        (JsonType::Boolean, Value::Bool(_))
        | (JsonType::String, Value::String(_))
        | (JsonType::Number, Value::Number(_)) => Ok(()),
        (JsonType::Array, value) => Err(format!("cannot restore slice from {}", name(value))),
        (JsonType::Object, value) if schema.definition_name().is_some() => {
            Err(format!("cannot restore struct from: {}", name(value)))
        }
        (JsonType::Object, value) => Err(format!("cannot restore map from {}", name(value))),
        // These formats have decoders of their own.
        (JsonType::String, _) if schema.format().is_some() => Ok(()),
        // Go could convert an integer to a text of one character, so it has a message of its own.
        (JsonType::String, Value::Number(number)) if !number.is_f64() => {
            Err(format!("cannot convert int64 to {}", place.type_name().unwrap_or("string")))
        }
        (JsonType::Boolean | JsonType::String | JsonType::Number | JsonType::Integer, _) => {
            Err(format!("unrecognized type: {}", go_type(schema)))
        }
    }
}

fn integer(schema: Cursor<'_>, number: &mut Number) -> Result<(), String> {
    let float = number.as_f64().filter(|float| float.fract() == 0.0);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "out of range, where Go has the least integer on x86"
    )]
    let converted =
        |float: f64| if float.abs() < 9.3e18 && float < i64::MAX as f64 { float as i64 } else { i64::MIN };
    let Some(whole) = number.as_i64().or_else(|| float.map(converted)) else {
        return Err(format!("cannot convert float64 to {}", go_type(schema)));
    };
    #[expect(clippy::cast_possible_truncation, reason = "Go's conversion drops bits too")]
    let truncated = whole as i32;
    *number = if schema.format() == Some("int32") { truncated.into() } else { whole.into() };
    Ok(())
}

fn int_or_string(value: &Value) -> Result<(), String> {
    let found = match value {
        Value::Null | Value::String(_) => return Ok(()),
        Value::Number(number) if fits(number, 32) => return Ok(()),
        Value::Number(number) => format!("number {number}"),
        other => go::json_type(other).to_owned(),
    };
    Err(format!("json: cannot unmarshal {found} into Go value of type int32"))
}

fn bytes(value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) => illegal_base64(text).map_or(Ok(()), |at| {
            Err(format!("error decoding from json: illegal base64 data at input byte {at}"))
        }),
        // A list of bytes. Go accepts any numbers, and null as zero.
        Value::Array(items) if items.iter().all(|item| item.is_number() || item.is_null()) => Ok(()),
        Value::Array(_) => Err("unrecognized type: uint8".to_owned()),
        other => Err(format!("cannot restore slice from {}", name(other))),
    }
}

/// Returns Go's name for the type of a value without a schema.
fn name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nil",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}
