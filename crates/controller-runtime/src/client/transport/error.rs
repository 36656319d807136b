//! Errors of requests to the API server.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use kube::core::{Status, response::StatusCause};

use super::{
    call::{Call, Verb},
    conflict::Conflict,
    decode::FieldError,
    rbac,
    write_gate::PermitError,
};
use crate::{client::connection::Unreachable, error::innermost};

/// A request to the API server that failed.
///
/// The message names verb, object and failure in one line. Code that reacts to an error uses [`ClientError::kind`], or the `is_…`
/// methods for the kinds that reconcilers usually handle.
///
/// ```no_run
/// # use controller_runtime::{Client, ClientError, ObjectKey};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # async fn example(client: Client, map: ConfigMap) -> Result<(), ClientError> {
/// match client.create(&map).await {
///     Err(error) if error.is_already_exists() => {} // another client created it first
///     outcome => drop(outcome?),
/// }
/// # Ok(())
/// # }
/// ```
pub struct ClientError(Box<ErrorInner>);

struct ErrorInner {
    verb: Verb,
    /// Resource and key, e.g. `deployments.apps demo/web`.
    subject: String,
    kind: ErrorKind,
    status: Option<Status>,
    retry_after: Option<Duration>,
    /// Host and port of the API server, if they are known and belong in the message.
    host: Option<Arc<str>>,
    source: Option<Box<dyn StdError + Send + Sync>>,
    /// Next step for a missing right, if the rights of the program are known.
    advice: Option<String>,
}

/// Kind of failure of a [`ClientError`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such object.
    NotFound,
    /// The API server does not serve the kind or the subresource, for example because the CustomResourceDefinition is
    /// not installed.
    NotServed,
    /// An object of that name exists already.
    AlreadyExists,
    /// The object is not in the state that the request expected.
    Conflict(Conflict),
    /// The object or patch violates rules of its kind: see [`ClientError::causes`] for the fields.
    Invalid,
    /// The API server cannot interpret the request (400).
    BadRequest,
    /// The API server cannot authenticate the client (401).
    Unauthorized,
    /// The user has no permission, or an admission plugin or webhook refused the request (403).
    Forbidden,
    /// The API server is busy: see [`ClientError::retry_after`].
    TooManyRequests,
    /// The requested resourceVersion or continue token is no longer available (410): list again.
    Expired,
    /// The API server ran into its own timeout (408, 504).
    Timeout,
    /// The API server failed to process the request (other codes from 500).
    ServerFailed,
    /// The API server refused the request with another code.
    Refused,
    /// The request was not sent, because it could not succeed, for example because its object has no name.
    NotSent,
    /// The request was not sent, because this process may not write now: it does not hold the lease of the leader election, or a
    /// [`WriteGate`](crate::client::WriteGate) refused the write.
    NotPermitted(PermitError),
    /// Permission to write ended while the request was in flight. The request may or may not have been carried out.
    Interrupted(PermitError),
    /// The API server did not answer within the time that the request may take
    /// ([`ClientBuilder::request_timeout`](crate::client::ClientBuilder::request_timeout)). The request may or may not have been
    /// carried out.
    DeadlineExceeded {
        /// Time that the request could take.
        timeout: Duration,
    },
    /// No response arrived. The request may or may not have been carried out.
    NoAnswer(String),
    /// The response does not fit the type. A write was carried out.
    Undecodable(FieldError),
}

impl ClientError {
    /// Returns the error for an error response of the API server.
    pub(in crate::client) fn refused(call: &Call, status: Status, retry_after: Option<Duration>) -> Self {
        let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        let in_status = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
        let kind = kind_of(call, &status);
        Self::make(call, kind, Some(status)).with_retry_after(retry_after.or(in_status))
    }

    pub(in crate::client) fn not_sent(call: &Call, reason: impl Into<String>) -> Self {
        Self::unsent(call.verb, call.subject(), reason)
    }

