//! Lists and watch streams as they come over the wire.
//!
//! Each object is decoded by itself, so that one that does not fit its type is reported, and the kind goes on. Field ownership (`managedFields`, often half of an object) is dropped: no controller reads it.

use bytes::{Bytes, BytesMut};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{Status, response::StatusSummary};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::object::{Object, ObjectKey};

/// Objects decoded from a list page, with what is needed to go on.
#[derive(Debug)]
pub(crate) struct Page<K: Object> {
    pub(crate) objects: Vec<(ObjectKey<K>, K)>,
    pub(crate) resource_version: String,
    pub(crate) continue_token: Option<String>,
    pub(crate) rejected: Vec<Rejected<K>>,
}

/// One line of a watch.
#[derive(Debug)]
pub(crate) enum Line<K: Object> {
    /// The object was added or modified.
    Applied(ObjectKey<K>, Box<K>),
    /// The object was deleted; this is its last state.
    Deleted(ObjectKey<K>, Box<K>),
    /// The object was added or modified, and does not fit its type.
    Rejected(Rejected<K>),
    /// The object was deleted, and its last state does not fit its type.
    DeletedRejected(Rejected<K>),
    /// Nothing changed up to this version.
    Bookmark(Option<String>),
    /// The server ends the watch.
    Error(Box<Status>),
}

/// An object that could not be decoded.
#[derive(Debug)]
pub(crate) struct Rejected<K: Object> {
    /// Its key, if its metadata has one.
    pub(crate) key: Option<ObjectKey<K>>,
    pub(crate) resource_version: Option<String>,
    pub(crate) error: String,
}

/// Decodes a list page.
///
/// # Errors
///
/// The body is not a list.
pub(crate) fn page<K: Object>(body: &[u8]) -> Result<Page<K>, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(bound = "")]
    struct Raw<'a> {
        metadata: ListMeta,
        #[serde(borrow)]
        items: Option<Vec<&'a RawValue>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ListMeta {
        resource_version: String,
        #[serde(rename = "continue", default)]
        continue_token: String,
    }
    let raw: Raw<'_> = serde_json::from_slice(body)?;
    let mut page = Page {
        objects: Vec::new(),
        resource_version: raw.metadata.resource_version,
        continue_token: Some(raw.metadata.continue_token).filter(|token| !token.is_empty()),
        rejected: Vec::new(),
    };
    for item in raw.items.unwrap_or_default() {
        match object(item) {
            Ok(object) => page.objects.push(object),
            Err(rejected) => page.rejected.push(rejected),
        }
    }
    Ok(page)
}

/// Decodes a line of a watch.
///
/// # Errors
///
/// The line is not a watch event.
pub(crate) fn line<K: Object>(line: &[u8]) -> Result<Line<K>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    let raw: Raw<'_> = serde_json::from_slice(line)?;
    match raw.kind {
        "ADDED" | "MODIFIED" => Ok(match object(raw.object) {
            Ok((key, object)) => Line::Applied(key, Box::new(object)),
            Err(rejected) => Line::Rejected(rejected),
        }),
        "DELETED" => Ok(match object(raw.object) {
            Ok((key, object)) => Line::Deleted(key, Box::new(object)),
            Err(rejected) => Line::DeletedRejected(rejected),
        }),
        "BOOKMARK" => Ok(Line::Bookmark(Rejected::<K>::read(raw.object, String::new()).resource_version)),
        "ERROR" => serde_json::from_str(raw.object.get()).map(|status| Line::Error(Box::new(status))),
        other => Err(serde::de::Error::custom(format_args!("unknown type of watch event {other:?}"))),
    }
}

fn object<K: Object>(raw: &RawValue) -> Result<(ObjectKey<K>, K), Rejected<K>> {
    let mut object: K =
        serde_json::from_str(raw.get()).map_err(|error| Rejected::read(raw, error.to_string()))?;
    object.meta_mut().managed_fields = None;
    match ObjectKey::of(&object) {
        Some(key) => Ok((key, object)),
        None => {
            let missing = "it has no name, or no namespace although its kind is namespaced";
            Err(Rejected::read(raw, missing.to_owned()))
        }
    }
}

impl<K: Object> Rejected<K> {
    /// What can be told of an object without its type. Whatever is not as expected counts as missing.
    fn read(raw: &RawValue, error: String) -> Self {
        let object: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        let field =
            |name: &str| object["metadata"][name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let meta = ObjectMeta { namespace: field("namespace"), name: field("name"), ..ObjectMeta::default() };
        Self { key: ObjectKey::from_meta(&meta), resource_version: field("resourceVersion"), error }
    }
}

/// The answer to a request that failed: the server's `Status`, or one made of whatever it sent instead.
pub(crate) fn failure(code: http::StatusCode, body: &[u8]) -> Status {
    match serde_json::from_slice::<Status>(body) {
        Ok(status) if status.status == Some(StatusSummary::Failure) => status,
        _ => {
            let text = String::from_utf8_lossy(body);
            let mut status = Status::failure(text.trim(), code.canonical_reason().unwrap_or_default());
            status.code = code.as_u16();
            status
        }
    }
}

/// Cuts a stream of bytes into lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line end.
    searched: usize,
}

