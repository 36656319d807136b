//! Controllers: a queue, the sources that fill it, and the workers that empty it.

mod config;
mod explain;
mod handle;
mod history;
mod inbox;
mod log;
mod options;
mod overview;
mod sources;
mod tracker;
mod unmanaged;
mod warm_up;
mod watch;
mod worker;

use std::{
    future::{Future, pending},
    pin::Pin,
    sync::{Arc, atomic::AtomicBool},
};

use parking_lot::Mutex;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

pub use self::{
    config::Config,
    explain::{Explanation, Rule, Standing},
    handle::Handle,
    history::{Run, RunResult},
    options::Options,
    overview::{Failing, Overview},
    unmanaged::Unmanaged,
    watch::{NotSynced, Watch},
};
pub(crate) use self::{
    config::{GroupKind, Settings},
    inbox::Inbox,
    log::Log,
    overview::Explain,
    warm_up::WarmUp,
};
use self::{sources::Sources, tracker::Tracker, worker::Worker};
use crate::{
    manager::{BoxError, RunContext, Runnable},
    metrics::{ControllerMetrics, Metrics, QueueGauges},
    predicate::EventFilter,
    reconcile::{Action, Context, Error, Reconciler, Request, Surroundings},
    source::DynSource,
};

/// A controller: its queue, and what it needs for a run.
pub(crate) struct Controller<R: Request> {
    settings: Settings,
    /// It outlives a run, so that what failed in one is not tried at once in the next.
    inbox: Inbox<R>,
    reconciler: Arc<dyn DynReconciler<R>>,
    sources: Arc<Sources<R>>,
    log: Arc<Log<R>>,
    metrics: ControllerMetrics,
    _queue_metrics: QueueGauges,
    /// The workers of the present run, for the report of what they do.
    workers: Mutex<Vec<Arc<Worker<R>>>>,
}

/// What a controller is made of.
pub(crate) struct Parts<R: Request, T> {
    pub(crate) name: String,
    pub(crate) options: Options<R>,
    pub(crate) settings: Settings,
    pub(crate) log: Log<R>,
    pub(crate) filters: Vec<Box<dyn EventFilter>>,
    pub(crate) sources: Vec<Arc<dyn DynSource<R>>>,
    pub(crate) reconciler: T,
}

impl<R: Request> Controller<R> {
    pub(crate) fn new<T: Reconciler<Request = R>>(parts: Parts<R, T>, metrics: &Metrics) -> Self {
        let Parts { name, options, settings, log, filters, sources, reconciler } = parts;
        let Options { queue, new_queue, make_span, .. } = options;
        let queue = new_queue(&name, queue.metrics(metrics.queue(&name)));
        let watched = queue.clone();
        Self {
            reconciler: Arc::new(reconciler),
            sources: Arc::new(Sources::new(sources)),
            log: Arc::new(log.in_span(make_span)),
            metrics: metrics.controller(&name, settings.max_concurrent_reconciles.get()),
            _queue_metrics: metrics
                .queue_gauges(&name, settings.use_priority_queue, move || watched.gauges()),
            inbox: Inbox::new(&name, queue, filters, settings.use_priority_queue),
            workers: Mutex::default(),
            settings,
        }
    }

    pub(crate) fn inbox(&self) -> &Inbox<R> {
        &self.inbox
    }

    /// Runs the sources until dropped. Returns why the controller cannot go on.
    async fn run_sources(&self) -> BoxError {
        self.sources.run(&self.inbox, &self.log, self.settings.cache_sync_timeout).await
    }

