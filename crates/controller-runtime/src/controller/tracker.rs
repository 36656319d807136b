//! What a controller remembers of its requests besides what the queue knows: causes and runs.

use hashbrown::HashMap;
use kube_clock::Clock;
use kube_workqueue::Queue;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    explain::{Explanation, Standing},
    history::{History, Run},
};
use crate::reconcile::{Cause, Causes, Request};

/// The causes of runs to come, and the runs there were.
#[derive(Debug)]
pub(crate) struct Tracker<R>(Mutex<Inner<R>>);

#[derive(Debug)]
struct Inner<R> {
    /// Of requests that an event asked for and no run has answered yet. As many as are in the queue, at most.
    pending: HashMap<R, Pending>,
    history: History<R>,
}

/// What leads to a run.
#[derive(Debug)]
struct Pending {
    causes: Causes,
    /// When the first of them came.
    since: Instant,
}

/// What is known of a run when it begins.
#[derive(Debug, Default)]
pub(crate) struct Beginning {
    /// What led to it.
    pub(crate) causes: Causes,
    /// When the first event came, if there was one.
    pub(crate) since: Option<Instant>,
    /// What went wrong in the run before, if anything did.
    pub(crate) last_error: Option<String>,
    /// The run before, unless it was a success that asked for no other.
    #[cfg(feature = "opentelemetry")]
    pub(crate) before: Option<crate::telemetry::Before>,
}

impl<R> Default for Tracker<R> {
    fn default() -> Self {
        Self(Mutex::new(Inner { pending: HashMap::new(), history: History::default() }))
    }
}

impl<R: Request> Tracker<R> {
    /// Notes what leads to a run. To be called before the request is added to the queue, or the run may miss it.
    pub(crate) fn expect(&self, request: &R, cause: Cause) {
        let pending = &mut self.0.lock().pending;
        match pending.get_mut(request) {
            Some(known) => known.causes.add(cause),
            None => {
                let mut causes = Causes::default();
                causes.add(cause);
                pending.insert(request.clone(), Pending { causes, since: Instant::now() });
            }
        }
    }

    /// A run begins.
    pub(crate) fn begin(&self, request: &R) -> Beginning {
        let mut inner = self.0.lock();
        let pending = inner.pending.remove(request);
        let last_error = inner.history.last_error(request);
        #[cfg(feature = "opentelemetry")]
        let before = inner.history.unsettled(request).map(crate::telemetry::Before::of);
        drop(inner);
        let (causes, since) = pending.map(|pending| (pending.causes, pending.since)).unzip();
        Beginning {
            causes: causes.unwrap_or_default(),
            since,
            last_error,
            #[cfg(feature = "opentelemetry")]
            before,
        }
    }

    /// Notes a run that has ended.
    pub(crate) fn end(&self, request: &R, run: Run) {
        // What is forgotten for it is dropped after the lock.
        let _forgotten = self.0.lock().history.add(request, run);
    }

    /// What went wrong in the last run of `request`, if anything did.
    pub(crate) fn last_error(&self, request: &R) -> Option<String> {
        self.0.lock().history.last_error(request)
    }

    /// Requests whose last run failed, the one that failed longest ago first.
    pub(crate) fn failing(&self) -> Vec<R> {
        self.0.lock().history.failing().cloned().collect()
    }

    /// The requests of which runs are kept, in their order.
    pub(crate) fn ran(&self) -> Vec<R> {
        let mut ran: Vec<R> = self.0.lock().history.requests().cloned().collect();
        ran.sort();
        ran
    }

    /// A request that is expected or ran lately: of several the first.
    pub(crate) fn find(&self, is_it: impl Fn(&R) -> bool) -> Option<R> {
        let inner = self.0.lock();
        let expected = inner.pending.keys().filter(|request| is_it(request)).min();
        expected.or_else(|| inner.history.requests().filter(|request| is_it(request)).min()).cloned()
    }

    /// Why `request` is where it is. Looks at every request in the queue.
    pub(crate) fn explain(
        &self,
        controller: &str,
        request: &R,
        queue: &Queue<R>,
        clock: Clock,
    ) -> Explanation {
        let state =
            queue.snapshot().find(|seen| seen.key == *request).map(|seen| (seen.state, seen.priority));
        let inner = self.0.lock();
        let pending = inner.pending.get(request);
        Explanation {
            controller: controller.to_owned(),
            request: format!("{request:?}"),
            standing: Standing::of(state, clock),
            attempt: queue.num_requeues(request),
            causes: pending.map(|pending| pending.causes.clone()).unwrap_or_default(),
            runs: inner.history.of(request).rev().cloned().collect(),
            failed_events: Vec::new(),
        }
    }
}
