//! Text of a request for the terminal: its state, its runs and their causes. Pure.

use std::fmt;

use super::shapes::{Cause, Causes, Outcome, Request, RequestState, Run, VerbCalls, Write};
use super::text::{clock, plural, row, span};

/// Runs that are listed, the latest first; more are counted.
const RUNS: usize = 4;

pub(super) fn write_request(f: &mut fmt::Formatter<'_>, request: &Request) -> fmt::Result {
    let Request { controller, request: name, state, attempt, causes, runs, failed_events } = request;
    let last = runs.first();
    let failed = last.filter(|run| run.result.error().is_some());
    writeln!(f, "{name} {} (controller {controller})", state_of(state, *attempt))?;
    if let Some(error) = failed.and_then(|run| run.result.error()) {
        row(f, "error", error)?;
    }
    if failed.is_some() {
        let before = runs.iter().position(|run| run.result.error().is_none());
        match before {
            Some(count) => row(
                f,
                "last ok",
                format_args!(
                    "{}; {} since then",
                    clock(&runs[count].ended),
                    plural(count as u64, "failed run")
                ),
            )?,
            None => row(f, "last ok", format_args!("none of the last {}", plural(runs.len() as u64, "run")))?,
        }
    }
    if causes.events > 0 {
        row(f, "pending", causes_of(causes))?;
    }
    for event in failed_events {
        row(f, "event", format_args!("of {} {} failed: {}", event.source, event.object, event.error))?;
    }
    for run in runs.iter().take(RUNS) {
        row(f, "run", RunLine(run))?;
    }
    if runs.len() > RUNS {
        row(f, "", format_args!("and {} before", plural((runs.len() - RUNS) as u64, "run")))?;
    }
    if runs.is_empty() {
        row(
            f,
            "run",
            "none recorded: for each controller, the operator keeps the runs of the 1024 requests that ran last",
        )?;
    }
    row(f, "next", next(state, last))
}

fn state_of(state: &RequestState, attempt: u32) -> String {
    match state {
        RequestState::Idle => "waits for an event".to_owned(),
        RequestState::Queued { since: Some(since), .. } => {
            format!("has been queued for a worker since {}", clock(since))
        }
        RequestState::Queued { since: None, .. } => "is queued for a worker".to_owned(),
        RequestState::Waiting { until, left, rule } => {
            let rule = match &**rule {
                "rateLimiter" if attempt > 0 => {
                    format!("back-off after {}", plural(attempt.into(), "failed run"))
                }
                "rateLimiter" => "the rate limiter set the delay".to_owned(),
                "delay" => "a reconcile or handler asked for the delay".to_owned(),
                "backOffEvents" => "an event has already shortened its back-off".to_owned(),
                "debounce" => "it waits until events pause".to_owned(),
                other => other.to_owned(),
            };
            format!("waits {} more, until {}: {rule}", span(*left), clock(until))
        }
        RequestState::Running { again: false } => "is being reconciled".to_owned(),
        RequestState::Running { again: true } => {
            "is being reconciled, and will be reconciled again".to_owned()
        }
        RequestState::Unknown(other) => {
            format!("is in a state that this version of cargo-operator does not know: {other}")
        }
    }
}

/// Returns the cause of the next run, and how the user can trigger it sooner.
fn next(state: &RequestState, last: Option<&Run>) -> &'static str {
    match (state, last.map(|run| &run.result)) {
        (RequestState::Idle, Some(Outcome::FailedForGood(_))) => {
            "the error is terminal, so there is no retry: the next event starts a run"
        }
        (RequestState::Idle, _) => {
            "an event of the object, or of an object that it owns or watches, starts a run"
        }
        (RequestState::Queued { .. }, _) => {
            "a free worker takes it; if it waits for long, see the findings about workers"
        }
        (RequestState::Waiting { rule, .. }, _) if rule == "rateLimiter" => {
            "repair the cause of the error; a change of the object's spec, or its deletion, starts a run at once"
        }
        (RequestState::Waiting { .. }, _) => "an event of the object starts a run sooner",
        (RequestState::Running { .. }, _) => "the run ends, or is stopped at its timeout",
        (RequestState::Unknown(_), _) => "install a newer cargo-operator",
    }
}

