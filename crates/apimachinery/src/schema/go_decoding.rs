//! Traces of Go's types in JSON that clients see: decoding errors, the empty struct, the form of numbers.

use std::borrow::Cow;
use std::slice;

use serde_json::{Map, Number, Value};

use super::Cursor;
use super::go_types::GoPlace;
use super::node::{JsonType, ValueKind};
use crate::decode::{self, JsonShape, JsonTree, OrderedValue};
use crate::go::Layout;
use crate::{go, quantity};

/// Returns Go's message if a builtin object does not decode. As in Go, only one error is reported, which depends on the order of the fields.
pub(super) fn decode_error<T: JsonTree>(schema: Cursor<'_>, object: &T, sent: &[u8]) -> Option<String> {
    Decoder::new(schema.definition_name().map_or("", type_name), sent).run(schema, object)
}

/// Like [`decode_error`], for the text of the object, whose fields keep their order and are decoded each time they occur. Messages quote
/// numbers from the text `sent`.
pub(super) fn text_decode_error(schema: Cursor<'_>, text: &[u8], sent: &[u8]) -> Option<String> {
    decode_error(schema, &OrderedValue::parse(text)?, sent)
}

/// Like [`decode_error`], for `metadata` on its own.
pub(super) fn metadata_error(schema: Cursor<'_>, metadata: &Value) -> Option<String> {
    if !metadata.is_object() && !metadata.is_null() {
        let found = go::json_type(metadata);
        return Some(format!("json: cannot unmarshal {found} into Go value of type v1.ObjectMeta"));
    }
    Decoder::new("ObjectMeta", &[]).run(schema, metadata)
}

/// Searches for the first mismatch. Go names the struct that contains the field, and the field's path without indexes.
struct Decoder<'a> {
    owner: &'a str,
    /// Whether the values belong to a type with a decoder of its own. Go then names the struct that contains the value of that type.
    is_nested: bool,
    path: Vec<GoPlace<'a>>,
    /// Text of the request, from which messages quote numbers.
    sent: &'a [u8],
    /// First mismatch of a type that Go decodes by default. Decoding continues after such a mismatch.
    mismatch: Option<String>,
}

/// Error of a type with its own decoder. It ends the decoding and replaces an earlier mismatch.
struct Refusal(String);

impl<'a> Decoder<'a> {
    fn new(owner: &'a str, sent: &'a [u8]) -> Self {
        Self { owner, is_nested: false, path: Vec::new(), sent, mismatch: None }
    }

    fn run<T: JsonTree>(mut self, schema: Cursor<'a>, value: &'a T) -> Option<String> {
        match self.check(schema, value) {
            Ok(()) => self.mismatch,
            Err(Refusal(why)) => Some(why),
        }
    }

    fn check<T: JsonTree>(&mut self, schema: Cursor<'a>, value: &'a T) -> Result<(), Refusal> {
        let expected = match schema.kind() {
            ValueKind::Of(expected) => expected,
            ValueKind::IntOrString if schema.format() == Some("int-or-string") => {
                return self.int_or_string(value);
            }
            ValueKind::IntOrString => {
                let why = quantity_refusal(value);
                return why.map_or(Ok(()), |why| Err(Refusal(why.to_owned())));
            }
            ValueKind::Any | ValueKind::Opaque => return self.schema_or_other(schema, value),
        };
        let is_time = || schema.format() == Some("date-time");
        match (expected, value.shape()) {
            // Go accepts null for a value of any type.
            (_, JsonShape::Null)
            | (JsonType::Boolean, JsonShape::Bool)
            | (JsonType::Number, JsonShape::Number(_)) => {}
            (JsonType::String, JsonShape::String(text)) if is_time() => {
                return go::time(text, layout(schema)).map(drop).map_err(Refusal);
            }
            (JsonType::String, JsonShape::String(text)) if schema.is_bytes() => {
                if let Some(at) = illegal_base64(text) {
                    self.note(format!("illegal base64 data at input byte {at}"));
                }
            }
            (JsonType::String, JsonShape::List(items)) if schema.is_bytes() => {
                self.list_of_bytes(items);
            }
            (JsonType::String, JsonShape::String(_)) => {}
            (JsonType::Integer, JsonShape::Number(number)) => {
                let bits = if schema.format() == Some("int32") { 32 } else { 64 };
                if !fits(number, bits) {
                    self.note(self.mismatch(&self.expected(schema), &self.quoted(number)));
                }
            }
            (JsonType::Object, JsonShape::Object) => {
                let outer = self.owner;
                if let Some(name) = schema.definition_name().filter(|_| !self.is_nested) {
                    self.owner = type_name(name);
                }
                for (name, value) in value.fields() {
                    self.field(schema, name, value)?;
                }
                self.owner = outer;
            }
            (JsonType::Array, JsonShape::List(items)) => {
                let Some(schema) = schema.items() else { return Ok(()) };
                self.enter();
                for item in items {
                    self.check(schema, item)?;
                }
                self.leave();
            }
            (_, found) => {
                let why = self.mismatch(&self.expected(schema), found.json_type());
                // Times have a decoder of their own.
                if is_time() {
                    return Err(Refusal(why));
                }
                self.note(why);
            }
        }
        Ok(())
    }

