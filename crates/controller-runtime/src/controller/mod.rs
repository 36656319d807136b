//! Controllers: a queue, the sources that fill it, and the workers that empty it.

mod config;
mod controller_handle;
mod explained;
mod options;
mod reconcile_log;
mod settle;
mod source_error;
mod source_handle;
mod sources;
mod warm_up;
mod worker;
mod worker_pool;

use std::{
    future::{Future, pending},
    pin::Pin,
    sync::{Arc, atomic::AtomicBool},
};

use kube_clock::Clock;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub use self::{
    config::Config,
    controller_handle::ControllerHandle,
    options::ControllerOptions,
    source_error::SourceError,
    source_handle::{NotSyncedError, SourceHandle},
    worker_pool::WorkersError,
};
pub(crate) use self::{
    config::{ControllerSettings, GroupKind},
    explained::ExplainedController,
    reconcile_log::Log,
    warm_up::WarmUp,
};
use self::{
    sources::Sources,
    worker::Worker,
    worker_pool::{WantedWorkers, WorkerPool},
};
pub use crate::request_queue::{
    DelayReason, Explanation, FailedEvent, Failing, Overview, RequestState, Run, RunResult,
};
use crate::{
    client::Client,
    error::BoxError,
    metrics::{ControllerMetrics, Metrics, QueueGauges},
    pace::SharedPace,
    predicate::EventFilter,
    reconcile::{Action, Context, ReconcileError, Reconciler, Request, WorkerContext},
    request_queue::{FailedEvents, RequestQueue},
    runnable::{RunContext, Runnable},
    source::DynSource,
};

/// A controller: its queue, its reconciler, its sources, and its workers while it runs.
pub(crate) struct Controller<R: Request> {
    settings: ControllerSettings,
    /// Outlives a run, so that requests that failed in one keep their back-off in the next.
    requests: RequestQueue<R>,
    reconciler: Arc<dyn DynReconciler<R>>,
    /// Client in the context of reconciles.
    client: Client,
    sources: Arc<Sources<R>>,
    log: Arc<Log<R>>,
    metrics: ControllerMetrics,
    _queue_metrics: QueueGauges,
    /// Number of workers to run. Shared with handles; outlives a run.
    wanted_workers: Arc<WantedWorkers>,
    /// Locked while workers run, and while requests of deleted objects are removed from the queue of a standby.
    in_use: tokio::sync::Mutex<()>,
    /// The workers of the current run, for reports of unfinished reconciles.
    workers: Mutex<Vec<Arc<Worker<R>>>>,
}

/// The parts of a controller.
pub(crate) struct Parts<R: Request, T> {
    pub(crate) name: String,
    pub(crate) options: ControllerOptions<R>,
    pub(crate) settings: ControllerSettings,
    pub(crate) log: Log<R>,
    /// Parses the text form of a request, if the type of the requests allows that without a search in the queue.
    pub(crate) parse: Option<fn(&str) -> Option<R>>,
    pub(crate) filters: Vec<Box<dyn EventFilter>>,
    pub(crate) sources: Vec<Arc<dyn DynSource<R>>>,
    pub(crate) clock: Clock,
    pub(crate) reconciler: T,
    pub(crate) client: Client,
}

impl<R: Request> Controller<R> {
    pub(crate) fn new<T: Reconciler<Request = R>>(parts: Parts<R, T>, metrics: &Metrics) -> Self {
        let Parts { name, options, settings, log, parse, filters, sources, clock, reconciler, client } =
            parts;
        let ControllerOptions { queue, new_queue, make_span, .. } = options;
        let queue = new_queue(&name, queue.metrics(metrics.queue(&name)));
        let watched = queue.clone();
        Self {
            reconciler: Arc::new(reconciler),
            client,
            sources: Arc::new(Sources::new(sources)),
            log: Arc::new(log.in_span(make_span)),
            metrics: metrics.controller(&name, settings.max_concurrent_reconciles),
            _queue_metrics: metrics
                .queue_gauges(&name, settings.use_priority_queue, move || watched.gauges()),
            requests: RequestQueue::new(&name, queue, filters, settings.queue_order(), clock)
                .with_failed_events(FailedEvents::new(metrics.failed_events(&name)))
                .with_parser(parse),
            wanted_workers: Arc::new(WantedWorkers::new(settings.max_concurrent_reconciles)),
            in_use: tokio::sync::Mutex::default(),
            workers: Mutex::default(),
            settings,
        }
    }

    pub(crate) fn requests(&self) -> &RequestQueue<R> {
        &self.requests
    }

    /// The controller for explanations.
    pub(crate) fn explained(&self) -> ExplainedController<R> {
        ExplainedController {
            requests: self.requests.clone(),
            sources: Arc::clone(&self.sources),
            wanted_workers: Arc::clone(&self.wanted_workers),
            kind: self.log.kind().map(ToString::to_string),
            needs_leader_election: self.settings.needs_leader_election,
            metrics: self.metrics.clone(),
        }
    }

