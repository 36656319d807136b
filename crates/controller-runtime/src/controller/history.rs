//! What became of the last runs of each request, for whoever asks why something does not reconcile. Pure.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
};

use hashbrown::HashMap;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use tokio::time::Duration;

use super::explain::seconds;
use crate::reconcile::{Causes, Next, Outcome, Request};

/// How many runs of a request are kept.
const RUNS: usize = 32;
/// Of how many requests runs are kept.
const REQUESTS: usize = 1024;
/// How many bytes of an error are kept.
const LONGEST_ERROR: usize = 1024;

/// One run of a request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// When it ended.
    pub ended: Timestamp,
    /// How long it took; in JSON in seconds.
    #[serde(serialize_with = "seconds")]
    pub took: Duration,
    /// How many runs had failed in a row before it.
    pub attempt: u32,
    /// What led to it.
    pub causes: Causes,
    /// How it ended.
    pub result: RunResult,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "camelCase")]
pub enum RunResult {
    /// The request is settled until the next event.
    Done,
    /// It asked to run again, with back-off.
    Requeued,
    /// It asked to run again after this long.
    RequeuedAfter(#[serde(serialize_with = "seconds")] Duration),
    /// It failed, and is retried.
    Failed(String),
    /// It failed in a way that no retry can mend.
    FailedForGood(String),
    /// It panicked, and is retried.
    Panicked(String),
    /// It was stopped because it took too long, and is retried.
    TimedOut,
}

impl RunResult {
    /// What is kept of an outcome: of its error the beginning.
    pub(super) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Returned(Ok(action)) => match action.next {
                Next::Done => Self::Done,
                Next::Requeue => Self::Requeued,
                Next::RequeueAfter(delay) => Self::RequeuedAfter(delay),
            },
            Outcome::Returned(Err(error)) if error.is_terminal() => Self::FailedForGood(beginning(error)),
            Outcome::Returned(Err(error)) => Self::Failed(beginning(error)),
            Outcome::Panicked(text) => Self::Panicked(beginning(text)),
            Outcome::TimedOut => Self::TimedOut,
        }
    }

    /// Whether something is wrong.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        !matches!(self, Self::Done | Self::Requeued | Self::RequeuedAfter(_))
    }

    /// What went wrong, in words.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Failed(text) | Self::FailedForGood(text) | Self::Panicked(text) => Some(text),
            Self::TimedOut => Some("stopped at its timeout"),
            Self::Done | Self::Requeued | Self::RequeuedAfter(_) => None,
        }
    }
}

/// The beginning of a text, as long as is kept.
fn beginning(error: &dyn fmt::Display) -> String {
    let mut text = format!("{error:#}");
    text.truncate(text.floor_char_boundary(LONGEST_ERROR));
    text.shrink_to_fit();
    text
}

/// The last runs of the requests that ran last.
///
/// Bounded: the request that ran longest ago goes first, those that failed last of all.
#[derive(Debug)]
pub(crate) struct History<R> {
    requests: HashMap<R, Runs>,
    /// Requests by the number of their last run: those that failed, and the others.
    failed: BTreeMap<u64, R>,
    settled: BTreeMap<u64, R>,
    run: u64,
}

#[derive(Debug)]
struct Runs {
    runs: VecDeque<Run>,
    last: u64,
}

/// Runs that are no longer kept.
#[derive(Debug)]
pub(crate) struct Forgotten {
    _first: Option<Run>,
    _runs: Option<VecDeque<Run>>,
}

impl<R> Default for History<R> {
    fn default() -> Self {
        Self { requests: HashMap::new(), failed: BTreeMap::new(), settled: BTreeMap::new(), run: 0 }
    }
}

