//! How Go prints decoded JSON values, for texts that a Go server makes of them.

use std::fmt::Write;

use serde_json::Value;

/// Go's `%T` of a decoded value.
pub(crate) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Go's `%v` of a decoded value.
pub(crate) fn value(of: &Value) -> String {
    match of {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(_) | Value::Number(_) => of.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(value).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let mut text = "map[".to_owned();
            for (index, (name, field)) in fields.iter().enumerate() {
                let separator = if index == 0 { "" } else { " " };
                // Writing to a string cannot fail.
                let _ = write!(text, "{separator}{name}:{}", value(field));
            }
            text + "]"
        }
    }
}

/// Go's `%#v` of a decoded value.
pub(crate) fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("{name:?}:{}", syntax(value))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
    }
}

/// What Go's JSON decoder calls a value's type.
pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
