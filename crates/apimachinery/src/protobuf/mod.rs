//! Protobuf for builtin kinds, which kubectl ≥ 1.32 and client-go ≥ 0.32 send and prefer in responses: decodes request
//! bodies to JSON and encodes responses.
//!
//! A body is `k8s\0` and a `runtime.Unknown` with the type of the object and its message. Messages are decoded with the
//! field tables of [`crate::go_struct`], so no code is generated and every kind in those tables can be decoded and encoded.
//! The decoded JSON equals the JSON of a Go client, except that fields which Go always writes may be absent. The encoded
//! bytes equal those of a Go server.
//!
//! Bodies are untrusted input: this module limits their depth, and the reader of the body limits their size.

mod encode;
mod object;
mod output;
mod wire;
mod wire_value;

use serde_json::{Map, Value};

use crate::go_struct::{Count, Field, GoType, Message, message_of_kind};
use crate::status::ApiError;
pub use encode::{ListMessage, encode, encode_text, watch_frame};
pub use output::{put_bytes, put_nested, put_number, put_varint};
use wire::{Wire, WireReader, WireResult};
use wire_value::default_value;

/// Prefix of every body.
const MAGIC: &[u8] = b"k8s\0";

/// Maximum nesting of messages. Schemas of CustomResourceDefinitions nest deepest; real ones stay below 30.
const MAX_DEPTH: usize = 100;

/// Kinds of request options. They are defined once and sent under the apiVersion of any group.
const OPTIONS: [&str; 6] =
    ["CreateOptions", "DeleteOptions", "GetOptions", "ListOptions", "PatchOptions", "UpdateOptions"];

/// Checks that a body has the prefix of protobuf bodies, and content.
///
/// # Errors
/// kube-apiserver's message.
pub fn check_prefix(body: &[u8]) -> Result<(), String> {
    match body.strip_prefix(MAGIC) {
        _ if body.is_empty() => Err("empty data".to_owned()),
        None => {
            let why =
                "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
            Err(why.to_owned())
        }
        Some([]) => Err("empty body".to_owned()),
        Some(_) => Ok(()),
    }
}

/// Returns the `apiVersion` and `kind` of a body; empty texts if it does not name them.
///
/// # Errors
/// A message about the bytes after the prefix.
pub fn type_of(body: &[u8]) -> Result<[&str; 2], String> {
    let envelope = body.strip_prefix(MAGIC).unwrap_or_default();
    Envelope::read(envelope)
        .map(|envelope| [envelope.api_version, envelope.kind])
        .map_err(|error| error.to_string())
}

/// Decodes a body to JSON with `apiVersion` and `kind`.
///
/// # Errors
/// 400 if the body is not a Kubernetes protobuf body, or its kind is unknown.
pub fn decode(body: &[u8]) -> Result<Value, ApiError> {
    decode_body(body).map_err(|error| ApiError::bad_request(format!("invalid protobuf body: {error}")))
}

fn decode_body(body: &[u8]) -> WireResult<Value> {
    let Some(envelope) = body.strip_prefix(MAGIC) else {
        return Err("it does not start with the bytes 6b 38 73 00".into());
    };
    let Envelope { api_version, kind, raw } = Envelope::read(envelope)?;
    if kind.is_empty() {
        return Err("Object 'Kind' is missing in the type meta".into());
    }
    let table_version = if OPTIONS.contains(&kind) { "v1" } else { api_version };
    let Some(message) = message_of_kind(table_version, kind) else {
        return Err(format!("no kind \"{kind}\" is registered for version \"{api_version}\"").into());
    };
    let mut object = Map::new();
    decode_message(message, raw, &mut object, 0)?;
    // The messages have no fields for the type, which is only in the envelope.
    object.insert("apiVersion".to_owned(), Value::from(api_version));
    object.insert("kind".to_owned(), Value::from(kind));
    Ok(Value::Object(object))
}

/// A `runtime.Unknown`: type meta 1 (apiVersion 1, kind 2), raw 2, content encoding 3, content type 4.
#[derive(Default)]
struct Envelope<'a> {
    api_version: &'a str,
    kind: &'a str,
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn read(buffer: &'a [u8]) -> WireResult<Self> {
        let mut envelope = Self::default();
        let mut fields = WireReader::new(buffer);
        while let Some(field) = fields.next()? {
            match field {
                (1, Wire::Bytes(type_meta)) => {
                    let mut fields = WireReader::new(type_meta);
                    while let Some(field) = fields.next()? {
                        match field {
                            (1, Wire::Bytes(text)) => envelope.api_version = utf8(text)?,
                            (2, Wire::Bytes(text)) => envelope.kind = utf8(text)?,
                            _ => {}
                        }
                    }
                }
                (2, Wire::Bytes(raw)) => envelope.raw = raw,
                (3, Wire::Bytes(encoding)) if !encoding.is_empty() => {
                    return Err("the content encoding is not supported".into());
                }
                _ => {}
            }
        }
        Ok(envelope)
    }
}

