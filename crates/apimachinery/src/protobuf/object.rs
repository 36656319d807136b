//! Streaming conversion of objects to protobuf. Each value is written when it is read, in JSON's order. At the end of a message its fields
//! are moved into the order of protobuf's numbers. No tree is built.

use std::fmt;
use std::iter::Peekable;
use std::ops::Range;
use std::slice;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_json::value::RawValue;

use super::output::{
    JsonScalar, put_absent, put_bytes, put_nested, put_number, put_scalar, put_tag, put_varint,
};
use crate::go_struct::{Alternative, Count, Field, GoType, Message, Slot};

/// Maximum size of an encoded length, in bytes.
const LENGTH: usize = 10;

/// Output, and the positions of the fields of messages that are not complete.
#[derive(Debug)]
pub(super) struct MessageWriter {
    out: Vec<u8>,
    fields: Vec<OpenField>,
}

/// A field of an incomplete message.
#[derive(Debug)]
struct OpenField {
    /// The field's [place](Slot::place) in the message.
    place: usize,
    bytes: Range<usize>,
}

impl MessageWriter {
    pub(super) fn new(out: Vec<u8>) -> Self {
        Self { out, fields: Vec::new() }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// Writes a message. `write` appends its fields in the right order.
    pub(super) fn message<R>(&mut self, number: u64, write: impl FnOnce(&mut Self) -> R) -> R {
        let start = self.begin(number);
        let body = self.out.len();
        let written = write(self);
        self.end(start, body);
        written
    }

    /// Writes the tag and reserves space for a length; returns the position of that space.
    fn begin(&mut self, number: u64) -> usize {
        put_tag(&mut self.out, number);
        let start = self.out.len();
        self.out.resize(start + LENGTH, 0);
        start
    }

    /// Completes a message: writes the length at `start` and moves the bytes from `body` on after it. The reserved space is large enough.
    fn end(&mut self, start: usize, body: usize) {
        let end = self.out.len();
        put_varint(&mut self.out, (end - body) as u64);
        // The length was encoded at the end of the output, and is moved to its place.
        let width = self.out.len() - end;
        self.out.copy_within(end.., start);
        self.out.copy_within(body..end, start + width);
        self.out.truncate(start + width + end - body);
    }

    /// Writes a message with fields that are read from an object in any order.
    fn object<'de, A: MapAccess<'de>>(
        &mut self,
        number: u64,
        message: &'static Message,
        mut members: A,
    ) -> Result<(), A::Error> {
        let start = self.begin(number);
        let first = self.fields.len();
        while let Some(slot) = members.next_key_seed(Name(message))? {
            let Some(Slot { field, place }) = slot else {
                // A Go struct drops a member that it does not declare.
                members.next_value::<IgnoredAny>()?;
                continue;
            };
            let from = self.out.len();
            if members.next_value_seed(FieldSeed { writer: self, field })? {
                self.fields.push(OpenField { place, bytes: from..self.out.len() });
            }
        }
        // The fields are appended once more, in order; `end` then moves the copy over the originals, from `body` on.
        let body = self.out.len();
        self.fields[first..].sort_by_key(|field| field.place);
        let mut fields = self.fields[first..].iter().peekable();
        in_order(&mut self.out, message, &mut 0, &mut fields);
        self.fields.truncate(first);
        self.end(start, body);
        Ok(())
    }
}

/// Appends the fields of a message in order: each is copied from its first position, or written as absent.
fn in_order(
    out: &mut Vec<u8>,
    message: &'static Message,
    place: &mut usize,
    written: &mut Peekable<slice::Iter<'_, OpenField>>,
) {
    for field in message.fields() {
        if let Some(message) = field.embedded() {
            put_nested(out, field.number, |out| in_order(out, message, place, written));
            continue;
        }
        let mut absent = true;
        while let Some(OpenField { bytes, .. }) = written.next_if(|written| written.place == *place) {
            out.extend_from_within(bytes.clone());
            absent = false;
        }
        if absent {
            put_absent(out, field);
        }
        *place += 1;
    }
}

/// Deserializes the name of a member.
struct Name(&'static Message);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<Slot>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Slot>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Option<Slot>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Option<Slot>, E> {
        Ok(self.0.slot(name))
    }
}

/// Converts the value of a field; returns whether it has a value. A null counts as none.
struct FieldSeed<'w> {
    writer: &'w mut MessageWriter,
    field: &'static Field,
}

impl<'w> FieldSeed<'w> {
    /// Writes a value that is neither a list nor an object; returns whether the field takes one.
    fn scalar(self, value: &JsonScalar<'_>) -> bool {
        let single = self.field.count == Count::One;
        if single {
            put_scalar(&mut self.writer.out, self.field.number, self.field.kind, value);
        }
        single
    }

