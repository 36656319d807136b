use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use kube::core::{Status, response::StatusCause};

use super::{
    Call, Verb, conflict::Conflict, decode::FieldError, gate::NoPermit, rbac, transport::Unreachable,
};

/// A request to the API server that failed.
///
/// Says in one line what was tried, on which object, and what came back. [`Error::kind`] is what to decide by;
/// the `is_…` methods ask for the kinds that reconcilers act upon.
///
/// ```no_run
/// # use controller_runtime::{Client, ObjectKey, client::Error};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # async fn example(client: Client, map: ConfigMap) -> Result<(), Error> {
/// match client.create(&map).await {
///     Err(error) if error.is_already_exists() => {} // somebody was faster
///     outcome => drop(outcome?),
/// }
/// # Ok(())
/// # }
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    verb: Verb,
    /// Resource and key, e.g. `deployments.apps demo/web`.
    subject: String,
    kind: ErrorKind,
    status: Option<Status>,
    retry_after: Option<Duration>,
    /// Host and port of the API server, where they are known and part of the message.
    host: Option<Arc<str>>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What kind of failure an [`Error`] is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such object.
    NotFound,
    /// There is no such kind, or no such subresource: is the CustomResourceDefinition installed?
    NotServed,
    /// There is an object under that name already.
    AlreadyExists,
    /// The object is not in the state that the request expected.
    Conflict(Conflict),
    /// The object or patch breaks rules of its kind: [`Error::causes`] says which fields do.
    Invalid,
    /// The request itself makes no sense to the API server (400).
    BadRequest,
    /// The API server does not know who is asking (401).
    Unauthorized,
    /// Whoever is asking lacks the right, or an admission plugin or webhook said no (403).
    Forbidden,
    /// The API server is busy: [`Error::retry_after`] says until when.
    TooManyRequests,
    /// The version or continue token that was asked for is no longer there (410): list anew.
    Expired,
    /// The API server gave up on the request (408, 504).
    Timeout,
    /// The API server could not deal with the request (other codes from 500).
    ServerFailed,
    /// Another refusal of the API server.
    Refused,
    /// The request was not sent, because it could not succeed.
    NotSent,
    /// The request was not sent, because this process may not write now.
    NotPermitted(NoPermit),
    /// The right to write ended while the request was in flight. It may have been carried out or not.
    Interrupted(NoPermit),
    /// The API server did not answer within the time that the request may take
    /// ([`ClientBuilder::request_timeout`](super::ClientBuilder::request_timeout)). The request may have been carried out or not.
    DeadlineExceeded {
        /// That time.
        timeout: Duration,
    },
    /// There was no answer. The request may have been carried out or not.
    NoAnswer(String),
    /// The answer does not fit the type. A write was carried out.
    Undecodable(FieldError),
}

impl Error {
    /// What the API server said no to.
    pub(super) fn refused(call: &Call, status: Status, retry_after: Option<Duration>) -> Self {
        let told = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        let told = (told > 0).then(|| Duration::from_secs(told.into()));
        let kind = kind_of(call, &status);
        Self::make(call, kind, Some(status)).with_retry_after(retry_after.or(told))
    }

    pub(super) fn not_sent(call: &Call, reason: impl Into<String>) -> Self {
        Self::unsent(call.verb, call.subject(), reason)
    }

    /// An error that kept a request from being made.
    pub(super) fn unsent(verb: Verb, subject: String, reason: impl Into<String>) -> Self {
        let source: Box<dyn StdError + Send + Sync> = reason.into().into();
        let kind = ErrorKind::NotSent;
        Self(Box::new(Inner {
            verb,
            subject,
            kind,
            status: None,
            retry_after: None,
            host: None,
            source: Some(source),
        }))
    }

    pub(super) fn make(call: &Call, kind: ErrorKind, status: Option<Status>) -> Self {
        let (verb, subject) = (call.verb, call.subject());
        Self(Box::new(Inner { verb, subject, kind, status, retry_after: None, host: None, source: None }))
    }