    fn new_workers(&self, cx: &mut RunContext, draining: CancellationToken) -> Vec<Arc<Worker<R>>> {
        let surroundings = Arc::new(Surroundings {
            recorder: cx.recorder.named(&self.inbox.controller),
            draining,
            clock: cx.clock,
        });
        let worker = |_| {
            Arc::new(Worker {
                inbox: self.inbox.clone(),
                reconciler: Arc::clone(&self.reconciler),
                timeout: self.settings.reconciliation_timeout,
                recover_panic: self.settings.recover_panic,
                surroundings: Arc::clone(&surroundings),
                current: Mutex::new(None),
                stopped: AtomicBool::new(false),
                rng: Mutex::new(cx.rng.fork()),
                metrics: self.metrics.clone(),
                log: Arc::clone(&self.log),
            })
        };
        (0..self.settings.max_concurrent_reconciles.get()).map(worker).collect()
    }
}

impl<R: Request> Drop for Controller<R> {
    fn drop(&mut self) {
        // Handles may outlive it, and what it watched is not to be watched for them.
        self.sources.clear();
    }
}

impl<R: Request> Runnable for Arc<Controller<R>> {
    fn name(&self) -> String {
        self.inbox.controller.to_string()
    }

    async fn start(&self, mut cx: RunContext) -> Result<(), BoxError> {
        self.log.starting_controller();
        // Those of one that warms up run already.
        let warm = self.settings.warms_up;
        let mut sources = Box::pin(async { if warm { pending().await } else { self.run_sources().await } });
        tokio::select! {
            biased;
            () = cx.shutdown() => return Ok(()),
            () = cx.aborted() => return Ok(()),
            error = &mut sources => return Err(error),
            () = self.sources.synced() => {}
        }
        self.log.starting_workers(self.settings.max_concurrent_reconciles.get());
        // The set stops the workers when it is dropped, wherever this future stops.
        let mut tasks = JoinSet::new();
        // Their own, because they also have to finish when the controller fails and nobody else drains.
        let draining = cx.draining().child_token();
        let workers = self.new_workers(&mut cx, draining.clone());
        for worker in &workers {
            tasks.spawn(Arc::clone(worker).into_future().in_current_span());
        }
        *self.workers.lock() = workers;
        let failure = tokio::select! {
            biased;
            () = cx.aborted() => None,
            () = cx.shutdown() => None,
            error = &mut sources => Some(error),
            panic = panic_of(&mut tasks) => Some(panic.into()),
        };
        drop(sources);
        match failure {
            None => self.log.waiting_for_workers(),
            Some(error) => {
                // Said before the wait: what is in work may take its time, and the manager limits it.
                cx.fail(error);
                draining.cancel();
            }
        }
        let drained = async { while tasks.join_next().await.is_some() {} };
        tokio::select! {
            biased;
            () = cx.aborted() => {}
            () = drained => {}
        }
        // What stopped has stopped when this returns: a lease may be given back then.
        tasks.shutdown().await;
        for worker in self.workers.lock().drain(..) {
            worker.put_back();
        }
        self.log.workers_finished();
        Ok(())
    }

    fn unfinished(&self) -> Vec<String> {
        self.workers.lock().iter().filter_map(|worker| worker.in_work()).collect()
    }
}

/// The panic of a worker. One that returns, because somebody has shut the queue down, says nothing of the others.
async fn panic_of(workers: &mut JoinSet<()>) -> JoinError {
    loop {
        match workers.join_next().await {
            Some(Ok(())) => {}
            Some(Err(panic)) => return panic,
            None => pending().await,
        }
    }
}

/// A reconciler behind a pointer, so that the code of a controller exists once per request type.
trait DynReconciler<R: Request>: Send + Sync {
    fn reconcile<'a>(
        &'a self,
        request: &'a R,
        cx: &'a Context,
    ) -> Pin<Box<dyn Future<Output = Result<Action, Error>> + Send + 'a>>;
}

impl<T: Reconciler> DynReconciler<T::Request> for T {
    fn reconcile<'a>(
        &'a self,
        request: &'a T::Request,
        cx: &'a Context,
    ) -> Pin<Box<dyn Future<Output = Result<Action, Error>> + Send + 'a>> {
        Box::pin(Reconciler::reconcile(self, request, cx))
    }
}
