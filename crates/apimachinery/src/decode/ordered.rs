//! JSON values whose fields keep the order of their text, with all repeated fields.
//!
//! Go decodes a builtin object field by field, so that its result and its first error depend on this order. [`JsonTree`] lets a decoder
//! read such values as well as [`Value`], whose fields are sorted.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

/// A JSON value with the fields of its text.
#[derive(Debug)]
pub enum OrderedValue {
    /// A value that is neither a list nor an object.
    Leaf(Value),
    /// A list.
    List(Vec<OrderedValue>),
    /// The fields of an object. A name can occur several times.
    Object(Vec<(String, OrderedValue)>),
}

/// A JSON value that a decoder can read, whatever holds its fields.
pub trait JsonTree: Sized {
    /// Returns the value, without the fields of an object.
    fn shape(&self) -> JsonShape<'_, Self>;

    /// Iterates over the fields of an object in their order; no other value has fields.
    fn fields(&self) -> impl Iterator<Item = (&str, &Self)>;

    /// Returns the value with sorted fields. The last one of each repeated field counts.
    fn to_value(&self) -> Value;
}

/// A JSON value, without the fields of an object.
#[derive(Debug)]
pub enum JsonShape<'a, T> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A number.
    Number(&'a Number),
    /// A text.
    String(&'a str),
    /// A list with its elements.
    List(&'a [T]),
    /// An object.
    Object,
}

impl<T> JsonShape<'_, T> {
    /// Returns the name that Go's JSON decoder gives to the type.
    #[must_use]
    pub fn json_type(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::List(_) => "array",
            Self::Object => "object",
        }
    }
}

impl JsonTree for Value {
    fn shape(&self) -> JsonShape<'_, Self> {
        match self {
            Self::Null => JsonShape::Null,
            Self::Bool(_) => JsonShape::Bool,
            Self::Number(number) => JsonShape::Number(number),
            Self::String(text) => JsonShape::String(text),
            Self::Array(items) => JsonShape::List(items),
            Self::Object(_) => JsonShape::Object,
        }
    }

    fn fields(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
    }

    fn to_value(&self) -> Value {
        self.clone()
    }
}

impl JsonTree for OrderedValue {
    fn shape(&self) -> JsonShape<'_, Self> {
        match self {
            Self::Leaf(Value::Bool(_)) => JsonShape::Bool,
            Self::Leaf(Value::Number(number)) => JsonShape::Number(number),
            Self::Leaf(Value::String(text)) => JsonShape::String(text),
            // Lists and objects are variants of their own, so only null is left.
            Self::Leaf(_) => JsonShape::Null,
            Self::List(items) => JsonShape::List(items),
            Self::Object(_) => JsonShape::Object,
        }
    }

    fn fields(&self) -> impl Iterator<Item = (&str, &Self)> {
        let fields: &[_] = if let Self::Object(fields) = self { fields } else { &[] };
        fields.iter().map(|(name, value)| (name.as_str(), value))
    }

    fn to_value(&self) -> Value {
        match self {
            Self::Leaf(value) => value.clone(),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(fields) => {
                fields.iter().map(|(name, value)| (name.clone(), value.to_value())).collect()
            }
        }
    }
}

impl OrderedValue {
    /// Parses a JSON text; `None` if it is no JSON.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let text = super::text_of(bytes);
        let read = |text: &str| serde_json::from_str(text).ok();
        // Go accepts lone surrogates, which `serde_json` refuses.
        read(&text).or_else(|| read(&super::go_json::without_lone_surrogates(&text)?))
    }

    /// Returns the value with the last one of each repeated field.
    #[must_use]
    pub fn last(self) -> Value {
        match self {
            Self::Leaf(value) => value,
            Self::List(items) => items.into_iter().map(Self::last).collect(),
            Self::Object(fields) => fields.into_iter().map(|(name, value)| (name, value.last())).collect(),
        }
    }
}

impl<'de> Deserialize<'de> for OrderedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OrderedVisitor)
    }
}

struct OrderedVisitor;

impl<'de> Visitor<'de> for OrderedVisitor {
    type Value = OrderedValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Leaf(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Leaf(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Leaf(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Leaf(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Leaf(value.into()))
    }

    fn visit_unit<E>(self) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Leaf(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<OrderedValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(OrderedValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<OrderedValue, A::Error> {
        let mut object = Vec::new();
        while let Some(field) = fields.next_entry()? {
            object.push(field);
        }
        Ok(OrderedValue::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_keep_their_order_and_repetitions() {
        let value = OrderedValue::parse(br#"{"b":1,"a":[true,null],"b":"\ud800"}"#).unwrap();
        let names: Vec<&str> = value.fields().map(|(name, _)| name).collect();
        assert_eq!(names, ["b", "a", "b"]);
        let sorted = json!({"a": [true, null], "b": "\u{fffd}"});
        assert_eq!(value.to_value(), sorted);
        assert_eq!(value.last(), sorted);
        assert!(OrderedValue::parse(b"{").is_none());
    }
}
