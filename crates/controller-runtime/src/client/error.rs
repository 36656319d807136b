use std::{error::Error as StdError, fmt};

use super::name_of;
use crate::object::{StaticObject, resource_name};

/// A request to the API server that failed.
///
/// Says in one line what was tried, on which object, and what came back: [`Error::as_kube`], which as a
/// [`source`](StdError::source) would say the same again.
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
    pub(crate) fn not_sent<K: StaticObject>(verb: &'static str, object: &K, reason: &str) -> Self {
        let reason = kube::core::request::Error::Validation(reason.to_owned());
        let object = format!("{} {}", resource_name::<K>(), name_of(object));
        Self::new(verb, object, kube::Error::BuildRequest(reason))
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

    /// The answer, or what there was instead of one.
    #[must_use]
    pub fn as_kube(&self) -> &kube::Error {
        &self.0.source
    }

    /// There is no such object.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(&self.0.source, kube::Error::Api(status) if status.code == 404 && names_object(status))
    }

    /// There is no such kind: is its CustomResourceDefinition installed?
    #[must_use]
    pub fn is_not_served(&self) -> bool {
        matches!(&self.0.source, kube::Error::Api(status) if status.code == 404 && !names_object(status))
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
        if self.is_not_served() {
            return write!(
                f,
                "{verb} {object}: the API server does not serve this kind: is its CustomResourceDefinition installed?"
            );
        }
        write!(f, "{verb} {object}: {}", describe(source))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StdError for Error {}

/// Whether a 404 is about an object: one about an unknown resource names none.
fn names_object(status: &kube::core::Status) -> bool {
    status.details.as_ref().is_some_and(|details| !details.name.is_empty())
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
        kube::Error::BuildRequest(kube::core::request::Error::Validation(reason)) => reason.clone(),
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