    /// Checks the elements of a list of numbers, which Go accepts instead of base64.
    fn list_of_bytes<T: JsonTree>(&mut self, items: &[T]) {
        for item in items {
            match item.shape() {
                JsonShape::Null => {}
                JsonShape::Number(number) if number.as_u64().is_some_and(|byte| byte <= 255) => {}
                JsonShape::Number(number) => self.note(self.mismatch("uint8", &self.quoted(number))),
                other => self.note(self.mismatch("uint8", other.json_type())),
            }
        }
    }

    fn field<T: JsonTree>(&mut self, schema: Cursor<'a>, name: &'a str, value: &'a T) -> Result<(), Refusal> {
        if let Some(property) = schema.property(name) {
            self.path.push(GoPlace { definition: schema.definition_name(), field: name, depth: 0 });
            self.check(property, value)?;
            self.path.pop();
            return Ok(());
        }
        let Some(schema) = schema.additional() else { return Ok(()) };
        self.enter();
        self.check(schema, value)?;
        self.leave();
        Ok(())
    }

    /// Goes to the elements of a list or map.
    fn enter(&mut self) {
        if let Some(place) = self.path.last_mut() {
            place.depth += 1;
        }
    }

    fn leave(&mut self) {
        if let Some(place) = self.path.last_mut() {
            place.depth -= 1;
        }
    }

    /// Returns the name of the type that a value of this schema has at this place.
    fn expected(&self, schema: Cursor<'_>) -> String {
        let named = self.path.last().and_then(GoPlace::type_name);
        named.map_or_else(|| go_type(schema), str::to_owned)
    }

    /// Checks a value that is a schema or something else. These types have decoders of their own, and their first error ends the decoding.
    fn schema_or_other<T: JsonTree>(&self, schema: Cursor<'a>, value: &'a T) -> Result<(), Refusal> {
        let schemas = match (schema.definition_name().map(type_name), value.shape()) {
            (Some("JSONSchemaPropsOrBool" | "JSONSchemaPropsOrArray"), JsonShape::Object) => {
                slice::from_ref(value)
            }
            (Some("JSONSchemaPropsOrArray"), JsonShape::List(items)) => items,
            (
                Some("JSONSchemaPropsOrBool"),
                JsonShape::String(_) | JsonShape::Number(_) | JsonShape::List(_),
            ) => {
                return Err(Refusal("boolean or JSON schema expected".to_owned()));
            }
            _ => return Ok(()),
        };
        for given in schemas {
            let mut inner = Decoder {
                owner: self.owner,
                is_nested: true,
                path: self.path.clone(),
                sent: self.sent,
                mismatch: None,
            };
            match given.shape() {
                JsonShape::Object => {
                    for (name, value) in given.fields() {
                        inner.field(schema, name, value)?;
                    }
                }
                JsonShape::Null => {}
                other => inner.note(inner.mismatch("v1.JSONSchemaProps", other.json_type())),
            }
            if let Some(why) = inner.mismatch {
                return Err(Refusal(why));
            }
        }
        Ok(())
    }

    /// Checks that a value is a string or a 32-bit integer.
    fn int_or_string<T: JsonTree>(&self, value: &T) -> Result<(), Refusal> {
        let found = match value.shape() {
            JsonShape::Null | JsonShape::String(_) => return Ok(()),
            JsonShape::Number(number) if fits(number, 32) => return Ok(()),
            JsonShape::Number(number) => self.quoted(number),
            other => other.json_type().to_owned(),
        };
        Err(Refusal(self.mismatch("int32", &found)))
    }

    /// Quotes a number for a message: `number 3.0`.
    fn quoted(&self, number: &Number) -> String {
        // The notation of a float is lost once it is parsed, so the message takes it from the text of the request.
        let sent = number
            .as_f64()
            .filter(|_| number.is_f64())
            .and_then(|float| decode::float_as_sent(self.sent, float));
        sent.map_or_else(|| format!("number {number}"), |sent| format!("number {sent}"))
    }

    fn note(&mut self, why: String) {
        self.mismatch.get_or_insert(why);
    }

    fn mismatch(&self, expected: &str, found: &str) -> String {
        if self.path.is_empty() {
            return format!("json: cannot unmarshal {found} into Go value of type {expected}");
        }
        let path: Vec<&str> =
            self.path.iter().flat_map(|place| place.embedded().into_iter().chain([place.field])).collect();
        format!(
            "json: cannot unmarshal {found} into Go struct field {}.{} of type {expected}",
            self.owner,
            path.join(".")
        )
    }
}

pub(super) fn fits(number: &Number, bits: u32) -> bool {
    number.as_i64().is_some_and(|number| bits == 64 || i32::try_from(number).is_ok())
}

