use std::{fmt, num::NonZeroUsize, time::Duration};

use kube_workqueue::RateLimiter;

use crate::reconcile::Request;

/// How a controller works. Start from [`Options::default`].
///
/// ```
/// use std::time::Duration;
/// use controller_runtime::{ObjectKey, controller::Options};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let options = Options::<ObjectKey<ConfigMap>>::default()
///     .max_concurrent_reconciles(4.try_into().unwrap())
///     .reconciliation_timeout(Duration::from_secs(60));
/// ```
#[must_use]
pub struct Options<R: Request> {
    pub(crate) max_concurrent_reconciles: NonZeroUsize,
    pub(crate) reconciliation_timeout: Option<Duration>,
    pub(crate) needs_leader_election: bool,
    pub(crate) recover_panic: bool,
    pub(crate) queue: kube_workqueue::Options<R>,
}

impl<R: Request> Options<R> {
    /// How many requests may be reconciled at the same time; never two of the same. Default: 1.
    #[doc(alias = "MaxConcurrentReconciles")]
    pub fn max_concurrent_reconciles(mut self, workers: NonZeroUsize) -> Self {
        self.max_concurrent_reconciles = workers;
        self
    }

    /// Ends a reconcile that takes longer, by dropping its future at an `.await`, and retries it with back-off.
    /// Default: none.
    #[doc(alias = "ReconciliationTimeout")]
    pub fn reconciliation_timeout(mut self, timeout: Duration) -> Self {
        self.reconciliation_timeout = Some(timeout);
        self
    }

    /// Whether the controller works only in the process that leads. Default: yes, which matters only where the manager
    /// takes part in a [leader election](crate::leader_election).
    #[doc(alias = "NeedLeaderElection")]
    pub fn needs_leader_election(mut self, needs: bool) -> Self {
        self.needs_leader_election = needs;
        self
    }

    /// Whether a reconcile that panics is a failure like others, retried with back-off. Default: true.
    ///
    /// Without it a panic ends the manager, with an error that names the controller.
    #[doc(alias = "RecoverPanic")]
    pub fn recover_panic(mut self, recover: bool) -> Self {
        self.recover_panic = recover;
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
}

impl<R: Request> Default for Options<R> {
    fn default() -> Self {
        Self {
            max_concurrent_reconciles: NonZeroUsize::MIN,
            reconciliation_timeout: None,
            needs_leader_election: true,
            recover_panic: true,
            queue: kube_workqueue::Options::default(),
        }
    }
}

impl<R: Request> fmt::Debug for Options<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("max_concurrent_reconciles", &self.max_concurrent_reconciles)
            .field("reconciliation_timeout", &self.reconciliation_timeout)
            .finish_non_exhaustive()
    }
}
