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
pub(super) struct MetadataText<'a> {
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
    pub(super) fn read(text: &'a [u8]) -> Option<(Self, usize)> {
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
#[derive(Debug, Default)]
struct ConvertedText<'a> {
    api_version: Cow<'a, str>,
    kind: Cow<'a, str>,
    metadata: MetadataText<'a>,
    content: Map<String, Value>,
}

/// A text that is borrowed unless it contains escapes.
#[derive(Deserialize)]
struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for ConvertedText<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = ConvertedText<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
                let mut converted = ConvertedText::default();
                let mut has_metadata = false;
                while let Some(BorrowedText(key)) = fields.next_key()? {
                    match &*key {
                        "apiVersion" => converted.api_version = fields.next_value::<BorrowedText<'de>>()?.0,
                        "kind" => converted.kind = fields.next_value::<BorrowedText<'de>>()?.0,
                        "metadata" => {
                            let text = fields.next_value::<&RawValue>()?.get();
                            let read = MetadataText::read(text.as_bytes());
                            converted.metadata = read.ok_or_else(|| A::Error::custom("unusual metadata"))?.0;
                            has_metadata = true;
                        }
                        _ => {
                            converted.content.insert(key.into_owned(), fields.next_value()?);
                        }
                    }
                }
                if has_metadata { Ok(converted) } else { Err(A::Error::missing_field("metadata")) }
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// Returns the fields of a converted object other than type and metadata, if it has this type and the metadata of the original.
pub(super) fn content_of(
    converted: &str,
    api_version: &str,
    kind: &str,
    original: &MetadataText<'_>,
) -> Option<Map<String, Value>> {
    let converted: ConvertedText<'_> = serde_json::from_str(converted).ok()?;
    let has_type = (&*converted.api_version, &*converted.kind) == (api_version, kind);
    if !has_type || !original.is_same(&converted.metadata) {
        return None;
    }
    let mut content = converted.content;
    content.values_mut().for_each(normalize_numbers);
    Some(content)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const METADATA: &str = r#"{"labels":{"a":"1","b":"2"},"name":"x","managedFields":[],"uid":"u"}"#;

    /// Compares an object with these metadata, in JSON, with one that has [`METADATA`].
    fn content(metadata: &str) -> Option<Value> {
        let sent = format!("{METADATA},\"spec\":{{}}}}");
        let (original, length) = MetadataText::read(sent.as_bytes())?;
        assert_eq!(length, METADATA.len());
        let converted = format!(
            r#"{{"kind":"X","metadata":{metadata},"apiVersion":"g/v1","spec":{{"n":3.0}},"x":null}}"#
        );
        assert_eq!(content_of(&converted, "g/v2", "X", &original), None, "another version");
        assert_eq!(content_of(&converted, "g/v1", "Y", &original), None, "another kind");
        content_of(&converted, "g/v1", "X", &original).map(Value::Object)
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
        let (original, _) = MetadataText::read(b"{}").unwrap();
        for converted in ["7", "[]", r#"{"kind":"X","apiVersion":"g/v1"}"#, "{"] {
            assert_eq!(content_of(converted, "g/v1", "X", &original), None, "{converted}");
        }
    }
}
