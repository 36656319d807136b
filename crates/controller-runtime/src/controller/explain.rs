//! The answer to "why is this object not reconciling?".

use std::fmt;

use k8s_openapi::jiff::Timestamp;
use kube_clock::Clock;
use kube_workqueue::{KeyState, Priority, Reason};
use serde::{Serialize, Serializer};
use tokio::time::{Duration, Instant};

use super::{
    FailedEvent,
    history::{Run, RunResult},
};
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
    /// Events of an object of the request's name that a predicate or handler has failed to handle: the first 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_events: Vec<FailedEvent>,
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
                since.map_or(Ok(()), |since| write!(f, ", since {since:.3}"))
            }
            Self::Waiting { until, left, rule } => {
                write!(f, "waits {} more, until {until:.3}: {rule}", Brief(*left))
            }
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
            Self::RequeuedAfter(delay) => write!(f, "asked to run again after {}", Brief(*delay)),
            Self::Failed(text) => write!(f, "failed: {text}"),
            Self::FailedForGood(text) => write!(f, "failed for good: {text}"),
            Self::Panicked(text) => write!(f, "panicked: {text}"),
            Self::TimedOut => f.write_str("stopped at its timeout"),
        }
    }
}

/// The story: a line for the state, then one for each run, the latest first. Failures in a row with one error share a line.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { controller, request, standing, attempt, causes, runs, failed_events } = self;
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
        for event in failed_events {
            writeln!(f, "{event}")?;
        }
        let mut rest = &runs[..];
        while let [latest, earlier @ ..] = rest {
            let is_like = |run: &&Run| latest.result.is_failure() && run.result == latest.result;
            let alike = earlier.iter().take_while(is_like).count();
            let (group, before) = rest.split_at(1 + alike);
            write_runs(f, group, before.first())?;
            rest = before;
        }
        Ok(())
    }
}

/// Writes the line of runs that ended alike, the latest first. `before` is the run before all of them.
fn write_runs(f: &mut fmt::Formatter<'_>, runs: &[Run], before: Option<&Run>) -> fmt::Result {
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
    let verb = if runs.len() > 1 { "began with " } else { "" };
    write!(f, "; {verb}{}", Trigger { run: first, before })?;
    #[cfg(feature = "opentelemetry")]
    if let Some(span) = &latest.span {
        write!(f, "; trace {}", span.trace_id())?;
    }
    writeln!(f, ")")
}

/// What led to a run, for a person. `before` is the run before it, if that is remembered.
struct Trigger<'r> {
    run: &'r Run,
    before: Option<&'r Run>,
}

impl fmt::Display for Trigger<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, before } = self;
        if run.causes.events() > 0 {
            return fmt::Display::fmt(&run.causes, f);
        }
        f.write_str(match before.map(|before| &before.result) {
            Some(RunResult::Failed(_) | RunResult::Panicked(_) | RunResult::TimedOut) => "a retry",
            Some(RunResult::Requeued | RunResult::RequeuedAfter(_)) => "requested by the run before",
            // Runs before the last 32 are forgotten.
            None if run.attempt > 0 => "a retry",
            None | Some(RunResult::Done | RunResult::FailedForGood(_)) => "initial list, resync or source",
        })
    }
}

/// A duration for a person, in milliseconds at the finest.
struct Brief(Duration);

impl fmt::Display for Brief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = Duration::from_millis(u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX));
        if millis.is_zero() { f.write_str("under 1ms") } else { write!(f, "{millis:?}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::{Cause, Change};

    /// A run that ended `second` seconds after the beginning of time.
    fn run(second: i64, attempt: u32, result: RunResult) -> Run {
        Run {
            ended: Timestamp::from_second(second).expect("a timestamp"),
            took: Duration::from_micros(12_345),
            attempt,
            causes: Causes::default(),
            result,
            #[cfg(feature = "opentelemetry")]
            span: None,
        }
    }

    fn caused(mut run: Run) -> Run {
        run.causes.add(Cause { change: Change::Created, source: "widgets".into(), object: None });
        run
    }

    fn failed(text: &str) -> RunResult {
        RunResult::Failed(text.to_owned())
    }

    #[track_caller]
    fn check(runs: Vec<Run>, expected: &str) {
        let explanation = Explanation {
            controller: "widget".to_owned(),
            request: "Widget default/a".to_owned(),
            standing: Standing::Idle,
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
                run(9, 3, failed("no luck")),
                run(8, 2, failed("no luck")),
                run(7, 1, failed("no luck")),
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

    #[test]
    fn a_run_without_an_event_says_what_led_to_it() {
        let minute = Duration::from_secs(60);
        check(
            vec![
                run(9, 1, RunResult::Done),
                run(8, 0, RunResult::TimedOut),
                run(7, 0, RunResult::RequeuedAfter(minute)),
                run(6, 31, RunResult::Done),
            ],
            "1970-01-01T00:00:09.000Z done (attempt 1, took 12ms; a retry)\n\
             1970-01-01T00:00:08.000Z stopped at its timeout (attempt 0, took 12ms; requested by the run before)\n\
             1970-01-01T00:00:07.000Z asked to run again after 60s (attempt 0, took 12ms; initial list, resync or source)\n\
             1970-01-01T00:00:06.000Z done (attempt 31, took 12ms; a retry)\n",
        );
    }

    #[test]
    fn durations_are_given_in_milliseconds_at_the_finest() {
        for (nanos, expected) in
            [(0, "under 1ms"), (999_999, "under 1ms"), (1_234_567, "1ms"), (61_234_567_890, "61.234s")]
        {
            assert_eq!(Brief(Duration::from_nanos(nanos)).to_string(), expected);
        }
    }
}