impl<R: Request> History<R> {
    /// Notes a run; what is forgotten for it.
    #[must_use = "to drop it takes a while, which need not be under a lock"]
    pub(crate) fn add(&mut self, request: &R, run: Run) -> Option<Forgotten> {
        self.run += 1;
        let failed = run.result.is_failure();
        let (key, first) = match self.requests.get_mut(request) {
            Some(known) => {
                let first = if known.runs.len() == RUNS { known.runs.pop_front() } else { None };
                known.runs.push_back(run);
                let last = std::mem::replace(&mut known.last, self.run);
                (self.failed.remove(&last).or_else(|| self.settled.remove(&last)), first)
            }
            None => {
                let runs = Runs { runs: VecDeque::from([run]), last: self.run };
                self.requests.insert(request.clone(), runs);
                (None, None)
            }
        };
        let order = if failed { &mut self.failed } else { &mut self.settled };
        order.insert(self.run, key.unwrap_or_else(|| request.clone()));
        let runs = if self.requests.len() > REQUESTS {
            let oldest = self.settled.pop_first().or_else(|| self.failed.pop_first());
            oldest.and_then(|(_, request)| self.requests.remove(&request)).map(|known| known.runs)
        } else {
            None
        };
        (first.is_some() || runs.is_some()).then_some(Forgotten { _first: first, _runs: runs })
    }

    /// What went wrong in the last run of a request, if anything did.
    pub(crate) fn last_error(&self, request: &R) -> Option<String> {
        self.requests.get(request)?.runs.back()?.result.error().map(str::to_owned)
    }

    /// The last runs of a request, the latest last.
    pub(crate) fn of(&self, request: &R) -> impl DoubleEndedIterator<Item = &Run> {
        self.requests.get(request).into_iter().flat_map(|known| &known.runs)
    }

    /// All requests of which runs are kept, in no order.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &R> {
        self.requests.keys()
    }

    /// Requests whose last run failed, the one that failed longest ago first.
    pub(crate) fn failing(&self) -> impl Iterator<Item = &R> {
        self.failed.values()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(result: RunResult) -> Run {
        Run {
            ended: Timestamp::UNIX_EPOCH,
            took: Duration::ZERO,
            attempt: 0,
            causes: Causes::default(),
            result,
        }
    }

    fn failure(text: impl Into<String>) -> Run {
        run(RunResult::Failed(beginning(&text.into())))
    }

    #[test]
    fn the_last_thirty_two_runs_are_kept() {
        let mut history = History::default();
        for number in 0..40 {
            let _ = history.add(&"a", failure(number.to_string()));
        }
        let texts: Vec<_> = history.of(&"a").filter_map(|run| run.result.error()).collect();
        assert_eq!((texts.len(), texts[0], texts[31]), (32, "8", "39"));
    }

    #[test]
    fn what_failed_is_kept_longer_than_what_succeeded() {
        let mut history = History::default();
        let _ = history.add(&0, failure("early"));
        for request in 1..5000 {
            let _ = history.add(&request, run(RunResult::Done));
        }
        assert_eq!(history.of(&0).count(), 1);
        assert_eq!(history.of(&1).count(), 0);
        assert_eq!(history.of(&4999).count(), 1);
        assert_eq!(history.requests.len(), REQUESTS);
        assert_eq!(history.failing().collect::<Vec<_>>(), [&0]);

        for request in 5000..9000 {
            let _ = history.add(&request, failure("late"));
        }
        assert_eq!(history.requests.len(), REQUESTS);
        assert_eq!(history.failing().next(), Some(&(9000 - 1024)));
    }

    #[test]
    fn long_errors_are_cut_between_characters() {
        let text = "ä".repeat(1000);
        let Some(kept) = failure(text).result.error().map(str::len) else { panic!("a failure has an error") };
        assert_eq!(kept, 1024);
    }

    proptest! {
        /// Each request is in exactly one of the two orders, under the number of its last run.
        #[test]
        fn the_orders_agree_with_the_requests(steps in prop::collection::vec((0..6u8, any::<bool>()), 0..60)) {
            let mut history = History::default();
            let mut last = BTreeMap::new();
            for (request, fails) in steps {
                let _ = history.add(&request, if fails { failure("no") } else { run(RunResult::Done) });
                last.insert(request, fails);
            }
            prop_assert_eq!(history.failed.len() + history.settled.len(), history.requests.len());
            for (request, known) in &history.requests {
                let order = if last[request] { &history.failed } else { &history.settled };
                prop_assert_eq!(order.get(&known.last), Some(request));
            }
        }
    }
}
