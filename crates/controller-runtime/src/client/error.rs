use std::{error::Error as StdError, fmt};

use super::name_of;
use crate::object::{Object, resource_name};

/// A request to the API server that failed.
///
/// Says what was tried, on which object, and what came back. The cause is a [`kube::Error`].
pub struct Error(Box<Inner>);

struct Inner {
    verb: &'static str,
    /// Resource and key, e.g. `deployments.apps demo/web`.
    object: String,
    source: kube::Error,
}

impl Error {
    pub(crate) fn new(verb: &'static str, object: String, source: kube::Error) -> Self {
        Self(Box::new(Inner { verb, object, source }))
    }

    /// An error that kept the request from being made.
    pub(crate) fn not_sent<K: Object>(verb: &'static str, object: &K, source: serde_json::Error) -> Self {
        Self::new(
            verb,
            format!("{} {}", resource_name::<K>(), name_of(object)),
            kube::Error::SerdeError(source),
        )
    }

    /// The HTTP code of the API server's answer; `None` if there was no answer.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match &self.0.source {
            kube::Error::Api(status) => Some(status.code),
            _ => None,
        }
    }

    /// The machine-readable reason in the API server's answer, e.g. `NotFound`.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match &self.0.source {
            kube::Error::Api(status) => Some(&status.reason),
            _ => None,
        }
    }

    /// There is no such object, or no such kind.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// The object is not in the state that the request expected: read it again and decide anew.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.reason() == Some("Conflict")
    }

    /// There is an object under that name already.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.reason() == Some("AlreadyExists")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { verb, object, source } = &*self.0;
        write!(f, "{verb} {object}: {}", describe(source))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.source()
    }
}

/// What a `kube` error says, once, without the layers that repeat it.
pub(crate) fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.reason.is_empty() => {
            format!("{} ({})", status.message.trim(), status.code)
        }
        kube::Error::Api(status) => format!("{} ({} {})", status.message.trim(), status.code, status.reason),
        kube::Error::Service(source) => format!("the API server did not answer: {}", innermost(&**source)),
        kube::Error::HyperError(source) => format!("the API server did not answer: {}", innermost(source)),
        other => other.to_string(),
    }
}

/// The cause of the cause: what a connection really failed of.
fn innermost<'a>(error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}
