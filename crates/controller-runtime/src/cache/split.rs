//! Splits the JSON of an object into what is needed at hand and what is kept as text.
//!
//! One pass over the text, and no tree of it: values are copied from one buffer to the next as they stand. Field ownership
//! (`managedFields`, often half of an object) is left out unless asked for.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::meta::RawMeta;

/// Writes the object to `kept`, without its `managedFields` unless `managed_fields` are wanted, and returns its metadata.
///
/// # Errors
///
/// The text is not a JSON object.
pub(super) fn split<'a>(
    json: &'a str,
    managed_fields: bool,
    kept: &mut Vec<u8>,
) -> Result<RawMeta<'a>, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let meta = Whole { managed_fields, kept }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(meta)
}

/// An object.
struct Whole<'k> {
    managed_fields: bool,
    kept: &'k mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Whole<'_> {
    type Value = RawMeta<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Whole<'_> {
    type Value = RawMeta<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Self { managed_fields, kept } = self;
        let mut meta = RawMeta::default();
        let mut fields = Fields::begin(kept);
        while let Some(Key(key)) = map.next_key()? {
            fields.key(&key)?;
            if key == "metadata" {
                meta = map.next_value_seed(Metadata { managed_fields, kept: fields.kept })?;
            } else {
                fields.value(map.next_value()?);
            }
        }
        fields.end();
        Ok(meta)
    }
}

/// The metadata of an object. Anything else in their place is kept, and says nothing.
struct Metadata<'k> {
    managed_fields: bool,
    kept: &'k mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Metadata<'_> {
    type Value = RawMeta<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Metadata<'_> {
    fn instead<'de, E: Error>(self, value: impl Serialize) -> Result<RawMeta<'de>, E> {
        serde_json::to_writer(self.kept, &value).map_err(E::custom)?;
        Ok(RawMeta::default())
    }
}

impl<'de> Visitor<'de> for Metadata<'_> {
    type Value = RawMeta<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the metadata of an object")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        self.instead(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        self.instead(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        self.instead(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        self.instead(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        self.instead(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        self.instead(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut values: Vec<&RawValue> = Vec::new();
        while let Some(value) = seq.next_element()? {
            values.push(value);
        }
        self.instead(values)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut meta = RawMeta::default();
        let mut fields = Fields::begin(self.kept);
        while let Some(Key(key)) = map.next_key()? {
            if key == "managedFields" && !self.managed_fields {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value: &RawValue = map.next_value()?;
            meta.set(&key, value);
            fields.key(&key)?;
            fields.value(value);
        }
        fields.end();
        Ok(meta)
    }
}

/// The fields of an object as they are written.
struct Fields<'k> {
    kept: &'k mut Vec<u8>,
    any: bool,
}

impl<'k> Fields<'k> {
    fn begin(kept: &'k mut Vec<u8>) -> Self {
        kept.push(b'{');
        Self { kept, any: false }
    }

    fn key<E: Error>(&mut self, key: &str) -> Result<(), E> {
        if std::mem::replace(&mut self.any, true) {
            self.kept.push(b',');
        }
        serde_json::to_writer(&mut *self.kept, key).map_err(E::custom)?;
        self.kept.push(b':');
        Ok(())
    }

    fn value(&mut self, value: &RawValue) {
        self.kept.extend_from_slice(value.get().as_bytes());
    }

    fn end(self) {
        self.kept.push(b'}');
    }
}

/// A key, borrowed if it can be: a bare `Cow` never is.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    fn check(whole: &Value) {
        let (mut lean, mut full) = (Vec::new(), Vec::new());
        let text = whole.to_string();
        split(&text, false, &mut lean).expect("an object");
        split(&text, true, &mut full).expect("an object");
        let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).expect("JSON");
        assert_eq!(read(&full), *whole);
        let mut without = whole.clone();
        if let Some(metadata) = without.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        assert_eq!(read(&lean), without);
    }

    #[test]
    fn metadata_may_be_anything() {
        for metadata in
            [json!(null), json!([1, "}"]), json!("{"), json!(5), json!({}), json!({ "managedFields": [{}] })]
        {
            check(
                &json!({ "a": [1.5e300, { "metadata": { "managedFields": 1 } }], "metadata": metadata, "z": "\"\\" }),
            );
        }
        check(&json!({}));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in ["", "[]", "null", "{", r#"{"a":}"#, r#"{"a":1}x"#, r#"{"metadata":{"name":}}"#] {
            assert!(split(text, false, &mut Vec::new()).is_err(), "{text}");
        }
    }

    fn anything() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let key = prop_oneof![
                Just("metadata".to_owned()),
                Just("managedFields".to_owned()),
                Just("labels".to_owned()),
                any::<String>(),
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key, inner, 0..4)
                    .prop_map(|map| Value::from(Map::from_iter(map))),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_object_is_kept_but_for_its_managed_fields(
            mut whole in prop::collection::btree_map(any::<String>(), anything(), 0..4),
            metadata in prop::option::of(anything()),
        ) {
            whole.extend(metadata.map(|metadata| ("metadata".to_owned(), metadata)));
            check(&Value::from(Map::from_iter(whole)));
        }
    }
}