    /// Returns the error of a request that failed before a call could be made of it.
    pub(in crate::client) fn unsent(verb: Verb, subject: String, reason: impl Into<String>) -> Self {
        let source: Box<dyn StdError + Send + Sync> = reason.into().into();
        let kind = ErrorKind::NotSent;
        Self(Box::new(ErrorInner {
            verb,
            subject,
            kind,
            status: None,
            retry_after: None,
            host: None,
            source: Some(source),
            advice: None,
        }))
    }

    pub(in crate::client) fn make(call: &Call, kind: ErrorKind, status: Option<Status>) -> Self {
        let (verb, subject) = (call.verb, call.subject());
        Self(Box::new(ErrorInner {
            verb,
            subject,
            kind,
            status,
            retry_after: None,
            host: None,
            source: None,
            advice: None,
        }))
    }

    fn with_retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.0.retry_after = retry_after;
        self
    }

    /// Adds the next step for a missing right.
    pub(super) fn with_advice(mut self, advice: Option<String>) -> Self {
        self.0.advice = advice;
        self
    }

    /// The next step, if RBAC refused the request for lack of a right.
    pub(crate) fn missing_right_advice(&self) -> Option<String> {
        let message =
            self.status().filter(|status| status.code == 403).map(|status| status.message.as_str())?;
        self.0.advice.clone().or_else(|| rbac::missing_rule(self.0.verb, message))
    }

    /// Adds the host of the API server that did not answer.
    pub(in crate::client) fn of_host(mut self, host: &Arc<str>) -> Self {
        self.0.host = (!host.is_empty()).then(|| Arc::clone(host));
        self
    }

    pub(in crate::client) fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Verb of the request.
    #[must_use]
    pub fn verb(&self) -> Verb {
        self.0.verb
    }

    /// Object of the request: resource and key, e.g. `deployments.apps demo/web`.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.0.subject
    }

    /// Kind of failure.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// HTTP code of the API server's response; `None` if there was none, or if it was a success.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    /// Machine-readable reason in the API server's response, e.g. `NotFound`.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.status().map(|status| status.reason.as_str())
    }

    /// Status in the API server's response, if it refused the request.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        self.0.status.as_ref()
    }

    /// Invalid or conflicting fields, each with a description of the problem.
    #[must_use]
    pub fn causes(&self) -> &[StatusCause] {
        self.status().and_then(|status| status.details.as_ref()).map_or(&[], |details| &details.causes)
    }

    /// Time that the API server asks to wait before the request is sent again.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Returns whether the object does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.0.kind == ErrorKind::NotFound
    }

    /// Returns whether the API server does not serve the kind, for example because its CustomResourceDefinition is not
    /// installed.
    #[must_use]
    pub fn is_not_served(&self) -> bool {
        self.0.kind == ErrorKind::NotServed
    }

    /// Returns whether the object is not in the state that the request expected: read it again and repeat the change, as
    /// [`Client::retry_on_conflict`](crate::Client::retry_on_conflict) does.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.conflict().is_some()
    }

    /// The expectation that failed, if the error is a conflict.
    #[must_use]
    pub fn conflict(&self) -> Option<&Conflict> {
        match &self.0.kind {
            ErrorKind::Conflict(conflict) => Some(conflict),
            _ => None,
        }
    }

    /// Returns whether an object of that name exists already.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.0.kind == ErrorKind::AlreadyExists
    }

    /// Returns whether the object or patch violates rules of its kind: see [`ClientError::causes`] for the fields.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.0.kind == ErrorKind::Invalid
    }

    /// Returns whether the user has no permission, or admission refused the request.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.0.kind == ErrorKind::Forbidden
    }

    /// Returns whether the API server was busy, and stayed so for as long as the client retried.
    #[must_use]
    pub fn is_too_many_requests(&self) -> bool {
        self.0.kind == ErrorKind::TooManyRequests
    }

    /// Returns whether the requested resourceVersion or continue token is no longer available: list again.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.0.kind == ErrorKind::Expired
    }

    /// Returns whether the request timed out: at the client ([`ErrorKind::DeadlineExceeded`]) or at the API server
    /// ([`ErrorKind::Timeout`]).
    ///
    /// A reconcile that fails with it is retried with back-off, as after any other error. After a write, the retry must read whether
    /// the write was carried out: repeating a create with a `generateName` may create a second object.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Timeout | ErrorKind::DeadlineExceeded { .. })
    }

    /// Returns whether a failed write may have been carried out: its response was lost, or does not show the outcome.
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
        (_, "AlreadyExists") => ErrorKind::AlreadyExists, // before 409, which is its code
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

