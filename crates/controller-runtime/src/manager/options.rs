//! Options of a manager.

use std::{fmt, sync::Arc, time::Duration};

pub use kube_clock::Epoch;

use crate::{
    cache,
    client::{ClientBuilder, transport::declaration_check::UndeclaredRequests},
    controller::Config,
    leader_election,
    serving::{Endpoint, MetricsServerOptions},
    webhook,
};

/// Options of a manager.
///
/// ```
/// use std::time::Duration;
/// use controller_runtime::{ManagerOptions, manager::Shutdown};
///
/// let options = ManagerOptions::new("guestbook-operator")
///     .cache_sync_timeout(Duration::from_secs(30))
///     .graceful_shutdown_timeout(Shutdown::Within(Duration::from_secs(10)));
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct ManagerOptions {
    pub(crate) name: Arc<str>,
    pub(super) cache_sync_timeout: Duration,
    pub(crate) graceful_shutdown_timeout: Shutdown,
    pub(super) seed: Option<u64>,
    pub(super) epoch: Option<Epoch>,
    pub(super) host: Option<String>,
    pub(crate) leader_election: Option<leader_election::LeaderElectionOptions>,
    pub(super) cache: cache::CacheOptions,
    pub(super) client: AdaptClient,
    pub(super) undeclared_requests: UndeclaredRequests,
    pub(super) controller: Config,
    pub(crate) metrics: MetricsServerOptions,
    pub(crate) webhooks: webhook::WebhookOptions,
    pub(crate) health_probe: Endpoint,
    pub(crate) liveness: String,
    pub(crate) readiness: String,
    pub(super) stuck_after: Option<Duration>,
    pub(super) stale_after: Option<Duration>,
}

/// Time that running reconciles have to finish when a manager stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// None: they are dropped at once.
    Immediate,
    /// At most this time. Then they are dropped, and the manager names them in its error.
    Within(Duration),
    /// Unlimited.
    Unbounded,
}

