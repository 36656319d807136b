//! Facts about a controller's requests that the queue does not store: causes and runs.

use hashbrown::HashMap;
use k8s_openapi::jiff::Timestamp;
use kube_clock::Clock;
use kube_workqueue::Queue;
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use super::{
    explain::{Explanation, RequestState},
    history::{History, Run, RunResult},
};
use crate::{
    findings::self_triggers::Chain,
    reconcile::{Cause, Causes, Request},
};

/// The causes of coming runs, and the past runs.
#[derive(Debug)]
pub(crate) struct Tracker<R>(Mutex<TrackedRequests<R>>);

#[derive(Debug)]
struct TrackedRequests<R> {
    /// Requests with events since the beginning of their last run; at most as many as are in the queue.
    pending: HashMap<R, Pending>,
    history: History<R>,
}

/// Events that lead to a run.
#[derive(Debug)]
struct Pending {
    causes: Causes,
    /// Time of the first of them.
    since: Instant,
    /// Whether one of the events will not be delivered again, so that the request must stay in the queue.
    only_once: bool,
}

/// Facts about a run at its beginning.
#[derive(Debug, Default)]
pub(crate) struct Beginning {
    /// Events that led to it.
    pub(crate) causes: Causes,
    /// Time of the first event, if there was one.
    pub(crate) since: Option<Instant>,
    /// Error of the previous run, if that run failed.
    pub(crate) last_error: Option<String>,
    /// The previous run, unless it succeeded without requeueing the request.
    #[cfg(feature = "opentelemetry")]
    pub(crate) before: Option<crate::telemetry::Before>,
}

/// Whether a source delivers its events again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Redelivery {
    /// The source delivers all events again in its next run.
    NextRun,
    /// The source does not deliver its events again.
    Never,
}

impl<R> Default for Tracker<R> {
    fn default() -> Self {
        Self(Mutex::new(TrackedRequests { pending: HashMap::new(), history: History::default() }))
    }
}

impl<R: Request> Tracker<R> {
    /// Records an event as a cause of the next run, and whether its source will deliver it again. Must be called before the
    /// request is added to the queue: otherwise the run may begin before its cause is recorded.
    pub(crate) fn record_cause(&self, request: &R, cause: Cause, redelivery: Redelivery) {
        let pending = &mut self.0.lock().pending;
        match pending.get_mut(request) {
            Some(known) => {
                known.causes.add(cause);
                known.only_once |= redelivery == Redelivery::Never;
            }
            None => {
                let mut causes = Causes::default();
                causes.add(cause);
                let only_once = redelivery == Redelivery::Never;
                pending.insert(request.clone(), Pending { causes, since: Instant::now(), only_once });
            }
        }
    }

    /// Forgets the events of a request if their sources will deliver all of them again. Returns whether they will.
    pub(crate) fn forget_repeatable(&self, request: &R) -> bool {
        let mut inner = self.0.lock();
        let is_repeatable = inner.pending.get(request).is_none_or(|pending| !pending.only_once);
        let forgotten = if is_repeatable { inner.take_pending(request) } else { None };
        // Causes are dropped without the lock.
        drop(inner);
        drop(forgotten);
        is_repeatable
    }

    /// Records the beginning of a run with its attempt number, and returns the facts about it.
    pub(crate) fn begin(&self, request: &R, attempt: u32) -> Beginning {
        let mut inner = self.0.lock();
        let pending = inner.take_pending(request);
        let last = inner.history.last(request);
        let last_error = last.and_then(|run| run.result.error().map(str::to_owned));
        let without_event = RunResult::reason_without_event(last.map(|run| &run.result), attempt);
        #[cfg(feature = "opentelemetry")]
        let before = last
            .filter(|run| run.result != RunResult::Done)
            .map(|run| crate::telemetry::Before { ended: run.ended, span: run.span.clone() });
        drop(inner);
        let (causes, since) = pending.map(|pending| (pending.causes, pending.since)).unzip();
        Beginning {
            causes: causes.unwrap_or_else(|| Causes::none(without_event)),
            since,
            last_error,
            #[cfg(feature = "opentelemetry")]
            before,
        }
    }

    /// Records a run that has ended, and the chain of runs that its writes may lead to.
    pub(crate) fn end(&self, request: &R, run: Run, chain: Option<Box<Chain>>) {
        let mut inner = self.0.lock();
        let forgotten = inner.history.add(request, run);
        if let Some(chain) = chain {
            inner.history.set_chain(request, chain);
        }
        drop(inner);
        // Dropped runs are freed outside the lock.
        drop(forgotten);
    }

    /// Takes the chain of a running request.
    pub(crate) fn take_chain(&self, request: &R) -> Option<Box<Chain>> {
        self.0.lock().history.take_chain(request)
    }

    /// The requests with chains for which `make` returns a value, and these values.
    pub(crate) fn in_chains<T>(&self, make: impl Fn(&Chain) -> Option<T>) -> Vec<(R, T)> {
        let inner = self.0.lock();
        let chains = inner.history.chains();
        chains.filter_map(|(request, chain)| Some((request.clone(), make(chain)?))).collect()
    }

    /// Error of the last run of `request`, if that run failed.
    pub(crate) fn last_error(&self, request: &R) -> Option<String> {
        self.0.lock().history.last(request)?.result.error().map(str::to_owned)
    }

