//! Texts of converted objects, compared with those of the originals without parsing the metadata into trees.
//!
//! Nearly every answer of a webhook passes the comparison. All others are parsed and checked by [`Review::check`](super::conversion_review),
//! which gives the error.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use kube_apimachinery::decode::normalize_numbers;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Parts of the metadata that are compared.
#[derive(Debug, Default, Deserialize)]
struct MetadataText<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(borrow, default)]
    labels: Option<&'a RawValue>,
    #[serde(borrow, default)]
    annotations: Option<&'a RawValue>,
}

impl<'a> MetadataText<'a> {
    /// Reads metadata from the beginning of a text. Also returns their length in bytes.
    fn read(text: &'a [u8]) -> Option<(Self, usize)> {
        // serde also reads structures from arrays.
        let mut values =
            text.starts_with(b"{").then(|| serde_json::Deserializer::from_slice(text).into_iter())?;
        let metadata = values.next()?.ok()?;
        Some((metadata, values.byte_offset()))
    }

    /// Whether both belong to the same object, with equal labels and annotations.
    fn is_same(&self, other: &MetadataText<'_>) -> bool {
        (&self.name, &self.namespace, &self.uid) == (&other.name, &other.namespace, &other.uid)
            && is_same_map(self.labels, other.labels)
            && is_same_map(self.annotations, other.annotations)
    }
}

fn is_same_map(one: Option<&RawValue>, other: Option<&RawValue>) -> bool {
    fn read(text: &RawValue) -> Option<BTreeMap<Cow<'_, str>, Cow<'_, str>>> {
        serde_json::from_str(text.get()).ok()
    }
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => {
            one.get() == other.get()
                || matches!((read(one), read(other)), (Some(one), Some(other)) if one == other)
        }
        _ => false,
    }
}

/// A converted object, of which the fields other than type and metadata are parsed.
#[derive(Debug)]
pub(super) struct ConvertedText<'a> {
    api_version: Cow<'a, str>,
    kind: Cow<'a, str>,
    metadata: &'a RawValue,
    content: Map<String, Value>,
}

/// A text that is borrowed unless it contains escapes.
#[derive(Deserialize)]
pub(super) struct BorrowedText<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl<'de> Deserialize<'de> for ConvertedText<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = ConvertedText<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
                let (mut api_version, mut kind, mut metadata) = (Cow::default(), Cow::default(), None);
                let mut content = Map::new();
                while let Some(BorrowedText(key)) = fields.next_key()? {
                    match &*key {
                        "apiVersion" => api_version = fields.next_value::<BorrowedText<'de>>()?.0,
                        "kind" => kind = fields.next_value::<BorrowedText<'de>>()?.0,
                        "metadata" => metadata = Some(fields.next_value()?),
                        _ => {
                            content.insert(key.into_owned(), fields.next_value()?);
                        }
                    }
                }
                let metadata = metadata.ok_or_else(|| A::Error::missing_field("metadata"))?;
                Ok(ConvertedText { api_version, kind, metadata, content })
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

impl ConvertedText<'_> {
    /// Returns the fields other than type and metadata, and the length of the original's metadata, if the object has this type and these
    /// metadata. `original` begins with the metadata of the original.
    pub(super) fn content(
        self,
        api_version: &str,
        kind: &str,
        original: &[u8],
    ) -> Option<(Map<String, Value>, usize)> {
        if (&*self.api_version, &*self.kind) != (api_version, kind) {
            return None;
        }
        let metadata = self.metadata.get().as_bytes();
        // Most webhooks return the metadata byte for byte. The comparison of the first bytes suffices, because a JSON object is never the
        // beginning of a longer one.
        let length = if metadata.starts_with(b"{") && original.starts_with(metadata) {
            metadata.len()
        } else {
            let (original, length) = MetadataText::read(original)?;
            let (converted, _) = MetadataText::read(metadata)?;
            original.is_same(&converted).then_some(length)?
        };
        let mut content = self.content;
        content.values_mut().for_each(normalize_numbers);
        Some((content, length))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const METADATA: &str = r#"{"labels":{"a":"1","b":"2"},"name":"x","managedFields":[],"uid":"u"}"#;

    fn content_of(converted: &str, api_version: &str, kind: &str) -> Option<Value> {
        let original = format!("{METADATA},\"spec\":{{}}}}");
        let converted: ConvertedText<'_> = serde_json::from_str(converted).ok()?;
        let (content, length) = converted.content(api_version, kind, original.as_bytes())?;
        assert_eq!(length, METADATA.len());
        Some(Value::Object(content))
    }

    /// Compares an object with these metadata, in JSON, with one that has [`METADATA`].
    fn content(metadata: &str) -> Option<Value> {
        let converted = format!(
            r#"{{"kind":"X","metadata":{metadata},"apiVersion":"g/v1","spec":{{"n":3.0}},"x":null}}"#
        );
        assert_eq!(content_of(&converted, "g/v2", "X"), None, "another version");
        assert_eq!(content_of(&converted, "g/v1", "Y"), None, "another kind");
        content_of(&converted, "g/v1", "X")
    }

    #[test]
    fn an_object_with_its_metadata_need_not_be_checked() {
        let expected = Some(json!({"spec": {"n": 3}, "x": null}));
        for metadata in [
            METADATA,
            r#"{"labels":{"b":"2", "a":"\u0031"},"name":"x","uid":"u","annotations":null}"#,
            r#"{"generation":7,"uid":"u","name":"\u0078","namespace":"","labels":{"a":"1","b":"2"}}"#,
        ] {
            assert_eq!(content(metadata), expected, "{metadata}");
        }
    }

    #[test]
    fn an_object_with_other_metadata_is_checked() {
        for metadata in [
            "{}",
            "null",
            "[]",
            "7",
            r#"["x","","u",{"a":"1","b":"2"},null]"#,
            r#"{"labels":{"a":"1","b":"2"},"name":"y","uid":"u"}"#,
            r#"{"labels":{"a":"1","b":"2"},"name":"x","uid":"v"}"#,
            r#"{"labels":{"a":"1","b":"2"},"name":"x","uid":"u","namespace":"n"}"#,
            r#"{"labels":{"a":"1","b":"2"},"name":"x","uid":null}"#,
            r#"{"labels":{"a":"1","b":"2"},"name":"x","uid":"v","uid":"u"}"#,
            r#"{"labels":{"a":"1"},"name":"x","uid":"u"}"#,
            r#"{"labels":{"a":"1","b":2},"name":"x","uid":"u"}"#,
            r#"{"name":"x","uid":"u"}"#,
            r#"{"labels":{"a":"1","b":"2"},"name":"x","uid":"u","annotations":{}}"#,
        ] {
            assert_eq!(content(metadata), None, "{metadata}");
        }
        for converted in ["7", "[]", r#"{"kind":"X","apiVersion":"g/v1"}"#, "{"] {
            assert_eq!(content_of(converted, "g/v1", "X"), None, "{converted}");
        }
    }
}
