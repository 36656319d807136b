//! Messages between a driven session and `cargo operator dev`: a line of JSON each, in both directions. Pure.
//!
//! | direction | line |
//! |---|---|
//! | first line of the session | `{"hello":{"schema":"operator-session/v2","library":"0.1.0"}}` |
//! | requests | `{"request":"start", …}`: see [`Request`] |
//! | answers, one for each request, in the order of the requests | `{"answer":{…}}` or `{"error":{"kind":"…","message":"…"}}` |
//! | changes in the cluster, at any time after `start` | `{"line":"guestbook default/sample  created → Ready"}` |
//!
//! The session ends when its input ends. Any other line on standard output was printed by the user's program.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::DevError;

/// Schema of these messages. It changes with every incompatible change of the messages.
pub(super) const SCHEMA: &str = "operator-session/v2";

/// A request to the session. Unknown fields are refused: if they were ignored, the session might not do what `cargo operator dev` reports.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "request", rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum Request {
    /// Chooses the flags with which the operator runs: `{"words":[…]}`.
    Flags {
        /// Flags of the user.
        more: Vec<String>,
    },
    /// Starts the API server: `{"url":…,"kubeconfig":…,"operatorKubeconfig":…,"objects":[…]}`, where the objects of each kind are counted:
    /// `{"singular":"guestbook","plural":"guestbooks","count":1}`. The flags must have been chosen.
    Start {
        /// Folder of the session's files.
        folder: PathBuf,
        /// Port on loopback; 0 for a free one.
        port: u16,
        /// Treatment of the objects of the previous session.
        previous: Previous,
        /// Namespaces and names of the operator's Services.
        services: Vec<(String, String)>,
        /// Definitions whose stored objects are counted.
        definitions: Vec<Value>,
    },
    /// Installs definitions and grants the operator exactly these rights: `{"user":…}`.
    Install {
        /// CustomResourceDefinitions.
        definitions: Vec<Value>,
        /// Namespace, service account, roles and bindings.
        rights: Vec<Value>,
    },
    /// Announces the start of the operator's next program, after the end of the previous one: `{}`.
    Starting {
        /// Namespaces and names of its Services.
        services: Vec<(String, String)>,
    },
    /// Reports a failed reconcile of the operator, for the line of its object: `{}`.
    Failed {
        /// Kind of the object.
        kind: String,
        /// Namespace of the object; empty if its kind has none.
        namespace: String,
        /// Name of the object.
        name: String,
        /// Error of the reconcile.
        error: String,
    },
    /// Applies the objects in a file or folder: `{"applied":1}`.
    Apply {
        /// Path of the file or folder.
        path: PathBuf,
    },
    /// Writes the file by which `explain` finds the operator: `{"page":…}`, or null if the user has chosen the address of metrics.
    Publish {},
}

/// Treatment of the objects that the previous session stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Previous {
    /// The session begins with them.
    Restore,
    /// The session begins without objects.
    Delete,
}

/// A message of the session.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Message {
    /// The first line.
    Hello {
        /// Schema of the messages.
        schema: &'static str,
        /// Version of kube-envtest.
        library: &'static str,
    },
    /// A change in the cluster.
    Line(String),
    /// The answer to a request.
    Answer(Value),
    /// The error of a request, or of a line that is no request.
    Error(Refusal),
}

/// An error of the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Refusal {
    /// Cause, for programs.
    pub(super) kind: RefusalKind,
    /// Cause, for users.
    pub(super) message: String,
}

/// Cause of an error. Causes are distinguished if `cargo operator dev` suggests different next steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum RefusalKind {
    /// The messages have another schema.
    Schema,
    /// A line is no request, or comes too early.
    Request,
    /// Another session uses the folder.
    InUse,
    /// The address is in use.
    Listen,
    /// The file with the objects cannot be used.
    DataFile,
    /// Anything else.
    Failed,
}

impl Request {
    /// Reads a line.
    pub(super) fn parse(line: &[u8]) -> Result<Self, Refusal> {
        serde_json::from_slice(line)
            .map_err(|error| Refusal::request(format!("a line is not a request of schema {SCHEMA}: {error}")))
    }
}

impl Message {
    /// The line, with its end.
    pub(super) fn line(&self) -> String {
        let json = serde_json::to_string(self).expect("a message has string keys, and no value that fails");
        format!("{json}\n")
    }
}

impl Refusal {
    pub(super) fn request(message: impl Into<String>) -> Self {
        Self { kind: RefusalKind::Request, message: message.into() }
    }
}