    fn element(&mut self) -> ValueSeed<'_> {
        ValueSeed::new(self.writer, self.field.number, self.field.kind)
    }

    fn single(self) -> ValueSeed<'w> {
        ValueSeed::new(self.writer, self.field.number, self.field.kind)
    }
}

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        if (self.field.count, self.field.kind) != (Count::One, GoType::Json) {
            return deserializer.deserialize_any(self);
        }
        let text: Box<RawValue> = serde::Deserialize::deserialize(deserializer)?;
        // Arbitrary JSON is copied as text, in the order and with the numbers of the source.
        let is_there = text.get() != "null";
        if is_there {
            put_json(&mut self.writer.out, self.field.number, &text);
        }
        Ok(is_there)
    }
}

impl<'de> Visitor<'de> for FieldSeed<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E>(self, value: bool) -> Result<bool, E> {
        Ok(self.scalar(&JsonScalar::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<bool, E> {
        Ok(self.scalar(&JsonScalar::Number(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<bool, E> {
        Ok(self.scalar(&JsonScalar::Number(value.into())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<bool, E> {
        Ok(self.scalar(&float(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<bool, E> {
        Ok(self.scalar(&JsonScalar::Text(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<bool, A::Error> {
        match self.field.count {
            Count::One => self.single().visit_seq(items).map(|()| true),
            Count::List => {
                // Each element is a field of its own on the wire: Go's API types do not pack lists.
                while items.next_element_seed(self.element())?.is_some() {}
                Ok(true)
            }
            Count::Map => skip_items(items).map(|()| false),
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<bool, A::Error> {
        match self.field.count {
            Count::One => self.single().visit_map(members).map(|()| true),
            Count::List => skip_members(members).map(|()| false),
            Count::Map => {
                let Field { number, kind, .. } = *self.field;
                while self.entry(number, kind, &mut members)? {}
                Ok(true)
            }
        }
    }
}

impl FieldSeed<'_> {
    /// Writes an entry of a map: a message with key and value. Returns `false` at the end of the map.
    fn entry<'de, A: MapAccess<'de>>(
        &mut self,
        number: u64,
        kind: GoType,
        members: &mut A,
    ) -> Result<bool, A::Error> {
        let before = self.writer.out.len();
        let start = self.writer.begin(number);
        let body = self.writer.out.len();
        let key = ValueSeed::new(self.writer, 1, GoType::String);
        if members.next_key_seed(key)?.is_none() {
            // The end of the map is only known now, so the entry that was begun is removed.
            self.writer.out.truncate(before);
            return Ok(false);
        }
        members.next_value_seed(ValueSeed::new(self.writer, 2, kind))?;
        self.writer.end(start, body);
        Ok(true)
    }
}

/// Converts a single value. A null becomes the zero of the type, as in Go's lists.
pub(super) struct ValueSeed<'w> {
    writer: &'w mut MessageWriter,
    number: u64,
    kind: GoType,
}

impl<'w> ValueSeed<'w> {
    pub(super) fn new(writer: &'w mut MessageWriter, number: u64, kind: GoType) -> Self {
        Self { writer, number, kind }
    }

    fn scalar(self, value: &JsonScalar<'_>) {
        put_scalar(&mut self.writer.out, self.number, self.kind, value);
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.kind != GoType::Json {
            return deserializer.deserialize_any(self);
        }
        let text: Box<RawValue> = serde::Deserialize::deserialize(deserializer)?;
        put_json(&mut self.writer.out, self.number, &text);
        Ok(())
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.scalar(&JsonScalar::Null);
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.scalar(&JsonScalar::Bool(value));
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.scalar(&JsonScalar::Number(value.into()));
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.scalar(&JsonScalar::Number(value.into()));
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.scalar(&float(value));
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.scalar(&JsonScalar::Text(value));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let (number, kind) = match self.kind {
            GoType::Strings => (1, GoType::String),
            GoType::OneOf(Alternative::Strings, _) => (2, GoType::String),
            GoType::OneOf(Alternative::Schemas, schema) => (2, GoType::Message(schema)),
            _ => {
                self.scalar(&JsonScalar::Null);
                return skip_items(items);
            }
        };
        self.writer.message(self.number, |writer| {
            while items.next_element_seed(ValueSeed::new(writer, number, kind))?.is_some() {}
            Ok(())
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<(), A::Error> {
        match self.kind {
            GoType::Message(message) => self.writer.object(self.number, message, members),
            GoType::OneOf(other, schema) => self.writer.message(self.number, |writer| {
                if other != Alternative::Bool {
                    return writer.object(1, schema, members);
                }
                // The alternative is a schema, which means "allowed".
                put_number(&mut writer.out, 1, 1);
                writer.object(2, schema, members)
            }),
            _ => {
                self.scalar(&JsonScalar::Null);
                skip_members(members)
            }
        }
    }
}

fn float(value: f64) -> JsonScalar<'static> {
    Number::from_f64(value).map_or(JsonScalar::Null, JsonScalar::Number)
}

/// Writes arbitrary JSON, which protobuf carries as text.
fn put_json(out: &mut Vec<u8>, number: u64, text: &RawValue) {
    put_nested(out, number, |out| put_bytes(out, 1, text.get().as_bytes()));
}

fn skip_items<'de, A: SeqAccess<'de>>(mut items: A) -> Result<(), A::Error> {
    while items.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

fn skip_members<'de, A: MapAccess<'de>>(mut members: A) -> Result<(), A::Error> {
    while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}
