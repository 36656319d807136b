//! The worker: takes a request, reconciles it, and applies the outcome to the queue.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kube_workqueue::Item;
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};
use tracing::Instrument;

use super::{
    DynReconciler,
    reconcile_log::{self, Log},
    settle::settle,
};
use crate::{
    client::RunRecord,
    findings::self_triggers::{Chain, EndedRun},
    metrics::ControllerMetrics,
    pace::SharedPace,
    panics::caught,
    reconcile::{Context, Outcome, Request, WorkerContext, without_election},
    request_queue::{RequestQueue, Run, RunResult, name_of},
};

/// Reason why a worker has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// The controller has fewer workers now; the worker with this number has retired.
    Retired(usize),
    /// The manager is shutting down, or the queue was shut down.
    Finished,
}

pub(super) struct Worker<R: Request> {
    /// Number of the worker: it is wanted while the number of workers is higher.
    pub(super) number: usize,
    pub(super) requests: RequestQueue<R>,
    pub(super) reconciler: Arc<dyn DynReconciler<R>>,
    pub(super) timeout: Option<Duration>,
    pub(super) needs_leader_election: bool,
    pub(super) recover_panic: bool,
    pub(super) context: Arc<WorkerContext>,
    /// The running request, for the report of unfinished reconciles.
    pub(super) current: Mutex<Option<R>>,
    /// Whether the worker has stopped: its future has returned or was dropped.
    pub(super) stopped: AtomicBool,
    pub(super) rng: Mutex<fastrand::Rng>,
    /// Shared by the workers of the controller.
    pub(super) pace: Arc<SharedPace>,
    pub(super) metrics: ControllerMetrics,
    pub(super) log: Arc<Log<R>>,
}

impl<R: Request> Worker<R> {
    /// Works until the manager shuts down or fewer workers are `wanted`. The running reconcile is finished first.
    ///
    /// Dropping the future drops the running reconcile at its `.await`; its request leaves the queue as processed.
    pub(super) async fn run(&self, mut wanted: watch::Receiver<usize>) -> Exit {
        let _stopped = MarkWorkerStopped(&self.stopped);
        let mut done = None;
        let mut draining = pin!(self.context.draining.cancelled());
        let mut retired = pin!(async {
            // An error means that the controller has been dropped, and its draining with it.
            let _ = wanted.wait_for(|wanted| *wanted <= self.number).await;
        });
        loop {
            let next = async {
                match done.take() {
                    // The item of the last reconcile is released only here: a request added for it meanwhile could not be handed
                    // out before.
                    Some(done) => self.requests.queue.next(done).await,
                    None => self.requests.queue.get().await,
                }
            };
            let item = tokio::select! {
                // Draining is checked first: a full queue must not keep a worker from stopping.
                biased;
                () = &mut draining => return Exit::Finished,
                () = &mut retired => return Exit::Retired(self.number),
                item = next => item,
            };
            let Some(item) = item else { return Exit::Finished };
            *self.current.lock() = Some(item.key().clone());
            let began = self.reconcile(&item).await;
            // Dropped without the lock: it is a value of the user.
            let current = self.current.lock().take();
            drop(current);
            done = Some(item);
            // Reconcilers that never wait must not starve other tasks, such as the one that stops the manager. The next worker is
            // among them: it was woken when this one took its item, and runs on this thread unless another has taken it.
            self.pace.step(began).await;
        }
    }

    /// Like [`Worker::run`], as an owned future.
    pub(super) fn into_future(
        self: Arc<Self>,
        wanted: watch::Receiver<usize>,
    ) -> Pin<Box<dyn Future<Output = Exit> + Send>> {
        Box::pin(async move { self.run(wanted).await })
    }

    /// Enqueues the request of a dropped reconcile again, because no event may arrive for it.
    pub(super) fn put_back(&self) {
        let current = self.current.lock().take();
        if let Some(request) = current {
            self.requests.queue.add(request);
        }
    }