    /// Runs the sources until dropped. Returns the error that stops the controller.
    async fn run_sources(&self) -> SourceError {
        self.sources.run(&self.requests, &self.log, self.settings.cache_sync_timeout).await
    }

    /// Returns the function that makes the workers of a run, which share a context and a pace.
    fn make_workers(
        &self,
        cx: &RunContext,
        draining: CancellationToken,
    ) -> impl Fn(usize) -> Worker<R> + use<'_, R> {
        let context = Arc::new(WorkerContext {
            client: self.client.clone(),
            recorder: cx.recorder.named(&self.requests.controller),
            draining,
            clock: cx.clock,
        });
        let (rng, pace) = (Mutex::new(cx.rng.clone()), Arc::<SharedPace>::default());
        move |number| Worker {
            number,
            requests: self.requests.clone(),
            reconciler: Arc::clone(&self.reconciler),
            timeout: self.settings.reconciliation_timeout,
            needs_leader_election: self.settings.needs_leader_election,
            recover_panic: self.settings.recover_panic,
            context: Arc::clone(&context),
            current: Mutex::new(None),
            stopped: AtomicBool::new(false),
            rng: Mutex::new(rng.lock().fork()),
            pace: Arc::clone(&pace),
            metrics: self.metrics.clone(),
            log: Arc::clone(&self.log),
        }
    }
}

impl<R: Request> Drop for Controller<R> {
    fn drop(&mut self) {
        // Handles may outlive the controller, and must not keep its watches alive.
        self.sources.clear();
    }
}

impl<R: Request> Runnable for Arc<Controller<R>> {
    fn name(&self) -> String {
        self.requests.controller.to_string()
    }

    async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
        self.log.starting_controller();
        // Waits until a warm-up has removed the requests of deleted objects: workers must not see the queue meanwhile.
        let _in_use = tokio::select! {
            biased;
            () = cx.shutdown() => return Ok(()),
            () = cx.aborted() => return Ok(()),
            in_use = self.in_use.lock() => in_use,
        };
        // With warm-up, the sources are running already, in a runnable of their own.
        let warm = self.settings.warms_up;
        let mut sources = Box::pin(async { if warm { pending().await } else { self.run_sources().await } });
        tokio::select! {
            biased;
            () = cx.shutdown() => return Ok(()),
            () = cx.aborted() => return Ok(()),
            error = &mut sources => return Err(error.into()),
            () = self.sources.synced() => {}
        }
        self.log.starting_workers(*self.wanted_workers.borrow());
        // A token of their own, because workers also have to finish when the controller fails while the manager goes on.
        let draining = cx.draining().child_token();
        let make = self.make_workers(&cx, draining.clone());
        // Dropping this future drops the pool, which aborts the workers.
        let mut pool = WorkerPool::new(self.wanted_workers.subscribe());
        let failure = loop {
            // Repeated after each change of the wanted number, and after a worker has retired.
            *self.workers.lock() = pool.fill(&make);
            tokio::select! {
                biased;
                () = cx.aborted() => break None,
                () = cx.shutdown() => break None,
                error = &mut sources => break Some(error.into()),
                changed = pool.changed() => if let Err(panic) = changed {
                    break Some(panic.into());
                },
            }
        };
        // Without warm-up this ends the sources: no worker takes requests of further events.
        drop(sources);
        match failure {
            None => self.log.waiting_for_workers(),
            Some(error) => {
                // Reported before the wait: running reconciles may take long, and the manager limits that time.
                cx.fail(error);
                draining.cancel();
            }
        }
        tokio::select! {
            biased;
            () = cx.aborted() => {}
            () = pool.drained() => {}
        }
        // When this returns, everything has stopped, so that the lease may be released.
        pool.stop().await;
        // After `stop`, so that `unfinished` can name reconciles that do not reach an `.await`.
        self.workers.lock().clear();
        self.log.workers_finished();
        Ok(())
    }

    fn unfinished(&self) -> Vec<String> {
        self.workers.lock().iter().filter_map(|worker| worker.running_reconcile()).collect()
    }
}

/// Object-safe form of [`Reconciler`], so that the code of a controller is compiled once per request type.
trait DynReconciler<R: Request>: Send + Sync {
    fn reconcile<'a>(
        &'a self,
        request: &'a R,
        cx: &'a Context,
    ) -> Pin<Box<dyn Future<Output = Result<Action, ReconcileError>> + Send + 'a>>;
}

impl<T: Reconciler> DynReconciler<T::Request> for T {
    fn reconcile<'a>(
        &'a self,
        request: &'a T::Request,
        cx: &'a Context,
    ) -> Pin<Box<dyn Future<Output = Result<Action, ReconcileError>> + Send + 'a>> {
        Box::pin(Reconciler::reconcile(self, request, cx))
    }
}
