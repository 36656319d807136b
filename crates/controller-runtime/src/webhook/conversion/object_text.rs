//! The JSON text of an object, split into its fields without decoding them. Pure.
//!
//! Most of an object is metadata, which a conversion passes on. Its text is copied, so that only the other fields are decoded and
//! encoded.

use std::{borrow::Cow, fmt};

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

const METADATA: &str = "metadata";
/// Metadata field that conversions do not see.
const MANAGED_FIELDS: &str = "managedFields";

/// A field of an object, with the text of its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldText<'a> {
    pub(super) key: Cow<'a, str>,
    pub(super) value: &'a str,
}

/// An object, split into its fields.
#[derive(Debug, Default)]
pub(super) struct ObjectText<'a> {
    /// Fields of the object. The text of `metadata` is empty here, because its fields are in `metadata` below.
    fields: Vec<FieldText<'a>>,
    /// Fields of the metadata; empty if it is missing.
    metadata: Vec<FieldText<'a>>,
}

impl<'a> ObjectText<'a> {
    /// Returns a text field, or an empty text.
    pub(super) fn text(&self, key: &str) -> Cow<'a, str> {
        text_of(last(&self.fields, key))
    }

    /// Returns a text field of the metadata, or an empty text.
    pub(super) fn metadata_text(&self, key: &str) -> Cow<'a, str> {
        text_of(last(&self.metadata, key))
    }

    /// Returns the fields other than type and metadata.
    pub(super) fn content(&self) -> impl Iterator<Item = &FieldText<'a>> {
        self.fields.iter().filter(|field| !is_type_or_metadata(&field.key))
    }

    /// Appends the object.
    pub(super) fn write(&self, out: &mut String) {
        self.write_with(out, &self.metadata);
    }

    /// Returns the object without managed fields, whose decoding would take half of the time of a conversion.
    pub(super) fn without_managed_fields(&self) -> String {
        let fields = self.fields.iter().chain(&self.metadata);
        let size = fields.map(|FieldText { key, value }| key.len() + value.len() + AROUND_FIELD).sum();
        let mut text = String::with_capacity(size);
        self.write_with(&mut text, self.metadata.iter().filter(|field| field.key != MANAGED_FIELDS));
        text
    }

    /// Appends the object with these fields of the metadata.
    fn write_with<'b>(&'b self, out: &mut String, metadata: impl IntoIterator<Item = &'b FieldText<'a>>) {
        let mut metadata = Some(metadata);
        out.push('{');
        let mut is_first = true;
        for FieldText { key, value } in &self.fields {
            begin_field(out, &mut is_first, key);
            match metadata.take_if(|_| key == METADATA) {
                Some(metadata) => write_object(out, metadata),
                None => out.push_str(value),
            }
        }
        out.push('}');
    }

    /// Appends the metadata, with other values of some fields. A field without a value is left out.
    pub(super) fn write_metadata(&self, out: &mut String, replaced: &[(&'static str, Option<&str>)]) {
        let is_kept = |field: &&FieldText<'_>| !replaced.iter().any(|(key, _)| field.key == *key);
        let kept = self.metadata.iter().filter(is_kept).map(|field| (&*field.key, field.value));
        let new = replaced.iter().filter_map(|(key, value)| Some((*key, (*value)?)));
        write_fields(out, kept.chain(new));
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for ObjectText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;
        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = ObjectText<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            // A value that is not an object has no fields: its conversion fails, but the review can still be read and answered.
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(ObjectText::default())
            }

            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(ObjectText::default())
            }

            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(ObjectText::default())
            }

            fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                Ok(ObjectText::default())
            }

            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(ObjectText::default())
            }

            fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
                Ok(ObjectText::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
                while elements.next_element::<IgnoredAny>()?.is_some() {}
                Ok(ObjectText::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let (mut fields, mut metadata): (Vec<FieldText<'de>>, _) = (Vec::with_capacity(6), None);
                while let Some(BorrowedText(key)) = map.next_key()? {
                    if key != METADATA {
                        fields.push(FieldText { key, value: map.next_value::<&RawValue>()?.get() });
                        continue;
                    }
                    // Of equal keys the last one counts.
                    if metadata.replace(map.next_value::<FieldTexts<'de>>()?).is_none() {
                        fields.push(FieldText { key, value: "" });
                    }
                }
                Ok(ObjectText {
                    fields,
                    metadata: metadata.map(|FieldTexts(fields)| fields).unwrap_or_default(),
                })
            }
        }
        deserializer.deserialize_any(ObjectVisitor)
    }
}

/// The fields of an object.
struct FieldTexts<'a>(Vec<FieldText<'a>>);

impl<'de> Deserialize<'de> for FieldTexts<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = FieldTexts<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::with_capacity(8);
                while let Some((BorrowedText(key), value)) = map.next_entry::<_, &RawValue>()? {
                    fields.push(FieldText { key, value: value.get() });
                }
                Ok(FieldTexts(fields))
            }
        }
        deserializer.deserialize_map(FieldsVisitor)
    }
}

/// A text that is borrowed unless it contains escapes.
#[derive(serde::Deserialize)]
struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

/// Quotes, colon and comma of a field, and an escape in its key.
const AROUND_FIELD: usize = 5;