    /// Time and error of the last run of `request`, if that run failed.
    pub(crate) fn last_failure(&self, request: &R) -> Option<(Timestamp, String)> {
        let inner = self.0.lock();
        let run = inner.history.last(request)?;
        Some((run.ended, run.result.error()?.to_owned()))
    }

    /// Failing requests in the order of their last runs, the oldest first.
    pub(crate) fn failing(&self) -> Vec<R> {
        self.0.lock().history.failing().cloned().collect()
    }

    /// Number of failing requests.
    pub(crate) fn failing_count(&self) -> usize {
        self.0.lock().history.failing().count()
    }

    /// Durations of the last runs of the requests with stored runs.
    pub(crate) fn durations(&self) -> Vec<Duration> {
        self.0.lock().history.last_runs().map(|run| run.took).collect()
    }

    /// Returns whether the request has stored runs.
    pub(crate) fn has_run(&self, request: &R) -> bool {
        self.0.lock().history.last(request).is_some()
    }

    /// The requests with stored runs, sorted.
    pub(crate) fn ran(&self) -> Vec<R> {
        let mut ran: Vec<R> = self.0.lock().history.requests().cloned().collect();
        ran.sort();
        ran
    }

    /// Explains the state of `request`.
    pub(crate) fn explain(
        &self,
        controller: &str,
        request: &R,
        queue: &Queue<R>,
        clock: Clock,
    ) -> Explanation {
        let state = queue.snapshot_of(request).map(|seen| (seen.state, seen.priority));
        // `Debug` is user code, which must not run under the lock.
        let (named, attempt) = (format!("{request:?}"), queue.num_requeues(request));
        let inner = self.0.lock();
        let pending = inner.pending.get(request);
        Explanation {
            controller: controller.to_owned(),
            request: named,
            state: RequestState::of(state, clock),
            attempt,
            causes: pending.map(|pending| pending.causes.clone()).unwrap_or_default(),
            runs: inner.history.of(request).rev().cloned().collect(),
            failed_events: Vec::new(),
        }
    }
}

/// Number of pending requests for which memory stays allocated after they have run.
const KEPT: usize = 1024;

impl<R: Request> TrackedRequests<R> {
    /// Removes a pending request. If most of the memory is unused afterwards, half of it or more is freed, so the cost is
    /// proportional to the number of removals before.
    fn take_pending(&mut self, request: &R) -> Option<Pending> {
        let taken = self.pending.remove(request)?;
        let (len, capacity) = (self.pending.len(), self.pending.capacity());
        if capacity > 2 * KEPT && len < capacity / 4 {
            self.pending.shrink_to(KEPT.max(2 * len));
        }
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, fmt, sync::Arc};

    use super::*;
    use crate::{reconcile::ChangeType, request_queue::RequestQueue};

    thread_local! {
        static TRACKER: RefCell<Option<Arc<Tracker<Nosy>>>> = const { RefCell::new(None) };
    }

    /// A request with a `Debug` implementation that checks the lock of the tracker.
    #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
    struct Nosy(&'static str);

    impl fmt::Debug for Nosy {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            TRACKER.with_borrow(|tracker| {
                let is_locked = tracker.as_ref().is_some_and(|tracker| tracker.0.is_locked());
                assert!(!is_locked, "user code under the lock of the tracker");
            });
            write!(f, "Nosy {}", self.0)
        }
    }

    #[test]
    fn requests_are_formatted_while_no_lock_is_held() {
        let requests = RequestQueue::of(Queue::default());
        TRACKER.set(Some(Arc::clone(&requests.tracker)));
        let cause = Cause { change: ChangeType::Updated, source: Arc::from("x"), object: None };
        requests.tracker.record_cause(&Nosy("expected"), cause, Redelivery::NextRun);
        let run = Run {
            ended: Timestamp::UNIX_EPOCH,
            took: Duration::ZERO,
            attempt: 0,
            causes: Causes::default(),
            result: RunResult::TimedOut,
            writes: None,
            more_writes: 0,
            #[cfg(feature = "opentelemetry")]
            span: None,
        };
        requests.tracker.end(&Nosy("ran"), run, None);
        assert_eq!(requests.explain(&Nosy("ran")).runs.len(), 1);
        let why = requests.explain_named("ran").expect("it ran");
        assert_eq!((&*why.request, why.runs.len()), ("Nosy ran", 1));
        assert_eq!(requests.explain_named("run").expect_err("it is spelt differently"), ["ran"]);
        assert_eq!(requests.overview().failing.len(), 1);
    }

    #[test]
    fn the_memory_of_a_million_requests_is_freed_when_they_run() {
        let tracker = Tracker::default();
        let cause = Cause { change: ChangeType::Updated, source: Arc::from("x"), object: None };
        for request in 0..1_000_000_u32 {
            tracker.record_cause(&request, cause.clone(), Redelivery::NextRun);
        }
        let capacity = || tracker.0.lock().pending.capacity();
        assert!(capacity() >= 1_000_000);
        for request in 0..990_000 {
            assert!(tracker.begin(&request, 0).since.is_some());
        }
        assert!(capacity() <= 40_000, "{}", capacity());
        for request in 990_000..1_000_000 {
            assert!(tracker.begin(&request, 0).since.is_some());
        }
        assert!(capacity() <= 2 * KEPT, "{}", capacity());
    }
}
