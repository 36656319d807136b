//! What a fault does.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use tokio::time::Duration;

use super::{Facts, When, text};
use crate::status::ApiError;

/// What happens to a request that a rule picked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Action {
    /// It waits before it is looked at; a client that gives up meanwhile has changed nothing.
    DelayBefore(#[serde(with = "text::duration")] Duration),
    /// It is carried out, and its answer waits; a client that gives up meanwhile has changed what it wanted to change.
    DelayAfter(#[serde(with = "text::duration")] Duration),
    /// It is refused without being looked at.
    Fail(Failure),
    /// It is answered with this, and nothing else, without being looked at, as a proxy on the way does.
    Answer(Answer),
    /// Its connection is cut before it is looked at.
    ///
    /// In process the call fails with [`ConnectionReset`](super::ConnectionReset); over TCP the connection closes
    /// without an answer.
    Reset,
    /// It is carried out, and its connection is cut instead of an answer: the client cannot know whether it was.
    LoseResponse,
    /// It is carried out, and of the body of its answer so many bytes arrive; then its connection is cut. An answer that is
    /// no longer than that arrives whole. The body of a watch is all that it sends.
    Truncate(u64),
    /// The request is received and neither carried out nor answered. Its connection stays open, as behind a load balancer
    /// that has lost its server, until the client gives up or the listener closes.
    Silence,
    /// Like [`Silence`](Self::Silence), but the request is carried out: the client cannot know whether it was.
    WithholdResponse,
    /// The request is carried out. The head of the response arrives, and this many bytes of its body; then nothing more,
    /// while the connection stays open. A body that is no longer than that arrives whole.
    Stall(u64),
    /// It is answered from a state this many revisions old, as a server that lags behind does, or from the oldest that is
    /// kept. A rule with this action takes reads alone that allow any state: get, list and watch with `resourceVersion=0`.
    StaleRead {
        /// Revisions of the whole server, of whatever resource.
        behind: u64,
    },
    /// The watch misbehaves. A rule with this action takes watches alone.
    Watch(WatchFault),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DelayBefore(delay) => write!(f, "delayed by {delay:?}"),
            Self::DelayAfter(delay) => write!(f, "answered {delay:?} late"),
            Self::Fail(failure) => write!(f, "refused with {}", failure.code()),
            Self::Answer(answer) => write!(f, "answered with {}", answer.code),
            Self::Reset => f.write_str("reset"),
            Self::LoseResponse => f.write_str("carried out, response lost"),
            Self::Truncate(bytes) => write!(f, "answer cut after {bytes} bytes"),
            Self::Silence => f.write_str("received, never answered"),
            Self::WithholdResponse => f.write_str("carried out, never answered"),
            Self::Stall(bytes) => write!(f, "answer stalls after {bytes} bytes"),
            Self::StaleRead { behind } => write!(f, "answered {behind} revisions behind"),
            Self::Watch(fault) => fault.fmt(f),
        }
    }
}

/// Any answer, such as the page of a proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Answer {
    /// The HTTP status code; one that HTTP does not have is sent as 500.
    pub code: u16,
    /// The `Content-Type` header; none if it is empty or cannot be sent.
    #[serde(default)]
    pub content_type: String,
    /// Other headers, such as `Retry-After`; those that cannot be sent are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body.
    #[serde(default)]
    pub body: String,
}

impl Answer {
    /// An answer of these three.
    #[must_use]
    pub fn new(code: u16, content_type: impl Into<String>, body: impl Into<String>) -> Self {
        Self { code, content_type: content_type.into(), headers: BTreeMap::new(), body: body.into() }
    }

    /// The same with another header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }
}

/// An answer other than success: code, reason and text are those of kube-apiserver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Failure {
    /// 409 `Conflict`: somebody else changed the object.
    Conflict,
    /// 410 `Expired`: the resource version, or the continue token, is too old.
    Expired,
    /// 429 in plain text, as an overloaded server answers that does not look at a request, with `Retry-After` in whole
    /// seconds, rounded up.
    TooManyRequests {
        /// How long the client is told to wait.
        #[serde(with = "text::duration")]
        retry_after: Duration,
    },
    /// 429 `TooManyRequests` as a `Status`, to be tried again after a second: the storage of the resource is being set up, as it is for
    /// a moment after a definition changed.
    Initializing,
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
            Self::TooManyRequests { .. } | Self::Initializing => 429,
            Self::Internal => 500,
            Self::Unavailable => 503,
            Self::Timeout => 504,
        }
    }

    /// What the client is told.
    pub(crate) fn refusal(self, request: &Facts) -> Refusal {
        let code = self.code();
        let error = match self {
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
                let retry_after =
                    retry_after.as_secs().saturating_add(u64::from(retry_after.subsec_nanos() > 0));
                return Refusal::Text { text: "Too many requests, please try again later.\n", retry_after };
            }
            Self::Initializing => {
                ApiError::new(code, "TooManyRequests", "storage is (re)initializing").with_retry_after(1)
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
        };
        Refusal::Status(error)
    }
}

/// The form of a [`Failure`].
pub(crate) enum Refusal {
    Status(ApiError),
    Text {
        text: &'static str,
        /// In seconds.
        retry_after: u64,
    },
}

/// How a watch misbehaves. Events are those of objects, the initial ones included; bookmarks do not count.
///
/// The last three break what a watch promises, which no correct server does: they show what a client relies on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum WatchFault {
    /// It ends after this many events, as a watch ends at its deadline.
    CloseAfterEvents(u64),
    /// It ends this long after its start, without a last bookmark.
    CloseAfter(#[serde(with = "text::duration")] Duration),
    /// After this many events it reports error 410 and ends.
    ExpireAfterEvents(u64),
    /// After this many events it stays open and silent for ever, past its deadline too.
    StallAfterEvents(u64),
    /// From this long after its start it stays open and silent for ever, past its deadline too: neither events nor bookmarks
    /// arrive.
    StallAfter(#[serde(with = "text::duration")] Duration),
    /// After this many events it is silent for a while; then it goes on with what happened meanwhile.
    HoldAfterEvents {
        /// Events before the silence.
        events: u64,
        /// How long it lasts.
        #[serde(with = "text::duration")]
        time: Duration,
    },
    /// Everything arrives this much later than it happened, in its order.
    Late(#[serde(with = "text::duration")] Duration),
    /// No bookmark is sent, not even the one after the initial events.
    NoBookmarks,
    /// These of its events are left out.
    Drop(When),
    /// These of its events are sent twice.
    Duplicate(When),
    /// These of its events change places with the next one, for which they wait.
    Reorder(When),
}

impl fmt::Display for WatchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CloseAfterEvents(events) => write!(f, "closes after {events} events"),
            Self::CloseAfter(time) => write!(f, "closes after {time:?}"),
            Self::ExpireAfterEvents(events) => write!(f, "expires after {events} events"),
            Self::StallAfterEvents(events) => write!(f, "stalls after {events} events"),
            Self::StallAfter(time) => write!(f, "stalls after {time:?}"),
            Self::HoldAfterEvents { events, time } => write!(f, "holds {time:?} after {events} events"),
            Self::Late(delay) => write!(f, "delivers {delay:?} late"),
            Self::NoBookmarks => f.write_str("sends no bookmarks"),
            Self::Drop(when) => write!(f, "drops {when}"),
            Self::Duplicate(when) => write!(f, "sends {when} twice"),
            Self::Reorder(when) => write!(f, "sends {when} late by one"),
        }
    }
}