/// Checks the JSON text of a value, because quantities decode from JSON text, of whatever type.
pub(super) fn quantity_refusal<T: JsonTree>(value: &T) -> Option<&'static str> {
    let text = match value.shape() {
        JsonShape::Null => return None,
        JsonShape::String(text) => Cow::Borrowed(text.trim()),
        _ => Cow::Owned(value.to_value().to_string()),
    };
    quantity::refusal(&text)
}

/// Returns the layout of a time. Two Go types share the format `date-time`.
pub(super) fn layout(schema: Cursor<'_>) -> Layout {
    if schema.definition_name().is_some_and(|name| type_name(name) == "MicroTime") {
        Layout::Micros
    } else {
        Layout::Seconds
    }
}

/// Returns the offset at which Go's base64 decoder fails; `None` if it succeeds. Line breaks are skipped.
pub(super) fn illegal_base64(text: &str) -> Option<usize> {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    let mut bytes = text.bytes().enumerate().filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'));
    let mut in_group = 0;
    while let Some((at, byte)) = bytes.next() {
        if is_digit(byte) {
            in_group = (in_group + 1) % 4;
            continue;
        }
        // Padding may only follow two or three digits of a group of four.
        if byte != b'=' || in_group < 2 {
            return Some(at);
        }
        // Two digits of a group need two padding characters, three digits one.
        if in_group == 2 {
            match bytes.next() {
                Some((_, b'=')) => {}
                Some((at, _)) => return Some(at),
                None => return Some(text.len()),
            }
        }
        // Nothing may follow the padding.
        return bytes.next().map(|(at, _)| at);
    }
    // Go reports an incomplete last group at its first character.
    (in_group > 0).then(|| text.len() - in_group)
}

/// Returns `v1.Deployment` for `io.k8s.api.apps.v1.Deployment`.
fn qualified_type_name(definition: &str) -> &str {
    let mut dots = definition.rmatch_indices('.').map(|(at, _)| at);
    dots.nth(1).map_or(definition, |dot| &definition[dot + 1..])
}

pub(super) fn type_name(definition: &str) -> &str {
    definition.rsplit('.').next().unwrap_or(definition)
}

pub(super) fn go_type(schema: Cursor<'_>) -> String {
    match schema.kind() {
        ValueKind::Of(JsonType::Boolean) => "bool".to_owned(),
        ValueKind::Of(JsonType::Number) => "float64".to_owned(),
        ValueKind::Of(JsonType::Integer) => schema.format().unwrap_or("int64").to_owned(),
        ValueKind::Of(JsonType::String) if schema.is_bytes() => "[]uint8".to_owned(),
        ValueKind::Of(JsonType::String) => "string".to_owned(),
        ValueKind::Of(JsonType::Array) => {
            let items = schema.items().map_or_else(|| "interface {}".to_owned(), go_type);
            format!("[]{items}")
        }
        ValueKind::Of(JsonType::Object) => match (schema.definition_name(), schema.additional()) {
            (Some(name), _) => qualified_type_name(name).to_owned(),
            (None, Some(values)) => format!("map[string]{}", go_type(values)),
            (None, None) => "map[string]interface {}".to_owned(),
        },
        ValueKind::Any | ValueKind::IntOrString | ValueKind::Opaque => {
            schema.definition_name().map_or("interface {}", qualified_type_name).to_owned()
        }
    }
}

/// Returns the JSON of an empty Go struct: nested structs, and the strings, numbers and lists that Go writes even if they are empty. Empty
/// lists are null.
pub(super) fn empty(schema: Cursor<'_>) -> Value {
    let mut fields = Map::new();
    for (name, property) in schema.properties() {
        // OpenAPI says that these fields, of policy bindings and IPAddresses, are required, but Go omits them if they are empty.
        if ["validationActions", "parentRef"].contains(&name) {
            continue;
        }
        let written = match property.default_value() {
            Some(Value::Object(_)) => empty(property),
            // Another default belongs to a field that Go omits.
            Some(zero @ (Value::String(_) | Value::Number(_) | Value::Bool(_))) if is_zero(zero) => {
                zero.clone()
            }
            Some(_) | None => Value::Null,
        };
        if !written.is_null() || schema.required().iter().any(|required| required == name) {
            fields.insert(name.to_owned(), written);
        }
    }
    Value::Object(fields)
}

/// Whether a value is the zero of its type in Go.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(is_set) => !is_set,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::illegal_base64;

    #[test]
    fn base64_is_refused_where_go_refuses_it() {
        for (text, expected) in [
            ("", None),
            ("YQ==", None),
            ("YWI=", None),
            ("YW\nJj", None),
            ("not base64!", Some(3)),
            ("YQ=", Some(3)),
            ("YQ", Some(0)),
            ("Y", Some(0)),
            ("=", Some(0)),
            ("YQ=x", Some(3)),
            ("YQ==x", Some(4)),
        ] {
            assert_eq!(illegal_base64(text), expected, "{text}");
        }
    }
}
