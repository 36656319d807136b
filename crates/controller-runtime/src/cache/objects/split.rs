//! Splits the JSON of an object into metadata, which are decoded, and the rest, which stays text.
//!
//! A single pass that builds no tree. Field ownership (`managedFields`, often half of an object) can be left out of the
//! stored text.

use std::ops::Range;

use crate::{
    json::scan::{Malformed, Reader},
    object::meta::RawMeta,
};

/// Treatment of `metadata.managedFields`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ManagedFields {
    #[default]
    Strip,
    Keep,
}

/// A received object with its metadata decoded.
#[derive(Debug, Clone)]
pub(crate) struct Split<'a> {
    json: &'a [u8],
    meta: RawMeta<'a>,
    /// Range of `metadata`, empty if there is none.
    metadata: Range<usize>,
    /// Range of `managedFields` within `metadata`, including one adjacent comma.
    managed_fields: Range<usize>,
}

impl<'a> Split<'a> {
    /// Splits a text that consists of one object.
    ///
    /// # Errors
    ///
    /// The text is not an object. Values other than metadata are not checked.
    pub(crate) fn whole(json: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(json);
        let split = Self::read(&mut reader)?;
        reader.end()?;
        Ok(split)
    }

    /// Splits the next object of a text.
    ///
    /// # Errors
    ///
    /// No object follows. Values other than metadata are not checked.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        reader.peek();
        let begin = reader.at();
        let mut meta = RawMeta::default();
        let (mut metadata, mut managed_fields) = (0..0, 0..0);
        reader.object(|key, reader| match (&*key, reader.peek()) {
            ("metadata", Some(b'{')) => {
                let start = reader.at();
                // For duplicate keys the last one counts, as in serde_json.
                (meta, managed_fields) = (RawMeta::default(), 0..0);
                read_metadata(reader, &mut meta, &mut managed_fields)?;
                metadata = start..reader.at();
                Ok(())
            }
            _ => reader.value().map(drop),
        })?;
        let json = reader.since(begin);
        let within = |range: Range<usize>| range.start.saturating_sub(begin)..range.end.saturating_sub(begin);
        Ok(Self { json, meta, metadata: within(metadata), managed_fields: within(managed_fields) })
    }

    /// Represents a text that is not an object, with empty metadata.
    pub(crate) fn nothing(json: &'a [u8]) -> Self {
        Self { json, meta: RawMeta::default(), metadata: 0..0, managed_fields: 0..0 }
    }

    pub(crate) fn meta(&self) -> &RawMeta<'a> {
        &self.meta
    }

    /// Returns the text as received.
    pub(crate) fn json(&self) -> &'a [u8] {
        self.json
    }

    /// Returns a text with the metadata alone, as the API server sends it on request; `None` if there are none.
    pub(crate) fn metadata_alone(&self) -> Option<Vec<u8>> {
        if self.metadata.is_empty() {
            return None;
        }
        let mut alone = Vec::new();
        self.keep_metadata(ManagedFields::Keep, &mut alone);
        Some(alone)
    }

    /// Appends the text to `kept`, with or without `managedFields`.
    pub(crate) fn keep(&self, managed_fields: ManagedFields, kept: &mut Vec<u8>) {
        self.keep_of(0..self.json.len(), managed_fields, kept);
    }

    /// Like [`Split::keep`], but appends an object with the metadata alone. The received object must have metadata.
    pub(crate) fn keep_metadata(&self, managed_fields: ManagedFields, kept: &mut Vec<u8>) {
        kept.extend_from_slice(
            br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#,
        );
        self.keep_of(self.metadata.clone(), managed_fields, kept);
        kept.push(b'}');
    }

    fn keep_of(&self, range: Range<usize>, managed_fields: ManagedFields, kept: &mut Vec<u8>) {
        let Range { start, end } = self.managed_fields.clone();
        if managed_fields == ManagedFields::Keep || start == end {
            kept.extend_from_slice(&self.json[range]);
        } else {
            kept.extend_from_slice(&self.json[range.start..start]);
            kept.extend_from_slice(&self.json[end..range.end]);
        }
    }
}

