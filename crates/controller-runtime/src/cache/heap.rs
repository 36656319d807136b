//! What decoded objects take in memory.
//!
//! A type that is decoded says of each value which type that has, and so which size, and whether it lies in memory of its own: an
//! element of a list, an entry of a map, a text. So what an object takes can be counted while it is decoded once more, without
//! asking the allocator. That costs as much as the decoding; so it is done to the first objects of a kind and to some of those that
//! follow, and the others count by the length of their texts.
//!
//! Not counted is what `Deserialize` does not tell: what a `Box` or the variant of an enum holds. Bytes that are written as base64
//! count for a third more than they are.

use std::{
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use serde::{
    Deserializer,
    de::{DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor, value::BorrowedStrDeserializer},
};
use serde_json::{Error, Value};

/// Whether lists have room for more elements than they hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// As they have when they were read element by element.
    ToGrow,
    /// As a clone of them.
    None,
}

/// What the objects of one kind take beside the length of their texts.
#[derive(Debug)]
pub(super) struct Growth {
    room: Room,
    /// How many objects were asked for.
    asked: AtomicUsize,
    /// Of the objects that were looked at: the lengths of their texts, and what they took beside themselves.
    texts: AtomicUsize,
    taken: AtomicUsize,
}

impl Growth {
    /// So many objects are looked at first.
    const FIRST: usize = 16;

    /// And one of so many then.
    const LATER: usize = 64;

    pub(super) fn new(room: Room) -> Self {
        Self { room, asked: AtomicUsize::new(0), texts: AtomicUsize::new(0), taken: AtomicUsize::new(0) }
    }

    /// What the object takes that is decoded from this text: itself, and what it alone holds.
    pub(super) fn bytes<K: DeserializeOwned>(&self, text: &[u8]) -> usize {
        let asked = self.asked.fetch_add(1, Relaxed);
        if (asked < Self::FIRST || asked.is_multiple_of(Self::LATER))
            && let Some(taken) = taken_by::<K>(text, self.room)
        {
            self.texts.fetch_add(text.len(), Relaxed);
            self.taken.fetch_add(taken, Relaxed);
            return size_of::<K>() + taken;
        }
        let (taken, texts) = (self.taken.load(Relaxed), self.texts.load(Relaxed).max(1));
        size_of::<K>()
            + usize::try_from(taken as u128 * text.len() as u128 / texts as u128).unwrap_or(usize::MAX)
    }
}

/// What an object takes beside itself.
fn taken_by<K: DeserializeOwned>(text: &[u8], room: Room) -> Option<usize> {
    let value: Value = serde_json::from_slice(text).ok()?;
    let count = Count { bytes: Cell::new(0), room };
    K::deserialize(Counted { value: &value, count: &count }).ok()?;
    Some(count.bytes.get())
}

struct Count {
    bytes: Cell<usize>,
    room: Room,
}

impl Count {
    /// Allocators give memory out in such pieces.
    const PIECE: usize = 16;

    fn allocated(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes.next_multiple_of(Self::PIECE));
    }

    /// A list of elements of a size, as `Vec` has it.
    fn list(&self, elements: usize, size: usize) {
        let least = match size {
            0..=1 => 8,
            2..=1024 => 4,
            _ => 1,
        };
        let capacity = match self.room {
            Room::ToGrow if elements > 0 => elements.next_power_of_two().max(least),
            _ => elements,
        };
        self.allocated(capacity * size);
    }

    /// A map of entries of a size, as `BTreeMap` has it when they came in order: nodes of eleven places, of which each but the
    /// last one was left half full.
    fn map(&self, entries: usize, size: usize) {
        const PLACES: usize = 11;
        const LEFT: usize = 7;
        let nodes = if entries <= PLACES { entries.min(1) } else { entries.div_ceil(LEFT) };
        self.bytes.set(self.bytes.get() + nodes * (PLACES * size + Self::PIECE));
    }
}

/// A value that is counted as the type says that is made of it.
struct Counted<'a> {
    value: &'a Value,
    count: &'a Count,
}

