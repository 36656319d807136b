//! Controllers: a queue, the sources that fill it, and the workers that empty it.

mod options;
mod worker;

use std::{future::Future, pin::Pin, sync::Arc};

use kube_workqueue::Queue;
use tokio_util::sync::CancellationToken;

pub use self::options::Options;
use self::worker::Worker;
use crate::{
    cache::Subscription,
    clock::Clock,
    reconcile::{Action, Context, Error, Reconciler, Request},
    recorder::Recorder,
    source::Connect,
};

/// A controller that has not been started.
pub(crate) struct Controller<R: Request> {
    name: Arc<str>,
    options: Options<R>,
    reconciler: Arc<dyn DynReconciler<R>>,
    sources: Vec<Connect<R>>,
}

impl<R: Request> Controller<R> {
    pub(crate) fn new(
        name: &str,
        options: Options<R>,
        reconciler: impl Reconciler<Request = R>,
        sources: Vec<Connect<R>>,
    ) -> Self {
        Self { name: Arc::from(name), options, reconciler: Arc::new(reconciler), sources }
    }
}

/// What a controller needs of the manager that runs it.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) recorder: Recorder,
    pub(crate) draining: CancellationToken,
    pub(crate) rng: fastrand::Rng,
    pub(crate) clock: Clock,
}

/// A controller of some request type.
pub(crate) trait AnyController: Send {
    fn name(&self) -> &str;

    /// Connects the sources and hands out the workers, each of which runs until the manager drains.
    fn start(self: Box<Self>, surroundings: Surroundings) -> Started;
}

/// A controller whose sources fill the queue.
pub(crate) struct Started {
    /// They fill the queue as long as they are held.
    pub(crate) subscriptions: Vec<Subscription>,
    pub(crate) workers: Vec<Pin<Box<dyn Future<Output = ()> + Send>>>,
    pub(crate) in_work: InWork,
}

/// Names what a controller reconciles right now.
pub(crate) type InWork = Box<dyn Fn() -> Vec<String> + Send + Sync>;

impl<R: Request> AnyController for Controller<R> {
    fn name(&self) -> &str {
        &self.name
    }

    fn start(self: Box<Self>, mut surroundings: Surroundings) -> Started {
        let Self { name, options, reconciler, sources } = *self;
        let queue = Queue::new(options.queue);
        tracing::info!(controller = &*name, workers = options.max_concurrent_reconciles, "starting workers");
        let subscriptions = sources.into_iter().map(|connect| connect(&name, &queue)).collect();
        let workers: Vec<_> = (0..options.max_concurrent_reconciles.get())
            .map(|_| {
                Arc::new(Worker {
                    controller: Arc::clone(&name),
                    reconciler: Arc::clone(&reconciler),
                    timeout: options.reconciliation_timeout,
                    queue: queue.clone(),
                    recorder: surroundings.recorder.named(&name),
                    draining: surroundings.draining.clone(),
                    current: parking_lot::Mutex::new(None),
                    rng: parking_lot::Mutex::new(surroundings.rng.fork()),
                    clock: surroundings.clock,
                })
            })
            .collect();
        let observed = workers.clone();
        Started {
            subscriptions,
            workers: workers.into_iter().map(Worker::into_future).collect(),
            in_work: Box::new(move || observed.iter().filter_map(|worker| worker.in_work()).collect()),
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
