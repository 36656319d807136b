//! Warnings that the API server sends along with an answer: deprecated versions, fields it does not know, …

use std::{collections::BTreeSet, fmt, sync::Arc};

use http::{HeaderMap, header};
use parking_lot::Mutex;

use super::Call;

/// How many warnings are remembered as said. Beyond that, they are forgotten and said once more.
const REMEMBERED: usize = 1000;

/// What becomes of warnings of the API server.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Warnings {
    /// Each is logged.
    #[default]
    Log,
    /// Each is logged once in the client's life.
    LogOnce,
    /// They are passed over.
    Ignore,
    /// Each is given to this function.
    Handle(Arc<dyn Fn(&Warning<'_>) + Send + Sync>),
}

/// A warning of the API server.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Warning<'a> {
    /// The request that it is about.
    pub call: &'a Call,
    /// What the server says.
    pub text: &'a str,
}

/// What the warnings of one client have in common.
#[derive(Debug, Default)]
pub(super) struct Said(Mutex<BTreeSet<String>>);

impl Warnings {
    pub(super) fn take(&self, call: &Call, headers: &HeaderMap, said: &Said) {
        for value in headers.get_all(header::WARNING) {
            let text = value.to_str().ok().and_then(parse);
            let Some(text) = &text else { continue };
            match self {
                Self::Ignore => {}
                Self::Handle(handle) => handle(&Warning { call, text }),
                Self::LogOnce if !said.is_new(text) => {}
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

impl Said {
    fn is_new(&self, text: &str) -> bool {
        let mut said = self.0.lock();
        if said.len() >= REMEMBERED {
            said.clear();
        }
        said.insert(text.to_owned())
    }
}

/// The text of `299 - "text"`, or `299 agent "text" "date"`; other codes are not for clients of Kubernetes.
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
    fn what_was_said_is_remembered_up_to_a_bound() {
        let said = Said::default();
        assert!(said.is_new("a"));
        assert!(!said.is_new("a"));
        for n in 0..REMEMBERED {
            said.is_new(&n.to_string());
        }
        assert!(said.0.lock().len() <= REMEMBERED);
    }
}
