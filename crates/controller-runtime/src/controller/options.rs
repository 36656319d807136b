//! Options of a controller.

use std::{fmt, time::Duration};

use kube_workqueue::{Queue, RateLimiter};
use tracing::Span;

use super::{Config, reconcile_log::MakeSpan};
use crate::reconcile::{Context, Request};

/// Options of a controller, starting from [`ControllerOptions::default`]. An option that is not set here has the value that the
/// manager sets for all its controllers ([`Config`]), or else the default.
///
/// ```
/// use std::time::Duration;
/// use controller_runtime::{ObjectKey, controller::ControllerOptions};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let options = ControllerOptions::<ObjectKey<ConfigMap>>::default()
///     .max_concurrent_reconciles(4)
///     .reconciliation_timeout(Duration::from_secs(60));
/// ```
#[must_use]
pub struct ControllerOptions<R: Request> {
    pub(crate) config: Config,
    pub(crate) queue: kube_workqueue::Options<R>,
    pub(crate) new_queue: NewQueue<R>,
    pub(crate) make_span: Option<Box<MakeSpan<R>>>,
}

/// Makes the queue of a controller from the controller's name and the queue's options.
type NewQueue<R> = Box<dyn FnOnce(&str, kube_workqueue::Options<R>) -> Queue<R> + Send>;

impl<R: Request> ControllerOptions<R> {
    /// Sets the number of workers: at most so many requests are reconciled at the same time, each by one worker. 1 to 10,000;
    /// `complete` refuses other numbers. [`ControllerHandle::set_max_concurrent_reconciles`] changes the number while the
    /// controller runs. Default: 16.
    ///
    /// A reconcile spends most of its time waiting for the API server, so a single worker, Go's default, leaves the process and the
    /// API server idle most of the time. If a reconcile sends three requests of 5 ms each, one worker needs 15 s for 1,000 objects
    /// after a start, and 16 workers need 1 s. The default is not higher, because each worker can have a request in flight: 16 are a
    /// small share of the 600 that an API server handles at once by default (`--max-requests-inflight`,
    /// `--max-mutating-requests-inflight`).
    ///
    /// Set 1 if reconciles of different requests must not overlap, for example because the reconciler chooses a free port or
    /// address from the objects in its cache: two reconciles could choose the same one.
    ///
    /// [`ControllerHandle::set_max_concurrent_reconciles`]: super::ControllerHandle::set_max_concurrent_reconciles
    #[doc(alias = "MaxConcurrentReconciles")]
    pub fn max_concurrent_reconciles(mut self, workers: usize) -> Self {
        self.config = self.config.max_concurrent_reconciles(workers);
        self
    }

    /// Limits the time of a reconcile. A reconcile that takes longer is dropped at an `.await`, and its request is retried with
    /// back-off. Zero means no timeout, even if the manager sets one for all controllers. Default: none.
    #[doc(alias = "ReconciliationTimeout")]
    pub fn reconciliation_timeout(mut self, timeout: Duration) -> Self {
        self.config = self.config.reconciliation_timeout(timeout);
        self
    }

    /// Sets the time that a source has to deliver its initial state; the controller reconciles nothing before that. If a source
    /// takes longer, the controller stops with an error that names the source and the reason. Default:
    /// [`ManagerOptions::cache_sync_timeout`](crate::ManagerOptions::cache_sync_timeout), 2 minutes.
    #[doc(alias = "CacheSyncTimeout")]
    pub fn cache_sync_timeout(mut self, timeout: Duration) -> Self {
        self.config = self.config.cache_sync_timeout(timeout);
        self
    }

    /// Sets whether the controller runs only while this process leads. Default: yes. Has no effect if the manager does not take
    /// part in a [leader election](crate::leader_election).
    #[doc(alias = "NeedLeaderElection")]
    pub fn needs_leader_election(mut self, needs: bool) -> Self {
        self.config = self.config.needs_leader_election(needs);
        self
    }

    /// Sets whether the sources run, and fill the queue, while this process is on standby, so that the first reconcile begins
    /// as soon as the process leads. The process becomes a candidate for the lease only when the sources are synced. Default: no.
    ///
    /// The queue merges repeated requests into one, so it holds at most one request per key.
    #[doc(alias = "EnableWarmup")]
    pub fn enable_warmup(mut self, enable: bool) -> Self {
        self.config = self.config.enable_warmup(enable);
        self
    }

