//! Repeated fields of a JSON document, as Go decodes them: each value is decoded into the struct that the one before has filled.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::{Count, Field, GoType, Message};

/// Decodes a document of a kind with repeated fields. Their structs and maps are merged, and lists element by element; of other values the
/// last one counts. The fields of a map are not merged: Go decodes each of them into a new value. `None` if the text is not JSON.
#[must_use]
pub fn merge_repeated(text: &[u8], kind: &'static Message) -> Option<Value> {
    let RepeatingValue::Object(fields) = serde_json::from_slice(text).ok()? else { return None };
    let mut object = Map::new();
    fill(&mut object, kind, fields);
    Some(Value::Object(object))
}

/// Decodes fields into an object that may have values already.
fn fill(object: &mut Map<String, Value>, message: &'static Message, fields: Vec<(String, RepeatingValue)>) {
    for (name, value) in fields {
        let before = object.get_mut(&name).map(Value::take);
        let value = match message.slot(&name) {
            Some(slot) => decode(before, slot.field, value),
            None => value.last(),
        };
        object.insert(name, value);
    }
}

fn decode(before: Option<Value>, field: &Field, value: RepeatingValue) -> Value {
    match (field.count, field.kind, value) {
        (Count::One, GoType::Message(message), value) => decode_struct(before, message, value),
        (Count::Map, kind, RepeatingValue::Object(fields)) => {
            let mut map = object(before);
            for (name, value) in fields {
                map.insert(name, decode_element(None, kind, value));
            }
            Value::Object(map)
        }
        (Count::List, kind, RepeatingValue::List(items)) => {
            let mut old = match before {
                Some(Value::Array(old)) => old,
                _ => Vec::new(),
            }
            .into_iter();
            Value::Array(items.into_iter().map(|item| decode_element(old.next(), kind, item)).collect())
        }
        (_, _, value) => value.last(),
    }
}

fn decode_element(before: Option<Value>, kind: GoType, value: RepeatingValue) -> Value {
    match kind {
        GoType::Message(message) => decode_struct(before, message, value),
        _ => value.last(),
    }
}

fn decode_struct(before: Option<Value>, message: &'static Message, value: RepeatingValue) -> Value {
    match value {
        RepeatingValue::Object(fields) => {
            let mut filled = object(before);
            fill(&mut filled, message, fields);
            Value::Object(filled)
        }
        value => value.last(),
    }
}

/// Returns the fields of an object; none for another value.
fn object(value: Option<Value>) -> Map<String, Value> {
    match value {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// A JSON value with all of its repeated fields.
enum RepeatingValue {
    Leaf(Value),
    List(Vec<RepeatingValue>),
    Object(Vec<(String, RepeatingValue)>),
}

impl RepeatingValue {
    /// Returns the value with the last one of each repeated field.
    fn last(self) -> Value {
        match self {
            Self::Leaf(value) => value,
            Self::List(items) => Value::Array(items.into_iter().map(Self::last).collect()),
            Self::Object(fields) => {
                Value::Object(fields.into_iter().map(|(name, value)| (name, value.last())).collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for RepeatingValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RepeatingVisitor)
    }
}

struct RepeatingVisitor;

impl<'de> Visitor<'de> for RepeatingVisitor {
    type Value = RepeatingValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<RepeatingValue, E> {
        Ok(RepeatingValue::Leaf(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<RepeatingValue, E> {
        Ok(RepeatingValue::Leaf(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<RepeatingValue, E> {
        Ok(RepeatingValue::Leaf(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<RepeatingValue, E> {
        Ok(RepeatingValue::Leaf(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<RepeatingValue, E> {
        Ok(RepeatingValue::Leaf(value.into()))
    }

    fn visit_unit<E>(self) -> Result<RepeatingValue, E> {
        Ok(RepeatingValue::Leaf(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<RepeatingValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(RepeatingValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<RepeatingValue, A::Error> {
        let mut object = Vec::new();
        while let Some(field) = fields.next_entry()? {
            object.push(field);
        }
        Ok(RepeatingValue::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::go_struct::message_of_kind;
    use serde_json::json;

    fn check(api_version: &str, kind: &str, text: &str, expected: &Value) {
        let message = message_of_kind(api_version, kind).unwrap();
        assert_eq!(merge_repeated(text.as_bytes(), message).as_ref(), Some(expected), "{text}");
    }

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn structs_and_maps_are_merged_and_other_values_replaced() {
        check(
            "v1",
            "ConfigMap",
            r#"{"data":{"x":"2"},"data":{"y":"1"}}"#,
            &json!({"data": {"x": "2", "y": "1"}}),
        );
        check(
            "v1",
            "ConfigMap",
            r#"{"metadata":{"name":"a","labels":{"k":"v"}},"metadata":{"name":"b","labels":{"l":"w"}}}"#,
            &json!({"metadata": {"name": "b", "labels": {"k": "v", "l": "w"}}}),
        );
        check("v1", "ConfigMap", r#"{"data":{"x":"1"},"data":null}"#, &json!({"data": null}));
    }

    #[test]
    fn lists_are_merged_by_position() {
        let text =
            r#"{"spec":{"containers":[{"name":"a","image":"i"},{"name":"b"}],"containers":[{"name":"c"}]}}"#;
        check("v1", "Pod", text, &json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}));
    }
}
