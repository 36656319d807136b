//! Fault actions: the effect of a rule on the requests that it picks.

use std::collections::BTreeMap;
use std::fmt;

use kube_apimachinery::status::ApiError;
use serde::{Deserialize, Serialize};
use tokio::time::Duration;

use super::{RequestInfo, When, fault_json};

/// Effect on a request that a rule picked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Action {
    /// Delays the request before it is processed. If the client gives up during the delay, the request has no effect.
    DelayBefore(#[serde(with = "fault_json::duration")] Duration),
    /// Processes the request and delays its response. If the client gives up during the delay, the request has taken effect.
    DelayAfter(#[serde(with = "fault_json::duration")] Duration),
    /// Fails the request without processing it.
    Fail(Failure),
    /// Sends this response without processing the request, as a proxy does.
    Answer(Answer),
    /// Closes the connection before the request is processed.
    ///
    /// In process, the call fails with [`ConnectionReset`](super::ConnectionReset). Over TCP, the connection closes without a response.
    Reset,
    /// Processes the request and closes the connection instead of responding: the client cannot know whether it was processed.
    LoseResponse,
    /// Processes the request and closes the connection after this many bytes of the response body. A shorter body arrives whole.
    /// The body of a watch is its whole stream.
    Truncate(u64),
    /// Receives the request but neither processes nor answers it. The connection stays open, as behind a load balancer that has
    /// lost its server, until the client gives up or the listener closes.
    Silence,
    /// Like [`Silence`](Self::Silence), but the request is processed: the client cannot know whether it was.
    WithholdResponse,
    /// Processes the request and sends the head of the response and this many bytes of its body. Then the response stalls, while
    /// the connection stays open. A shorter body arrives whole.
    Stall(u64),
    /// Answers from a state this many revisions old, or from the oldest kept one, as a lagging server does. A rule with this action picks
    /// only reads that accept any state: get, list and watch with `resourceVersion=0`.
    StaleRead {
        /// Number of revisions of the whole server, across all resources.
        behind: u64,
    },
    /// Makes a watch misbehave. A rule with this action picks only watches.
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

/// An arbitrary response, such as the error page of a proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Answer {
    /// HTTP status code; an invalid code is sent as 500.
    pub code: u16,
    /// `Content-Type` header; omitted if empty or not a valid header value.
    #[serde(default)]
    pub content_type: String,
    /// Additional headers, such as `Retry-After`; invalid ones are omitted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Response body.
    #[serde(default)]
    pub body: String,
}

impl Answer {
    /// Creates a response without additional headers.
    #[must_use]
    pub fn new(code: u16, content_type: impl Into<String>, body: impl Into<String>) -> Self {
        Self { code, content_type: content_type.into(), headers: BTreeMap::new(), body: body.into() }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }
}

/// An error response with the code, reason and message of kube-apiserver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Failure {
    /// 409 `Conflict`: another client changed the object.
    Conflict,
    /// 410 `Expired`: the resource version, or the continue token, is too old.
    Expired,
    /// 429 in plain text, with which an overloaded server answers before it reads the request. `Retry-After` has whole seconds, rounded up.
    TooManyRequests {
        /// Time that the client is asked to wait.
        #[serde(with = "fault_json::duration")]
        retry_after: Duration,
    },
    /// 429 `TooManyRequests` as a `Status`, with `Retry-After: 1`: the storage of the resource is being initialized, as for a moment after
    /// a CustomResourceDefinition changed.
    Initializing,
    /// 500 `InternalError`.
    Internal,
    /// 503 `ServiceUnavailable`.
    Unavailable,
    /// 504 `Timeout`.
    Timeout,
}

impl Failure {
    /// Returns the HTTP status code.
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

    /// Builds the response to the client.
    pub(crate) fn refusal(self, request: &RequestInfo) -> FailureResponse {
        let code = self.code();
        let error = match self {
            Self::Conflict => ApiError::modified(&request.group, &request.resource, &request.name),
            Self::Expired => {
                ApiError::new(code, "Expired", "The resourceVersion for the provided list is too old.")
            }
            Self::TooManyRequests { retry_after } => {
                let retry_after =
                    retry_after.as_secs().saturating_add(u64::from(retry_after.subsec_nanos() > 0));
                return FailureResponse::Text {
                    text: "Too many requests, please try again later.\n",
                    retry_after,
                };
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
        FailureResponse::Status(error)
    }
}

/// Response of a [`Failure`].
pub(crate) enum FailureResponse {
    Status(ApiError),
    Text {
        text: &'static str,
        /// Seconds for `Retry-After`.
        retry_after: u64,
    },
}

/// Misbehavior of a watch. Counts of events include the initial ones and exclude bookmarks.
///
/// The last three variants break the guarantees of a watch; no correct server does that. They show on which guarantees a client relies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum WatchFault {
    /// Ends after this many events, like a watch that reaches its deadline.
    CloseAfterEvents(u64),
    /// Ends this long after its start, without a last bookmark.
    CloseAfter(#[serde(with = "fault_json::duration")] Duration),
    /// Reports error 410 after this many events and ends.
    ExpireAfterEvents(u64),
    /// Stays open without sending anything after this many events, even beyond its deadline.
    StallAfterEvents(u64),
    /// Stays open without sending anything from this time after its start on, even beyond its deadline: neither events nor bookmarks
    /// arrive.
    StallAfter(#[serde(with = "fault_json::duration")] Duration),
    /// Is silent for a while after this many events, then continues with the changes made meanwhile.
    HoldAfterEvents {
        /// Events before the silence.
        events: u64,
        /// Length of the silence.
        #[serde(with = "fault_json::duration")]
        time: Duration,
    },
    /// Delivers all events and bookmarks in order, each with this delay.
    Late(#[serde(with = "fault_json::duration")] Duration),
    /// Sends no bookmarks, not even the one after the initial events.
    NoBookmarks,
    /// Omits the selected events.
    Drop(When),
    /// Sends the selected events twice.
    Duplicate(When),
    /// Holds each selected event back until after the next one.
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