    fn with_retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.0.retry_after = retry_after;
        self
    }

    /// Names the API server that did not answer.
    pub(super) fn of_host(mut self, host: &Arc<str>) -> Self {
        self.0.host = (!host.is_empty()).then(|| Arc::clone(host));
        self
    }

    pub(super) fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What was tried.
    #[must_use]
    pub fn verb(&self) -> Verb {
        self.0.verb
    }

    /// What it was tried on: resource and key, e.g. `deployments.apps demo/web`.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.0.subject
    }

    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The HTTP code of the API server's answer; `None` if there was no answer, or a good one.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    /// The machine-readable reason in the API server's answer, e.g. `NotFound`.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.status().map(|status| status.reason.as_str())
    }

    /// The API server's answer, if it refused the request.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        self.0.status.as_ref()
    }

    /// The fields that are wrong, or in conflict, each with what is wrong about it.
    #[must_use]
    pub fn causes(&self) -> &[StatusCause] {
        self.status().and_then(|status| status.details.as_ref()).map_or(&[], |details| &details.causes)
    }

    /// How long the API server asks to wait before the request is tried again.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// There is no such object.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.0.kind == ErrorKind::NotFound
    }

    /// There is no such kind: is its CustomResourceDefinition installed?
    #[must_use]
    pub fn is_not_served(&self) -> bool {
        self.0.kind == ErrorKind::NotServed
    }

    /// The object is not in the state that the request expected: read it again and decide anew, as
    /// [`Client::retry_on_conflict`](super::Client::retry_on_conflict) does.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.conflict().is_some()
    }

    /// What the request expected in vain.
    #[must_use]
    pub fn conflict(&self) -> Option<&Conflict> {
        match &self.0.kind {
            ErrorKind::Conflict(conflict) => Some(conflict),
            _ => None,
        }
    }

    /// There is an object under that name already.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.0.kind == ErrorKind::AlreadyExists
    }

    /// The object or patch breaks rules of its kind: [`Error::causes`] says which fields do.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.0.kind == ErrorKind::Invalid
    }

    /// Whoever is asking lacks the right, or admission said no.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.0.kind == ErrorKind::Forbidden
    }

    /// The API server is busy, and stayed so for as long as the client tried.
    #[must_use]
    pub fn is_too_many_requests(&self) -> bool {
        self.0.kind == ErrorKind::TooManyRequests
    }

    /// The version or continue token that was asked for is no longer there: list anew.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.0.kind == ErrorKind::Expired
    }

    /// The request was out of time: on the way ([`ErrorKind::DeadlineExceeded`]), or at the API server, which said so
    /// ([`ErrorKind::Timeout`]).
    ///
    /// A reconcile that fails with it is retried with back-off, as with any other error. The retry must find out by reading whether
    /// a write was carried out: a create with a `generateName` would be carried out a second time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Timeout | ErrorKind::DeadlineExceeded { .. })
    }

    /// Whether a write may have been carried out although it failed: its answer was lost, or says less than that.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        self.0.verb.is_write()
            && matches!(
                self.0.kind,
                ErrorKind::NoAnswer(_)
                    | ErrorKind::DeadlineExceeded { .. }
                    | ErrorKind::Interrupted(_)
                    | ErrorKind::Timeout
                    | ErrorKind::ServerFailed
            )
    }
}

fn kind_of(call: &Call, status: &Status) -> ErrorKind {
    match (status.code, status.reason.as_str()) {
        (404, _) if names_object(status) => ErrorKind::NotFound,
        (404, _) => ErrorKind::NotServed,
        (_, "AlreadyExists") => ErrorKind::AlreadyExists,
        (409, _) => ErrorKind::Conflict(Conflict::of(call, status)),
        (422, _) if Conflict::is_about_uid(call, status) => ErrorKind::Conflict(Conflict::of(call, status)),
        (422, _) => ErrorKind::Invalid,
        (400, _) => ErrorKind::BadRequest,
        (401, _) => ErrorKind::Unauthorized,
        (403, _) => ErrorKind::Forbidden,
        (429, _) => ErrorKind::TooManyRequests,
        (410, _) => ErrorKind::Expired,
        (408 | 504, _) => ErrorKind::Timeout,
        (500.., _) => ErrorKind::ServerFailed,
        _ => ErrorKind::Refused,
    }
}

