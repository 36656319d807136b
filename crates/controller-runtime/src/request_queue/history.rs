//! History of the last runs of each request, for explanations. Pure.

use std::{collections::VecDeque, fmt, hash::BuildHasher};

use hashbrown::{DefaultHashBuilder, HashTable};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use tokio::time::Duration;

use super::explain::seconds;
use crate::{
    client::RunWrite,
    findings::self_triggers::Chain,
    reconcile::{Causes, NextRun, Outcome, Request, WithoutEvent},
};

/// Number of runs stored for a request.
const RUNS: usize = 32;
/// Number of requests with stored runs.
const REQUESTS: usize = 1024;
/// Number of bytes stored of an error.
const LONGEST_ERROR: usize = 1024;
/// Number of runs of a request, the last ones, that keep their writes.
const WITH_WRITES: usize = 4;

/// One run of a request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Time at which it ended.
    pub ended: Timestamp,
    /// Time that it took; in JSON in seconds.
    #[serde(serialize_with = "seconds")]
    pub took: Duration,
    /// Attempt number ([`Context::attempt`](crate::Context::attempt)): earlier runs since the last success that failed or
    /// requeued the request with back-off.
    pub attempt: u32,
    /// Events that led to it.
    pub causes: Causes,
    /// Its result.
    pub result: RunResult,
    /// Its first 16 writes, without dry runs and without those of spawned tasks. `None` for all but the last four runs of the
    /// request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes: Option<Box<[RunWrite]>>,
    /// Number of writes after the first 16.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_writes: u32,
    /// Its span, if it is exported; in JSON its `traceparent`.
    #[cfg(feature = "opentelemetry")]
    #[serde(
        rename = "traceparent",
        serialize_with = "crate::telemetry::traceparent",
        skip_serializing_if = "Option::is_none"
    )]
    pub span: Option<crate::telemetry::SpanContext>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "camelCase")]
pub enum RunResult {
    /// The request is done until the next event.
    Done,
    /// The reconcile requeued the request with back-off ([`Action::requeue`](crate::Action::requeue)).
    Requeued,
    /// The reconcile requeued the request with this delay ([`Action::requeue_after`](crate::Action::requeue_after)).
    RequeuedAfter(#[serde(serialize_with = "seconds")] Duration),
    /// The reconcile failed, and is retried.
    Failed(String),
    /// The reconcile failed with a terminal error, which is not retried.
    FailedForGood(String),
    /// The reconcile panicked, and is retried.
    Panicked(String),
    /// The reconcile exceeded its timeout and was dropped; it is retried.
    TimedOut,
}

impl RunResult {
    /// The result of an outcome, with the beginning of its error.
    pub(crate) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Returned(Ok(action)) => match action.next {
                NextRun::Done => Self::Done,
                NextRun::Requeue => Self::Requeued,
                NextRun::RequeueAfter(delay) => Self::RequeuedAfter(delay),
            },
            Outcome::Returned(Err(error)) if error.is_terminal() => Self::FailedForGood(beginning(error)),
            Outcome::Returned(Err(error)) => Self::Failed(beginning(error)),
            Outcome::Panicked(text) => Self::Panicked(beginning(text)),
            Outcome::TimedOut => Self::TimedOut,
        }
    }

    /// Returns the reason for a run without events, from its attempt number and the result of the previous run, if that is stored.
    pub(crate) fn reason_without_event(before: Option<&Self>, attempt: u32) -> WithoutEvent {
        match before {
            Some(Self::Failed(_) | Self::Panicked(_) | Self::TimedOut) => WithoutEvent::Retry,
            Some(Self::Requeued | Self::RequeuedAfter(_)) => WithoutEvent::Requested,
            None if attempt > 0 => WithoutEvent::Retry,
            None | Some(Self::Done | Self::FailedForGood(_)) => WithoutEvent::Listed,
        }
    }

    /// Returns whether the run failed.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        !matches!(self, Self::Done | Self::Requeued | Self::RequeuedAfter(_))
    }

    /// Error message of a failed run.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Failed(text) | Self::FailedForGood(text) | Self::Panicked(text) => Some(text),
            Self::TimedOut => Some("stopped at its timeout"),
            Self::Done | Self::Requeued | Self::RequeuedAfter(_) => None,
        }
    }
}

