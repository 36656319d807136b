//! Lists and watch streams as they come over the wire.
//!
//! Each object is taken by itself, so that one that does not fit its type is reported, and the kind goes on.

use bytes::{Bytes, BytesMut};
use kube::core::{Status, response::StatusSummary};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::meta::{RawMeta, ResourceVersion};

/// The objects of a list page, not read yet, with what is needed to go on.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    pub(crate) items: Vec<&'a RawValue>,
    pub(crate) resource_version: String,
    pub(crate) continue_token: Option<String>,
}

/// One line of a watch, its object not read yet.
#[derive(Debug)]
pub(crate) enum Line<'a> {
    /// The object was added or modified.
    Applied(&'a RawValue),
    /// The object was deleted; this is its last state.
    Deleted(&'a RawValue),
    /// Nothing else changed up to this version.
    Bookmark {
        version: Option<String>,
        /// Everything before this line was the present.
        ends_initial_events: bool,
    },
    /// The server ends the watch.
    Error(Box<Status>),
}

/// Decodes a list page.
///
/// # Errors
///
/// The body is not a list.
pub(crate) fn page(body: &[u8]) -> Result<Page<'_>, serde_json::Error> {
    #[derive(Deserialize)]
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
        items: raw.items.unwrap_or_default(),
        resource_version: raw.metadata.resource_version,
        continue_token: Some(raw.metadata.continue_token).filter(|token| !token.is_empty()),
    })
}

/// Decodes a line of a watch.
///
/// # Errors
///
/// The line is not a watch event.
pub(crate) fn line(line: &[u8]) -> Result<Line<'_>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    let raw: Raw<'_> = serde_json::from_slice(line)?;
    match raw.kind {
        "ADDED" | "MODIFIED" => Ok(Line::Applied(raw.object)),
        "DELETED" => Ok(Line::Deleted(raw.object)),
        "BOOKMARK" => Ok(bookmark(raw.object)),
        "ERROR" => serde_json::from_str(raw.object.get()).map(|status| Line::Error(Box::new(status))),
        other => Err(serde::de::Error::custom(format_args!("unknown type of watch event {other:?}"))),
    }
}

/// Source: KEP-3157, watch list.
fn bookmark(object: &RawValue) -> Line<'static> {
    #[derive(Deserialize, Default)]
    struct Bookmark {
        #[serde(default)]
        metadata: Metadata,
    }
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: Option<String>,
        #[serde(default)]
        annotations: Annotations,
    }
    #[derive(Deserialize, Default)]
    struct Annotations {
        #[serde(rename = "k8s.io/initial-events-end")]
        initial_events_end: Option<String>,
    }
    let Bookmark { metadata } = serde_json::from_str(object.get()).unwrap_or_default();
    Line::Bookmark {
        version: metadata.resource_version.filter(|version| !version.is_empty()),
        ends_initial_events: metadata.annotations.initial_events_end.as_deref() == Some("true"),
    }
}

/// The version of an object that is not held.
pub(crate) fn version(object: &RawValue) -> Option<ResourceVersion> {
    let version = RawMeta::read(object).ok().and_then(RawMeta::into_version)?;
    Some(version.as_str().into())
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
    use super::*;

    #[test]
    fn a_page_says_how_to_go_on() {
        let page =
            page(br#"{"metadata":{"resourceVersion":"7","continue":"more"},"items":[{"a":1},{"b":5}]}"#);
        let page = page.expect("a page");
        assert_eq!(page.continue_token.as_deref(), Some("more"));
        assert_eq!(page.resource_version, "7");
        assert_eq!(
            page.items.iter().map(|item| item.get()).collect::<Vec<_>>(),
            [r#"{"a":1}"#, r#"{"b":5}"#]
        );
    }

    #[test]
    fn watch_lines_are_told_apart() {
        let check = |kind: &str, object: &str, expected: &str| {
            let text = format!(r#"{{"type":"{kind}","object":{object}}}"#);
            let told = match line(text.as_bytes()) {
                Ok(Line::Applied(object)) => format!("applied {:?}", version(object)),
                Ok(Line::Deleted(object)) => format!("deleted {:?}", version(object)),
                Ok(Line::Bookmark { version, ends_initial_events }) => {
                    format!("bookmark {version:?} {ends_initial_events}")
                }
                Ok(Line::Error(status)) => format!("error {}", status.code),
                Err(_) => "none".to_owned(),
            };
            assert_eq!(told, expected, "{text}");
        };
        let object = r#"{"metadata":{"namespace":"ns","name":"a","resourceVersion":"3"}}"#;
        check("ADDED", object, "applied Some(3)");
        check("MODIFIED", object, "applied Some(3)");
        check("DELETED", object, "deleted Some(3)");
        check("ADDED", r#"{"metadata":{"name":5,"resourceVersion":"4"}}"#, "applied Some(4)");
        check("BOOKMARK", object, "bookmark Some(\"3\") false");
        let last =
            r#"{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}"#;
        check("BOOKMARK", last, "bookmark Some(\"5\") true");
        check("BOOKMARK", r#"{"metadata":null}"#, "bookmark None false");
        let gone = r#"{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":"old"}"#;
        check("ERROR", gone, "error 410");
        check("RENAMED", object, "none");
        assert!(line(b"garbage").is_err());
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