/// Returns whether the converter writes the field itself: `apiVersion`, `kind` and `metadata`.
pub(super) fn is_type_or_metadata(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

/// Appends a key and what precedes its value.
pub(super) fn begin_field(out: &mut String, is_first: &mut bool, key: &str) {
    if !std::mem::replace(is_first, false) {
        out.push(',');
    }
    write_text(out, key);
    out.push(':');
}

/// Appends a text as JSON.
pub(super) fn write_text(out: &mut String, text: &str) {
    let is_escaped = |byte: u8| byte < b' ' || matches!(byte, b'"' | b'\\');
    if text.bytes().any(is_escaped) {
        out.push_str(&serde_json::to_string(text).expect("a text is written to memory"));
    } else {
        out.push('"');
        out.push_str(text);
        out.push('"');
    }
}

fn write_object<'a, 'b: 'a>(out: &mut String, fields: impl IntoIterator<Item = &'a FieldText<'b>>) {
    write_fields(out, fields.into_iter().map(|field| (&*field.key, field.value)));
}

fn write_fields<'a>(out: &mut String, fields: impl Iterator<Item = (&'a str, &'a str)>) {
    out.push('{');
    let mut is_first = true;
    for (key, value) in fields {
        begin_field(out, &mut is_first, key);
        out.push_str(value);
    }
    out.push('}');
}

/// Splits an object into its fields.
pub(super) fn fields_of(text: &str) -> serde_json::Result<Vec<FieldText<'_>>> {
    serde_json::from_str(text).map(|FieldTexts(fields)| fields)
}

/// Returns the value of a field. Of equal keys the last one counts.
fn last<'a>(fields: &[FieldText<'a>], key: &str) -> Option<&'a str> {
    fields.iter().rfind(|field| field.key == key).map(|field| field.value)
}

fn text_of(value: Option<&str>) -> Cow<'_, str> {
    let text = value.and_then(|value| serde_json::from_str(value).ok());
    text.map(|BorrowedText(text)| text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: &str = r#"{ "kind": "Cart", "metadata": {"name": "a\"b", "managedFields": [{"x": {}}], "uid": "u"},
        "spec": {"a": 1}, "apiVersion": "example.com/v1" }"#;

    fn split(text: &str) -> ObjectText<'_> {
        serde_json::from_str(text).expect("an object")
    }

    fn written(write: impl FnOnce(&mut String)) -> String {
        let mut out = String::new();
        write(&mut out);
        out
    }

    #[test]
    fn fields_are_found_without_decoding_their_values() {
        let object = split(OBJECT);
        assert_eq!((&*object.text("kind"), &*object.text("apiVersion")), ("Cart", "example.com/v1"));
        assert_eq!((&*object.metadata_text("name"), &*object.metadata_text("no")), ("a\"b", ""));
        let content: Vec<_> = object.content().map(|field| (&*field.key, field.value)).collect();
        assert_eq!(content, [("spec", r#"{"a": 1}"#)]);
    }

    #[test]
    fn a_text_that_is_no_object_has_no_fields() {
        for text in ["7", "-7", "0.5", "true", "[{},1]", "null", r#""text""#, "{}"] {
            let object = split(text);
            assert_eq!((&*object.text("kind"), &*object.metadata_text("name")), ("", ""));
            assert_eq!(written(|out| object.write_metadata(out, &[])), "{}");
            assert_eq!(object.without_managed_fields(), "{}");
        }
    }

    #[test]
    fn metadata_that_are_no_object_are_refused() {
        for text in [r#"{"metadata": 1}"#, r#"{"metadata": []}"#, "{\"metadata\":}"] {
            assert!(serde_json::from_str::<ObjectText<'_>>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_text_is_escaped_as_json() {
        for text in ["", "a/b", "\u{e9}\u{7f}", "a\"b", "\\", "\n\u{1}"] {
            assert_eq!(written(|out| write_text(out, text)), serde_json::to_string(text).expect("JSON"));
        }
    }

    #[test]
    fn of_equal_keys_the_last_one_counts() {
        let object =
            split(r#"{"metadata":{"name":"a"},"kind":"A","metadata":{"name":"b","name":"c"},"kind":"B"}"#);
        assert_eq!((&*object.text("kind"), &*object.metadata_text("name")), ("B", "c"));
        let expected = r#"{"metadata":{"name":"b","name":"c"},"kind":"A","kind":"B"}"#;
        assert_eq!(written(|out| object.write(out)), expected);
    }

    #[test]
    fn managed_fields_are_left_out_for_the_decoder() {
        let object = split(OBJECT);
        let text = object.without_managed_fields();
        let expected = r#"{"kind":"Cart","metadata":{"name":"a\"b","uid":"u"},"spec":{"a": 1},"apiVersion":"example.com/v1"}"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn metadata_are_written_as_given_except_for_replaced_fields() {
        let object = split(OBJECT);
        let given = r#"{"name":"a\"b","managedFields":[{"x": {}}],"uid":"u"}"#;
        assert_eq!(written(|out| object.write_metadata(out, &[])), given);
        let replaced: [(&str, Option<&str>); 2] = [("labels", Some("{}")), ("uid", None)];
        let expected = r#"{"name":"a\"b","managedFields":[{"x": {}}],"labels":{}}"#;
        assert_eq!(written(|out| object.write_metadata(out, &replaced)), expected);
    }
}
