//! The worker: takes a request, reconciles it, tells the queue what becomes of it.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use kube_workqueue::Item;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{
    DynReconciler, Inbox,
    history::{Run, RunResult},
};
use crate::{
    clock::Clock,
    metrics::ControllerMetrics,
    reconcile::{Context, Next, Outcome, Request, recovered, settle},
    recorder::Recorder,
};

pub(super) struct Worker<R: Request> {
    pub(super) inbox: Inbox<R>,
    pub(super) reconciler: Arc<dyn DynReconciler<R>>,
    pub(super) timeout: Option<Duration>,
    pub(super) recover_panic: bool,
    pub(super) recorder: Recorder,
    pub(super) draining: CancellationToken,
    /// The request in work, for the report of what did not stop.
    pub(super) current: Mutex<Option<R>>,
    pub(super) rng: Mutex<fastrand::Rng>,
    pub(super) clock: Clock,
    pub(super) metrics: ControllerMetrics,
}

impl<R: Request> Worker<R> {
    /// Works until the manager drains. The reconcile in work is finished first.
    ///
    /// Dropping the future drops the reconcile in work at its `.await`; its request leaves the queue as done.
    pub(super) async fn run(&self) {
        let mut done = None;
        loop {
            let next = async {
                match done.take() {
                    // The guard goes last: whatever was added during the reconcile is handed out only now.
                    Some(done) => self.inbox.queue.next(done).await,
                    None => self.inbox.queue.get().await,
                }
            };
            let item = tokio::select! {
                // Draining first: a full queue must not keep a worker from stopping.
                biased;
                () = self.draining.cancelled() => return,
                item = next => item,
            };
            let Some(item) = item else { return };
            *self.current.lock() = Some(item.key().clone());
            self.reconcile(&item).await;
            *self.current.lock() = None;
            done = Some(item);
            // A reconciler that never waits must not keep the runtime from anything else, a stop included.
            tokio::task::coop::consume_budget().await;
        }
    }

    /// [`Worker::run`], as an owned future.
    pub(super) fn into_future(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { self.run().await })
    }

    /// Controller and request of the reconcile in work.
    pub(super) fn in_work(&self) -> Option<String> {
        self.current.lock().as_ref().map(|request| format!("{}: {request:?}", self.inbox.controller))
    }

    /// Reconciles once, and settles what becomes of the request.
    async fn reconcile(&self, item: &Item<'_, R>) {
        let Inbox { queue, tracker, .. } = &self.inbox;
        let request = item.key();
        let id = uuid::Builder::from_random_bytes(self.rng.lock().u128(..).to_be_bytes()).into_uuid();
        let (causes, lag) = tracker.begin(request);
        let cx = Context {
            attempt: queue.num_requeues(request),
            causes,
            last_error: tracker.last_error(request),
            id,
            recorder: self.recorder.clone(),
            draining: self.draining.clone(),
            clock: self.clock,
        };
        // At this level, so that an error names its request however little is logged.
        let span = tracing::error_span!(
            "reconcile",
            controller = &*self.inbox.controller,
            request = ?request,
            reconcileID = %id,
            attempt = cx.attempt,
        );
        async {
            let (measured, began) = (self.metrics.begin(lag), Instant::now());
            let outcome = self.attempt(request, &cx).await;
            measured.end(&outcome);
            settle(queue, request, item.priority(), &outcome);
            let retry =
                queue.when(request).map(|waiting| waiting.until.saturating_duration_since(Instant::now()));
            log(&outcome, retry.unwrap_or_default());
            let (ended, took) = (self.inbox.clock.now(), began.elapsed());
            let result = RunResult::of(&outcome);
            tracker.end(request, Run { ended, took, attempt: cx.attempt, causes: cx.causes, result });
        }
        .instrument(span)
        .await;
    }

    async fn attempt(&self, request: &R, cx: &Context) -> Outcome {
        // Called within the future, so that a reconciler that panics before its first `.await` is recovered too.
        let reconcile = async { self.reconciler.reconcile(request, cx).await };
        let reconcile =
            async { if self.recover_panic { recovered(reconcile).await } else { Ok(reconcile.await) } };
        let returned = match self.timeout {
            None => reconcile.await,
            Some(limit) => match tokio::time::timeout(limit, reconcile).await {
                Ok(returned) => returned,
                Err(_) => return Outcome::TimedOut,
            },
        };
        match returned {
            Ok(result) => Outcome::Returned(result),
            Err(panic) => Outcome::Panicked(panic),
        }
    }
}

fn log(outcome: &Outcome, retry: Duration) {
    match outcome {
        Outcome::Returned(Ok(action)) => match action.next {
            Next::Done => tracing::debug!("reconcile successful"),
            Next::Requeue => tracing::debug!("reconcile done, requeueing in {retry:?}"),
            Next::RequeueAfter(delay) => tracing::debug!("reconcile done, requeueing after {delay:?}"),
        },
        Outcome::Returned(Err(error)) if error.is_terminal() => {
            tracing::error!("reconciler error, not retried: {error:#}");
        }
        Outcome::Returned(Err(error)) => tracing::error!("reconciler error, retried in {retry:?}: {error:#}"),
        Outcome::Panicked(message) => tracing::error!("reconciler panicked, retried in {retry:?}: {message}"),
        Outcome::TimedOut => tracing::error!("reconcile stopped at its timeout, retried in {retry:?}"),
    }
}