/// Values that hold no memory of their own, or none that is told of.
macro_rules! as_they_are {
    ($($method:ident($($name:ident: $type:ty),*)),* $(,)?) => {
        $(fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, Error> {
            self.value.$method($($name,)* visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for Counted<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::String(_) => self.deserialize_string(visitor),
            Value::Array(_) => self.deserialize_seq(visitor),
            Value::Object(_) => self.deserialize_map(visitor),
            _ => self.value.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.count.allocated(self.value.as_str().map_or(0, str::len));
        self.value.deserialize_string(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let Value::Array(elements) = self.value else { return self.value.deserialize_seq(visitor) };
        let mut elements = Elements { rest: elements.iter(), count: self.count, seen: 0, size: 0 };
        let list = visitor.visit_seq(&mut elements)?;
        self.count.list(elements.seen, elements.size);
        Ok(list)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        let Value::Array(elements) = self.value else { return self.value.deserialize_seq(visitor) };
        visitor.visit_seq(Elements { rest: elements.iter(), count: self.count, seen: 0, size: 0 })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_tuple(length, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let Value::Object(entries) = self.value else { return self.value.deserialize_map(visitor) };
        let mut entries =
            Entries { rest: entries.iter(), value: None, count: self.count, keys: 0, seen: 0, size: 0 };
        let map = visitor.visit_map(&mut entries)?;
        self.count.bytes.set(self.count.bytes.get() + entries.keys);
        self.count.map(entries.seen, entries.size);
        Ok(map)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let Value::Object(entries) = self.value else {
            return self.value.deserialize_struct(name, fields, visitor);
        };
        visitor.visit_map(Entries {
            rest: entries.iter(),
            value: None,
            count: self.count,
            keys: 0,
            seen: 0,
            size: 0,
        })
    }

    as_they_are!(
        deserialize_bool(), deserialize_char(), deserialize_str(), deserialize_unit(),
        deserialize_i8(), deserialize_i16(), deserialize_i32(), deserialize_i64(), deserialize_i128(),
        deserialize_u8(), deserialize_u16(), deserialize_u32(), deserialize_u64(), deserialize_u128(),
        deserialize_f32(), deserialize_f64(), deserialize_bytes(), deserialize_byte_buf(),
        deserialize_identifier(), deserialize_ignored_any(), deserialize_unit_struct(name: &'static str),
        deserialize_enum(name: &'static str, variants: &'static [&'static str]),
    );
}

struct Elements<'a> {
    rest: std::slice::Iter<'a, Value>,
    count: &'a Count,
    seen: usize,
    size: usize,
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some(value) = self.rest.next() else { return Ok(None) };
        self.seen += 1;
        self.size = size_of::<S::Value>();
        seed.deserialize(Counted { value, count: self.count }).map(Some)
    }
}

struct Entries<'a> {
    rest: serde_json::map::Iter<'a>,
    value: Option<&'a Value>,
    count: &'a Count,
    /// What the keys take beside themselves.
    keys: usize,
    seen: usize,
    /// Of the last one: the type of the first may be one that only looks at its key.
    size: usize,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        self.seen += 1;
        self.size = size_of::<S::Value>();
        self.keys += key.len().next_multiple_of(Count::PIECE);
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        self.size += size_of::<S::Value>();
        let value = self.value.take().unwrap_or(&Value::Null);
        seed.deserialize(Counted { value, count: self.count })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "its shape is what matters")]
    struct Shape {
        name: String,
        corners: Vec<(u32, u32)>,
        #[serde(default)]
        labels: BTreeMap<String, u64>,
        inner: Option<Vec<Shape>>,
    }

    fn check(json: &str, room: Room, expected: usize) {
        assert_eq!(taken_by::<Shape>(json.as_bytes(), room), Some(expected), "{json} {room:?}");
    }

    #[test]
    fn texts_lists_and_maps_take_memory_of_their_own() {
        check(r#"{"name":"","corners":[]}"#, Room::ToGrow, 0);
        check(r#"{"name":"a triangle, at most","corners":[]}"#, Room::ToGrow, 32);
        check(r#"{"name":"","corners":[[1,2],[3,4],[5,6]]}"#, Room::None, 32);
        check(r#"{"name":"","corners":[[1,2],[3,4],[5,6],[7,8],[9,0]]}"#, Room::ToGrow, 64);
        check(r#"{"name":"","corners":[],"labels":{"a":1}}"#, Room::None, 16 + 16 + 11 * 32);
        check(
            r#"{"name":"","corners":[],"inner":[{"name":"x","corners":[]}]}"#,
            Room::None,
            16 + size_of::<Shape>(),
        );
    }

    #[test]
    fn objects_that_are_not_looked_at_count_by_the_length_of_their_texts() {
        let growth = Growth::new(Room::None);
        let text = |length: usize| format!(r#"{{"name":"{}","corners":[]}}"#, "x".repeat(length));
        let bytes = |length: usize| growth.bytes::<Shape>(text(length).as_bytes());
        let first: Vec<_> = (0..Growth::FIRST).map(|_| bytes(160)).collect();
        assert_eq!(first, [size_of::<Shape>() + 160; Growth::FIRST]);
        let longer = bytes(1600);
        assert_eq!(longer - size_of::<Shape>(), 160 * text(1600).len() / text(160).len());
    }
}