    /// Sets whether a panic in a reconcile counts as a failure that is retried with back-off. Default: true.
    ///
    /// With false, a panic stops the manager, with an error that names the controller.
    #[doc(alias = "RecoverPanic")]
    pub fn recover_panic(mut self, recover: bool) -> Self {
        self.config = self.config.recover_panic(recover);
        self
    }

    /// Sets whether another controller of the manager may have the same name. Their metrics are then indistinguishable.
    /// Default: no.
    #[doc(alias = "SkipNameValidation")]
    pub fn skip_name_validation(mut self, skip: bool) -> Self {
        self.config = self.config.skip_name_validation(skip);
        self
    }

    /// Sets whether requests caused by events take precedence over those of the initial list, and handlers may set a
    /// [priority](crate::workqueue::Priority). Default: yes. With `false`, all requests have the same priority and run in the order
    /// of their arrival.
    #[doc(alias = "UsePriorityQueue")]
    pub fn use_priority_queue(mut self, use_it: bool) -> Self {
        self.config = self.config.use_priority_queue(use_it);
        self
    }

    /// Sets the rate limiter, which determines the delay before a failed request runs again.
    ///
    /// Default: the longer of an exponential back-off per request (5 ms, doubling to 1000 s) and a token bucket
    /// shared by all retries of the controller (10 a second, bursts of 100).
    #[doc(alias = "RateLimiter")]
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<R> + 'static) -> Self {
        self.queue = self.queue.rate_limiter(limiter);
        self
    }

    /// Sets other options of the queue, such as fairness between tenants or debouncing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use controller_runtime::{ObjectKey, controller::ControllerOptions, workqueue::Flow};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// let options = ControllerOptions::<ObjectKey<ConfigMap>>::default().queue(|queue| {
    ///     queue
    ///         .fair_by(|key| Flow::from(key.namespace().unwrap_or_default()))
    ///         .debounce(Duration::from_millis(100), Duration::from_secs(1))
    /// });
    /// ```
    pub fn queue(
        mut self,
        change: impl FnOnce(kube_workqueue::Options<R>) -> kube_workqueue::Options<R>,
    ) -> Self {
        self.queue = change(self.queue);
        self
    }

    /// Replaces the function that makes the queue. Its arguments are the name of the controller and the queue's options, which
    /// include its metrics. Default: [`Queue::new`]. The function can keep a clone of the queue, to add requests or to inspect it.
    #[doc(alias = "NewQueue")]
    pub fn new_queue(
        mut self,
        make: impl FnOnce(&str, kube_workqueue::Options<R>) -> Queue<R> + Send + 'static,
    ) -> Self {
        self.new_queue = Box::new(make);
        self
    }

    /// Replaces the function that makes the span of a reconcile, which determines the fields of its log lines.
    ///
    /// Default, with Go's names: `controller`; for a controller of a kind `controllerGroup`, `controllerKind`, `namespace` and
    /// `name`, for others `request`; then `reconcileID` and `attempt`. Go's field named after the kind is
    /// missing, because field names are fixed at compile time here.
    ///
    /// ```
    /// use controller_runtime::{Context, ObjectKey, controller::ControllerOptions};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// let options = ControllerOptions::default().log_constructor(|key: &ObjectKey<ConfigMap>, cx: &Context| {
    ///     tracing::info_span!("settings", object = %key, reconcileID = %cx.id())
    /// });
    /// ```
    #[doc(alias = "LogConstructor")]
    pub fn log_constructor(mut self, make: impl Fn(&R, &Context) -> Span + Send + Sync + 'static) -> Self {
        self.make_span = Some(Box::new(make));
        self
    }
}

impl<R: Request> Default for ControllerOptions<R> {
    fn default() -> Self {
        Self {
            config: Config::default(),
            queue: kube_workqueue::Options::default(),
            new_queue: Box::new(|_, options| Queue::new(options)),
            make_span: None,
        }
    }
}

impl<R: Request> fmt::Debug for ControllerOptions<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, queue, .. } = self;
        f.debug_struct("ControllerOptions")
            .field("config", config)
            .field("queue", queue)
            .finish_non_exhaustive()
    }
}
