//! The answer to "why is this object not reconciling?".

use std::fmt;

use k8s_openapi::jiff::Timestamp;
use kube_clock::Clock;
use kube_workqueue::{KeyState, Priority, Reason};
use serde::{Serialize, Serializer};
use tokio::time::{Duration, Instant};

use super::history::{Run, RunResult};
use crate::reconcile::Causes;

/// Where a request stands, and how it came there.
///
/// Its `Display` form is a story for a person, its `Serialize` form the same for a program.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The controller.
    pub controller: String,
    /// The request as its `Debug` form names it, e.g. `Deployment default/web`.
    pub request: String,
    /// Where it stands.
    pub standing: Standing,
    /// How many runs have failed, or asked to run again with back-off, since the last success.
    pub attempt: u32,
    /// What will have led to its next run.
    pub causes: Causes,
    /// The last runs, the latest first: at most 32, and of the 1024 requests of a controller that ran last, those that
    /// failed before all others.
    pub runs: Vec<Run>,
}

/// Where a request stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "camelCase")]
pub enum Standing {
    /// Nothing asks for a run: it waits for an event.
    Idle,
    /// It is in line for a worker.
    #[serde(rename_all = "camelCase")]
    Queued {
        /// Since when, where the queue keeps it.
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<Timestamp>,
        /// In which class: `high`, `normal` or `low`.
        priority: &'static str,
    },
    /// It will be in line later.
    #[serde(rename_all = "camelCase")]
    Waiting {
        /// When.
        until: Timestamp,
        /// How long from now; in JSON in seconds.
        #[serde(serialize_with = "seconds")]
        left: Duration,
        /// The rule that set the time.
        rule: Rule,
    },
    /// It is being reconciled.
    #[serde(rename_all = "camelCase")]
    Running {
        /// Whether something asked for another run meanwhile.
        again: bool,
    },
}

/// What makes a request wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "camelCase")]
pub enum Rule {
    /// A reconcile asked to run again after a time ([`Action::requeue_after`](crate::Action::requeue_after),
    /// [`Error::retry_after`](crate::reconcile::Error::retry_after)), or a handler asked for a delay.
    Delay,
    /// The rate limiter set the delay, after failures or [`Action::requeue`](crate::Action::requeue).
    RateLimiter,
    /// An event came while the request was in back-off, which one event had cut short already.
    BackOffEvents,
    /// Events come closely one after the other, and the controller waits until they pause.
    Debounce,
    /// Another one, for which this version has no name.
    Other,
}

/// A duration for programs.
pub(super) fn seconds<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(duration.as_secs_f64())
}

impl From<Reason> for Rule {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Delayed => Self::Delay,
            Reason::RateLimited => Self::RateLimiter,
            Reason::EventInBackOff => Self::BackOffEvents,
            Reason::Debounced => Self::Debounce,
            _ => Self::Other,
        }
    }
}

impl Standing {
    /// The standing of a request of which the queue says `state`.
    pub(super) fn of(state: Option<(KeyState, Priority)>, clock: Clock) -> Self {
        let now = Instant::now();
        match state {
            Some((KeyState::Ready { since }, priority)) => {
                Self::Queued { since: since.map(|since| clock.at(since)), priority: priority.as_str() }
            }
            Some((KeyState::Waiting(waiting), _)) => Self::Waiting {
                until: clock.at(waiting.until),
                left: waiting.until.saturating_duration_since(now),
                rule: waiting.why.into(),
            },
            Some((KeyState::Processing { again }, _)) => Self::Running { again },
            // A state of which this version knows nothing is none that a request stays in.
            Some(_) | None => Self::Idle,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Delay => "a reconcile or handler asked for the delay",
            Self::RateLimiter => "the rate limiter set the delay",
            Self::BackOffEvents => "an event has cut its back-off short already",
            Self::Debounce => "it waits until events pause",
            Self::Other => "the queue set the delay",
        })
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("waits for an event"),
            Self::Queued { since, priority } => {
                write!(f, "is in line for a worker, in class {priority}")?;
                since.map_or(Ok(()), |since| write!(f, ", since {since}"))
            }
            Self::Waiting { until, left, rule } => write!(f, "waits {left:?} more, until {until}: {rule}"),
            Self::Running { again: false } => f.write_str("is being reconciled"),
            Self::Running { again: true } => f.write_str("is being reconciled, and will be once more"),
        }
    }
}

impl fmt::Display for RunResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Requeued => f.write_str("asked to run again"),
            Self::RequeuedAfter(delay) => write!(f, "asked to run again after {delay:?}"),
            Self::Failed(text) => write!(f, "failed: {text}"),
            Self::FailedForGood(text) => write!(f, "failed for good: {text}"),
            Self::Panicked(text) => write!(f, "panicked: {text}"),
            Self::TimedOut => f.write_str("stopped at its timeout"),
        }
    }
}

/// The story, a line for each run.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { controller, request, standing, attempt, causes, runs } = self;
        writeln!(f, "{request} of controller {controller} {standing}")?;
        if *attempt > 0 {
            writeln!(f, "attempts since its last success: {attempt}")?;
        }
        if causes.events() > 0 {
            writeln!(f, "{causes} since its last run began")?;
        }
        if runs.is_empty() {
            writeln!(f, "no run is remembered")?;
        }
        for run in runs {
            let Run { ended, took, attempt, causes, result, .. } = run;
            write!(f, "{ended} after {took:?}, attempt {attempt}, {causes}")?;
            #[cfg(feature = "opentelemetry")]
            if let Some(span) = &run.span {
                write!(f, ", trace {}", span.trace_id())?;
            }
            writeln!(f, ": {result}")?;
        }
        Ok(())
    }
}