/// Decodes the fields of a message into `object`. Unknown fields are skipped, as protobuf requires.
fn decode_message(
    message: &Message,
    buffer: &[u8],
    object: &mut Map<String, Value>,
    depth: usize,
) -> WireResult<()> {
    if depth > MAX_DEPTH {
        return Err(format!("messages are nested more than {MAX_DEPTH} levels deep").into());
    }
    let mut wires = WireReader::new(buffer);
    while let Some((number, wire)) = wires.next()? {
        if let Some(field) = message.field(number) {
            decode_field(field, wire, object, depth).map_err(|mut error| {
                // Report only the innermost field: the full path may have a hundred levels.
                if error.field.is_empty() {
                    error.field = format!("{}.{}", message.name(), field.name);
                }
                error
            })?;
        }
    }
    Ok(())
}

fn decode_field(
    field: &Field,
    wire: Wire<'_>,
    object: &mut Map<String, Value>,
    depth: usize,
) -> WireResult<()> {
    match (field.count, field.kind) {
        // A struct embedded in Go: its fields are members of the object itself.
        (Count::One, GoType::Message(embedded)) if field.name.is_empty() => {
            decode_message(embedded, bytes(wire)?, object, depth + 1)
        }
        // A message that occurs twice is merged: its lists and maps grow, other fields are replaced.
        (Count::One, GoType::Message(message)) => {
            let mut inner = match object.remove(field.name) {
                Some(Value::Object(earlier)) => earlier,
                _ => Map::new(),
            };
            decode_message(message, bytes(wire)?, &mut inner, depth + 1)?;
            if field.pointer || field.always || !inner.is_empty() {
                object.insert(field.name.to_owned(), Value::Object(inner));
            }
            Ok(())
        }
        (Count::One, kind) => {
            match wire_value::decode(kind, wire, depth)? {
                Some(value) if field.pointer || field.always || !is_zero(&value) => {
                    object.insert(field.name.to_owned(), value);
                }
                _ => {
                    // A zero value replaces an earlier occurrence of the field too.
                    object.remove(field.name);
                }
            }
            Ok(())
        }
        (Count::List, kind) => decode_element(field, kind, wire, object, depth),
        (Count::Map, kind) => decode_entry(field, kind, wire, object, depth),
    }
}

/// Appends an element to the list of a field, or several elements that are packed.
fn decode_element(
    field: &Field,
    kind: GoType,
    wire: Wire<'_>,
    object: &mut Map<String, Value>,
    depth: usize,
) -> WireResult<()> {
    let list = object.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(list) = list else {
        return Err("a list and a single value".into());
    };
    match (kind, wire) {
        // Encoders may pack all numbers of a list into one field.
        (GoType::Bool | GoType::Int32 | GoType::Int64, Wire::Bytes(packed)) => {
            for varint in WireReader::new(packed).packed()? {
                list.extend(wire_value::decode(kind, Wire::Varint(varint), depth)?);
            }
        }
        _ => list.push(wire_value::decode(kind, wire, depth)?.unwrap_or(Value::Null)),
    }
    Ok(())
}

/// Adds an entry to the map of a field: a message with the key as field 1 and the value as field 2.
fn decode_entry(
    field: &Field,
    kind: GoType,
    wire: Wire<'_>,
    object: &mut Map<String, Value>,
    depth: usize,
) -> WireResult<()> {
    let (mut key, mut value) = (String::new(), default_value(kind));
    let mut entry = WireReader::new(bytes(wire)?);
    while let Some(part) = entry.next()? {
        match part {
            // As in Go, an entry without a key has the empty key, and one without a value has the zero of its type.
            (1, Wire::Bytes(text)) => utf8(text)?.clone_into(&mut key),
            (2, wire) => value = wire_value::decode(kind, wire, depth)?.unwrap_or(Value::Null),
            _ => {}
        }
    }
    let map = object.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(map) = map {
        map.insert(key, value);
    }
    Ok(())
}

/// Whether Go omits the value from JSON for a field that is not a pointer.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

fn bytes(wire: Wire<'_>) -> WireResult<&[u8]> {
    match wire {
        Wire::Bytes(bytes) => Ok(bytes),
        _ => Err("not length-delimited".into()),
    }
}

fn utf8(bytes: &[u8]) -> WireResult<&str> {
    std::str::from_utf8(bytes).map_err(|_| "not UTF-8".into())
}

#[cfg(test)]
mod tests;
