//! Stored form of an object: JSON text without three fields.
//!
//! `kind` and `apiVersion` depend on the version in which a client reads, and `metadata.resourceVersion` on the commit.
//! The stored text omits them; they are written in front of it when the object is sent:
//!
//! ```text
//! {"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"7" ,"name":"a"},"data":{"k":"v"}}
//! └────────────── written when sent ────────────────────────────────────┘└───────── stored ────────────┘
//! ```
//!
//! A read therefore copies bytes instead of serializing a tree, and a stored object needs the memory of its JSON text instead of that of a
//! tree of maps.

use std::collections::BTreeMap;
use std::io::Write;

use bytes::Bytes;
use kube_apimachinery::go;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

/// `kind` and `apiVersion` of a response, with their rendered text: `{"kind":"Pod","apiVersion":"v1",`.
#[derive(Debug, Clone)]
pub(crate) struct TypeMeta {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    prefix: Vec<u8>,
}

impl TypeMeta {
    pub(crate) fn new(api_version: &str, kind: &str) -> Self {
        let prefix = format!("{{\"kind\":{},\"apiVersion\":{},", quoted(kind), quoted(api_version));
        Self { api_version: api_version.to_owned(), kind: kind.to_owned(), prefix: prefix.into_bytes() }
    }
}

/// Stored part of an object.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    tail: Bytes,
    /// Number of the schema with which the object was written. The object has its defaults.
    written_as: u64,
    /// Number of the storage version at the time of the write.
    stored_in: u64,
    /// Whether the object has owners; cached so that the text need not be parsed.
    owned: bool,
    /// Whether the object is being deleted; cached so that the text need not be parsed.
    terminating: bool,
    /// Whether kube-apiserver stores another text; see [`differing`](Self::differing).
    differing: bool,
}

impl Document {
    /// Creates the stored form of `object`, without the three fields above. An object without `metadata` gets an empty one. `written_as`
    /// and `stored_in` are arbitrary numbers, by which the caller recognizes the schema and the storage version.
    pub(crate) fn new(object: &Value, written_as: u64, stored_in: u64) -> Self {
        let empty = Map::new();
        let fields = object.as_object().unwrap_or(&empty);
        let metadata = fields.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        let mut tail = Vec::with_capacity(1024);
        write_members(&mut tail, metadata, &["resourceVersion"]);
        tail.push(b'}');
        write_members(&mut tail, fields, &["apiVersion", "kind", "metadata"]);
        tail.push(b'}');
        tail.shrink_to_fit();
        Self {
            tail: Bytes::from(tail),
            written_as,
            stored_in,
            owned: metadata
                .get("ownerReferences")
                .and_then(Value::as_array)
                .is_some_and(|owners| !owners.is_empty()),
            terminating: kube_apimachinery::metadata::is_terminating(object),
            differing: false,
        }
    }

    /// Marks a document for which kube-apiserver would store another text: one without some defaults, or with undeclared fields that a webhook
    /// added. Readers see the same object in both servers, and in both the next update is a write even if it changes nothing. A data file does
    /// not keep the mark.
    pub(crate) fn differing(self) -> Self {
        Self { differing: true, ..self }
    }

    /// Creates a document with the metadata of `self` and the fields of `content`, which contains no metadata. `metadata` is the length
    /// of the metadata in the stored text of `self`.
    ///
    /// # Panics
    /// `metadata` is longer than the text.
    pub(crate) fn with_content(
        &self,
        metadata: usize,
        content: &Map<String, Value>,
        written_as: u64,
        stored_in: u64,
    ) -> Self {
        let mut tail = Vec::with_capacity(self.tail.len());
        tail.extend_from_slice(&self.tail[..metadata]);
        write_members(&mut tail, content, &["apiVersion", "kind", "metadata"]);
        tail.push(b'}');
        tail.shrink_to_fit();
        Self { tail: Bytes::from(tail), written_as, stored_in, ..*self }
    }

