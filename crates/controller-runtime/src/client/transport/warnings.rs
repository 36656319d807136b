//! Warnings in the API server's responses: deprecated versions, unknown fields, …

use std::{collections::BTreeSet, fmt, sync::Arc};

use http::{HeaderMap, header};
use parking_lot::Mutex;

use super::call::Call;

/// Number of warnings that `LogOnce` remembers. When it is exceeded, all are forgotten, and may be logged once more.
const REMEMBERED: usize = 1000;

/// Handling of the API server's warnings.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Warnings {
    /// Logs each warning.
    #[default]
    Log,
    /// Logs each warning text once in the client's life.
    LogOnce,
    /// Ignores warnings.
    Ignore,
    /// Passes each warning to this function.
    Handle(Arc<dyn Fn(&Warning<'_>) + Send + Sync>),
}

/// A warning of the API server.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Warning<'a> {
    /// The request that caused the warning.
    pub call: &'a Call,
    /// The server's text.
    pub text: &'a str,
}

/// Texts that clients with these settings have logged.
#[derive(Debug, Default)]
pub(in crate::client) struct LoggedWarnings(Mutex<BTreeSet<String>>);

impl Warnings {
    /// Handles the warnings in the headers of a response.
    pub(in crate::client) fn take(&self, call: &Call, headers: &HeaderMap, logged: &LoggedWarnings) {
        for value in headers.get_all(header::WARNING) {
            let text = value.to_str().ok().and_then(parse);
            let Some(text) = &text else { continue };
            match self {
                Self::Ignore => {}
                Self::Handle(handle) => handle(&Warning { call, text }),
                Self::LogOnce if !logged.is_new(text) => {}
                Self::Log | Self::LogOnce => {
                    tracing::warn!(verb = %call.verb(), subject = call.subject(), "the API server warns: {text}");
                }
            }
        }
    }
}

impl fmt::Debug for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Log => "Log",
            Self::LogOnce => "LogOnce",
            Self::Ignore => "Ignore",
            Self::Handle(_) => "Handle",
        })
    }
}

impl LoggedWarnings {
    /// Remembers a text. Returns whether it has not been logged yet.
    fn is_new(&self, text: &str) -> bool {
        let mut logged = self.0.lock();
        if logged.len() >= REMEMBERED {
            // Starting over is simpler than tracking ages, and repeats a warning at worst.
            logged.clear();
        }
        logged.insert(text.to_owned())
    }
}

/// The text of `299 - "text"` or `299 agent "text" "date"`. Kubernetes uses no other code.
fn parse(header: &str) -> Option<String> {
    let (_, rest) = header.strip_prefix("299 ")?.split_once('"')?;
    let mut text = String::with_capacity(rest.len());
    let mut characters = rest.chars();
    loop {
        match characters.next()? {
            '"' => return Some(text),
            '\\' => text.push(characters.next()?),
            character => text.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_unquoted() {
        assert_eq!(
            parse(r#"299 - "unknown field \"spec.x\"""#).as_deref(),
            Some(r#"unknown field "spec.x""#)
        );
        assert_eq!(parse(r#"299 kube-apiserver "old" "Wed, 21 Oct 2015""#).as_deref(), Some("old"));
        assert_eq!(parse(r#"199 - "of a proxy""#), None);
        assert_eq!(parse(r#"299 - "cut"#), None);
    }

    #[test]
    fn logged_warnings_are_remembered_up_to_a_limit() {
        let logged = LoggedWarnings::default();
        assert!(logged.is_new("a"));
        assert!(!logged.is_new("a"));
        for n in 0..REMEMBERED {
            logged.is_new(&n.to_string());
        }
        assert!(logged.0.lock().len() <= REMEMBERED);
    }
}
