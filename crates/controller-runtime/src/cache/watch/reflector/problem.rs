//! Failures of lists and watches, and their report to operators, subscribers and the state machine.

use std::time::Duration;

use super::{ANSWER_WITHIN, Reflector};
use crate::{
    cache::{
        objects::incoming_object::IncomingObject,
        watch::{
            list_watch::{Death, Heartbeat, RequestFailure, StepOutcome},
            missing_right,
            subscriber::WatchFailure,
        },
    },
    object::meta::ResourceVersion,
};

/// Type of the failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestType {
    List,
    /// A watch with initial events.
    Stream,
    /// A watch from a version.
    Watch,
}

/// Failure of a list or watch, for the state machine and for operators.
pub(super) struct WatchProblem {
    pub(super) failure: RequestFailure,
    pub(super) message: String,
    pub(super) forbidden: Option<String>,
    /// Whether the API server answered, even with a refusal.
    pub(super) answered: bool,
}

impl WatchProblem {
    pub(super) fn new(failure: RequestFailure, message: String) -> Self {
        Self { failure, message, forbidden: None, answered: true }
    }

    pub(super) fn of(death: Death) -> Self {
        let silent = Heartbeat::SILENCE.as_secs();
        match death {
            Death::EndlessInitialEvents => Self::unsupported(format!(
                "the API server did not mark the end of the initial events within {silent} s"
            )),
            Death::MissedEvent => {
                Self::silent("the watch missed an event that a probe of it received".to_owned())
            }
            Death::Unanswered => Self::silent(format!(
                "the watch was silent, and the API server did not answer a probe of it: the watch received nothing for {silent} s"
            )),
            Death::Unreachable => Self::transient(
                "the watch was silent, and a probe of it did not reach the API server".to_owned(),
            ),
            Death::Refused => Self::silent(
                "the watch was silent, and the API server refused several probes of it".to_owned(),
            ),
            Death::Expired => Self::new(
                RequestFailure::Expired,
                "the watch was silent, and its resource version is too old to start a probe from".to_owned(),
            ),
        }
    }

    pub(super) fn silent(message: String) -> Self {
        Self::new(RequestFailure::Silent, message)
    }

    pub(super) fn unreachable(message: String) -> Self {
        Self { answered: false, ..Self::transient(message) }
    }

    pub(super) fn transient(message: String) -> Self {
        Self::new(RequestFailure::Transient { retry_after: None }, message)
    }

    pub(super) fn refused(message: String) -> Self {
        Self::new(RequestFailure::Refused, message)
    }

    pub(super) fn unsupported(message: String) -> Self {
        Self::new(RequestFailure::Unsupported, message)
    }

    pub(super) fn out_of_order(object: &IncomingObject<'_>) -> Self {
        let meta = object.split.meta();
        let version = meta.version().map_or_else(String::new, |version| format!(" at version {version}"));
        let message = format!(
            "an event of {meta}{version} arrived after newer versions, so it is unknown whether the object exists"
        );
        Self::new(RequestFailure::OutOfOrder, message)
    }

    pub(super) fn behind(version: &ResourceVersion) -> Self {
        Self::new(
            RequestFailure::Behind,
            format!(
                "the API server is behind: its resource version {version} is older than one that this cache has read"
            ),
        )
    }
}

/// Result of a request that the API server did not answer in time.
pub(super) fn no_answer<T>() -> Result<T, WatchProblem> {
    Err(WatchProblem::transient(format!(
        "the API server did not answer within {} s",
        ANSWER_WITHIN.as_secs()
    )))
}

impl Reflector<'_> {
    /// Logs a problem, and reports it to the subscribers as a failure. An expired version of a watch, an
    /// event out of order, and a server that does not support initial events are not failures.
    pub(super) fn report(&self, request_type: RequestType, problem: WatchProblem) -> StepOutcome {
        let WatchProblem { failure, message, forbidden, .. } = problem;
        let resource = self.shared.query.label();
        let place = self.scope.as_ref().map_or_else(String::new, |name| format!(" in namespace {name}"));
        let verb = if request_type == RequestType::Watch { "watch" } else { "list" };
        match (failure, request_type) {
            // Expected: an API server keeps a limited history of changes.
            (RequestFailure::Expired, RequestType::Watch) => {
                tracing::debug!(resource, "{verb}{place}: {message}; listing again");
            }
            (RequestFailure::OutOfOrder, _) => {
                tracing::info!(resource, "{verb}{place}: {message}; listing again");
            }
            (RequestFailure::Unsupported, RequestType::Stream) => {
                tracing::info!(resource, "{verb}{place}: {message}; using a list instead");
            }
            _ => {
                if failure == RequestFailure::Silent {
                    self.shared.for_each(|subscriber| subscriber.watch_died());
                }
                match &forbidden {
                    Some(rule) => tracing::error!(resource, "{verb}{place} is forbidden: {rule}"),
                    None => tracing::warn!(resource, "{verb}{place} failed: {message}"),
                }
                let trouble = WatchFailure { message: format!("{verb}{place}: {message}"), forbidden };
                self.shared.for_each(|subscriber| subscriber.watch_failed(&self.scope, &trouble));
            }
        }
        StepOutcome::Failed(failure)
    }

    /// Returns the problem that a `Status` stands for. `retry_after` is the answer's `Retry-After`, in seconds.
    pub(super) fn problem(&self, status: &kube::core::Status, retry_after: Option<u64>) -> WatchProblem {
        let resource = &self.shared.query.resource;
        let too_large = status.details.as_ref().is_some_and(|details| {
            details.causes.iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
        });
        let failure = match status.code {
            410 => RequestFailure::Expired,
            // This API server has not reached the requested version yet.
            504 if too_large => RequestFailure::Behind,
            408 | 429 | 502..=504 => {
                RequestFailure::Transient { retry_after: retry_after.map(Duration::from_secs) }
            }
            // A server without streaming lists refuses the parameters of the watch. After other requests the state machine
            // treats this like a refusal.
            400 | 422 => RequestFailure::Unsupported,
            404 => RequestFailure::NotServed,
            _ => RequestFailure::Refused,
        };
        let forbidden = (status.code == 403).then(|| missing_right::rule(resource, self.scope.as_deref()));
        let message = match (status.code, &forbidden) {
            (404, _) => format!(
                "the API server does not serve {} {}: is its CustomResourceDefinition installed?",
                self.shared.query.resource_name(),
                resource.version
            ),
            (_, Some(rule)) => format!("{} ({}); {rule}", status.message, status.code),
            (code, None) => format!("{} ({code})", status.message),
        };
        WatchProblem { failure, message, forbidden, answered: true }
    }
}
