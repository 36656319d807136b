//! A controller as those see it who made it.

use std::{fmt, sync::Arc};

use super::{
    Controller, Explanation, Inbox, InvalidWorkers, Watch,
    sources::Sources,
    worker_pool::{self, WantedWorkers},
};
use crate::{
    cache::Cache,
    manager,
    metrics::ControllerMetrics,
    object::Object,
    reconcile::Request,
    source::{Kind, Source},
};

/// A controller that was given to a manager. Dropping it changes nothing.
///
/// ```
/// # use controller_runtime::{Action, Builder, Context, Manager, ObjectKey, Reconciler, manager::AddError, reconcile};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # struct MyReconciler;
/// # impl Reconciler for MyReconciler {
/// #     type Request = ObjectKey<ConfigMap>;
/// #     async fn reconcile(&self, _: &ObjectKey<ConfigMap>, _: &Context) -> Result<Action, reconcile::Error> {
/// #         Ok(Action::done())
/// #     }
/// # }
/// # fn example(manager: &Manager) -> Result<(), AddError> {
/// let controller = Builder::managed_by(manager).for_kind::<ConfigMap>().complete(MyReconciler)?;
/// // … later, where somebody asks:
/// println!("{}", controller.explain(&ObjectKey::new("default", "settings")));
/// # Ok(())
/// # }
/// ```
pub struct Handle<R: Request> {
    inbox: Inbox<R>,
    sources: Arc<Sources<R>>,
    wanted_workers: Arc<WantedWorkers>,
    metrics: ControllerMetrics,
    cache: Arc<Cache>,
    /// Its workers, and its warm-up.
    runnables: Vec<manager::Handle>,
}

impl<R: Request> Handle<R> {
    pub(crate) fn new(
        controller: &Controller<R>,
        cache: Arc<Cache>,
        runnables: Vec<manager::Handle>,
    ) -> Self {
        Self {
            inbox: controller.inbox.clone(),
            sources: Arc::clone(&controller.sources),
            wanted_workers: Arc::clone(&controller.wanted_workers),
            metrics: controller.metrics.clone(),
            cache,
            runnables,
        }
    }

    /// The name of the controller.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inbox.controller
    }

    /// Why `request` is where it is: in line, waiting and by which rule, being reconciled, or settled; what led to it, and
    /// what became of its last runs.
    ///
    /// Looks at every request in the queue, some at a time, so that workers go on meanwhile.
    pub fn explain(&self, request: &R) -> Explanation {
        self.inbox.explain(request)
    }

    /// The requests whose last run failed, the one that failed longest ago first: of the 1024 that ran last.
    #[must_use]
    pub fn failing(&self) -> Vec<R> {
        self.inbox.tracker.failing()
    }

    /// Reconciles what `source` asks for as well, from now on: at once if the controller runs.
    ///
    /// One that fails does not make the controller fail: [`Watch::synced`] and the log say what is wrong, and it is tried
    /// again.
    #[expect(
        clippy::must_use_candidate,
        reason = "who never takes the source away has no use for its handle"
    )]
    pub fn watch<C: Object>(&self, source: Kind<C, R>) -> Watch {
        self.watch_raw_source(source.attach(&self.cache, &self.inbox.required_labels()))
    }

    /// The same for a source of any type.
    pub fn watch_raw_source(&self, source: impl Source<R>) -> Watch {
        Watch::new(&self.sources, Arc::new(source))
    }

    /// The number of workers that the controller has, or will have when it runs.
    #[must_use]
    pub fn max_concurrent_reconciles(&self) -> usize {
        *self.wanted_workers.borrow()
    }

    /// Changes the number of workers, at once if the controller runs and for its later runs. More workers start; of fewer,
    /// those with a reconcile in work finish it first, so for that time more requests than `workers` may be in work.
    ///
    /// # Errors
    ///
    /// `workers` is zero or above 10,000; then nothing has changed.
    pub fn set_max_concurrent_reconciles(&self, workers: usize) -> Result<(), InvalidWorkers> {
        let workers = worker_pool::check(self.name(), workers, "set_max_concurrent_reconciles")?;
        self.wanted_workers.send_modify(|wanted| {
            *wanted = workers;
            // Within the lock of the channel, so that the gauge and the number agree whoever else changes them.
            self.metrics.set_max_concurrent_reconciles(workers);
        });
        Ok(())
    }

    /// Takes the controller out of its manager, and waits until its running reconciles are done.
    ///
    /// # Cancellation
    ///
    /// Dropping the future only ends the wait.
    pub async fn remove(self) {
        for runnable in self.runnables {
            runnable.remove().await;
        }
    }
}

impl<R: Request> Clone for Handle<R> {
    fn clone(&self) -> Self {
        Self {
            inbox: self.inbox.clone(),
            sources: Arc::clone(&self.sources),
            wanted_workers: Arc::clone(&self.wanted_workers),
            metrics: self.metrics.clone(),
            cache: Arc::clone(&self.cache),
            runnables: self.runnables.clone(),
        }
    }
}

impl<R: Request> fmt::Debug for Handle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("name", &self.name()).finish_non_exhaustive()
    }
}
