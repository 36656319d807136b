//! The compared part of an object, read from the object's text without the fields that are not compared.
//!
//! Each commit needs this part, and `managedFields` are most of the text of many objects. Without a tree of the whole object a commit
//! takes a fraction of the time and of the memory.

use std::{
    cell::{Cell, OnceCell},
    fmt,
};

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::masks::{
    OBSERVED_GENERATION, SECRETS, VOLATILE, in_order, is_time, observed_generation, secret_data, time,
};

/// Reads the compared part; equal to [`without_volatile_fields`](super::without_volatile_fields) of the whole object. `None` if the text
/// has another order than that of the API server, which writes the metadata first, or if it is not an object.
pub(super) fn compared_part(resource: &str, text: &[u8]) -> Option<Value> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    // The API server has limited the depth of the object when it read the request.
    reader.disable_recursion_limit();
    let generation = Generation::default();
    let compared = Whole { resource, generation: &generation }.deserialize(&mut reader).ok()?;
    // The caller then reads the whole object, in which the generation is known from the start.
    (!generation.was_needed_early.get()).then_some(compared)
}

/// The generation of the object that is being read.
#[derive(Default)]
struct Generation {
    /// `null` if the object has none; empty until the metadata have been read.
    value: OnceCell<Value>,
    /// Whether a field was compared with the generation before the metadata had been read.
    was_needed_early: Cell<bool>,
}

/// Reads an object of a resource.
#[derive(Clone, Copy)]
struct Whole<'g> {
    resource: &'g str,
    generation: &'g Generation,
}

/// Reads the metadata of an object.
#[derive(Clone, Copy)]
struct Metadata<'g>(&'g Generation);

/// Reads any other value.
#[derive(Clone, Copy)]
struct Part<'g>(&'g Generation);

impl<'g> Part<'g> {
    fn field<'t, A: MapAccess<'t>>(self, name: &str, fields: &mut A) -> Result<Value, A::Error> {
        if name != OBSERVED_GENERATION {
            return Ok(in_order(name, fields.next_value_seed(self)?));
        }
        let observed: Value = fields.next_value()?;
        let generation = self.0.value.get();
        self.0.was_needed_early.set(self.0.was_needed_early.get() || generation.is_none());
        Ok(observed_generation(&observed, generation.unwrap_or(&Value::Null)))
    }
}

impl<'t> DeserializeSeed<'t> for Whole<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'t>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'t> Visitor<'t> for Whole<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut parts = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let part = match &*name {
                "metadata" => fields.next_value_seed(Metadata(self.generation))?,
                "data" if self.resource == SECRETS => secret_data(&fields.next_value()?),
                name => Part(self.generation).field(name, &mut fields)?,
            };
            parts.insert(name, part);
        }
        Ok(Value::Object(parts))
    }
}

impl<'t> DeserializeSeed<'t> for Metadata<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'t>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'t> Visitor<'t> for Metadata<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut fields: A) -> Result<Value, A::Error> {
        let (mut parts, mut generation) = (Map::new(), Value::Null);
        while let Some(name) = fields.next_key::<String>()? {
            match &*name {
                "generation" => generation = fields.next_value()?,
                // Skipped without building a tree: `managedFields` are most of the text of many objects.
                volatile if VOLATILE.contains(&volatile) => drop(fields.next_value::<IgnoredAny>()?),
                name => drop(parts.insert(name.to_owned(), Part(self.0).field(name, &mut fields)?)),
            }
        }
        self.0.value.set(generation).map_err(|_| A::Error::custom("an object has metadata once"))?;
        Ok(Value::Object(parts))
    }
}

impl<'t> DeserializeSeed<'t> for Part<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'t>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'t> Visitor<'t> for Part<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(if is_time(text) { time() } else { text.into() })
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = items.next_element_seed(self)? {
            parts.push(part);
        }
        Ok(Value::Array(parts))
    }

    fn visit_map<A: MapAccess<'t>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut parts = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let part = self.field(&name, &mut fields)?;
            parts.insert(name, part);
        }
        Ok(Value::Object(parts))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::similar::{Masks, without_volatile_fields};

    /// Values with names and texts that often have a meaning here.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..3_i64).prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e9..1e9).prop_map(Value::from),
            "[ -~\n\u{e9}]{0,12}".prop_map(Value::from),
            Just(json!("2026-01-01T00:00:00Z")),
        ];
        let known = [OBSERVED_GENERATION, "generation", "finalizers"].map(str::to_owned);
        let name = prop_oneof!["[a-c]{1,2}", prop::sample::select(known.to_vec())];
        leaf.prop_recursive(4, 32, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(name.clone(), inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    /// Entries of a Secret or of a ConfigMap: texts, a time and bytes in base64, and values that neither has.
    fn data() -> impl Strategy<Value = Value> {
        let texts = ["", "cHctYWFh", "MjAyNi0wMS0wMVQwMDowMDowMFo=", "/w==", "a", "2026-01-01T00:00:00Z"];
        let entry = prop_oneof![
            prop::sample::select(texts.to_vec()).prop_map(Value::from),
            prop::sample::select(vec![Value::Null, json!(1), json!([true])]),
        ];
        let entries = prop::collection::btree_map("[a-c]", entry, 0..4);
        entries.prop_map(|entries| Value::Object(entries.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn the_part_equals_that_of_the_whole_object(
            generation in prop_oneof![Just(None), (0..3_i64).prop_map(Some)],
            entries in value(), owners in value(), status in value(), spec in value(), data in data(),
            resource in prop_oneof![Just("sites"), Just(SECRETS)],
        ) {
            let mut metadata = json!({"name": "a", "managedFields": entries, "ownerReferences": owners, "resourceVersion": "7"});
            if let Some(generation) = generation {
                metadata["generation"] = generation.into();
            }
            let whole = json!({"metadata": metadata, "data": data, "spec": spec, "status": status});
            let expected = without_volatile_fields(resource, &whole, &Masks::default());
            let owners_observe = whole["metadata"]["ownerReferences"].to_string().contains(OBSERVED_GENERATION);
            match compared_part(resource, whole.to_string().as_bytes()) {
                Some(compared) => prop_assert_eq!(compared, expected),
                None => prop_assert!(owners_observe, "the metadata come first"),
            }
        }
    }

    #[test]
    fn a_text_in_another_order_is_left_to_the_caller() {
        assert_eq!(
            compared_part("sites", br#"{"a":{"observedGeneration":1},"metadata":{"generation":1}}"#),
            None
        );
        assert_eq!(
            compared_part("sites", br#"{"metadata":{"generation":1}}"#),
            Some(json!({"metadata": {}}))
        );
        for text in ["", "[]", "{", r#"{"metadata":1}"#] {
            assert_eq!(compared_part("sites", text.as_bytes()), None, "{text}");
        }
    }
}