/// Advances over metadata, decodes them, and records the range of their `managedFields`.
fn read_metadata<'a>(
    reader: &mut Reader<'a>,
    meta: &mut RawMeta<'a>,
    managed_fields: &mut Range<usize>,
) -> Result<(), Malformed> {
    // Start of the range to cut: after the opening brace, or the end of the previous member, so that the comma between
    // is cut as well.
    let (mut before, mut first) = (reader.at() + 1, true);
    reader.object(|key, reader| {
        let value = reader.value()?;
        let mut end = reader.at();
        if key == "managedFields" {
            // The first member has no comma before it. Cut the comma after it instead.
            if first && reader.peek() == Some(b',') {
                end = reader.at() + 1;
            }
            *managed_fields = before..end;
        } else {
            meta.set(&key, value);
        }
        (before, first) = (end, false);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    fn check(whole: &Value) {
        check_text(&whole.to_string());
        check_text(&serde_json::to_string_pretty(whole).expect("JSON"));
    }

    fn check_text(text: &str) {
        let (mut lean, mut full) = (Vec::new(), Vec::new());
        let split = Split::whole(text.as_bytes()).expect("an object");
        split.keep(ManagedFields::Strip, &mut lean);
        split.keep(ManagedFields::Keep, &mut full);
        let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).expect("JSON");
        let mut whole: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(read(&full), whole);
        if let Some(metadata) = whole.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        assert_eq!(read(&lean), whole);
        if let Some(metadata) = whole.get("metadata").filter(|metadata| metadata.is_object()) {
            let mut alone = Vec::new();
            split.keep_metadata(ManagedFields::Strip, &mut alone);
            assert_eq!(read(&alone)["metadata"], *metadata);
        }
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
    fn managed_fields_are_removed_wherever_they_are() {
        for metadata in [
            r#""managedFields":[{"a":1}]"#,
            r#""managedFields":[{"a":1}],"name":"a""#,
            r#""name":"a","managedFields":[{"a":1}]"#,
            r#""name":"a","managedFields":[{"a":1}],"uid":"u""#,
            r#" "name" : "a" , "managedFields" : [ { "a" : 1 } ] , "uid" : "u" "#,
            r#" "managedFields" : [ { "a" : 1 } ] , "uid" : "u" "#,
            r#""n\u0061me":"a","m\u0061nagedFields":["\\"]"#,
        ] {
            check_text(&format!(
                r#" {{"kind":"A","metadata":{{{metadata}}},"spec":{{"managedFields":1}}}} "#
            ));
        }
    }

    #[test]
    fn extracted_metadata_equal_those_in_the_object() {
        let of = |text: &str| {
            let alone = Split::whole(text.as_bytes()).expect("an object").metadata_alone()?;
            Some(serde_json::from_slice::<Value>(&alone).expect("JSON"))
        };
        let alone = of(r#" { "kind" : "A", "metadata" : { "name" : "a" } , "spec" : { "metadata" : 1 } } "#);
        assert_eq!(
            alone,
            Some(
                json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": { "name": "a" } })
            )
        );
        assert_eq!(of(r#"{ "spec": {} }"#), None);
    }

    #[test]
    fn duplicate_metadata_count_with_the_last_value() {
        let text = br#"{"metadata":{"name":"a","managedFields":[]},"spec":{},"metadata":{"name":"b"}}"#;
        let (split, mut alone) = (Split::whole(text).expect("an object"), Vec::new());
        split.keep_metadata(ManagedFields::Strip, &mut alone);
        let alone: Value = serde_json::from_slice(&alone).expect("JSON");
        assert_eq!(alone["metadata"], json!({ "name": "b" }));
        let text = br#"{"metadata":{"name":"a","namespace":"n","uid":"u"},"metadata":{"name":"b"}}"#;
        let split = Split::whole(text).expect("an object");
        let meta = split.meta();
        assert_eq!((&*meta.name, &*meta.namespace, &*meta.uid), ("b", "", ""));
    }

    #[test]
    fn a_text_that_is_not_an_object_is_refused() {
        for text in [
            "",
            "[]",
            "null",
            "{",
            r#"{"a":}"#,
            r#"{"a":1}x"#,
            r#"{"a":1,}"#,
            r#"{"metadata":{"name":}}"#,
            r#"{"a"#,
        ] {
            assert!(Split::whole(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(
            Split::whole(br#"{"a" 1}"#).map_err(|error| error.to_string()).expect_err("no colon"),
            "no colon at byte 5"
        );
    }

    fn anything() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[\"{}\\[\\],:\\\\a ]{0,6}".prop_map(Value::from),
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

        #[test]
        fn no_text_makes_it_panic(text in "[\"{}\\[\\],:\\\\a1 é]{0,30}") {
            let text = text.replace('a', r#""metadata":{"managedFields":"#);
            if let Ok(split) = Split::whole(text.as_bytes()) {
                split.keep(ManagedFields::Strip, &mut Vec::new());
            }
        }
    }
}
