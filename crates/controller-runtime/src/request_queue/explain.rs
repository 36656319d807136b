//! Explanation of why a request is not being reconciled.

use std::fmt;

use k8s_openapi::jiff::Timestamp;
use kube_clock::Clock;
use kube_workqueue::{KeyState, Priority, Reason};
use serde::{Serialize, Serializer};
use tokio::time::{Duration, Instant};

use super::{
    failed_events::FailedEvent,
    history::{Run, RunResult},
};
use crate::{brief::Brief, reconcile::Causes};

/// State and history of a request.
///
/// `Display` prints text for people, `Serialize` the same content for programs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Name of the controller.
    pub controller: String,
    /// The request in its `Debug` form, e.g. `Deployment default/web`.
    pub request: String,
    /// Its state in the queue.
    pub state: RequestState,
    /// Number of runs since the last success that failed, or requeued the request with back-off.
    pub attempt: u32,
    /// Causes of its next run.
    pub causes: Causes,
    /// The last runs, the latest first: at most 32. They are stored for the 1024 requests of a controller that ran last;
    /// failing requests are dropped last.
    pub runs: Vec<Run>,
    /// Events of an object of the request's name that a predicate or handler failed to handle: the first 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_events: Vec<FailedEvent>,
}

/// State of a request in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "camelCase")]
pub enum RequestState {
    /// Not queued; waits for an event.
    Idle,
    /// Queued for a worker.
    #[serde(rename_all = "camelCase")]
    Queued {
        /// Time since which it is queued, if the queue records it.
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<Timestamp>,
        /// Its priority: `high`, `normal` or `low`.
        priority: &'static str,
    },
    /// Waits until a time before it is queued.
    #[serde(rename_all = "camelCase")]
    Waiting {
        /// That time.
        until: Timestamp,
        /// Time left; in JSON in seconds.
        #[serde(serialize_with = "seconds")]
        left: Duration,
        /// The rule that set the time.
        rule: DelayReason,
    },
    /// Being reconciled.
    #[serde(rename_all = "camelCase")]
    Running {
        /// Whether the request was enqueued again meanwhile, so that another run follows.
        again: bool,
    },
}

/// Rule that delays a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "camelCase")]
pub enum DelayReason {
    /// A reconcile requeued the request with a delay ([`Action::requeue_after`](crate::Action::requeue_after),
    /// [`Error::retry_after`](crate::ReconcileError::retry_after)), or a handler enqueued it with one.
    Delay,
    /// The rate limiter set the delay, after failures or [`Action::requeue`](crate::Action::requeue).
    RateLimiter,
    /// An event arrived during a back-off that an earlier event has already cut short.
    BackOffEvents,
    /// Events arrive in close succession, and the controller waits until they pause.
    Debounce,
    /// A rule that is unknown to this version.
    Other,
}

/// Serialises a duration in seconds.
pub(crate) fn seconds<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(duration.as_secs_f64())
}

impl DelayReason {
    /// Names that [`parse`](Self::parse) accepts.
    pub(crate) const NAMES: &'static str = "delay, rateLimiter, backOffEvents or debounce";

    /// Reads the form that `Serialize` writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "delay" => Self::Delay,
            "rateLimiter" => Self::RateLimiter,
            "backOffEvents" => Self::BackOffEvents,
            "debounce" => Self::Debounce,
            _ => return None,
        })
    }
}

impl From<Reason> for DelayReason {
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

impl Explanation {
    /// Explains a request that was never enqueued, because the events of the object with its name have failed.
    pub(crate) fn of_failed_events(controller: &str, request: &str, failed_events: Vec<FailedEvent>) -> Self {
        Self {
            controller: controller.to_owned(),
            request: request.to_owned(),
            state: RequestState::Idle,
            attempt: 0,
            causes: Causes::default(),
            runs: Vec::new(),
            failed_events,
        }
    }
}

impl RequestState {
    /// State of a request that is in `state` in the queue.
    pub(crate) fn of(state: Option<(KeyState, Priority)>, clock: Clock) -> Self {
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
            // `KeyState` may gain states. One that is unknown here counts as idle.
            Some(_) | None => Self::Idle,
        }
    }
}

impl fmt::Display for DelayReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Delay => "a reconcile or handler asked for the delay",
            Self::RateLimiter => "the rate limiter set the delay",
            Self::BackOffEvents => "an event has already shortened its back-off",
            Self::Debounce => "it waits until events pause",
            Self::Other => "the queue set the delay",
        })
    }
}

impl fmt::Display for RequestState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("waits for an event"),
            Self::Queued { since, priority } => {
                write!(f, "is queued for a worker, in class {priority}")?;
                since.map_or(Ok(()), |since| write!(f, ", since {since:.3}"))
            }
            Self::Waiting { until, left, rule } => {
                write!(f, "waits {} more, until {until:.3}: {rule}", Brief(*left))
            }
            Self::Running { again: false } => f.write_str("is being reconciled"),
            Self::Running { again: true } => f.write_str("is being reconciled, and will be reconciled again"),
        }
    }
}