/// `2026-01-01 10:02:11 UTC  4 ms  attempt 2  configmaps updated  done  wrote nothing`; the first attempt has no number.
struct RunLine<'r>(&'r Run);

impl fmt::Display for RunLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Run { ended, took, attempt, causes, result, writes, more_writes } = self.0;
        write!(f, "{}  {}", clock(ended), span(*took))?;
        if *attempt > 0 {
            write!(f, "  attempt {}", attempt + 1)?;
        }
        write!(f, "  {}  {result}", causes_of(causes))?;
        match writes.as_deref() {
            None => Ok(()),
            Some([]) => f.write_str("  wrote nothing"),
            Some(writes) => {
                let writes: Vec<_> = writes.iter().map(ToString::to_string).collect();
                write!(f, "  wrote {}", writes.join(", "))?;
                if *more_writes > 0 { write!(f, " and {more_writes} more") } else { Ok(()) }
            }
        }
    }
}

/// `requests to the API server: 31 patch, 99 % of the latest within 31 ms, 3 failed (403: 3)`
impl fmt::Display for VerbCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, calls, errors, took } = self;
        write!(f, "requests to the API server: {calls} {verb}")?;
        if let Some(took) = took {
            write!(f, ", 99 % of the latest within {}", span(took.p99))?;
        }
        if errors.is_empty() {
            return Ok(());
        }
        let codes: Vec<_> = errors.iter().map(|(code, count)| format!("{code}: {count}")).collect();
        write!(f, ", {} failed ({})", errors.values().sum::<u64>(), codes.join(", "))
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.subject)?;
        match self.code {
            Some(200..300) => Ok(()),
            Some(code) => write!(f, " (refused with code {code})"),
            None => f.write_str(" (no answer)"),
        }
    }
}

impl Outcome {
    /// The error of a failed run.
    fn error(&self) -> Option<&str> {
        match self {
            Self::Failed(text) | Self::FailedForGood(text) | Self::Panicked(text) => Some(text),
            Self::TimedOut => Some("the reconcile exceeded its timeout"),
            Self::Done | Self::Requeued | Self::RequeuedAfter(_) | Self::Unknown(_) => None,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Requeued => f.write_str("requeued"),
            Self::RequeuedAfter(delay) => write!(f, "requeued after {}", span(*delay)),
            Self::Failed(_) => f.write_str("failed"),
            Self::FailedForGood(_) => f.write_str("failed with a terminal error"),
            Self::Panicked(_) => f.write_str("panicked"),
            Self::TimedOut => f.write_str("stopped at its timeout"),
            Self::Unknown(other) => write!(f, "{other}"),
        }
    }
}

fn causes_of(causes: &Causes) -> String {
    if causes.events == 0 {
        return match causes.without_event.as_deref() {
            Some("retry") => "a retry".to_owned(),
            Some("requested") => "requested by the previous run".to_owned(),
            _ => "initial list, resync or source".to_owned(),
        };
    }
    let cause = |cause: &Cause| {
        let object = cause.object.as_ref().map_or_else(String::new, |object| format!(" {object}"));
        match &*cause.change {
            // A generic event is not a change of an object, but for example a retry or a message from another system.
            "generic" => format!("{}{object}", cause.source),
            change => format!("{}{object} {change}", cause.source),
        }
    };
    let first: Vec<_> = causes.first.iter().map(cause).collect();
    match causes.events - causes.first.len().min(causes.events as usize) as u64 {
        0 => first.join(", "),
        more => format!("{} and {}", first.join(", "), plural(more, "more event")),
    }
}
