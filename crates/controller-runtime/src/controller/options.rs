use std::{fmt, time::Duration};

use kube_workqueue::{Queue, RateLimiter};
use tracing::Span;

use super::{Config, log::MakeSpan};
use crate::reconcile::{Context, Request};

/// How a controller works. Start from [`Options::default`]; what is not said here is as the manager has it for all its
/// controllers ([`Config`]).
///
/// ```
/// use std::time::Duration;
/// use controller_runtime::{ObjectKey, controller::Options};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let options = Options::<ObjectKey<ConfigMap>>::default()
///     .max_concurrent_reconciles(4)
///     .reconciliation_timeout(Duration::from_secs(60));
/// ```
#[must_use]
pub struct Options<R: Request> {
    pub(crate) config: Config,
    pub(crate) queue: kube_workqueue::Options<R>,
    pub(crate) new_queue: NewQueue<R>,
    pub(crate) make_span: Option<Box<MakeSpan<R>>>,
}

/// Makes the queue of a controller, given the controller's name and what the queue should be like.
type NewQueue<R> = Box<dyn FnOnce(&str, kube_workqueue::Options<R>) -> Queue<R> + Send>;

impl<R: Request> Options<R> {
    /// Sets the number of workers: how many requests are reconciled at the same time, never the same request twice.
    /// 1 to 10,000; `complete` refuses other numbers. [`Handle::set_max_concurrent_reconciles`] changes the number while
    /// the controller runs. Default: 16.
    ///
    /// A reconcile spends most of its time waiting for the API server, so one worker, Go's default, leaves both idle:
    /// with requests of 5 ms, three to a reconcile, it needs 15 s for 1,000 objects after a start, and 16 workers 1 s. The
    /// number is bounded, because each worker can have a request in flight: 16 are a small share of the 600 that an API
    /// server handles at once by default (`--max-requests-inflight`, `--max-mutating-requests-inflight`).
    ///
    /// Set 1 for a reconciler that needs to be alone, for example because it chooses a free port or address from what
    /// its cache holds: two reconciles could choose the same one.
    ///
    /// [`Handle::set_max_concurrent_reconciles`]: super::Handle::set_max_concurrent_reconciles
    #[doc(alias = "MaxConcurrentReconciles")]
    pub fn max_concurrent_reconciles(mut self, workers: usize) -> Self {
        self.config = self.config.max_concurrent_reconciles(workers);
        self
    }

    /// Ends a reconcile that takes longer, by dropping its future at an `.await`, and retries it with back-off. Zero is no
    /// timeout, also where the manager has one for all. Default: none.
    #[doc(alias = "ReconciliationTimeout")]
    pub fn reconciliation_timeout(mut self, timeout: Duration) -> Self {
        self.config = self.config.reconciliation_timeout(timeout);
        self
    }

    /// How long a source may take until it has told what there is; nothing is reconciled before. A controller whose source
    /// takes longer fails, with an error that names the source and what keeps it. Default: as long as the manager's
    /// [`cache_sync_timeout`](crate::manager::Options::cache_sync_timeout), 2 minutes.
    #[doc(alias = "CacheSyncTimeout")]
    pub fn cache_sync_timeout(mut self, timeout: Duration) -> Self {
        self.config = self.config.cache_sync_timeout(timeout);
        self
    }

    /// Whether the controller works only in the process that leads. Default: yes, which matters only where the manager
    /// takes part in a [leader election](crate::leader_election).
    #[doc(alias = "NeedLeaderElection")]
    pub fn needs_leader_election(mut self, needs: bool) -> Self {
        self.config = self.config.needs_leader_election(needs);
        self
    }

    /// Whether the sources run, and fill the queue, before this process leads: so that the first reconcile begins as soon
    /// as it does. The process stands for election only when they are synced. Default: no.
    ///
    /// What is asked for more than once before it can run is one request, as always.
    #[doc(alias = "EnableWarmup")]
    pub fn enable_warmup(mut self, enable: bool) -> Self {
        self.config = self.config.enable_warmup(enable);
        self
    }

    /// Whether a reconcile that panics is a failure like others, retried with back-off. Default: true.
    ///
    /// Without it a panic ends the manager, with an error that names the controller.
    #[doc(alias = "RecoverPanic")]
    pub fn recover_panic(mut self, recover: bool) -> Self {
        self.config = self.config.recover_panic(recover);
        self
    }

    /// Whether another controller of the manager may have the same name. Their metrics cannot be told apart then. Default:
    /// no.
    #[doc(alias = "SkipNameValidation")]
    pub fn skip_name_validation(mut self, skip: bool) -> Self {
        self.config = self.config.skip_name_validation(skip);
        self
    }

    /// Whether some requests go before others: what happened before what was there at the start, and what a handler puts in
    /// a [class](crate::workqueue::Priority) of its own. Default: yes. Without, all are of one class, first come, first
    /// served.
    #[doc(alias = "UsePriorityQueue")]
    pub fn use_priority_queue(mut self, use_it: bool) -> Self {
        self.config = self.config.use_priority_queue(use_it);
        self
    }

    /// Says how long a failed request waits for its next attempt.
    ///
    /// Default: the longer of an exponential back-off per request (5 ms, doubling to 1000 s) and a token bucket
    /// shared by all retries of the controller (10 a second, bursts of 100).
    #[doc(alias = "RateLimiter")]
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<R> + 'static) -> Self {
        self.queue = self.queue.rate_limiter(limiter);
        self
    }

    /// Changes what the queue is like besides: its fairness between tenants, say, or that it waits until events pause.
    ///
    /// ```
    /// use std::time::Duration;
    /// use controller_runtime::{ObjectKey, controller::Options, workqueue::Flow};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// let options = Options::<ObjectKey<ConfigMap>>::default().queue(|queue| {
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

    /// Makes the queue: given the name of the controller and what the queue is to be like, its metrics included. Default:
    /// [`Queue::new`]. Who keeps a clone can put requests into it, and look at what waits.
    #[doc(alias = "NewQueue")]
    pub fn new_queue(
        mut self,
        make: impl FnOnce(&str, kube_workqueue::Options<R>) -> Queue<R> + Send + 'static,
    ) -> Self {
        self.new_queue = Box::new(make);
        self
    }

    /// Makes the span in which a request is reconciled, and so the fields of what is logged meanwhile.
    ///
    /// Default, in Go's names: `controller`, of a controller of a kind `controllerGroup`, `controllerKind`, `namespace` and
    /// `name`, of another one `request`; then `reconcileID` and `attempt`. Go's field that is called as the kind is
    /// missing, because names of fields are fixed here.
    ///
    /// ```
    /// use controller_runtime::{Context, ObjectKey, controller::Options};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// let options = Options::default().log_constructor(|key: &ObjectKey<ConfigMap>, cx: &Context| {
    ///     tracing::info_span!("settings", object = %key, reconcileID = %cx.id())
    /// });
    /// ```
    #[doc(alias = "LogConstructor")]
    pub fn log_constructor(mut self, make: impl Fn(&R, &Context) -> Span + Send + Sync + 'static) -> Self {
        self.make_span = Some(Box::new(make));
        self
    }
}

impl<R: Request> Default for Options<R> {
    fn default() -> Self {
        Self {
            config: Config::default(),
            queue: kube_workqueue::Options::default(),
            new_queue: Box::new(|_, options| Queue::new(options)),
            make_span: None,
        }
    }
}

impl<R: Request> fmt::Debug for Options<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, queue, .. } = self;
        f.debug_struct("Options").field("config", config).field("queue", queue).finish_non_exhaustive()
    }
}
