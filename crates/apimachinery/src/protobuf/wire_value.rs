//! Decodes single values from the wire format to JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use serde_json::{Map, Number, Value};

use super::wire::{Wire, WireReader, WireResult};
use super::{bytes, decode_message, utf8};
use crate::go_struct::{Alternative, GoType, Message};

/// Decodes a value; `None` for Go's nil and for an unset time.
pub(super) fn decode(kind: GoType, wire: Wire<'_>, depth: usize) -> WireResult<Option<Value>> {
    let value = match kind {
        GoType::String => Value::from(utf8(bytes(wire)?)?),
        GoType::Bytes => Value::from(BASE64.encode(bytes(wire)?)),
        GoType::Bool => Value::from(varint(wire)? != 0),
        GoType::Int32 => Value::from(int32(varint(wire)?)),
        GoType::Int64 => Value::from(int64(varint(wire)?)),
        GoType::Double => double(wire)?,
        GoType::Time => return Ok(time(bytes(wire)?)?.map(|time| Value::from(seconds(time)))),
        GoType::MicroTime => return Ok(time(bytes(wire)?)?.map(|time| Value::from(micros(time)))),
        GoType::Quantity => quantity(bytes(wire)?)?,
        GoType::IntOrString => int_or_string(bytes(wire)?)?,
        GoType::Json => return json(bytes(wire)?),
        GoType::Strings => strings(bytes(wire)?)?,
        GoType::OneOf(other, schema) => return one_of(other, schema, bytes(wire)?, depth),
        GoType::Message(message) => {
            let mut object = Map::new();
            decode_message(message, bytes(wire)?, &mut object, depth + 1)?;
            Value::Object(object)
        }
    };
    Ok(Some(value))
}

/// Returns the value of a map entry that has only a key.
pub(super) fn default_value(kind: GoType) -> Value {
    match kind {
        GoType::String | GoType::Bytes => Value::from(""),
        GoType::Bool => Value::from(false),
        GoType::Int32 | GoType::Int64 | GoType::Double | GoType::IntOrString => Value::from(0),
        GoType::Time | GoType::MicroTime | GoType::Json => Value::Null,
        GoType::Quantity => Value::from("0"),
        GoType::Strings => Value::Array(Vec::new()),
        GoType::OneOf(..) | GoType::Message(_) => Value::Object(Map::new()),
    }
}

fn varint(wire: Wire<'_>) -> WireResult<u64> {
    match wire {
        Wire::Varint(value) => Ok(value),
        _ => Err("not a varint".into()),
    }
}

/// Converts to 32 bits. Negative numbers are 64-bit two's complement; excess bits are dropped, as in Go.
#[expect(clippy::cast_possible_truncation, reason = "as protobuf defines it")]
fn int32(varint: u64) -> i32 {
    varint as i32
}

fn int64(varint: u64) -> i64 {
    varint.cast_signed()
}

/// Decodes a float. Whole numbers become integers, because Go writes them without a fraction.
fn double(wire: Wire<'_>) -> WireResult<Value> {
    let Wire::Fixed64(bits) = wire else {
        return Err("not a double".into());
    };
    let float = f64::from_bits(bits);
    if float.fract() == 0.0 && float.abs() < 1e15 {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and below 2^53")]
        return Ok(Value::from(float as i64));
    }
    Number::from_f64(float).map(Value::Number).ok_or_else(|| "not a finite number".into())
}

/// Decodes a time: field 1 has the seconds, field 2 the nanoseconds. An empty message is the zero time.
fn time(buffer: &[u8]) -> WireResult<Option<Timestamp>> {
    if buffer.is_empty() {
        return Ok(None);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut fields = WireReader::new(buffer);
    while let Some((number, wire)) = fields.next()? {
        match number {
            1 => seconds = int64(varint(wire)?),
            2 => nanos = int32(varint(wire)?),
            _ => {}
        }
    }
    Timestamp::new(seconds, nanos)
        .map(Some)
        .map_err(|_| format!("a time of {seconds} seconds and {nanos} nanoseconds is out of range").into())
}

fn seconds(time: Timestamp) -> String {
    crate::go::format_seconds(time)
}

fn micros(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

fn quantity(buffer: &[u8]) -> WireResult<Value> {
    let mut text = "0";
    let mut fields = WireReader::new(buffer);
    while let Some(field) = fields.next()? {
        if let (1, Wire::Bytes(value)) = field
            && !value.is_empty()
        {
            text = utf8(value)?;
        }
    }
    Ok(Value::from(text))
}

/// Decodes an `IntOrString`: field 1 has the type (0 integer, 1 string), field 2 the integer, field 3 the string.
fn int_or_string(buffer: &[u8]) -> WireResult<Value> {
    let (mut is_string, mut number, mut text) = (false, 0, "");
    let mut fields = WireReader::new(buffer);
    while let Some((field, wire)) = fields.next()? {
        match field {
            1 => is_string = varint(wire)? == 1,
            2 => number = int32(varint(wire)?),
            3 => text = utf8(bytes(wire)?)?,
            _ => {}
        }
    }
    Ok(if is_string { Value::from(text) } else { Value::from(number) })
}

/// Decodes a message with one field of JSON text. The JSON parser limits its depth.
fn json(buffer: &[u8]) -> WireResult<Option<Value>> {
    let mut fields = WireReader::new(buffer);
    let mut text: &[u8] = b"";
    while let Some(field) = fields.next()? {
        if let (1, Wire::Bytes(value)) = field {
            text = value;
        }
    }
    // Without a text the value is Go's nil, as opposed to the text `null`.
    if text.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(text).map(Some).map_err(|error| format!("not JSON ({error})").into())
}

fn strings(buffer: &[u8]) -> WireResult<Value> {
    let mut list = Vec::new();
    let mut fields = WireReader::new(buffer);
    while let Some(field) = fields.next()? {
        if let (1, Wire::Bytes(text)) = field {
            list.push(Value::from(utf8(text)?));
        }
    }
    Ok(Value::Array(list))
}

/// Decodes a schema, or the value in its place.
fn one_of(
    other: Alternative,
    message: &'static Message,
    buffer: &[u8],
    depth: usize,
) -> WireResult<Option<Value>> {
    let or_bool = other == Alternative::Bool;
    // In Go's `JSONSchemaPropsOrBool` the boolean has the number 1, in the other two types the schema.
    let (schema_number, other_number) = if or_bool { (2, 1) } else { (1, 2) };
    let element = if other == Alternative::Strings { GoType::String } else { GoType::Message(message) };
    let (mut schema, mut list, mut allowed) = (None, Vec::new(), false);
    let mut fields = WireReader::new(buffer);
    while let Some((number, wire)) = fields.next()? {
        if number == schema_number {
            schema = decode(GoType::Message(message), wire, depth)?;
        } else if number == other_number && or_bool {
            allowed = varint(wire)? != 0;
        } else if number == other_number {
            list.extend(decode(element, wire, depth)?);
        }
    }
    Ok(match schema {
        Some(schema) => Some(schema),
        None if or_bool => Some(Value::from(allowed)),
        None => Some(Value::Array(list)),
    })
}
