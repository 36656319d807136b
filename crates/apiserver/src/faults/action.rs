//! What a fault does.

use std::fmt;

use tokio::time::Duration;

use super::Facts;
use crate::status::ApiError;

/// What happens to a request that a rule picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// It waits before it is looked at; a client that gives up meanwhile has changed nothing.
    DelayBefore(Duration),
    /// It is carried out, and its answer waits; a client that gives up meanwhile has changed what it wanted to change.
    DelayAfter(Duration),
    /// It is refused without being looked at.
    Fail(Failure),
    /// Its connection is cut before it is looked at.
    ///
    /// In process the call fails with [`ConnectionReset`](super::ConnectionReset); over TCP the connection closes
    /// without an answer.
    Reset,
    /// It is carried out, and its connection is cut instead of an answer: the client cannot know whether it was.
    LoseResponse,
    /// The watch misbehaves. A rule with this action takes watches alone.
    Watch(WatchFault),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DelayBefore(delay) => write!(f, "delayed by {delay:?}"),
            Self::DelayAfter(delay) => write!(f, "answered {delay:?} late"),
            Self::Fail(failure) => write!(f, "refused with {}", failure.code()),
            Self::Reset => f.write_str("reset"),
            Self::LoseResponse => f.write_str("carried out, response lost"),
            Self::Watch(fault) => fault.fmt(f),
        }
    }
}

/// An answer other than success: code, reason and text are those of kube-apiserver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// 409 `Conflict`: somebody else changed the object.
    Conflict,
    /// 410 `Expired`: the resource version, or the continue token, is too old.
    Expired,
    /// 429 `TooManyRequests`, with `Retry-After` in whole seconds, rounded up.
    TooManyRequests {
        /// How long the client is told to wait.
        retry_after: Duration,
    },
    /// 500 `InternalError`.
    Internal,
    /// 503 `ServiceUnavailable`.
    Unavailable,
    /// 504 `Timeout`.
    Timeout,
}

impl Failure {
    /// The HTTP status code.
    #[must_use]
    pub fn code(self) -> u16 {
        match self {
            Self::Conflict => 409,
            Self::Expired => 410,
            Self::TooManyRequests { .. } => 429,
            Self::Internal => 500,
            Self::Unavailable => 503,
            Self::Timeout => 504,
        }
    }

    pub(crate) fn error(self, request: &Facts) -> ApiError {
        let code = self.code();
        match self {
            Self::Conflict => ApiError::conflict(
                &request.group,
                &request.resource,
                &request.name,
                "the object has been modified; please apply your changes to the latest version and try again",
            ),
            Self::Expired => {
                ApiError::new(code, "Expired", "The resourceVersion for the provided list is too old.")
            }
            Self::TooManyRequests { retry_after } => {
                let seconds = retry_after.as_secs().saturating_add(u64::from(retry_after.subsec_nanos() > 0));
                ApiError::new(code, "TooManyRequests", "Too many requests, please try again later.")
                    .with_retry_after(seconds)
            }
            Self::Internal => ApiError::new(code, "InternalError", "Internal error occurred: a fault"),
            Self::Unavailable => ApiError::new(
                code,
                "ServiceUnavailable",
                "the server is currently unable to handle the request",
            ),
            Self::Timeout => ApiError::new(
                code,
                "Timeout",
                "Timeout: request did not complete within the allotted timeout",
            ),
        }
    }
}

/// How a watch misbehaves. Events are those of objects, the initial ones included; bookmarks do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchFault {
    /// It ends after this many events, as a watch ends at its deadline.
    CloseAfterEvents(u64),
    /// It ends this long after its start, without a last bookmark.
    CloseAfter(Duration),
    /// After this many events it reports error 410 and ends.
    ExpireAfterEvents(u64),
    /// After this many events it stays open and silent for ever, past its deadline too.
    StallAfterEvents(u64),
    /// Everything arrives this much later than it happened, in its order.
    Late(Duration),
    /// No bookmark is sent, not even the one after the initial events.
    NoBookmarks,
}

impl fmt::Display for WatchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CloseAfterEvents(events) => write!(f, "closes after {events} events"),
            Self::CloseAfter(time) => write!(f, "closes after {time:?}"),
            Self::ExpireAfterEvents(events) => write!(f, "expires after {events} events"),
            Self::StallAfterEvents(events) => write!(f, "stalls after {events} events"),
            Self::Late(delay) => write!(f, "delivers {delay:?} late"),
            Self::NoBookmarks => f.write_str("sends no bookmarks"),
        }
    }
}
