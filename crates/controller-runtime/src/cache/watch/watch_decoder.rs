//! Decoding of watch streams and of failed answers.
//!
//! A watch stream is a sequence of lines, each a JSON object `{"type": …, "object": …}`. `type` is `ADDED`, `MODIFIED`
//! or `DELETED` with an object, `BOOKMARK` with an object that has only a version, or `ERROR` with a `Status`. Each
//! object is decoded separately, so that an invalid one does not affect the others of its kind.

use bytes::Bytes;
use kube::core::{Status, response::StatusSummary};
use memchr::memchr;
use serde::Deserialize;

use super::chunk_buffer::{ChunkBuffer, TooLong};
use crate::{
    cache::objects::split::Split,
    json::scan::{Malformed, Reader},
};

/// One line of a watch.
#[derive(Debug)]
pub(crate) enum WatchLine<'a> {
    /// The object was added, or is one of the initial events.
    Added(Split<'a>),
    /// The object was changed.
    Modified(Split<'a>),
    /// The object was deleted; this is its last state.
    Deleted(Split<'a>),
    /// No other changes happened up to this version.
    Bookmark {
        version: Option<String>,
        /// All events before this line belong to the initial list.
        ends_initial_events: bool,
    },
    /// The server ends the watch.
    Error(Box<Status>),
}

/// Decodes a line of a watch.
///
/// # Errors
///
/// The line is not a watch event.
pub(crate) fn decode_line(line: &[u8]) -> Result<WatchLine<'_>, WatchEventError> {
    let mut reader = Reader::new(line);
    let (mut kind, mut split, mut object) = (None, None, None);
    reader.object(|key, reader| {
        match &*key {
            "type" => kind = Some(reader.string()?),
            // API servers send the type first, so the object is usually read in the same pass.
            "object" if matches!(kind.as_deref(), Some("ADDED" | "MODIFIED" | "DELETED")) => {
                split = Some(Split::read(reader)?);
            }
            // The type follows the object, or the line is a bookmark or an error.
            "object" => object = Some(reader.value()?),
            _ => drop(reader.value()?),
        }
        Ok(())
    })?;
    reader.end()?;
    let kind = kind.ok_or(WatchEventError::Incomplete("type"))?;
    let object = || object.ok_or(WatchEventError::Incomplete("object"));
    let split = || split.map_or_else(|| Ok(Split::whole(object()?)?), Ok);
    match &*kind {
        "ADDED" => split().map(WatchLine::Added),
        "MODIFIED" => split().map(WatchLine::Modified),
        "DELETED" => split().map(WatchLine::Deleted),
        "BOOKMARK" => object().map(bookmark),
        "ERROR" => Ok(WatchLine::Error(serde_json::from_slice(object()?)?)),
        _ => Err(WatchEventError::Type(kind.into_owned())),
    }
}

/// Error in a line of a watch stream.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchEventError {
    #[error("a watch event has {0}")]
    Malformed(#[from] Malformed),
    #[error("a watch event has no {0}")]
    Incomplete(&'static str),
    #[error("unknown type of watch event {0:?}")]
    Type(String),
    #[error("the error in a watch event is not a Status: {0}")]
    Status(#[from] serde_json::Error),
}

/// Decodes a bookmark. Source: KEP-3157, watch list.
fn bookmark(object: &[u8]) -> WatchLine<'static> {
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
    // A bookmark that cannot be decoded counts as one without a version, because more bookmarks will follow.
    let Bookmark { metadata } = serde_json::from_slice(object).unwrap_or_default();
    WatchLine::Bookmark {
        version: metadata.resource_version.filter(|version| !version.is_empty()),
        ends_initial_events: metadata.annotations.initial_events_end.as_deref() == Some("true"),
    }
}

/// Returns the `Status` of a failed request, or one made from the text if the server sent something else.
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

/// Splits a stream of bytes into lines.
#[derive(Debug, Default)]
pub(crate) struct WatchLines {
    buffer: ChunkBuffer,
}

impl WatchLines {
    /// Adds received bytes.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.buffer.push(chunk);
    }

    /// Returns the next complete line that is not blank.
    ///
    /// # Errors
    ///
    /// A line is longer than 32 MiB.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, TooLong> {
        while let Some(end) = memchr(b'\n', self.buffer.chunk()) {
            let line = self.buffer.take(end + 1);
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
        self.buffer.keep()?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watch_lines_are_decoded_by_type() {
        let check = |kind: &str, object: &str, expected: &str| {
            let text = format!(r#"{{"type":"{kind}","object":{object}}}"#);
            let found = match decode_line(text.as_bytes()) {
                Ok(WatchLine::Added(object)) => format!("added {:?}", object.meta().version()),
                Ok(WatchLine::Modified(object)) => format!("modified {:?}", object.meta().version()),
                Ok(WatchLine::Deleted(object)) => format!("deleted {:?}", object.meta().version()),
                Ok(WatchLine::Bookmark { version, ends_initial_events }) => {
                    format!("bookmark {version:?} {ends_initial_events}")
                }
                Ok(WatchLine::Error(status)) => format!("error {}", status.code),
                Err(_) => "none".to_owned(),
            };
            assert_eq!(found, expected, "{text}");
        };
        let object = r#"{"metadata":{"namespace":"ns","name":"a","resourceVersion":"3"}}"#;
        check("ADDED", object, "added Some(3)");
        check("MODIFIED", object, "modified Some(3)");
        check("DELETED", object, "deleted Some(3)");
        check("ADDED", r#"{"metadata":{"name":5,"resourceVersion":"4"}}"#, "added Some(4)");
        check("BOOKMARK", object, "bookmark Some(\"3\") false");
        let last =
            r#"{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}"#;
        check("BOOKMARK", last, "bookmark Some(\"5\") true");
        check("BOOKMARK", r#"{"metadata":null}"#, "bookmark None false");
        let gone = r#"{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":"old"}"#;
        check("ERROR", gone, "error 410");
        check("RENAMED", object, "none");
        for text in
            ["garbage", "{}", r#"{"type":"ADDED"}"#, r#"{"type":"ADDED","object":[]}"#, r#"{"object":{}}"#]
        {
            assert!(decode_line(text.as_bytes()).is_err(), "{text}");
        }
        let turned = decode_line(br#"{"object":{"metadata":{"name":"a"}},"type":"ADDED"}"#);
        assert!(matches!(turned, Ok(WatchLine::Added(_))), "{turned:?}");
    }

    #[test]
    fn a_failure_without_a_status_keeps_its_code_and_text() {
        let status = failure(http::StatusCode::NOT_FOUND, b"404 page not found\n");
        assert_eq!((status.code, &*status.message), (404, "404 page not found"));
    }

    #[test]
    fn lines_are_found_wherever_the_chunks_end() {
        let text = b"one\n\ntwo\nthree";
        for cut in 0..text.len() {
            let mut lines = WatchLines::default();
            let mut found = Vec::new();
            for chunk in [&text[..cut], &text[cut..]] {
                lines.push(Bytes::copy_from_slice(chunk));
                found.extend(std::iter::from_fn(|| lines.next().expect("short enough")));
            }
            assert_eq!(found, ["one\n", "two\n"], "cut at {cut}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut lines = WatchLines::default();
        lines.push(Bytes::from(vec![b'x'; 20 << 20]));
        assert_eq!(lines.next(), Ok(None), "20 MiB are accepted");
        lines.push(Bytes::from(vec![b'x'; 20 << 20]));
        assert_eq!(lines.next(), Err(TooLong));
        assert_eq!(TooLong.to_string(), "longer than 32 MiB");
    }
}
