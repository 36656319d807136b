//! Log lines of the operator, which writes them as JSON in a session: shorter text for the terminal, and failed reconciles. Pure.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};
use serde_json::Value;

use crate::shell::LogLevel;

/// Message with which controller-runtime logs a failed reconcile.
const FAILED: &str = "Reconciler error";

/// Fields that are not shown: the line names the object, and the time is that of the terminal.
const HIDDEN: [&str; 7] =
    ["controller", "controllerGroup", "controllerKind", "namespace", "name", "reconcileID", "attempt"];

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LogLine {
    /// A reconcile failed.
    Failed(FailedReconcile),
    /// Another event of the log.
    Event(LogEvent),
    /// Text that is no event of the log, such as output of the user's own code, or a panic.
    Text(String),
}

/// A failed reconcile of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FailedReconcile {
    /// Kind of the object, such as `Guestbook`.
    pub(super) kind: String,
    /// Namespace of the object; empty if its kind has none.
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) error: String,
}

/// An event of the log, for the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogEvent {
    pub(super) level: LogLevel,
    /// Object, message and fields.
    pub(super) text: String,
}

impl LogLine {
    /// Reads a line, without its end.
    pub(super) fn parse(line: &str) -> Self {
        match serde_json::from_str::<LogEntry>(line) {
            Ok(entry) => entry.into_line(),
            Err(_) => Self::Text(line.to_owned()),
        }
    }
}

/// `guestbook default/sample  failed: no luck`
impl fmt::Display for FailedReconcile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name, error } = self;
        // In the form of the lines that the API server of a session prints about objects.
        let object = object(kind, namespace, name);
        let (kind, place) = object.split_once(' ').unwrap_or(("", &object));
        write!(f, "{kind:>12} {place}  failed: {error}")
    }
}

/// `guestbook default/sample`
fn object(kind: &str, namespace: &str, name: &str) -> String {
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{} {namespace}{slash}{name}", kind.to_lowercase())
}

/// A JSON object of the log.
struct LogEntry {
    level: LogLevel,
    message: String,
    fields: Fields,
    span: Fields,
}

impl LogEntry {
    fn into_line(self) -> LogLine {
        let of_span = |name: &str| self.span.text(name).unwrap_or_default();
        let (kind, namespace, name) = (of_span("controllerKind"), of_span("namespace"), of_span("name"));
        let error = self.fields.text("error");
        if let (LogLevel::Error, FAILED, Some(error), false) =
            (self.level, &*self.message, error, kind.is_empty())
        {
            let [kind, namespace, name, error] = [kind, namespace, name, error].map(str::to_owned);
            return LogLine::Failed(FailedReconcile { kind, namespace, name, error });
        }
        let mut text = if kind.is_empty() {
            self.message.clone()
        } else {
            format!("{}: {}", object(kind, namespace, name), self.message)
        };
        // Fields of the event come before those of the span, which are the same in each line of a reconcile.
        let shown = self.fields.0.iter().chain(&self.span.0);
        for (name, value) in shown.filter(|(name, _)| !HIDDEN.contains(&&**name)) {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            text.push_str(&format!(" {name}={value}"));
        }
        LogLine::Event(LogEvent { level: self.level, text })
    }
}

impl<'de> Deserialize<'de> for LogEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LogEntryVisitor;

        impl<'de> Visitor<'de> for LogEntryVisitor {
            type Value = LogEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event of the log")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LogEntry, A::Error> {
                let (mut fields, mut span) = (Fields::default(), Fields::default());
                let (mut level, mut message, mut has_time) = (None, None, false);
                while let Some(name) = map.next_key::<String>()? {
                    match &*name {
                        // An event may have a field of its own with this name. The first one is that of the
                        // format.
                        "level" if level.is_none() => level = Some(map.next_value()?),
                        "message" if message.is_none() => message = Some(map.next_value()?),
                        "span" => span = map.next_value()?,
                        "timestamp" | "target" => {
                            map.next_value::<Value>()?;
                            has_time |= name == "timestamp";
                        }
                        _ => fields.0.push((name, map.next_value()?)),
                    }
                }
                // JSON that the program itself prints has no timestamp in this form, and is passed on as
                // text.
                let level = level.filter(|_| has_time).ok_or_else(|| A::Error::missing_field("timestamp"))?;
                Ok(LogEntry { level, message: message.unwrap_or_default(), fields, span })
            }
        }

        deserializer.deserialize_map(LogEntryVisitor)
    }
}

