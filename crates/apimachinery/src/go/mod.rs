//! Go's text formats: how it prints decoded JSON values and differences of texts, and how it parses durations, times, URLs, and addresses.

#[cfg(feature = "time")]
mod duration;
mod encoding_json;
mod mail;
mod netip;
#[cfg(feature = "time")]
mod time;
mod unified_diff;
mod url;

use std::fmt::Write;

use serde_json::{Number, Value};

#[cfg(feature = "time")]
pub use duration::{duration, loose_duration};
pub use encoding_json::{json, write_json};
pub use mail::is_mail_address;
pub use netip::{ZonedAddress, address, prefix};
#[cfg(feature = "time")]
pub use time::{Layout, format_seconds, is_in_seconds, time};
pub use unified_diff::unified_diff;
pub use url::Url;

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
            c if is_printable(c) => quoted.push(c),
            c if u32::from(c) < 0x10000 => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    quoted.push('"');
    quoted
}

/// Whether Go prints a character unchanged: letters, marks, numbers, punctuation, symbols and the ASCII space.
fn is_printable(c: char) -> bool {
    // Rust escapes an apostrophe, Go does not.
    if c == ' ' || c.is_ascii_graphic() {
        return true;
    }
    // Rust has the same rule for characters that are not the first of a text; the first one may not be a mark.
    let mut buffer = [b'a'; 5];
    let length = c.encode_utf8(&mut buffer[1..]).len();
    let text = std::str::from_utf8(&buffer[..=length]).unwrap_or_default();
    text.escape_debug().nth(1) != Some('\\')
}

/// Formats a float as Go's `%v`: the shortest digits that identify it, with an exponent below 10⁻⁴ and from 10⁶ on.
#[must_use]
pub fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    with_exponent(&format!("{value:e}"), || value.to_string())
}

/// Formats a finite float of 32 bits like [`float`].
#[cfg(feature = "yaml")]
pub(crate) fn short_float(value: f32) -> String {
    with_exponent(&format!("{value:e}"), || value.to_string())
}

/// Formats a float, given with an exponent, as `plain` if the exponent is from -4 to 5.
fn with_exponent(scientific: &str, plain: impl FnOnce() -> String) -> String {
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific.to_owned() };
    match exponent.parse::<i32>() {
        Ok(-4..6) | Err(_) => plain(),
        // The exponent has a sign and at least two digits.
        Ok(exponent) => format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()),
    }
}

/// Formats a number as Go's `%v`. A number without a fraction is an `int64` if it fits, otherwise a `float64`.
fn number(of: &Number) -> String {
    match (of.as_i64(), of.as_f64()) {
        (Some(value), _) => value.to_string(),
        (None, Some(value)) => float(value),
        (None, None) => of.to_string(),
    }
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
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Formats a decoded value as Go's `%v`.
pub fn value(of: &Value) -> String {
    match of {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(of) => number(of),
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
        Value::Bool(value) => value.to_string(),
        Value::Number(of) => number(of),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("{}:{}", quote(name), syntax(value))).collect();
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Observed with Go 1.26.
    #[test]
    fn texts_are_quoted_as_by_go() {
        for (text, expected) in [
            ("a\"\\\n\u{7f}", r#""a\"\\\n\x7f""#),
            ("\u{200b}\u{feff}\u{a0}", r#""\u200b\ufeff\u00a0""#),
            ("\u{2028}\u{ad}\u{e000}\u{378} \u{3000}", r#""\u2028\u00ad\ue000\u0378 \u3000""#),
            ("\u{e0001}", r#""\U000e0001""#),
            ("it's", "\"it's\""),
            ("é\u{301}\u{301}", "\"é\u{301}\u{301}\""),
        ] {
            assert_eq!(quote(text), expected);
        }
        assert_eq!(quote("\u{301}"), "\"\u{301}\"", "a mark at the beginning");
    }

    /// Observed with Go 1.26.
    #[test]
    fn numbers_are_formatted_as_by_go() {
        for (value, expected) in [
            (1.0, "1"),
            (1.5, "1.5"),
            (999_999.0, "999999"),
            (1e6, "1e+06"),
            (1_234_567.89, "1.23456789e+06"),
            (123_456.789, "123456.789"),
            (1e100, "1e+100"),
            (0.0001, "0.0001"),
            (0.000_012_345, "1.2345e-05"),
            (-1e-7, "-1e-07"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(float(value), expected);
        }
        let mixed = json!({"a": 1.0, "b\u{200b}": "x\u{200b}", "c": 3, "d": [1e21, null]});
        assert_eq!(
            syntax(&mixed),
            r#"map[string]interface {}{"a":1, "b\u200b":"x\u200b", "c":3, "d":[]interface {}{1e+21, interface {}(nil)}}"#
        );
        assert_eq!(
            value(&json!([1.0, null, 1e21, 12_345_678, u64::MAX])),
            "[1 <nil> 1e+21 12345678 1.8446744073709552e+19]"
        );
        assert_eq!(type_of(&json!(u64::MAX)), "float64");
    }
}