impl Lines {
    /// The longest line that is accepted: ten times what the largest object takes.
    const LONGEST: usize = 32 << 20;

    /// Adds what was received.
    ///
    /// # Errors
    ///
    /// A line is longer than 32 MiB.
    pub(crate) fn push(&mut self, chunk: &Bytes) -> Result<(), String> {
        if self.buffer.len() + chunk.len() > Self::LONGEST {
            return Err(format!("a watch event is longer than {} MiB", Self::LONGEST >> 20));
        }
        self.buffer.extend_from_slice(chunk);
        Ok(())
    }

    /// The next complete line that is not blank.
    pub(crate) fn next(&mut self) -> Option<Bytes> {
        loop {
            let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') else {
                self.searched = self.buffer.len();
                return None;
            };
            let line = self.buffer.split_to(self.searched + end + 1).freeze();
            self.searched = 0;
            if !line.trim_ascii().is_empty() {
                return Some(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn a_bad_object_is_reported_and_the_others_are_read() {
        let page: Page<ConfigMap> = page(
            br#"{"metadata":{"resourceVersion":"7","continue":"more"},"items":[
                {"metadata":{"namespace":"ns","name":"good","managedFields":[{"manager":"m"}]}},
                {"metadata":{"namespace":"ns","name":"bad","resourceVersion":"3"},"data":5},
                {"metadata":{"name":"homeless"}}]}"#,
        )
        .expect("a page");
        assert_eq!(page.continue_token.as_deref(), Some("more"));
        assert_eq!(page.resource_version, "7");
        let names: Vec<_> = page.objects.iter().map(|(key, _)| key.to_string()).collect();
        assert_eq!(names, ["ns/good"]);
        assert!(page.objects[0].1.metadata.managed_fields.is_none());
        let rejected: Vec<_> = page.rejected.iter().map(|rejected| rejected.key.clone()).collect();
        assert_eq!(rejected, [Some(ObjectKey::new("ns", "bad")), None]);
        assert_eq!(page.rejected[0].resource_version.as_deref(), Some("3"));
    }

    #[test]
    fn watch_lines_are_told_apart() {
        let object = r#"{"metadata":{"namespace":"ns","name":"a","resourceVersion":"3"}}"#;
        let read = |kind: &str, object: &str| {
            line::<ConfigMap>(format!(r#"{{"type":"{kind}","object":{object}}}"#).as_bytes())
        };
        assert!(matches!(read("ADDED", object), Ok(Line::Applied(key, _)) if key.name() == "a"));
        assert!(matches!(read("MODIFIED", object), Ok(Line::Applied(..))));
        assert!(matches!(read("DELETED", object), Ok(Line::Deleted(..))));
        assert!(matches!(read("BOOKMARK", object), Ok(Line::Bookmark(Some(version))) if version == "3"));
        assert!(matches!(read("ADDED", r#"{"metadata":{"name":5}}"#), Ok(Line::Rejected(_))));
        assert!(matches!(read("DELETED", r#"{"metadata":{"name":5}}"#), Ok(Line::DeletedRejected(_))));
        assert!(matches!(read("BOOKMARK", r#"{"metadata":null}"#), Ok(Line::Bookmark(None))));
        let gone = r#"{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":"old"}"#;
        assert!(matches!(read("ERROR", gone), Ok(Line::Error(status)) if status.code == 410));
        assert!(read("RENAMED", object).is_err());
        assert!(line::<ConfigMap>(b"garbage").is_err());
    }

    #[test]
    fn a_failure_that_is_no_status_keeps_its_code_and_text() {
        let status = failure(http::StatusCode::NOT_FOUND, b"404 page not found\n");
        assert_eq!((status.code, &*status.message), (404, "404 page not found"));
    }

    #[test]
    fn lines_are_cut_wherever_the_chunks_end() {
        let text = b"one\n\ntwo\nthree";
        for cut in 0..text.len() {
            let mut lines = Lines::default();
            let mut found = Vec::new();
            for chunk in [&text[..cut], &text[cut..]] {
                lines.push(&Bytes::copy_from_slice(chunk)).expect("short enough");
                found.extend(std::iter::from_fn(|| lines.next()));
            }
            assert_eq!(found, ["one\n", "two\n"], "cut at {cut}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut lines = Lines::default();
        let chunk = Bytes::from(vec![b'x'; 20 << 20]);
        lines.push(&chunk).expect("20 MiB are accepted");
        assert_eq!(lines.push(&chunk), Err("a watch event is longer than 32 MiB".to_owned()));
    }
}
