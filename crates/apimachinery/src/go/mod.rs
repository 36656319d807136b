//! Go's text formats: how it prints decoded JSON values, and how it parses durations and times.

#[cfg(feature = "time")]
mod duration;
mod encoding_json;
#[cfg(feature = "time")]
mod time;

use std::fmt::Write;

use serde_json::Value;

#[cfg(feature = "time")]
pub use duration::duration;
pub use encoding_json::{json, write_json};
#[cfg(feature = "time")]
pub use time::{Layout, format_seconds, time};

/// Quotes a text like Go's `%q`.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\t' => quoted.push_str("\\t"),
            '\n' => quoted.push_str("\\n"),
            '\x0b' => quoted.push_str("\\v"),
            '\x0c' => quoted.push_str("\\f"),
            '\r' => quoted.push_str("\\r"),
            c if c.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Joins the messages of several errors like Go's `errors.NewAggregate`: each message once, and brackets around more than one.
#[must_use]
pub fn join_errors(messages: &[String]) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    for message in messages {
        if !distinct.contains(&message.as_str()) {
            distinct.push(message);
        }
    }
    match distinct.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// Formats the type of a decoded value as Go's `%T`.
#[must_use]
pub fn type_of(value: &Value) -> &'static str {
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

/// Formats a decoded value as Go's `%v`.
pub fn value(of: &Value) -> String {
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

/// Formats a decoded value as Go's `%#v`.
pub fn syntax(value: &Value) -> String {
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

/// Returns the name that Go's JSON decoder gives to a value's type.
#[must_use]
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
