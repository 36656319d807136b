//! Lists and watch streams as they come over the wire.
//!
//! Each object is taken by itself, so that one that does not fit its type is reported, and the kind goes on.

use bytes::{Bytes, BytesMut};
use kube::core::{Status, response::StatusSummary};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{lazy::Lazy, meta::RawMeta, shelf::Shelf};
use crate::object::Object;

/// The objects of a list page, with what is needed to go on.
#[derive(Debug)]
pub(crate) struct Page<K: Object> {
    pub(crate) objects: Vec<Lazy<K>>,
    pub(crate) resource_version: String,
    pub(crate) continue_token: Option<String>,
}

/// One line of a watch.
#[derive(Debug)]
pub(crate) enum Line<K: Object> {
    /// The object was added or modified.
    Applied(Lazy<K>),
    /// The object was deleted; this is its last state.
    Deleted(Lazy<K>),
    /// Something happened to an object without a key, which is not for the cache.
    LeftOut(Option<String>),
    /// Nothing changed up to this version.
    Bookmark(Option<String>),
    /// The server ends the watch.
    Error(Box<Status>),
}

/// Decodes a list page.
///
/// # Errors
///
/// The body is not a list.
pub(crate) fn page<K: Object>(body: &[u8], shelf: &Shelf<K>) -> Result<Page<K>, serde_json::Error> {
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
    Ok(Page {
        objects: raw.items.unwrap_or_default().into_iter().filter_map(|item| shelf.take(item)).collect(),
        resource_version: raw.metadata.resource_version,
        continue_token: Some(raw.metadata.continue_token).filter(|token| !token.is_empty()),
    })
}

/// Decodes a line of a watch.
///
/// # Errors
///
/// The line is not a watch event.
pub(crate) fn line<K: Object>(line: &[u8], shelf: &Shelf<K>) -> Result<Line<K>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    let raw: Raw<'_> = serde_json::from_slice(line)?;
    match raw.kind {
        "ADDED" | "MODIFIED" | "DELETED" => Ok(match shelf.take(raw.object) {
            None => Line::LeftOut(version(raw.object)),
            Some(object) if raw.kind == "DELETED" => Line::Deleted(object),
            Some(object) => Line::Applied(object),
        }),
        "BOOKMARK" => Ok(Line::Bookmark(version(raw.object))),
        "ERROR" => serde_json::from_str(raw.object.get()).map(|status| Line::Error(Box::new(status))),
        other => Err(serde::de::Error::custom(format_args!("unknown type of watch event {other:?}"))),
    }
}

/// The version of an object that is not held.
fn version(object: &RawValue) -> Option<String> {
    RawMeta::read(object).ok().and_then(RawMeta::into_version)
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

    use super::{super::shelf::Holding, *};

    #[test]
    fn a_bad_object_is_held_as_an_error_and_the_others_are_read() {
        let page: Page<ConfigMap> = page(
            br#"{"metadata":{"resourceVersion":"7","continue":"more"},"items":[
                {"metadata":{"namespace":"ns","name":"good","managedFields":[{"manager":"m"}]}},
                {"metadata":{"namespace":"ns","name":"bad","resourceVersion":"3"},"data":{"a":5}},
                {"metadata":{"name":"homeless"}}]}"#,
            &Shelf::new(&(), Holding::Compact, false),
        )
        .expect("a page");
        assert_eq!(page.continue_token.as_deref(), Some("more"));
        assert_eq!(page.resource_version, "7");
        let names: Vec<_> = page.objects.iter().map(|object| object.key().to_string()).collect();
        assert_eq!(names, ["ns/good", "ns/bad"]);
        assert!(page.objects[0].object().expect("it is good").metadata.managed_fields.is_none());
        let error = page.objects[1].object().expect_err("it is bad");
        assert_eq!(
            error.to_string(),
            "configmaps ns/bad (version 3) does not fit its Rust type at data.a: correct the object, or widen the type"
        );
        assert_eq!(error.path(), "data.a");
        assert_eq!(page.objects[1].meta().resource_version().expect("it has one").to_string(), "3");
    }

    #[test]
    fn watch_lines_are_told_apart() {
        let object = r#"{"metadata":{"namespace":"ns","name":"a","resourceVersion":"3"}}"#;
        let shelf = Shelf::<ConfigMap>::new(&(), Holding::Compact, false);
        let read = |kind: &str, object: &str| {
            line(format!(r#"{{"type":"{kind}","object":{object}}}"#).as_bytes(), &shelf)
        };
        assert!(matches!(read("ADDED", object), Ok(Line::Applied(object)) if object.meta().name() == "a"));
        assert!(matches!(read("MODIFIED", object), Ok(Line::Applied(..))));
        assert!(matches!(read("DELETED", object), Ok(Line::Deleted(..))));
        assert!(matches!(read("BOOKMARK", object), Ok(Line::Bookmark(Some(version))) if version == "3"));
        let nameless = r#"{"metadata":{"name":5,"resourceVersion":"4"}}"#;
        for kind in ["ADDED", "DELETED"] {
            assert!(matches!(read(kind, nameless), Ok(Line::LeftOut(Some(version))) if version == "4"));
        }
        assert!(matches!(read("BOOKMARK", r#"{"metadata":null}"#), Ok(Line::Bookmark(None))));
        let gone = r#"{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":"old"}"#;
        assert!(matches!(read("ERROR", gone), Ok(Line::Error(status)) if status.code == 410));
        assert!(read("RENAMED", object).is_err());
        assert!(line(b"garbage", &shelf).is_err());
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