    /// Controller and request of the running reconcile.
    pub(super) fn running_reconcile(&self) -> Option<String> {
        if self.stopped.load(Ordering::Acquire) {
            return None; // it was dropped
        }
        let current = self.current.lock().clone()?;
        Some(format!("{}: {current:?}", self.requests.controller))
    }

    /// Reconciles once, and applies the outcome to the request. Returns the time at which the reconcile began.
    async fn reconcile(&self, item: &Item<'_, R>) -> Instant {
        let RequestQueue { queue, tracker, .. } = &self.requests;
        let request = item.key();
        // From the seeded generator, so that a simulation can be repeated with the same IDs.
        let id = uuid::Builder::from_random_bytes(self.rng.lock().u128(..).to_be_bytes()).into_uuid();
        let began = Instant::now();
        let attempt = queue.num_requeues(request);
        // Events that are recorded from now on are causes of the next run.
        let beginning = tracker.begin(request, attempt);
        let lag = beginning.since.map(|since| began.duration_since(since));
        let cx = Context {
            attempt,
            causes: beginning.causes,
            last_error: beginning.last_error,
            id,
            worker: Arc::clone(&self.context),
        };
        let span = self.log.span(request, &cx);
        #[cfg(feature = "opentelemetry")]
        let exported =
            crate::telemetry::begin(&span, &cx.causes, lag, beginning.before, self.requests.clock.at(began));
        async {
            tracing::debug!("Reconciling");
            let measured = self.metrics.begin(&cx.causes, lag);
            #[cfg(feature = "opentelemetry")]
            let measured = measured.in_trace(exported.as_ref());
            let record = RunRecord::new(&self.requests.controller);
            let outcome = RunRecord::of(Arc::clone(&record), self.attempt(request, &cx)).await;
            let ended = Instant::now();
            let took = ended - began;
            measured.end(&outcome, took);
            settle(&self.requests, request, item.priority(), &outcome);
            // Read back from the queue, because the rate limiter decides on the delay.
            let retry = if outcome.is_done() { None } else { queue.when(request) };
            let retry = retry.map(|waiting| waiting.until.saturating_duration_since(ended));
            reconcile_log::outcome(&outcome, cx.attempt, retry.unwrap_or_default());
            let (writes, more_writes) = record.take();
            let own = || name_of(request);
            let run = EndedRun { causes: &cx.causes, writes: &writes, began, ended, own: &own };
            let before = if writes.is_empty() { None } else { tracker.take_chain(request) };
            let chain = Chain::after(before, &run);
            let (ended, result) = (self.requests.clock.at(ended), RunResult::of(&outcome));
            let run = Run {
                ended,
                took,
                attempt: cx.attempt,
                causes: cx.causes,
                result,
                writes: Some(writes.into_iter().map(|recorded| recorded.write).collect()),
                more_writes,
                #[cfg(feature = "opentelemetry")]
                span: exported,
            };
            tracker.end(request, run, chain);
        }
        .instrument(span)
        .await;
        began
    }

    async fn attempt(&self, request: &R, cx: &Context) -> Outcome {
        // Called within the future, so that a panic before the first `.await` is recovered too.
        let reconcile = caught(async {
            let reconcile = async { self.reconciler.reconcile(request, cx).await };
            match self.needs_leader_election {
                true => reconcile.await,
                false => without_election(&self.requests.controller, reconcile).await,
            }
        });
        let returned = match self.timeout {
            None => reconcile.await,
            Some(limit) => match tokio::time::timeout(limit, reconcile).await {
                Ok(returned) => returned,
                Err(_) => return Outcome::TimedOut,
            },
        };
        match returned {
            Ok(result) => Outcome::Returned(result),
            Err(panic) if self.recover_panic => Outcome::Panicked(panic.text),
            Err(panic) => {
                // The panic is not recovered: the run has no outcome, and the controller fails.
                self.metrics.panicked();
                reconcile_log::observed_panic(&panic.text);
                panic.resume()
            }
        }
    }
}

/// Marks a worker as stopped when dropped.
struct MarkWorkerStopped<'w>(&'w AtomicBool);

impl Drop for MarkWorkerStopped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
