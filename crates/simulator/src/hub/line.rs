//! Lines of watches.

use bytes::Bytes;
use memchr::memchr_iter;
use serde::Deserialize;

/// A line of a watch: an event.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) text: Bytes,
    /// Type and key of the object, such as `MODIFIED default/web`.
    pub(crate) label: String,
}

impl Line {
    pub(crate) fn new(text: Bytes) -> Self {
        // Only the names are decoded, since this happens for every line of every run.
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Event {
            r#type: String,
            object: LineObject,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct LineObject {
            metadata: Meta,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Meta {
            namespace: String,
            name: String,
        }
        let event: Event = serde_json::from_slice(&text).unwrap_or_default();
        let Meta { namespace, name } = event.object.metadata;
        let label = match (&*namespace, &*name) {
            (_, "") => event.r#type,
            ("", name) => format!("{} {name}", event.r#type),
            (namespace, name) => format!("{} {namespace}/{name}", event.r#type),
        };
        Self { text, label }
    }

    /// The error 410, the last line of a watch from a version that is older than the server's history.
    pub(crate) fn gone() -> Self {
        let text = concat!(
            r#"{"type":"ERROR","object":{"apiVersion":"v1","kind":"Status","metadata":{},"status":"Failure","#,
            r#""message":"too old resource version","reason":"Expired","code":410}}"#,
            "\n"
        );
        Self { text: Bytes::from_static(text.as_bytes()), label: "ERROR 410".to_owned() }
    }

    /// Whether the line reports a change of an object.
    pub(crate) fn is_change(&self) -> bool {
        ["ADDED ", "MODIFIED ", "DELETED "].iter().any(|kind| self.label.starts_with(kind))
    }
}

/// Splits the body of a watch into lines.
#[derive(Default)]
pub(crate) struct LineSplitter {
    /// Beginning of an incomplete line.
    rest: Vec<u8>,
}

impl LineSplitter {
    /// Returns the lines that end in `chunk`.
    pub(crate) fn split(&mut self, chunk: &Bytes) -> Vec<Line> {
        let (mut lines, mut begin) = (Vec::new(), 0);
        for newline in memchr_iter(b'\n', chunk) {
            let end = newline + 1;
            let text = if self.rest.is_empty() {
                // A line within one chunk, the usual case, is not copied.
                chunk.slice(begin..end)
            } else {
                self.rest.extend_from_slice(&chunk[begin..end]);
                Bytes::from(std::mem::take(&mut self.rest))
            };
            lines.push(Line::new(text));
            begin = end;
        }
        self.rest.extend_from_slice(&chunk[begin..]);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_from_chunks() {
        let mut lines = LineSplitter::default();
        let labels = |lines: Vec<Line>| lines.into_iter().map(|line| line.label).collect::<Vec<_>>();
        assert_eq!(labels(lines.split(&Bytes::from_static(b"{\"type\":\"A\"}\n{\"type\""))), ["A"]);
        assert_eq!(labels(lines.split(&Bytes::from_static(b":\"B\"}"))), [""; 0]);
        assert_eq!(labels(lines.split(&Bytes::from_static(b"\n"))), ["B"]);
    }
}