    /// Restores a document from its [`text`](Self::text); `None` if the text is invalid.
    #[cfg_attr(not(feature = "persistence"), expect(dead_code, reason = "used by data files only"))]
    pub(crate) fn from_text(text: Bytes, stored_in: u64) -> Option<Self> {
        let mut whole = b"{\"metadata\":{\"resourceVersion\":\"\"".to_vec();
        whole.extend_from_slice(&text);
        // Skipped values may be nested arbitrarily deep, because skipping does not recurse.
        let object: Skimmed = serde_json::from_slice(&whole).ok()?;
        Some(Self {
            tail: text,
            // Schema numbers are only valid within one process. With 0, a custom object gets its defaults again when it is read.
            written_as: 0,
            stored_in,
            owned: object.metadata.owner_references.is_some_and(|owners| !owners.is_empty()),
            terminating: object.metadata.deletion_timestamp.is_some(),
            differing: false,
        })
    }

    /// Returns the stored text.
    pub(crate) fn text(&self) -> &[u8] {
        &self.tail
    }

    /// Returns the number of the schema.
    pub(crate) fn written_as(&self) -> u64 {
        self.written_as
    }

    /// Returns the number of the storage version.
    pub(crate) fn stored_in(&self) -> u64 {
        self.stored_in
    }

    /// Returns the length of the stored text in bytes.
    pub(crate) fn len(&self) -> usize {
        self.tail.len()
    }

    /// Returns the whole object in two parts, without copying the second.
    pub(crate) fn parts(&self, kind: &TypeMeta, revision: u64) -> [Bytes; 2] {
        let mut head = Vec::with_capacity(kind.prefix.len() + 64);
        write_head(&mut head, Some(kind), revision);
        [Bytes::from(head), self.tail.clone()]
    }

    /// Appends the whole object. Without `kind` it omits `kind` and `apiVersion`, as lists of builtin kinds do.
    pub(crate) fn write(&self, out: &mut Vec<u8>, kind: Option<&TypeMeta>, revision: u64) {
        write_head(out, kind, revision);
        out.extend_from_slice(&self.tail);
    }

    /// Appends the object without its revision, with the fields in the order in which Go writes them. Returns the length of the
    /// text before the metadata.
    pub(crate) fn write_without_revision(&self, out: &mut Vec<u8>, kind: &TypeMeta) -> usize {
        let begin = out.len();
        for (field, value) in [("{\"apiVersion\":", &kind.api_version), (",\"kind\":", &kind.kind)] {
            out.extend_from_slice(field.as_bytes());
            // Writing into a Vec cannot fail.
            let _ = serde_json::to_writer(&mut *out, value);
        }
        out.extend_from_slice(b",\"metadata\":");
        let length = out.len() - begin;
        out.push(b'{');
        out.extend_from_slice(self.tail.strip_prefix(b",").unwrap_or(&self.tail));
        length
    }

    /// Parses the whole object.
    ///
    /// # Panics
    /// Never: the text was serialized from a value.
    pub(crate) fn to_value(&self, kind: &TypeMeta, revision: u64) -> Value {
        let mut text = Vec::with_capacity(self.tail.len() + kind.prefix.len() + 64);
        self.write(&mut text, Some(kind), revision);
        // Stored objects may be nested deeper than the parser's default limit, for example in their managed fields. Their depth was limited
        // when the request was read.
        let mut reader = serde_json::Deserializer::from_slice(&text);
        reader.disable_recursion_limit();
        Value::deserialize(&mut reader).expect("a document is JSON, because it was written from a value")
    }

    /// Reads the labels without parsing the whole object.
    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        let mut text = Vec::with_capacity(self.tail.len() + 64);
        self.write(&mut text, None, 0);
        serde_json::from_slice::<Labelled>(&text).map(|object| object.metadata.labels).unwrap_or_default()
    }

    /// Whether the object has owners.
    pub(crate) fn is_owned(&self) -> bool {
        self.owned
    }

    /// Whether the object is being deleted.
    pub(crate) fn is_terminating(&self) -> bool {
        self.terminating
    }

    /// Whether both documents have the same text, also in kube-apiserver.
    pub(crate) fn same(&self, other: &Self) -> bool {
        !self.differing && !other.differing && self.tail == other.tail
    }
}

/// Writes the part of an object that precedes the stored text.
fn write_head(out: &mut Vec<u8>, kind: Option<&TypeMeta>, revision: u64) {
    out.extend_from_slice(kind.map_or(b"{", |kind| &kind.prefix));
    // Writing into a Vec cannot fail.
    let _ = write!(out, "\"metadata\":{{\"resourceVersion\":\"{revision}\"");
}

