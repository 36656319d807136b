//! Answers in protobuf, byte for byte as a Go server writes them: fields in the order of their numbers, maps in the
//! order of their keys, plain values always, pointers and lists only where there is something.
//!
//! What is written has been through [`crate::builtin::conform`], so every value is of its field's type. One that is not
//! is written as the zero of the type: an answer never fails, and never panics.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{MAGIC, SCHEMA, find, message_of_kind};
use crate::builtin::{Count, Field, Message, Type};

/// Forgiving, because data that is stored cannot be refused any more.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Microseconds of a second.
const MICROS: i64 = 1_000_000;

/// An object with `apiVersion` and `kind`: `k8s\0` and a `runtime.Unknown` around its message. `None` if its kind has no
/// message, as custom kinds and tables have none.
pub(crate) fn encode(object: &Value) -> Option<Vec<u8>> {
    let (api_version, kind) = (object.get("apiVersion")?.as_str()?, object.get("kind")?.as_str()?);
    let message = message_of_kind(api_version, kind)?;
    Some(envelope(api_version, kind, |out| put_message(out, message, object.as_object())))
}

/// A list whose items are taken, and written, one at a time. `None` if the list's kind has no message.
pub(crate) fn encode_list(
    api_version: &str,
    list_kind: &str,
    metadata: &Value,
    items: impl Iterator<Item = Value>,
) -> Option<Vec<u8>> {
    let message = message_of_kind(api_version, list_kind)?;
    let named = |name: &str| message.fields().iter().find(|field| field.name == name);
    let (metadata_field, items_field) = (named("metadata")?, named("items")?);
    Some(envelope(api_version, list_kind, |out| {
        put_value(out, metadata_field.number, metadata_field.kind, metadata);
        for item in items {
            put_value(out, items_field.number, items_field.kind, &item);
        }
    }))
}

