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
            for text in &value.to_str().map(parse).unwrap_or_default() {
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

/// Texts of the warnings in a header: `299 - "text"` or `299 agent "text" "date"`, several with commas between them, as proxies join them.
/// Kubernetes uses no other code. Ends at the first part that has another form.
fn parse(header: &str) -> Vec<String> {
    let (mut texts, mut rest) = (Vec::new(), header);
    while let Some((code, after)) = rest.split_once(' ')
        && let Some((_agent, after)) = after.split_once(' ')
        && let Some((text, after)) = quoted(after)
    {
        if code == "299" {
            texts.push(text);
        }
        let after = after.strip_prefix(' ').and_then(quoted).map_or(after, |(_date, after)| after);
        rest = after.trim_start_matches([',', ' ']);
    }
    texts
}

/// Splits a quoted text from the rest, and removes its quotation marks and escapes.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut characters = text.strip_prefix('"')?.chars();
    let mut unquoted = String::new();
    loop {
        match characters.next()? {
            '"' => return Some((unquoted, characters.as_str())),
            '\\' => unquoted.push(characters.next()?),
            character => unquoted.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_unquoted() {
        for (header, texts) in [
            (r#"299 - "unknown field \"spec.x\"""#, &[r#"unknown field "spec.x""#][..]),
            (r#"299 kube-apiserver "old" "Wed, 21 Oct 2015""#, &["old"]),
            (r#"299 - "old, very" "Wed, 21 Oct 2015", 299 - "new""#, &["old, very", "new"]),
            (r#"199 - "of a proxy", 299 - "of the server""#, &["of the server"]),
            (r#"299 - "first",299 - "cut"#, &["first"]),
            ("299", &[]),
        ] {
            assert_eq!(parse(header), texts, "{header}");
        }
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