/// The parts of an object from which a restored document computes its flags.
#[derive(Deserialize)]
struct Skimmed {
    metadata: SkimmedMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SkimmedMetadata {
    owner_references: Option<Vec<IgnoredAny>>,
    deletion_timestamp: Option<IgnoredAny>,
}

/// An object reduced to its labels.
#[derive(Deserialize)]
struct Labelled {
    metadata: LabelledMetadata,
}

#[derive(Deserialize)]
struct LabelledMetadata {
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// Writes `,"key":value` for each member not in `without`.
fn write_members(out: &mut Vec<u8>, members: &Map<String, Value>, without: &[&str]) {
    for (key, value) in members {
        if !without.contains(&key.as_str()) {
            out.push(b',');
            // Writing into a Vec cannot fail.
            let _ = serde_json::to_writer(&mut *out, key);
            out.push(b':');
            go::write_json(out, value);
        }
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_three_fields_are_filled_in_when_sent() {
        let object = json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "a\"b", "resourceVersion": "9"}, "d": 1});
        let mut sent = Vec::new();
        let document = Document::new(&object, 0, 0);
        document.write(&mut sent, Some(&TypeMeta::new("g/v2", "X")), 7);
        assert_eq!(
            String::from_utf8(sent).unwrap(),
            r#"{"kind":"X","apiVersion":"g/v2","metadata":{"resourceVersion":"7","name":"a\"b"},"d":1}"#
        );
        let mut item = Vec::new();
        document.write(&mut item, None, 7);
        assert!(item.starts_with(br#"{"metadata":{"resourceVersion":"7","#));
    }

    #[test]
    fn an_object_without_its_revision_is_written_as_go_does() {
        let kind = TypeMeta::new("g/v2", "X");
        for (object, expected) in [
            (json!({}), r#"{"apiVersion":"g/v2","kind":"X","metadata":{}}"#),
            (
                json!({"metadata": {"name": "a", "resourceVersion": "9"}, "d": 1}),
                r#"{"apiVersion":"g/v2","kind":"X","metadata":{"name":"a"},"d":1}"#,
            ),
        ] {
            let mut out = b"[".to_vec();
            let before = Document::new(&object, 0, 0).write_without_revision(&mut out, &kind);
            let text = String::from_utf8(out).unwrap();
            assert_eq!(&text[1..], expected);
            assert!(text[1 + before..].starts_with('{') && text[..1 + before].ends_with(r#""metadata":"#));
        }
    }

    #[test]
    fn a_document_with_other_content_keeps_the_metadata() {
        let metadata =
            json!({"name": "a", "ownerReferences": [{}], "deletionTimestamp": "2026-01-01T00:00:00Z"});
        let document = Document::new(&json!({"metadata": metadata, "spec": {"a": 1}}), 1, 2);
        let length = 1 + document.text().windows(8).position(|bytes| bytes == b"},\"spec\"").unwrap();
        let content = json!({"kind": "ignored", "spec": 7});
        let other = document.with_content(length, content.as_object().unwrap(), 3, 4);
        assert_eq!(
            other.to_value(&TypeMeta::new("g/v1", "X"), 5),
            json!({"apiVersion": "g/v1", "kind": "X", "spec": 7, "metadata": {
                "name": "a", "ownerReferences": [{}], "deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "5",
            }})
        );
        assert_eq!((other.written_as(), other.stored_in()), (3, 4));
        assert!(other.is_owned() && other.is_terminating());
    }

    #[test]
    fn labels_are_read_from_the_text() {
        let labels = |object: Value| Document::new(&object, 0, 0).labels().into_iter().collect::<Vec<_>>();
        let object =
            json!({"metadata": {"labels": {"b": "2", "a": "\"1"}, "name": "x"}, "labels": {"c": "3"}});
        assert_eq!(labels(object), [("a".into(), "\"1".into()), ("b".into(), "2".into())]);
        assert_eq!(labels(json!({"metadata": {"name": "x"}})), []);
        assert_eq!(labels(json!({})), []);
    }

    #[test]
    fn an_object_without_anything_survives() {
        let value = Document::new(&json!({}), 0, 0).to_value(&TypeMeta::new("v1", "X"), 3);
        assert_eq!(value, json!({"apiVersion": "v1", "kind": "X", "metadata": {"resourceVersion": "3"}}));
    }
}