/// Whether a 404 is about an object: one about an unknown resource names none.
fn names_object(status: &Status) -> bool {
    status.details.as_ref().is_some_and(|details| !details.name.is_empty())
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { verb, subject, kind, status, host, source, .. } = &*self.0;
        let server = Server(host.as_deref());
        write!(f, "{verb} {subject}: ")?;
        match kind {
            ErrorKind::NotServed => f.write_str(
                "the API server does not serve this kind: is its CustomResourceDefinition installed?",
            ),
            ErrorKind::Conflict(conflict) => {
                write!(f, "{}; {}", told(status.as_ref()), conflict.cure())
            }
            ErrorKind::NotSent => {
                write!(f, "not sent: {}", source.as_ref().map_or_else(String::new, ToString::to_string))
            }
            ErrorKind::NotPermitted(why) => write!(f, "not sent: {why}"),
            ErrorKind::Interrupted(why) => write!(f, "cut while in flight, its outcome is unknown: {why}"),
            ErrorKind::DeadlineExceeded { timeout } => {
                write!(f, "no answer from {server} within {timeout:?}")?;
                f.write_str(if verb.is_write() { "; whether it was carried out is unknown" } else { "" })
            }
            ErrorKind::NoAnswer(why) => write!(f, "{server} did not answer: {why}"),
            ErrorKind::Undecodable(error) => write!(f, "the answer does not fit its type: {error}"),
            ErrorKind::Forbidden => {
                f.write_str(&told(status.as_ref()))?;
                let message = status.as_ref().map_or("", |status| &status.message);
                rbac::missing_rule(*verb, message).map_or(Ok(()), |rule| write!(f, "; {rule}"))
            }
            _ => f.write_str(&told(status.as_ref())),
        }
    }
}

/// `the API server`, and its host where it is known.
struct Server<'a>(Option<&'a str>);

impl fmt::Display for Server<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the API server")?;
        self.0.map_or(Ok(()), |host| write!(f, " at {host}"))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        // What kept a request from being sent is in the message already. So is why there was no answer, which is the innermost
        // of the causes: what lies between says no more than that.
        match (&self.0.kind, &self.0.source) {
            (ErrorKind::NoAnswer(_), _) => None,
            (ErrorKind::NotSent, Some(source)) => source.source(),
            (_, source) => source.as_ref().map(|source| &**source as &(dyn StdError + 'static)),
        }
    }
}

/// The API server's words, with code and reason.
fn told(status: Option<&Status>) -> String {
    match status {
        None => String::new(),
        Some(status) if status.reason.is_empty() => format!("{} ({})", status.message.trim(), status.code),
        Some(status) => format!("{} ({} {})", status.message.trim(), status.code, status.reason),
    }
}

/// What a `kube` error says, once, without the layers that repeat it.
pub(crate) fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => told(Some(status)),
        kube::Error::Service(source) => {
            let server = unreachable(&**source);
            format!("{} did not answer: {}", Server(server.map(|server| &**server)), innermost(&**source))
        }
        kube::Error::HyperError(source) => format!("the API server did not answer: {}", innermost(source)),
        kube::Error::BuildRequest(kube::core::request::Error::Validation(reason)) => reason.clone(),
        other => other.to_string(),
    }
}

/// Host and port of the server to which no connection could be made, if that is the cause.
pub(super) fn unreachable<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Arc<str>> {
    let mut cause = error;
    loop {
        match cause.downcast_ref::<Unreachable>() {
            Some(unreachable) => return Some(unreachable.server()),
            None => cause = cause.source()?,
        }
    }
}

/// The cause of the cause: what a connection really failed of.
pub(super) fn innermost<'a>(error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}
