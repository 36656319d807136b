//! Canonical forms of numbers, times and quantities.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::go::{self, Layout};
use crate::quantity;

/// Converts a float without a fraction to an integer.
pub(super) fn whole_number(value: &mut Value) {
    if let Value::Number(number) = value
        && !number.is_i64()
        && let Some(float) = number.as_f64()
        && float.fract() == 0.0
        && float.abs() < 9e15
    {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and below 2^53")]
        let whole = float as i64;
        *value = json!(whole);
    }
}

/// Formats a time in whole seconds, in UTC.
pub(super) fn time(value: &mut Value) {
    let Some(time) = parse(value, Layout::Seconds) else { return };
    if is_zero(time) {
        *value = Value::Null;
    } else if !value.as_str().is_some_and(go::is_in_seconds) {
        *value = json!(go::format_seconds(time));
    }
}

/// Formats a time with six decimals, in UTC.
pub(super) fn micro_time(value: &mut Value) {
    if let Some(time) = parse(value, Layout::Micros) {
        let text = || time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        *value = if is_zero(time) { Value::Null } else { json!(text()) };
    }
}

/// Whether a time is Go's zero time, the beginning of the year 1, which is null in JSON.
fn is_zero(time: Timestamp) -> bool {
    const ZERO: i64 = -62_135_596_800;
    (time.as_second(), time.subsec_nanosecond()) == (ZERO, 0)
}

fn parse(value: &Value, layout: Layout) -> Option<Timestamp> {
    go::time(value.as_str()?, layout).ok()
}

/// Encodes a list of bytes. As in Go, numbers lose the bits that a byte lacks.
pub(super) fn bytes(value: &mut Value) {
    if let Value::Array(items) = &*value {
        let byte = |item: &Value| item.as_i64().map_or(0, |number| number.to_le_bytes()[0]);
        *value = json!(BASE64.encode(items.iter().map(byte).collect::<Vec<u8>>()));
    }
}

/// Converts a quantity to its canonical form.
pub(super) fn quantity(value: &mut Value) {
    let text = match &*value {
        // Go strips the quotes of the JSON text and then the spaces inside them.
        Value::String(text) => text.trim().to_owned(),
        Value::Number(_) => go::json(value),
        _ => return,
    };
    if let Some(canonical) = quantity::canonical(&text) {
        *value = json!(canonical);
    }
}