impl ManagerOptions {
    /// Makes the options of an operator named `name`, which is also the field manager of its writes.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            cache_sync_timeout: Duration::from_secs(120),
            graceful_shutdown_timeout: Shutdown::Within(Duration::from_secs(30)),
            seed: None,
            epoch: None,
            host: None,
            leader_election: None,
            cache: cache::CacheOptions::default(),
            client: AdaptClient::default(),
            undeclared_requests: UndeclaredRequests::default(),
            controller: Config::default(),
            metrics: MetricsServerOptions::default(),
            webhooks: webhook::WebhookOptions::default(),
            health_probe: Endpoint::Disabled,
            liveness: "/healthz".to_owned(),
            readiness: "/readyz".to_owned(),
            stuck_after: None,
            stale_after: Some(Duration::from_secs(300)),
        }
    }

    /// Sets the time that caches may take to receive their initial lists before the manager gives up. Default: 2 minutes.
    #[doc(alias = "CacheSyncTimeout")]
    pub fn cache_sync_timeout(mut self, timeout: Duration) -> Self {
        self.cache_sync_timeout = timeout;
        self
    }

    /// Sets the time that running reconciles have to finish when the manager stops. Default: 30 seconds.
    ///
    /// The groups that stop after the controllers share the time that is left. The manager's servers, which stop last, have at
    /// most one minute of it to finish running requests.
    #[doc(alias = "GracefulShutdownTimeout")]
    pub fn graceful_shutdown_timeout(mut self, timeout: Shutdown) -> Self {
        self.graceful_shutdown_timeout = timeout;
        self
    }

    /// Sets which objects the caches hold, by namespaces and selectors, and how they store them. Default: all objects of each kind
    /// that is used, compressed, with up to 64 MiB of decoded objects.
    pub fn cache(mut self, options: cache::CacheOptions) -> Self {
        self.cache = options;
        self
    }

    /// Sets options of the manager's clients: rate limit, warnings, write gates, [interceptors](ClientBuilder::interceptor).
    /// Default: those of [`ClientBuilder`].
    ///
    /// The options apply to [`Manager::client`](super::Manager::client) and
    /// [`Manager::ungated_client`](super::Manager::ungated_client) together: they share one rate limit, for example. Lists and
    /// watches of the caches, Kubernetes Events and the leader election are not affected. Leadership is still checked before
    /// writes, and writes are still visible in the caches at once.
    ///
    /// ```
    /// use controller_runtime::{ManagerOptions, client::Warnings};
    ///
    /// let options = ManagerOptions::new("guestbook-operator").client(|client| {
    ///     let client = client.rate_limit(20.0, 30).expect("neither is zero"); // 20 requests a second, 30 at once
    ///     client.warnings(Warnings::LogOnce)
    /// });
    /// ```
    #[doc(alias = "Client")]
    #[doc(alias = "NewClient")]
    pub fn client(mut self, adapt: impl Fn(ClientBuilder) -> ClientBuilder + Send + Sync + 'static) -> Self {
        self.client = AdaptClient(Arc::new(adapt));
        self
    }

    /// Sets defaults for options that controllers do not set themselves. Default: see [`Config`].
    #[doc(alias = "Controller")]
    pub fn controller(mut self, config: Config) -> Self {
        self.controller = config;
        self
    }

    /// Sets the handling of requests without a [declaration](crate::rights), for the manager's clients and caches, and for
    /// [`Client::kube`](crate::Client::kube) of these clients. Default: they are sent. An [`Operator`](crate::operator::Operator) refuses
    /// them in programs with debug assertions, and reports them in others.
    ///
    /// Leader election and other clusters are not checked.
    pub fn undeclared_requests(mut self, handling: UndeclaredRequests) -> Self {
        self.undeclared_requests = handling;
        self
    }

    /// Sets the name of the API server in the client's metrics, such as `10.96.0.1:443`. Default: host and port of the
    /// configuration with [`Manager::from_config`](crate::Manager::from_config); empty with
    /// [`Manager::new`](crate::Manager::new), because a [`kube::Client`] does not reveal its server.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Sets the seed of jitter and generated names, so that they are the same in every run. Default: a random seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Makes wall time advance from `epoch` with tokio's time, instead of reading the system clock, so that timestamps are
    /// equal in every run of a test. Default: `None`, the system clock; in paused time, one reading of it that all clocks of
    /// the process share.
    ///
    /// An API server in the same test takes the same epoch. `kube_envtest` has the one of its environment:
    ///
    /// ```
    /// use controller_runtime::{Manager, ManagerOptions, manager::Epoch};
    /// use kube_envtest::Environment;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let new_year = Epoch::starting_now("2026-01-01T00:00:00Z".parse()?);
    /// let env = Environment::builder().epoch(new_year).seed(1).start().await?;
    /// let options = ManagerOptions::new("guestbook-operator").epoch(env.epoch()).seed(1);
    /// let manager = Manager::new(env.client(), options);
    /// # Ok(())
    /// # }
    /// ```
    pub fn epoch(mut self, epoch: impl Into<Option<Epoch>>) -> Self {
        self.epoch = epoch.into();
        self
    }

    /// Turns on leader election: controllers, unless they opt out, run in one process at a time. Default: no election,
    /// everything runs.
    #[doc(alias = "LeaderElection")]
    pub fn leader_election(mut self, election: leader_election::LeaderElectionOptions) -> Self {
        self.leader_election = Some(election);
        self
    }

    /// Serves metrics. Default: off.
    #[doc(alias = "Metrics")]
    pub fn metrics(mut self, server: MetricsServerOptions) -> Self {
        self.metrics = server;
        self
    }

    /// Sets the address and TLS of the webhook server, which starts if there are webhooks. Default: port 9443 with certificates
    /// from files ([`webhook::WebhookOptions`]).
    #[doc(alias = "WebhookServer")]
    pub fn webhooks(mut self, options: webhook::WebhookOptions) -> Self {
        self.webhooks = options;
        self
    }

    /// Sets the address that serves liveness and readiness. Default: none.
    #[doc(alias = "HealthProbeBindAddress")]
    pub fn health_probe_bind_address(mut self, address: Endpoint) -> Self {
        self.health_probe = address;
        self
    }

    /// Sets the path of liveness. Default: `/healthz`.
    #[doc(alias = "LivenessEndpointName")]
    pub fn liveness_endpoint(mut self, path: impl Into<String>) -> Self {
        self.liveness = path.into();
        self
    }

    /// Sets the path of readiness. Default: `/readyz`.
    #[doc(alias = "ReadinessEndpointName")]
    pub fn readiness_endpoint(mut self, path: impl Into<String>) -> Self {
        self.readiness = path.into();
        self
    }

    /// Fails liveness, so that the process is restarted, while a reconcile takes longer than this. Default: never, because a
    /// sensible limit depends on your reconcilers.
    pub fn stuck_after(mut self, limit: Duration) -> Self {
        self.stuck_after = Some(limit);
        self
    }

    /// Fails readiness while lists or watches of a cache have been failing for longer than this, so that cached reads
    /// may be that old. With `None` it never fails. Default: 5 minutes, a multiple of the longest wait between two
    /// attempts.
    ///
    /// A permission or definition that was removed shows in this way at the latest when the watch is renewed, after up to
    /// 10 minutes. An operator that can do without a kind that comes and goes should use `None`, or read the kind only while it
    /// exists.
    #[doc(alias = "DefaultWatchErrorHandler")]
    pub fn stale_after(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.stale_after = limit.into();
        self
    }

    /// The source of all randomness of the manager.
    pub(super) fn rng(&self) -> fastrand::Rng {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place without a seed, unless the options hold one"
        )]
        self.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed)
    }
}

/// The function that sets up the clients.
#[derive(Clone)]
pub(super) struct AdaptClient(pub(super) Arc<dyn Fn(ClientBuilder) -> ClientBuilder + Send + Sync>);

impl Default for AdaptClient {
    fn default() -> Self {
        Self(Arc::new(|client| client))
    }
}

impl fmt::Debug for AdaptClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptClient").finish_non_exhaustive()
    }
}
