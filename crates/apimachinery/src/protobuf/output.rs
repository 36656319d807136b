//! Encoder for protobuf's wire format: numbers, bytes, and the scalar types of Go's API structs.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use jiff::Timestamp;
use serde_json::Number;

use crate::go_struct::{Alternative, Count, Field, GoType, Message};

/// Accepts any padding: stored data can no longer be refused.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Microseconds per second.
const MICROS: i64 = 1_000_000;

/// A JSON value that is neither a list nor an object.
#[derive(Debug, Clone)]
pub(super) enum JsonScalar<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(&'a str),
}

impl<'a> JsonScalar<'a> {
    fn text(&self) -> &'a str {
        if let Self::Text(text) = *self { text } else { "" }
    }

    fn integer(&self) -> i64 {
        if let Self::Number(number) = self { number.as_i64().unwrap_or_default() } else { 0 }
    }

    fn float(&self) -> f64 {
        if let Self::Number(number) = self { number.as_f64().unwrap_or_default() } else { 0.0 }
    }

    fn bool(&self) -> Option<bool> {
        if let Self::Bool(on) = *self { Some(on) } else { None }
    }

    /// Returns the JSON text, for fields that carry arbitrary JSON.
    fn json(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(on) => on.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => serde_json::Value::from(*text).to_string(),
        }
    }
}

/// Writes a value. A value of another type is written as the zero of the field's type.
pub(super) fn put_scalar(out: &mut Vec<u8>, number: u64, kind: GoType, value: &JsonScalar<'_>) {
    let text = value.text();
    match kind {
        GoType::String => put_bytes(out, number, text.as_bytes()),
        GoType::Bytes => put_bytes(out, number, &base64(text)),
        GoType::Bool => put_number(out, number, i64::from(value.bool().unwrap_or_default())),
        GoType::Int32 | GoType::Int64 => put_number(out, number, value.integer()),
        GoType::Double => {
            put_varint(out, number << 3 | 1);
            out.extend_from_slice(&value.float().to_bits().to_le_bytes());
        }
        // A null time is an empty message. A time with a fraction before 1970 is rounded down, as by Go's `Unix`.
        GoType::Time => put_nested(out, number, |out| {
            if let Ok(time) = text.parse::<Timestamp>() {
                put_number(out, 1, time.as_microsecond().div_euclid(MICROS));
                put_number(out, 2, 0);
            }
        }),
        GoType::MicroTime => put_nested(out, number, |out| {
            if let Ok(time) = text.parse::<Timestamp>() {
                put_number(out, 1, time.as_microsecond().div_euclid(MICROS));
                put_number(out, 2, time.as_microsecond().rem_euclid(MICROS) * 1000);
            }
        }),
        GoType::Quantity => put_nested(out, number, |out| {
            // Go encodes the zero quantity as `0`.
            put_bytes(out, 1, if text.is_empty() { b"0" } else { text.as_bytes() });
        }),
        GoType::IntOrString => put_nested(out, number, |out| {
            // Go writes all three fields, whatever the type.
            put_number(out, 1, i64::from(matches!(value, JsonScalar::Text(_))));
            put_number(out, 2, value.integer());
            put_bytes(out, 3, text.as_bytes());
        }),
        GoType::Json => put_nested(out, number, |out| put_bytes(out, 1, value.json().as_bytes())),
        GoType::Strings => put_nested(out, number, |_| {}),
        GoType::OneOf(Alternative::Bool, _) => put_nested(out, number, |out| {
            // Without a boolean the value is a schema, which means "allowed".
            put_number(out, 1, i64::from(value.bool().unwrap_or(true)));
        }),
        GoType::OneOf(_, schema) => put_nested(out, number, |out| {
            put_nested(out, 1, |out| put_empty(out, schema));
        }),
        GoType::Message(message) => put_nested(out, number, |out| put_empty(out, message)),
    }
}

/// Writes a struct in which no field is set.
fn put_empty(out: &mut Vec<u8>, message: &'static Message) {
    for field in message.fields() {
        match field.embedded() {
            Some(message) => put_nested(out, field.number, |out| put_empty(out, message)),
            None => put_absent(out, field),
        }
    }
}

/// Writes a field that is not set, as Go does: nothing if Go can distinguish unset from zero, otherwise the zero.
pub(super) fn put_absent(out: &mut Vec<u8>, field: &Field) {
    match field.kind {
        _ if field.pointer || field.count != Count::One => {}
        // Go's byte slices and string lists can be nil without being pointers.
        GoType::Bytes | GoType::Strings | GoType::OneOf(..) => {}
        // Unset, as opposed to the JSON value null.
        GoType::Json => put_bytes(out, field.number, b""),
        kind => put_scalar(out, field.number, kind, &JsonScalar::Null),
    }
}

/// Decodes base64. Line breaks are allowed, as in Go.
fn base64(text: &str) -> Vec<u8> {
    let decoded = if text.contains(['\r', '\n']) {
        BASE64.decode(text.replace(['\r', '\n'], ""))
    } else {
        BASE64.decode(text)
    };
    decoded.unwrap_or_default()
}

/// Writes a small nested message. Its length stands before it but is known only afterwards. One byte is reserved, which is enough for most
/// messages; longer ones are moved.
pub fn put_nested(out: &mut Vec<u8>, number: u64, write: impl FnOnce(&mut Vec<u8>)) {
    put_tag(out, number);
    let place = out.len();
    out.push(0);
    write(out);
    let end = out.len();
    put_varint(out, (end - place - 1) as u64);
    let width = out.len() - end;
    // The last byte of the length fills the reserved place; the other bytes are rotated in front of it.
    out.swap_remove(place);
    out[place..].rotate_right(width - 1);
}

/// Writes a field of bytes, such as a text.
pub fn put_bytes(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_tag(out, number);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes the tag of a bytes or message field.
pub(super) fn put_tag(out: &mut Vec<u8>, number: u64) {
    put_varint(out, number << 3 | 2);
}

/// Writes an integer field. Negative numbers take ten bytes, regardless of the type's width.
pub fn put_number(out: &mut Vec<u8>, number: u64, value: i64) {
    put_varint(out, number << 3);
    put_varint(out, value.cast_unsigned());
}

/// Writes a number in groups of seven bits, the lowest first.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(length: usize) -> Vec<u8> {
        let mut out = vec![7];
        put_nested(&mut out, 1, |out| out.extend(std::iter::repeat_n(b'x', length)));
        out
    }

    #[test]
    fn the_length_of_a_message_takes_as_many_bytes_as_it_needs() {
        for (length, head) in [
            (0, &[7, 10, 0][..]),
            (127, &[7, 10, 127]),
            (128, &[7, 10, 128, 1]),
            (16_384, &[7, 10, 128, 128, 1]),
        ] {
            let out = nested(length);
            assert_eq!(out[..head.len()], *head);
            assert_eq!(out[head.len()..], vec![b'x'; length]);
        }
    }
}
