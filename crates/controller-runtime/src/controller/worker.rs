//! The worker: takes a request, reconciles it, tells the queue what becomes of it.

use std::{any::Any, future::Future, panic::AssertUnwindSafe, pin::Pin, sync::Arc, time::Duration};

use futures::FutureExt;
use kube_workqueue::Queue;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::DynReconciler;
use crate::{
    clock::Clock,
    reconcile::{Context, Next, Outcome, Request, settle},
    recorder::Recorder,
};

pub(super) struct Worker<R: Request> {
    pub(super) controller: Arc<str>,
    pub(super) reconciler: Arc<dyn DynReconciler<R>>,
    pub(super) timeout: Option<Duration>,
    pub(super) queue: Queue<R>,
    pub(super) recorder: Recorder,
    pub(super) draining: CancellationToken,
    /// The request in work, for the report of what did not stop.
    pub(super) current: Mutex<Option<R>>,
    pub(super) rng: Mutex<fastrand::Rng>,
    pub(super) clock: Clock,
}

impl<R: Request> Worker<R> {
    /// Works until the manager drains. The reconcile in work is finished first.
    ///
    /// Dropping the future drops the reconcile in work at its `.await`; its request leaves the queue as done.
    pub(super) async fn run(&self) {
        loop {
            let item = tokio::select! {
                // Draining first: a full queue must not keep a worker from stopping.
                biased;
                () = self.draining.cancelled() => return,
                item = self.queue.get() => item,
            };
            let Some(item) = item else { return };
            *self.current.lock() = Some(item.key().clone());
            let outcome = self.reconcile(item.key()).await;
            settle(&self.queue, item.key(), &outcome);
            *self.current.lock() = None;
            // The guard goes last: whatever was added above is handed out only now.
            drop(item);
        }
    }

    /// [`Worker::run`], as an owned future.
    pub(super) fn into_future(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { self.run().await })
    }

    /// Controller and request of the reconcile in work.
    pub(super) fn in_work(&self) -> Option<String> {
        self.current
            .lock()
            .as_ref()
            .map(|request| format!("{}: {request:?}", self.controller))
    }

    async fn reconcile(&self, request: &R) -> Outcome {
        let cx = Context {
            attempt: self.queue.num_requeues(request),
            recorder: self.recorder.clone(),
            draining: self.draining.clone(),
            clock: self.clock,
        };
        let id = uuid::Builder::from_random_bytes(self.rng.lock().u128(..).to_be_bytes()).into_uuid();
        let span = tracing::info_span!(
            "reconcile",
            controller = &*self.controller,
            request = ?request,
            reconcileID = %id,
            attempt = cx.attempt,
        );
        async {
            let outcome = self.attempt(request, &cx).await;
            log(&outcome);
            outcome
        }
        .instrument(span)
        .await
    }

    async fn attempt(&self, request: &R, cx: &Context) -> Outcome {
        let caught = AssertUnwindSafe(async { self.reconciler.reconcile(request, cx).await }).catch_unwind();
        let returned = match self.timeout {
            None => caught.await,
            Some(limit) => match tokio::time::timeout(limit, caught).await {
                Ok(returned) => returned,
                Err(_) => return Outcome::TimedOut,
            },
        };
        match returned {
            Ok(result) => Outcome::Returned(result),
            Err(panic) => Outcome::Panicked(message_of(&*panic)),
        }
    }
}

fn log(outcome: &Outcome) {
    match outcome {
        Outcome::Returned(Ok(action)) => match action.0 {
            Next::Done => tracing::debug!("reconcile successful"),
            Next::Requeue => tracing::debug!("reconcile done, requeueing"),
            Next::RequeueAfter(delay) => tracing::debug!("reconcile done, requeueing after {delay:?}"),
        },
        Outcome::Returned(Err(error)) if error.is_terminal() => {
            tracing::error!("reconciler error, not retried: {error:#}");
        }
        Outcome::Returned(Err(error)) => tracing::error!("reconciler error: {error:#}"),
        Outcome::Panicked(message) => tracing::error!("reconciler panicked: {message}"),
        Outcome::TimedOut => tracing::error!("reconcile took longer than its timeout and was stopped"),
    }
}

/// What a panic said.
fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no message)")
        .to_owned()
}