/// A `meta.v1.WatchEvent` as watches frame it: four bytes of length, the highest first, and the event, whose object is
/// what [`encode`] made of it.
pub(crate) fn watch_frame(event: &str, object: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(object.len() + 32);
    frame.extend_from_slice(&[0; 4]);
    put_bytes(&mut frame, 1, event.as_bytes());
    put_nested(&mut frame, 2, |out| put_bytes(out, 1, object));
    // Objects of four gigabytes do not exist: bodies have a limit far below.
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// `runtime.Unknown`: the type, the message, and two empty texts for its encoding and its media type.
fn envelope(api_version: &str, kind: &str, message: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(MAGIC);
    put_nested(&mut out, 1, |out| {
        put_bytes(out, 1, api_version.as_bytes());
        put_bytes(out, 2, kind.as_bytes());
    });
    put_nested(&mut out, 2, message);
    put_bytes(&mut out, 3, b"");
    put_bytes(&mut out, 4, b"");
    out
}

fn put_message(out: &mut Vec<u8>, message: &Message, object: Option<&Map<String, Value>>) {
    for field in message.fields() {
        match field.kind {
            Type::Message(name) if field.name.is_empty() => {
                // The fields of an embedded struct stand in the object itself.
                put_nested(out, field.number, |out| put_message_named(out, name, object));
            }
            _ => {
                let value = object.and_then(|object| object.get(field.name));
                put_field(out, field, value.filter(|value| !value.is_null()));
            }
        }
    }
}

fn put_message_named(out: &mut Vec<u8>, name: &str, object: Option<&Map<String, Value>>) {
    // A test sees to it that every message the tables name is in them.
    if let Ok(message) = find(name) {
        put_message(out, message, object);
    }
}

fn put_field(out: &mut Vec<u8>, field: &Field, value: Option<&Value>) {
    match (field.count, value) {
        (Count::One, None) => {
            // Go's byte slices and lists of strings are nil by themselves.
            if !field.pointer && !matches!(field.kind, Type::Bytes | Type::Strings | Type::OneOf(_)) {
                put_zero(out, field.number, field.kind);
            }
        }
        (Count::One, Some(value)) => put_value(out, field.number, field.kind, value),
        (Count::List, Some(Value::Array(list))) => {
            for value in list {
                put_value(out, field.number, field.kind, value);
            }
        }
        (Count::Map, Some(Value::Object(map))) => {
            for (key, value) in map {
                put_nested(out, field.number, |out| {
                    put_bytes(out, 1, key.as_bytes());
                    put_value(out, 2, field.kind, value);
                });
            }
        }
        (Count::List | Count::Map, _) => {}
    }
}

/// What Go writes for a field that is no pointer and was not set.
fn put_zero(out: &mut Vec<u8>, number: u64, kind: Type) {
    match kind {
        // Unset, which is not the same as the value null.
        Type::Json => put_bytes(out, number, b""),
        kind => put_value(out, number, kind, &Value::Null),
    }
}

fn put_value(out: &mut Vec<u8>, number: u64, kind: Type, value: &Value) {
    let text = value.as_str().unwrap_or_default();
    match kind {
        Type::String => put_bytes(out, number, text.as_bytes()),
        Type::Bytes => put_bytes(out, number, &base64(text)),
        Type::Bool => put_number(out, number, i64::from(value.as_bool().unwrap_or_default())),
        Type::Int32 | Type::Int64 => put_number(out, number, value.as_i64().unwrap_or_default()),
        Type::Double => {
            put_varint(out, number << 3 | 1);
            out.extend_from_slice(&value.as_f64().unwrap_or_default().to_bits().to_le_bytes());
        }
        Type::Time => put_nested(out, number, |out| {
            if let Ok(time) = text.parse::<Timestamp>() {
                put_number(out, 1, time.as_microsecond().div_euclid(MICROS));
                put_number(out, 2, 0);
            }
        }),
        Type::MicroTime => put_nested(out, number, |out| {
            if let Ok(time) = text.parse::<Timestamp>() {
                put_number(out, 1, time.as_microsecond().div_euclid(MICROS));
                put_number(out, 2, time.as_microsecond().rem_euclid(MICROS) * 1000);
            }
        }),
        Type::Quantity => put_nested(out, number, |out| {
            put_bytes(out, 1, if text.is_empty() { b"0" } else { text.as_bytes() });
        }),
        Type::IntOrString => put_nested(out, number, |out| {
            put_number(out, 1, i64::from(value.is_string()));
            put_number(out, 2, value.as_i64().unwrap_or_default());
            put_bytes(out, 3, text.as_bytes());
        }),
        Type::Json => put_nested(out, number, |out| put_bytes(out, 1, value.to_string().as_bytes())),
        Type::Strings => put_nested(out, number, |out| put_texts(out, 1, value)),
        Type::OneOf(name) => put_nested(out, number, |out| put_one_of(out, name, value)),
        Type::Message(name) => {
            put_nested(out, number, |out| put_message_named(out, name, value.as_object()));
        }
    }
}

/// A schema, or what the type's name says: schemas, a boolean, or strings.
fn put_one_of(out: &mut Vec<u8>, name: &str, value: &Value) {
    if name.ends_with("OrBool") {
        // Where there is a schema, something is allowed.
        put_number(out, 1, i64::from(value.as_bool().unwrap_or(true)));
        if value.is_object() {
            put_value(out, 2, SCHEMA, value);
        }
        return;
    }
    match value {
        Value::Array(_) if name.ends_with("OrStringArray") => put_texts(out, 2, value),
        Value::Array(schemas) => schemas.iter().for_each(|schema| put_value(out, 2, SCHEMA, schema)),
        schema => put_value(out, 1, SCHEMA, schema),
    }
}

fn put_texts(out: &mut Vec<u8>, number: u64, list: &Value) {
    for text in list.as_array().into_iter().flatten() {
        put_bytes(out, number, text.as_str().unwrap_or_default().as_bytes());
    }
}

/// Line breaks are allowed in JSON's bytes, in Go's reading of base64.
fn base64(text: &str) -> Vec<u8> {
    let decoded = if text.contains(['\r', '\n']) {
        BASE64.decode(text.replace(['\r', '\n'], ""))
    } else {
        BASE64.decode(text)
    };
    decoded.unwrap_or_default()
}

/// A message within a message. Its length stands in front of it and is known after it: one byte is kept free, which is
/// enough for most, and what was written moves if it is not.
fn put_nested(out: &mut Vec<u8>, number: u64, write: impl FnOnce(&mut Vec<u8>)) {
    put_varint(out, number << 3 | 2);
    let place = out.len();
    out.push(0);
    write(out);
    let end = out.len();
    put_varint(out, (end - place - 1) as u64);
    let width = out.len() - end;
    // The last byte of the length fills the free place, the others go before it.
    out.swap_remove(place);
    out[place..].rotate_right(width - 1);
}

fn put_bytes(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_varint(out, number << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Negative numbers take ten bytes, whatever the width of their type.
fn put_number(out: &mut Vec<u8>, number: u64, value: i64) {
    put_varint(out, number << 3);
    put_varint(out, value.cast_unsigned());
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
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

    #[test]
    fn a_watch_frame_begins_with_its_length() {
        assert_eq!(watch_frame("ADDED", b"k8s\0"), b"\0\0\0\x0f\x0a\x05ADDED\x12\x06\x0a\x04k8s\0");
    }
}
