//! Controllers: a queue, the sources that fill it, and the workers that empty it.

mod explain;
mod handle;
mod history;
mod inbox;
mod options;
mod overview;
mod tracker;
mod worker;

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use kube_workqueue::Queue;
use parking_lot::Mutex;
use tokio::task::JoinSet;

pub use self::{
    explain::{Explanation, Rule, Standing},
    handle::Handle,
    history::{Run, RunResult},
    options::Options,
    overview::{Failing, Overview},
};
pub(crate) use self::{inbox::Inbox, overview::Explain};
use self::{tracker::Tracker, worker::Worker};
use crate::{
    manager::{BoxError, RunContext, Runnable},
    metrics::{ControllerMetrics, Metrics, QueueGauges},
    reconcile::{Action, Context, Error, Reconciler, Request},
    source::Connect,
};

/// A controller: its queue, and what it needs for a run.
pub(crate) struct Controller<R: Request> {
    max_concurrent_reconciles: usize,
    timeout: Option<Duration>,
    recover_panic: bool,
    /// It outlives a run, so that what failed in one is not tried at once in the next.
    inbox: Inbox<R>,
    reconciler: Arc<dyn DynReconciler<R>>,
    sources: Vec<Connect<R>>,
    metrics: ControllerMetrics,
    _queue_metrics: QueueGauges,
    /// The workers of the present run, for the report of what they do.
    workers: Mutex<Vec<Arc<Worker<R>>>>,
}

impl<R: Request> Controller<R> {
    pub(crate) fn new(
        name: &str,
        options: Options<R>,
        reconciler: impl Reconciler<Request = R>,
        sources: Vec<Connect<R>>,
        metrics: &Metrics,
    ) -> Self {
        let queue = Queue::new(options.queue.metrics(metrics.queue(name)));
        let max_concurrent_reconciles = options.max_concurrent_reconciles.get();
        let watched = queue.clone();
        Self {
            max_concurrent_reconciles,
            timeout: options.reconciliation_timeout,
            recover_panic: options.recover_panic,
            reconciler: Arc::new(reconciler),
            sources,
            metrics: metrics.controller(name, max_concurrent_reconciles),
            _queue_metrics: metrics.queue_gauges(name, move || watched.gauges()),
            inbox: Inbox::new(name, queue),
            workers: Mutex::default(),
        }
    }

    pub(crate) fn inbox(&self) -> &Inbox<R> {
        &self.inbox
    }

    fn new_workers(&self, cx: &mut RunContext) -> Vec<Arc<Worker<R>>> {
        let worker = |_| {
            Arc::new(Worker {
                inbox: self.inbox.clone(),
                reconciler: Arc::clone(&self.reconciler),
                timeout: self.timeout,
                recover_panic: self.recover_panic,
                recorder: cx.recorder.named(&self.inbox.controller),
                draining: cx.draining().clone(),
                current: Mutex::new(None),
                rng: Mutex::new(cx.rng.fork()),
                clock: cx.clock,
                metrics: self.metrics.clone(),
            })
        };
        (0..self.max_concurrent_reconciles).map(worker).collect()
    }
}

impl<R: Request> Runnable for Controller<R> {
    fn name(&self) -> String {
        self.inbox.controller.to_string()
    }

    async fn start(&self, mut cx: RunContext) -> Result<(), BoxError> {
        tokio::select! {
            biased;
            () = cx.shutdown() => return Ok(()),
            () = cx.aborted() => return Ok(()),
            synced = cx.caches_synced() => synced?,
        }
        tracing::info!(
            controller = &*self.inbox.controller,
            "worker count" = self.max_concurrent_reconciles,
            "starting workers"
        );
        let subscriptions: Vec<_> = self.sources.iter().map(|connect| connect(&self.inbox)).collect();
        // The set stops the workers when it is dropped, wherever this future stops.
        let mut tasks = JoinSet::new();
        let workers = self.new_workers(&mut cx);
        for worker in &workers {
            tasks.spawn(Arc::clone(worker).into_future());
        }
        *self.workers.lock() = workers;
        let result = tokio::select! {
            biased;
            () = cx.aborted() => Ok(()),
            () = cx.shutdown() => Ok(()),
            Some(Err(panic)) = tasks.join_next() => Err(panic.into()),
        };
        drop(subscriptions);
        let drained = async { while tasks.join_next().await.is_some() {} };
        tokio::select! {
            biased;
            () = cx.aborted() => {}
            () = drained => {}
        }
        // What stopped has stopped when this returns: a lease may be given back then.
        tasks.shutdown().await;
        self.workers.lock().clear();
        result
    }

    fn unfinished(&self) -> Vec<String> {
        self.workers.lock().iter().filter_map(|worker| worker.in_work()).collect()
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