/// Fields in their order. A name may occur twice: `tracing-subscriber` adds the name of a span to the fields of the span, which may contain a
/// `name` already. The first one is used.
#[derive(Default)]
struct Fields(Vec<(String, Value)>);

impl Fields {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(field, _)| field == name)?.1.as_str()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;

        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("fields")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(FieldsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The span of a reconcile, as `tracing-subscriber` writes it: `name` twice.
    const SPAN: &str = r#""span":{"attempt":3,"controller":"guestbook","controllerGroup":"example.com","controllerKind":"Guestbook","name":"sample","namespace":"default","reconcileID":"0b","name":"reconcile"}"#;

    fn line(level: &str, fields: &str) -> String {
        format!(
            r#"{{"timestamp":"2026-11-26T10:02:11.000001Z","level":"{level}",{fields},"target":"controller_runtime::controller::reconcile_log"}}"#
        )
    }

    #[test]
    fn a_failed_reconcile_is_known_by_its_object_and_error() {
        let failed = r#""message":"Reconciler error","error":"theme not found","retryAfter":"40ms""#;
        let LogLine::Failed(found) = LogLine::parse(&line("ERROR", &format!("{failed},{SPAN}"))) else {
            panic!("a failure")
        };
        assert_eq!(found.to_string(), "   guestbook default/sample  failed: theme not found");
        assert_eq!(
            found,
            FailedReconcile {
                kind: "Guestbook".to_owned(),
                namespace: "default".to_owned(),
                name: "sample".to_owned(),
                error: "theme not found".to_owned(),
            }
        );
        let span = SPAN.replace(r#""namespace":"default","#, "");
        let LogLine::Failed(found) = LogLine::parse(&line("ERROR", &format!("{failed},{span}"))) else {
            panic!("a failure")
        };
        assert_eq!(found.to_string(), "   guestbook sample  failed: theme not found");
    }

    #[test]
    fn other_events_have_their_object_message_and_fields() {
        for (level, fields, expected) in [
            ("INFO", r#""message":"hello","guests":3,"of":"a b""#.to_owned(), "INFO  hello guests=3 of=a b"),
            ("WARN", format!(r#""message":"slow",{SPAN}"#), "WARN  guestbook default/sample: slow"),
            // A conflict, which a retry fixes.
            (
                "DEBUG",
                format!(r#""message":"Reconciler error","error":"conflict","retryAfter":"5ms",{SPAN}"#),
                "DEBUG guestbook default/sample: Reconciler error error=conflict retryAfter=5ms",
            ),
            // A controller of requests that are no objects.
            (
                "ERROR",
                r#""message":"Reconciler error","error":"no luck","span":{"controller":"numbers","request":"(1, \"x\")","name":"reconcile"}"#
                    .to_owned(),
                r#"ERROR Reconciler error error=no luck request=(1, "x")"#,
            ),
            ("TRACE", r#""n":1"#.to_owned(), "TRACE  n=1"),
        ] {
            let LogLine::Event(LogEvent { level, text }) = LogLine::parse(&line(level, &fields)) else {
                panic!("an event: {fields}")
            };
            assert_eq!(format!("{level:<5} {text}"), expected);
        }
    }

    #[test]
    fn output_of_the_users_code_stays_as_it_is() {
        for text in [
            "",
            "thread 'main' panicked at src/lib.rs:3:5:",
            "{",
            "[1]",
            r#"{"level":"INFO","message":"another program's log"}"#,
            r#"{"timestamp":"t","level":"loud","message":"a"}"#,
            r#"{"timestamp":"t","level":"INFO","message":3}"#,
        ] {
            assert_eq!(LogLine::parse(text), LogLine::Text(text.to_owned()));
        }
    }
}