/// The beginning of a text, within the stored length.
fn beginning(error: &dyn fmt::Display) -> String {
    let mut text = format!("{error:#}");
    text.truncate(text.floor_char_boundary(LONGEST_ERROR));
    text.shrink_to_fit();
    text
}

/// The last runs of the requests that ran last.
///
/// Bounded: the request that ran longest ago is dropped first; failing requests are dropped last.
#[derive(Debug)]
pub(crate) struct History<R> {
    /// Place of each request in `slots`.
    places: HashTable<u32>,
    slots: Vec<RequestSlot<R>>,
    /// The failing requests in the order of their last runs; `settled` has the others.
    failed: Order,
    settled: Order,
    hasher: DefaultHashBuilder,
}

/// A request that ran. It keeps its place until another request takes it.
#[derive(Debug)]
struct RequestSlot<R> {
    request: R,
    hash: u64,
    runs: VecDeque<Run>,
    has_failed: bool,
    /// The runs that its own writes caused.
    chain: Option<Box<Chain>>,
    /// Its neighbours in `failed` or `settled` of the history: the request that ran before it, and the one that ran after it.
    before: Option<u32>,
    after: Option<u32>,
}

/// Slots in the order of their last runs.
#[derive(Debug, Default)]
struct Order {
    oldest: Option<u32>,
    latest: Option<u32>,
}

/// Runs that are no longer stored. The fields are never read: they carry the memory out of the lock, where it is freed.
#[derive(Debug)]
pub(crate) struct Forgotten {
    _first: Option<Run>,
    _runs: VecDeque<Run>,
    _writes: Option<Box<[RunWrite]>>,
}

impl<R> Default for History<R> {
    fn default() -> Self {
        Self {
            places: HashTable::new(),
            slots: Vec::new(),
            failed: Order::default(),
            settled: Order::default(),
            hasher: DefaultHashBuilder::default(),
        }
    }
}

impl<R: Request> History<R> {
    /// Adds a run. Returns the runs dropped to make room.
    #[must_use = "drop it outside of the lock, because that takes a while"]
    pub(crate) fn add(&mut self, request: &R, run: Run) -> Forgotten {
        let has_failed = run.result.is_failure();
        let hash = self.hasher.hash_one(request);
        let (place, mut forgotten) = match self.place_of(hash, request) {
            Some(place) => {
                self.unlink(place);
                (place, Forgotten { _first: None, _runs: VecDeque::new(), _writes: None })
            }
            None => self.enter(hash, request),
        };
        // The slot is in no order here, so that the result of this run decides in which it belongs.
        let slot = &mut self.slots[place as usize];
        slot.has_failed = has_failed;
        if slot.runs.len() == RUNS {
            forgotten._first = slot.runs.pop_front();
        }
        slot.runs.push_back(run);
        if let Some(place) = slot.runs.len().checked_sub(WITH_WRITES + 1) {
            forgotten._writes = slot.runs[place].writes.take();
        }
        self.link(place);
        forgotten
    }

    /// The last run of a request.
    pub(crate) fn last(&self, request: &R) -> Option<&Run> {
        self.of(request).next_back()
    }

    /// The last runs of a request, the latest last.
    pub(crate) fn of(&self, request: &R) -> impl DoubleEndedIterator<Item = &Run> {
        let slot =
            self.place_of(self.hasher.hash_one(request), request).map(|place| &self.slots[place as usize]);
        slot.into_iter().flat_map(|slot| &slot.runs)
    }

    /// Takes the chain of a request, to be set again after its run.
    pub(crate) fn take_chain(&mut self, request: &R) -> Option<Box<Chain>> {
        let place = self.place_of(self.hasher.hash_one(request), request)?;
        self.slots[place as usize].chain.take()
    }

    /// Sets the chain of a request with stored runs.
    pub(crate) fn set_chain(&mut self, request: &R, chain: Box<Chain>) {
        if let Some(place) = self.place_of(self.hasher.hash_one(request), request) {
            self.slots[place as usize].chain = Some(chain);
        }
    }

