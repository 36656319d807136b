//! What a controller remembers of its requests besides what the queue knows: causes and runs.

use std::collections::BTreeMap;

use kube_workqueue::Queue;
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use super::{
    explain::{Explanation, Standing},
    history::{History, Run},
};
use crate::{
    clock::Clock,
    reconcile::{Cause, Causes, Request},
};

/// The causes of runs to come, and the runs there were.
#[derive(Debug)]
pub(crate) struct Tracker<R> {
    /// Of requests that an event asked for and no run has answered yet. As many as are in the queue, at most.
    pending: Mutex<BTreeMap<R, Pending>>,
    history: Mutex<History<R>>,
}

/// What leads to a run.
#[derive(Debug)]
struct Pending {
    causes: Causes,
    /// When the first of them came.
    since: Instant,
}

impl<R> Default for Tracker<R> {
    fn default() -> Self {
        Self { pending: Mutex::default(), history: Mutex::default() }
    }
}

impl<R: Request> Tracker<R> {
    /// Notes what leads to a run. To be called before the request is added to the queue, or the run may miss it.
    pub(crate) fn expect(&self, request: &R, cause: Cause) {
        let mut pending = self.pending.lock();
        match pending.get_mut(request) {
            Some(known) => known.causes.add(cause),
            None => {
                let mut causes = Causes::default();
                causes.add(cause);
                pending.insert(request.clone(), Pending { causes, since: Instant::now() });
            }
        }
    }

    /// What led to the run that begins now, and how long ago the first event came, if there was one.
    pub(crate) fn begin(&self, request: &R) -> (Causes, Option<Duration>) {
        let pending = self.pending.lock().remove(request);
        pending.map_or_else(Default::default, |Pending { causes, since }| (causes, Some(since.elapsed())))
    }

    /// Notes a run that has ended.
    pub(crate) fn end(&self, request: &R, run: Run) {
        self.history.lock().add(request, run);
    }

    /// What went wrong in the last run of `request`, if anything did.
    pub(crate) fn last_error(&self, request: &R) -> Option<String> {
        let history = self.history.lock();
        let last = history.of(request).next_back()?;
        last.result.error().map(str::to_owned)
    }

    /// Requests whose last run failed, the one that failed longest ago first.
    pub(crate) fn failing(&self) -> Vec<R> {
        self.history.lock().failing().cloned().collect()
    }

    /// A request that is expected or ran lately.
    pub(crate) fn find(&self, is_it: impl Fn(&R) -> bool) -> Option<R> {
        let expected = self.pending.lock().keys().find(|request| is_it(request)).cloned();
        expected.or_else(|| self.history.lock().requests().find(|request| is_it(request)).cloned())
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
        Explanation {
            controller: controller.to_owned(),
            request: format!("{request:?}"),
            standing: Standing::of(state, clock),
            attempt: queue.num_requeues(request),
            causes: self
                .pending
                .lock()
                .get(request)
                .map(|pending| pending.causes.clone())
                .unwrap_or_default(),
            runs: self.history.lock().of(request).rev().cloned().collect(),
        }
    }
}
