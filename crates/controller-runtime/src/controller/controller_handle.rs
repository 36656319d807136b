//! Handle of a controller, for the code that made it.

use std::{fmt, sync::Arc};

use super::{
    Controller, SourceHandle, WorkersError,
    sources::Sources,
    worker_pool::{self, WantedWorkers},
};
use crate::{
    cache::Cache,
    metrics::ControllerMetrics,
    object::Object,
    reconcile::Request,
    request_queue::{Explanation, RequestQueue},
    runnable::RunnableHandle,
    source::{Attachment, Kind, Source},
};

/// Handle of a controller of a manager. Dropping it has no effect.
///
/// ```
/// # use controller_runtime::{
/// #     Action, Builder, Context, Manager, ObjectKey, ReconcileError, Reconciler, manager::AddError,
/// # };
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # struct MyReconciler;
/// # impl Reconciler for MyReconciler {
/// #     type Request = ObjectKey<ConfigMap>;
/// #     async fn reconcile(&self, _: &ObjectKey<ConfigMap>, _: &Context) -> Result<Action, ReconcileError> {
/// #         Ok(Action::done())
/// #     }
/// # }
/// # fn example(manager: &Manager) -> Result<(), AddError> {
/// let controller = Builder::managed_by(manager).for_kind::<ConfigMap>().complete(MyReconciler)?;
/// // … later, to find out why it is not reconciled:
/// println!("{}", controller.explain(&ObjectKey::new("default", "settings")));
/// # Ok(())
/// # }
/// ```
pub struct ControllerHandle<R: Request> {
    requests: RequestQueue<R>,
    sources: Arc<Sources<R>>,
    wanted_workers: Arc<WantedWorkers>,
    metrics: ControllerMetrics,
    cache: Arc<Cache>,
    /// The runnables of its workers and of its warm-up.
    runnables: Vec<RunnableHandle>,
}

impl<R: Request> ControllerHandle<R> {
    pub(crate) fn new(controller: &Controller<R>, cache: Arc<Cache>, runnables: Vec<RunnableHandle>) -> Self {
        Self {
            requests: controller.requests.clone(),
            sources: Arc::clone(&controller.sources),
            wanted_workers: Arc::clone(&controller.wanted_workers),
            metrics: controller.metrics.clone(),
            cache,
            runnables,
        }
    }

    /// Name of the controller.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.requests.controller
    }

    /// Explains why `request` is not being reconciled: its state in the queue, the rule that delays it, the events that led to it,
    /// and the outcomes of its last runs.
    ///
    /// Visits every request in the queue, in batches, so that workers can continue meanwhile.
    pub fn explain(&self, request: &R) -> Explanation {
        self.requests.explain(request)
    }

    /// Failing requests among the 1024 that ran last, ordered by the time of their last run, oldest first.
    #[must_use]
    pub fn failing(&self) -> Vec<R> {
        self.requests.tracker.failing()
    }

    /// Adds a source of requests: it starts at once if the controller is running.
    ///
    /// If it fails, the controller continues: [`SourceHandle::synced`] and the log report the error, and the source is retried.
    #[expect(clippy::must_use_candidate, reason = "the handle is needed only to remove the source")]
    pub fn watch<C: Object>(&self, source: Kind<C, R>) -> SourceHandle {
        let required = &self.requests.required_labels();
        let to = Attachment { cache: &self.cache, required, controller: self.name(), owner: None };
        self.watch_raw_source(source.attach(&to))
    }

    /// Like [`watch`](Self::watch), for a source of any type.
    pub fn watch_raw_source(&self, source: impl Source<R>) -> SourceHandle {
        SourceHandle::new(&self.sources, Arc::new(source))
    }

    /// The number of workers that the controller has, or will have when it runs.
    #[must_use]
    pub fn max_concurrent_reconciles(&self) -> usize {
        *self.wanted_workers.borrow()
    }

    /// Changes the number of workers, at once if the controller is running, and for its later runs. More workers start at once;
    /// surplus workers finish their reconcile first, so until then more than `workers` requests may be running.
    ///
    /// # Errors
    ///
    /// `workers` is zero or above 10,000; then nothing has changed.
    pub fn set_max_concurrent_reconciles(&self, workers: usize) -> Result<(), WorkersError> {
        let workers = worker_pool::check(self.name(), workers, "set_max_concurrent_reconciles")?;
        self.wanted_workers.send_modify(|wanted| {
            *wanted = workers;
            // Set under the lock of the channel, so that the gauge agrees with the number when several threads change it.
            self.metrics.set_max_concurrent_reconciles(workers);
        });
        Ok(())
    }

    /// Removes the controller from its manager, and waits until its running reconciles are done.
    ///
    /// # Cancellation
    ///
    /// Dropping the future only ends the wait.
    pub async fn remove(self) {
        // The workers are listed first, so that they stop before the warm-up, which runs their sources.
        for runnable in self.runnables {
            runnable.remove().await;
        }
    }
}

impl<R: Request> Clone for ControllerHandle<R> {
    fn clone(&self) -> Self {
        Self {
            requests: self.requests.clone(),
            sources: Arc::clone(&self.sources),
            wanted_workers: Arc::clone(&self.wanted_workers),
            metrics: self.metrics.clone(),
            cache: Arc::clone(&self.cache),
            runnables: self.runnables.clone(),
        }
    }
}

impl<R: Request> fmt::Debug for ControllerHandle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerHandle").field("name", &self.name()).finish_non_exhaustive()
    }
}