    /// Requests with chains.
    pub(crate) fn chains(&self) -> impl Iterator<Item = (&R, &Chain)> {
        self.slots.iter().filter_map(|slot| Some((&slot.request, slot.chain.as_deref()?)))
    }

    /// All requests with stored runs, in no particular order.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &R> {
        self.slots.iter().map(|slot| &slot.request)
    }

    /// The last run of each request, in no particular order.
    pub(crate) fn last_runs(&self) -> impl Iterator<Item = &Run> {
        self.slots.iter().filter_map(|slot| slot.runs.back())
    }

    /// Failing requests in the order of their last runs, the oldest first.
    pub(crate) fn failing(&self) -> impl Iterator<Item = &R> {
        self.slots_of(&self.failed).map(|slot| &slot.request)
    }

    /// Slots of an order, the oldest first.
    fn slots_of(&self, order: &Order) -> impl Iterator<Item = &RequestSlot<R>> {
        let slot = |place: u32| &self.slots[place as usize];
        std::iter::successors(order.oldest.map(slot), move |last| last.after.map(slot))
    }

    fn place_of(&self, hash: u64, request: &R) -> Option<u32> {
        self.places.find(hash, |&place| self.slots[place as usize].request == *request).copied()
    }

    /// Gives a new request a place: a free one, or that of the request that is dropped first. The place is in no order yet.
    fn enter(&mut self, hash: u64, request: &R) -> (u32, Forgotten) {
        let mut forgotten = Forgotten { _first: None, _runs: VecDeque::new(), _writes: None };
        let oldest =
            if self.slots.len() < REQUESTS { None } else { self.settled.oldest.or(self.failed.oldest) };
        let place = if let Some(place) = oldest {
            self.unlink(place);
            let slot = &mut self.slots[place as usize];
            // Compares places, because a comparison of requests may be slow.
            if let Ok(known) = self.places.find_entry(slot.hash, |&at| at == place) {
                known.remove();
            }
            // An allocation for one run is reused; a larger one is freed by the caller, outside the lock.
            if slot.runs.len() > 1 {
                forgotten._runs = std::mem::take(&mut slot.runs);
            }
            forgotten._first = slot.runs.pop_front();
            (slot.request, slot.hash, slot.chain) = (request.clone(), hash, None);
            place
        } else {
            let request = request.clone();
            let runs = VecDeque::with_capacity(1);
            self.slots.push(RequestSlot {
                request,
                hash,
                runs,
                has_failed: false,
                chain: None,
                before: None,
                after: None,
            });
            u32::try_from(self.slots.len() - 1).expect("there are no more than REQUESTS")
        };
        self.places.insert_unique(hash, place, |&place| self.slots[place as usize].hash);
        (place, forgotten)
    }

    /// Removes a slot from its order.
    fn unlink(&mut self, place: u32) {
        let RequestSlot { before, after, has_failed, .. } = self.slots[place as usize];
        let order = if has_failed { &mut self.failed } else { &mut self.settled };
        match before {
            Some(before) => self.slots[before as usize].after = after,
            None => order.oldest = after,
        }
        match after {
            Some(after) => self.slots[after as usize].before = before,
            None => order.latest = before,
        }
    }

    /// Makes a slot the latest of its order.
    fn link(&mut self, place: u32) {
        let order = if self.slots[place as usize].has_failed { &mut self.failed } else { &mut self.settled };
        let before = order.latest.replace(place);
        match before {
            Some(before) => self.slots[before as usize].after = Some(place),
            None => order.oldest = Some(place),
        }
        let slot = &mut self.slots[place as usize];
        (slot.before, slot.after) = (before, None);
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
            writes: Some(Box::default()),
            more_writes: 0,
            #[cfg(feature = "opentelemetry")]
            span: None,
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
    fn the_writes_of_the_last_four_runs_are_kept() {
        let mut history = History::default();
        for _ in 0..40 {
            let _ = history.add(&"a", run(RunResult::Done));
        }
        let with_writes: Vec<_> = history.of(&"a").map(|run| run.writes.is_some()).collect();
        assert_eq!(with_writes, [[false; 28].as_slice(), &[true; 4]].concat());
    }

    #[test]
    fn failing_requests_are_kept_longer_than_others() {
        let mut history = History::default();
        let _ = history.add(&0, failure("early"));
        for request in 1..5000 {
            let _ = history.add(&request, run(RunResult::Done));
        }
        assert_eq!(history.of(&0).count(), 1);
        assert_eq!(history.of(&1).count(), 0);
        assert_eq!(history.of(&4999).count(), 1);
        assert_eq!(history.requests().count(), REQUESTS);
        assert_eq!(history.failing().collect::<Vec<_>>(), [&0]);

        for request in 5000..9000 {
            let _ = history.add(&request, failure("late"));
        }
        assert_eq!(history.requests().count(), REQUESTS);
        assert_eq!(history.failing().next(), Some(&(9000 - 1024)));
    }

    #[test]
    fn a_run_without_an_event_follows_from_the_run_before() {
        let after =
            |before: Option<RunResult>, attempt| RunResult::reason_without_event(before.as_ref(), attempt);
        let requeued_after = RunResult::RequeuedAfter(Duration::from_secs(60));
        assert_eq!(after(Some(RunResult::TimedOut), 0), WithoutEvent::Retry);
        assert_eq!(after(Some(requeued_after), 0), WithoutEvent::Requested);
        assert_eq!(after(Some(RunResult::Requeued), 1), WithoutEvent::Requested);
        assert_eq!(after(Some(RunResult::FailedForGood("x".to_owned())), 0), WithoutEvent::Listed);
        assert_eq!(after(None, 31), WithoutEvent::Retry, "that run is forgotten");
        assert_eq!(after(None, 0), WithoutEvent::Listed);
    }

    #[test]
    fn long_errors_are_cut_between_characters() {
        let text = "ä".repeat(1000);
        let Some(kept) = failure(text).result.error().map(str::len) else { panic!("a failure has an error") };
        assert_eq!(kept, 1024);
    }

    /// Requests in the order of their last runs: whether the last run failed, and the number of stored runs.
    type Model = Vec<(usize, bool, usize)>;

    /// Adds a run by the rules in the documentation of [`History`].
    fn note(model: &mut Model, request: usize, has_failed: bool) {
        let known = model.iter().position(|&(known, ..)| known == request);
        let runs = known.map_or(0, |at| model.remove(at).2);
        if known.is_none() && model.len() == REQUESTS {
            let oldest = model.iter().position(|&(_, has_failed, _)| !has_failed).unwrap_or(0);
            model.remove(oldest);
        }
        model.push((request, has_failed, (runs + 1).min(RUNS)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Compared with a plain list, with as many requests as are stored and some more.
        #[test]
        fn history_equals_a_plain_list(
            spread in prop_oneof![Just(6usize), Just(REQUESTS + 60)],
            steps in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..400),
        ) {
            let mut history = History::default();
            let mut model = Model::new();
            // As many as there is room for, so that the steps start with a full history.
            let begin = (0..spread.min(REQUESTS)).map(|request| (request, request % 7 == 0));
            let steps = steps.into_iter().map(|(request, has_failed)| (request.index(spread), has_failed));
            for (request, has_failed) in begin.chain(steps) {
                let _ = history.add(&request, if has_failed { failure("no") } else { run(RunResult::Done) });
                note(&mut model, request, has_failed);
            }
            for order in [true, false] {
                let slots = history.slots_of(if order { &history.failed } else { &history.settled });
                let is: Vec<_> = slots.map(|slot| (slot.request, slot.has_failed, slot.runs.len())).collect();
                let should = model.iter().copied().filter(|&(_, has_failed, _)| has_failed == order).collect::<Vec<_>>();
                prop_assert_eq!(is, should);
            }
            prop_assert_eq!(history.requests().count(), model.len());
            prop_assert_eq!(history.places.len(), model.len());
            for (request, has_failed, runs) in model {
                prop_assert_eq!(history.of(&request).count(), runs);
                prop_assert_eq!(history.last(&request).is_some_and(|run| run.result.is_failure()), has_failed);
            }
        }
    }
}