impl fmt::Display for RunResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Requeued => f.write_str("requeued"),
            Self::RequeuedAfter(delay) => write!(f, "requeued after {}", Brief(*delay)),
            Self::Failed(text) => write!(f, "failed: {text}"),
            Self::FailedForGood(text) => write!(f, "failed with a terminal error: {text}"),
            Self::Panicked(text) => write!(f, "panicked: {text}"),
            Self::TimedOut => f.write_str("stopped at its timeout"),
        }
    }
}

/// One line for the state, then one for each run, the latest first. Successive failures with the same error share a line.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { controller, request, state, attempt, causes, runs, failed_events } = self;
        writeln!(f, "{request} of controller {controller} {state}")?;
        if *attempt > 0 {
            writeln!(f, "attempts since its last success: {attempt}")?;
        }
        if causes.events() > 0 {
            writeln!(f, "{causes} since its last run began")?;
        }
        if runs.is_empty() {
            writeln!(f, "no recent run")?;
        }
        for event in failed_events {
            writeln!(f, "{event}")?;
        }
        let mut rest = &runs[..];
        while let [latest, earlier @ ..] = rest {
            let is_like = |run: &&Run| latest.result.is_failure() && run.result == latest.result;
            let alike = earlier.iter().take_while(is_like).count();
            let (group, before) = rest.split_at(1 + alike);
            write_runs(f, group)?;
            rest = before;
        }
        Ok(())
    }
}

/// Writes one line for runs that ended alike, the latest first.
fn write_runs(f: &mut fmt::Formatter<'_>, runs: &[Run]) -> fmt::Result {
    let [latest, ..] = runs else { return Ok(()) };
    let first = runs.last().unwrap_or(latest);
    write!(f, "{:.3} {} (", latest.ended, latest.result)?;
    if runs.len() > 1 {
        write!(
            f,
            "{} times since {:.3}, attempts {} to {}",
            runs.len(),
            first.ended,
            first.attempt,
            latest.attempt
        )?;
    } else {
        write!(f, "attempt {}, took {}", latest.attempt, Brief(latest.took))?;
    }
    // The causes of the first run apply to all: the others are its retries, or were caused by further events.
    let verb = if runs.len() > 1 { "began with " } else { "" };
    write!(f, "; {verb}{}", first.causes)?;
    for (index, write) in latest.writes.iter().flatten().enumerate() {
        write!(f, "{} {write}", if index == 0 { "; sent" } else { "," })?;
    }
    if latest.more_writes > 0 {
        write!(f, " and {} more writes", latest.more_writes)?;
    }
    #[cfg(feature = "opentelemetry")]
    if let Some(span) = &latest.span {
        write!(f, "; trace {}", span.trace_id())?;
    }
    writeln!(f, ")")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::{Cause, ChangeType, WithoutEvent};

    /// A run that ended at this second of Unix time, without an event.
    fn run(second: i64, attempt: u32, result: RunResult) -> Run {
        Run {
            ended: Timestamp::from_second(second).expect("a timestamp"),
            took: Duration::from_micros(12_345),
            attempt,
            causes: Causes::none(WithoutEvent::default()),
            result,
            writes: None,
            more_writes: 0,
            #[cfg(feature = "opentelemetry")]
            span: None,
        }
    }

    fn caused(mut run: Run) -> Run {
        run.causes = Causes::default();
        run.causes.add(Cause { change: ChangeType::Created, source: "widgets".into(), object: None });
        run
    }

    fn retried(run: Run) -> Run {
        Run { causes: Causes::none(WithoutEvent::Retry), ..run }
    }

    fn failed(text: &str) -> RunResult {
        RunResult::Failed(text.to_owned())
    }

    #[track_caller]
    fn check(runs: Vec<Run>, expected: &str) {
        let explanation = Explanation {
            controller: "widget".to_owned(),
            request: "Widget default/a".to_owned(),
            state: RequestState::Idle,
            attempt: 0,
            causes: Causes::default(),
            runs,
            failed_events: Vec::new(),
        };
        let text = explanation.to_string();
        let (_, lines) = text.split_once('\n').expect("a line for the state");
        assert_eq!(lines, expected);
    }

    #[test]
    fn failures_in_a_row_with_one_error_are_one_line() {
        check(
            vec![
                retried(run(9, 3, failed("no luck"))),
                retried(run(8, 2, failed("no luck"))),
                retried(run(7, 1, failed("no luck"))),
                run(6, 0, failed("busy")),
                run(5, 0, RunResult::Done),
                caused(run(4, 0, RunResult::Done)),
            ],
            "1970-01-01T00:00:09.000Z failed: no luck (3 times since 1970-01-01T00:00:07.000Z, attempts 1 to 3; began with a retry)\n\
             1970-01-01T00:00:06.000Z failed: busy (attempt 0, took 12ms; initial list, resync or source)\n\
             1970-01-01T00:00:05.000Z done (attempt 0, took 12ms; initial list, resync or source)\n\
             1970-01-01T00:00:04.000Z done (attempt 0, took 12ms; 1 event: widgets created)\n",
        );
    }
}