/// Returns whether a 404 means that an object is missing. The status of a 404 for an unknown resource names no object.
fn names_object(status: &Status) -> bool {
    status.details.as_ref().is_some_and(|details| !details.name.is_empty())
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorInner { verb, subject, kind, status, host, source, .. } = &*self.0;
        let server = ServerName(host.as_deref());
        write!(f, "{verb} {subject}: ")?;
        match kind {
            ErrorKind::NotServed => f.write_str(
                "the API server does not serve this kind: is its CustomResourceDefinition installed?",
            ),
            ErrorKind::Conflict(conflict) => {
                write!(f, "{}; {}", server_message(status.as_ref()), conflict.hint())
            }
            ErrorKind::NotSent => {
                write!(f, "not sent: {}", source.as_ref().map_or_else(String::new, ToString::to_string))
            }
            ErrorKind::NotPermitted(why) => write!(f, "not sent: {why}"),
            ErrorKind::Interrupted(why) => {
                write!(f, "interrupted while in flight, so it may or may not have been carried out: {why}")
            }
            ErrorKind::DeadlineExceeded { timeout } => {
                write!(f, "no answer from {server} within {timeout:?}")?;
                f.write_str(if verb.is_write() { "; it may or may not have been carried out" } else { "" })
            }
            ErrorKind::NoAnswer(why) => write!(f, "{server} did not answer: {why}"),
            ErrorKind::Undecodable(error) => write!(f, "the response does not fit its Rust type: {error}"),
            ErrorKind::Forbidden => {
                f.write_str(&server_message(status.as_ref()))?;
                self.missing_right_advice().map_or(Ok(()), |advice| write!(f, "; {advice}"))
            }
            _ => f.write_str(&server_message(status.as_ref())),
        }
    }
}

/// Displays `the API server`, and its host if known.
struct ServerName<'a>(Option<&'a str>);

impl fmt::Display for ServerName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the API server")?;
        self.0.map_or(Ok(()), |host| write!(f, " at {host}"))
    }
}

impl fmt::Debug for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StdError for ClientError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        // The reason of `NotSent` is part of the message already. So is that of `NoAnswer`, which is the innermost cause; the
        // causes in between add nothing.
        match (&self.0.kind, &self.0.source) {
            (ErrorKind::NoAnswer(_), _) => None,
            (ErrorKind::NotSent, Some(source)) => source.source(),
            (_, source) => source.as_ref().map(|source| &**source as &(dyn StdError + 'static)),
        }
    }
}

/// Returns the API server's message, with code and reason.
fn server_message(status: Option<&Status>) -> String {
    match status {
        None => String::new(),
        Some(status) if status.reason.is_empty() => format!("{} ({})", status.message.trim(), status.code),
        Some(status) => format!("{} ({} {})", status.message.trim(), status.code, status.reason),
    }
}

/// Message of a `kube` error, without the layers that repeat it.
pub(crate) fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => server_message(Some(status)),
        kube::Error::Service(source) => {
            let server = unreachable(&**source);
            format!("{} did not answer: {}", ServerName(server.map(|server| &**server)), innermost(&**source))
        }
        kube::Error::HyperError(source) => format!("the API server did not answer: {}", innermost(source)),
        kube::Error::BuildRequest(kube::core::request::Error::Validation(reason)) => reason.clone(),
        other => other.to_string(),
    }
}

/// Host and port of the server, if the cause is that no connection to it could be made.
pub(in crate::client) fn unreachable<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Arc<str>> {
    let mut cause = error;
    loop {
        match cause.downcast_ref::<Unreachable>() {
            Some(unreachable) => return Some(unreachable.server()),
            None => cause = cause.source()?,
        }
    }
}