impl From<DevError> for Refusal {
    fn from(error: DevError) -> Self {
        let kind = match error {
            DevError::InUse(_) => RefusalKind::InUse,
            DevError::Listen(_) => RefusalKind::Listen,
            DevError::DataFile(_) => RefusalKind::DataFile,
            _ => RefusalKind::Failed,
        };
        Self { kind, message: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_read() {
        for (line, expected) in [
            (
                r#"{"request":"flags","more":["--leader-elect"]}"#,
                Request::Flags { more: vec!["--leader-elect".to_owned()] },
            ),
            (
                r#"{"request":"start","folder":"/p","port":0,"previous":"delete","services":[["a","b"]],"definitions":[]}"#,
                Request::Start {
                    folder: "/p".into(),
                    port: 0,
                    previous: Previous::Delete,
                    services: vec![("a".to_owned(), "b".to_owned())],
                    definitions: Vec::new(),
                },
            ),
            (r#"{"request":"apply","path":"/p/samples"}"#, Request::Apply { path: "/p/samples".into() }),
            (
                r#"{"request":"starting","services":[["a","b"]]}"#,
                Request::Starting { services: vec![("a".to_owned(), "b".to_owned())] },
            ),
            (
                r#"{"request":"failed","kind":"Album","namespace":"a","name":"b","error":"no luck"}"#,
                Request::Failed {
                    kind: "Album".to_owned(),
                    namespace: "a".to_owned(),
                    name: "b".to_owned(),
                    error: "no luck".to_owned(),
                },
            ),
            (r#"{"request":"publish"}"#, Request::Publish {}),
        ] {
            assert_eq!(Request::parse(line.as_bytes()), Ok(expected), "{line}");
        }
    }

    #[test]
    fn other_lines_are_refused_with_the_reason() {
        for (line, reason) in [
            ("", "EOF while parsing"),
            ("{", "EOF while parsing"),
            ("nonsense", "expected"),
            ("[]", "missing field `request`"),
            ("{}", "missing field `request`"),
            (r#"{"request":"stop"}"#, "unknown variant `stop`, expected one of `flags`, `start`"),
            (r#"{"request":"apply"}"#, "missing field `path`"),
            (r#"{"request":"apply","path":"/p","force":true}"#, "unknown field `force`"),
            (r#"{"request":"start","folder":"/p","port":70000}"#, "expected u16"),
            (r#"{"request":"publish"} {"request":"publish"}"#, "trailing characters"),
        ] {
            let refused = Request::parse(line.as_bytes()).expect_err(line);
            assert_eq!(refused.kind, RefusalKind::Request, "{line}");
            let start = "a line is not a request of schema operator-session/v2: ";
            assert!(refused.message.starts_with(start) && refused.message.contains(reason), "{refused:?}");
        }
    }

    #[test]
    fn messages_are_one_line() {
        for (message, expected) in [
            (
                Message::Hello { schema: SCHEMA, library: "0.1.0" },
                r#"{"hello":{"schema":"operator-session/v2","library":"0.1.0"}}"#,
            ),
            (Message::Line("a → \"b\"\nc".to_owned()), r#"{"line":"a → \"b\"\nc"}"#),
            (Message::Answer(json!({ "applied": 1 })), r#"{"answer":{"applied":1}}"#),
            (
                Message::Error(Refusal { kind: RefusalKind::DataFile, message: "in use".to_owned() }),
                r#"{"error":{"kind":"dataFile","message":"in use"}}"#,
            ),
        ] {
            assert_eq!(message.line(), format!("{expected}\n"));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever a line contains, it is a request or is refused with one line.
        #[test]
        fn any_line_is_read_or_refused_in_one_line(
            line in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..80),
                // A request with one byte changed, or cut off.
                (any::<prop::sample::Index>(), any::<u8>(), any::<bool>()).prop_map(|(at, byte, cuts)| {
                    let mut line = br#"{"request":"apply","path":"/p/samples"}"#.to_vec();
                    let at = at.index(line.len());
                    line[at] = byte;
                    line.truncate(if cuts { at } else { line.len() });
                    line
                }),
            ],
        ) {
            if let Err(refusal) = Request::parse(&line) {
                prop_assert_eq!(refusal.kind, RefusalKind::Request);
                let written = Message::Error(refusal).line();
                prop_assert_eq!(written.matches('\n').count(), 1);
            }
        }

        /// A line of changes arrives as it was.
        #[test]
        fn any_text_survives(text in any::<String>()) {
            let line = Message::Line(text.clone()).line();
            let read: Value = serde_json::from_str(&line).expect("JSON");
            prop_assert_eq!(&read["line"], &Value::from(text));
            prop_assert_eq!(line.matches('\n').count(), 1);
        }
    }
}
