//! The JSON text of an object, split into its fields without decoding them. Pure.
//!
//! Most of an object is metadata, which a conversion passes on. Its text is copied, so that only the other fields are decoded and
//! encoded.

use std::borrow::Cow;

use crate::json::scan::Reader;

/// Metadata field that conversions do not see.
const MANAGED_FIELDS: &str = "managedFields";

/// A field of an object, with the text of its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldText<'a> {
    pub(super) key: Cow<'a, str>,
    pub(super) value: &'a [u8],
}

/// An object, split into its fields.
#[derive(Debug)]
pub(super) struct ObjectText<'a> {
    whole: &'a [u8],
    fields: Vec<FieldText<'a>>,
    /// Fields of the metadata; empty if it is missing or no object.
    metadata: Vec<FieldText<'a>>,
}

impl<'a> ObjectText<'a> {
    /// Splits an object. The text must be valid JSON; one that is no object has no fields.
    pub(super) fn split(whole: &'a [u8]) -> Self {
        let fields = fields_of(whole);
        let metadata = last(&fields, "metadata").map(fields_of).unwrap_or_default();
        Self { whole, fields, metadata }
    }

    /// Returns the text that was split.
    pub(super) fn whole(&self) -> &'a [u8] {
        self.whole
    }

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

    /// Returns the object without managed fields, whose decoding would take half of the time of a conversion.
    pub(super) fn without_managed_fields(&self) -> Cow<'a, [u8]> {
        if !self.metadata.iter().any(|field| field.key == MANAGED_FIELDS) {
            return Cow::Borrowed(self.whole);
        }
        let mut text = Vec::with_capacity(self.whole.len());
        text.push(b'{');
        let mut is_first = true;
        for FieldText { key, value } in &self.fields {
            begin_field(&mut text, &mut is_first, key);
            if key == "metadata" {
                write_object(&mut text, self.metadata.iter().filter(|field| field.key != MANAGED_FIELDS));
            } else {
                text.extend_from_slice(value);
            }
        }
        text.push(b'}');
        Cow::Owned(text)
    }

    /// Appends the metadata, with other values of some fields. A field without a value is left out.
    pub(super) fn write_metadata(&self, out: &mut Vec<u8>, replaced: &[(&str, Option<&[u8]>)]) {
        if replaced.is_empty() && !self.metadata.is_empty() {
            out.extend_from_slice(last(&self.fields, "metadata").unwrap_or_default());
            return;
        }
        let is_kept = |field: &&FieldText<'_>| !replaced.iter().any(|(key, _)| field.key == *key);
        let kept = self.metadata.iter().filter(is_kept).map(|field| (&*field.key, field.value));
        let new = replaced.iter().filter_map(|(key, value)| Some((*key, (*value)?)));
        out.push(b'{');
        let mut is_first = true;
        for (key, value) in kept.chain(new) {
            begin_field(out, &mut is_first, key);
            out.extend_from_slice(value);
        }
        out.push(b'}');
    }
}

/// Whether a field belongs to the type or is the metadata, which the converter writes itself.
pub(super) fn is_type_or_metadata(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

/// Appends a key and what precedes its value.
pub(super) fn begin_field(out: &mut Vec<u8>, is_first: &mut bool, key: &str) {
    if !std::mem::replace(is_first, false) {
        out.push(b',');
    }
    write_text(out, key);
    out.push(b':');
}

/// Appends a text as JSON.
pub(super) fn write_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a text is written to memory");
}

fn write_object<'a>(out: &mut Vec<u8>, fields: impl Iterator<Item = &'a FieldText<'a>>) {
    out.push(b'{');
    let mut is_first = true;
    for FieldText { key, value } in fields {
        begin_field(out, &mut is_first, key);
        out.extend_from_slice(value);
    }
    out.push(b'}');
}

/// Returns the fields of an object, or none if the text is another value.
pub(super) fn fields_of(text: &[u8]) -> Vec<FieldText<'_>> {
    let mut fields = Vec::with_capacity(8);
    let read = Reader::new(text).object(|key, reader| {
        fields.push(FieldText { key, value: reader.value()? });
        Ok(())
    });
    if read.is_err() {
        fields.clear();
    }
    fields
}

/// Returns the value of a field. Of equal keys the last one counts.
fn last<'a>(fields: &[FieldText<'a>], key: &str) -> Option<&'a [u8]> {
    fields.iter().rfind(|field| field.key == key).map(|field| field.value)
}

fn text_of(value: Option<&[u8]>) -> Cow<'_, str> {
    let text = value.and_then(|value| Reader::new(value).string().ok());
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: &str = r#"{ "kind": "Cart", "metadata": {"name": "a\"b", "managedFields": [{"x": {}}], "uid": "u"},
        "spec": {"a": 1}, "apiVersion": "example.com/v1" }"#;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn fields_are_found_without_decoding_their_values() {
        let object = ObjectText::split(OBJECT.as_bytes());
        assert_eq!((&*object.text("kind"), &*object.text("apiVersion")), ("Cart", "example.com/v1"));
        assert_eq!((&*object.metadata_text("name"), &*object.metadata_text("no")), ("a\"b", ""));
        let content: Vec<_> = object.content().map(|field| (&*field.key, field.value)).collect();
        assert_eq!(content, [("spec", &br#"{"a": 1}"#[..])]);
    }

    #[test]
    fn a_text_that_is_no_object_has_no_fields() {
        for text in ["7", "[{}]", "null", r#""text""#, r#"{"metadata": 1}"#] {
            let object = ObjectText::split(text.as_bytes());
            assert_eq!((&*object.text("kind"), &*object.metadata_text("name")), ("", ""));
            assert_eq!(written(|out| object.write_metadata(out, &[])), "{}");
            assert_eq!(object.without_managed_fields(), text.as_bytes());
        }
    }

    #[test]
    fn managed_fields_are_left_out_for_the_decoder() {
        let object = ObjectText::split(OBJECT.as_bytes());
        let text = object.without_managed_fields();
        let expected = r#"{"kind":"Cart","metadata":{"name":"a\"b","uid":"u"},"spec":{"a": 1},"apiVersion":"example.com/v1"}"#;
        assert_eq!(std::str::from_utf8(&text), Ok(expected));
    }

    #[test]
    fn metadata_are_written_as_given_except_for_replaced_fields() {
        let object = ObjectText::split(OBJECT.as_bytes());
        let given = r#"{"name": "a\"b", "managedFields": [{"x": {}}], "uid": "u"}"#;
        assert_eq!(written(|out| object.write_metadata(out, &[])), given);
        let replaced: [(&str, Option<&[u8]>); 2] = [("labels", Some(b"{}")), ("uid", None)];
        let expected = r#"{"name":"a\"b","managedFields":[{"x": {}}],"labels":{}}"#;
        assert_eq!(written(|out| object.write_metadata(out, &replaced)), expected);
    }
}
