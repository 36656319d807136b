use std::{fmt, sync::Arc, time::Duration};

pub use kube_clock::Epoch;

use crate::{
    cache, client::ClientBuilder, controller::Config, http_server::Endpoint, leader_election,
    metrics::ServerOptions,
};

/// How a manager works.
///
/// ```
/// use std::time::Duration;
/// use controller_runtime::manager::{Options, Shutdown};
///
/// let options = Options::new("guestbook-operator")
///     .cache_sync_timeout(Duration::from_secs(30))
///     .graceful_shutdown_timeout(Shutdown::Within(Duration::from_secs(10)));
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Options {
    pub(super) name: Arc<str>,
    pub(super) cache_sync_timeout: Duration,
    pub(super) graceful_shutdown_timeout: Shutdown,
    pub(super) seed: Option<u64>,
    pub(super) epoch: Option<Epoch>,
    pub(super) host: Option<String>,
    pub(super) leader_election: Option<leader_election::Options>,
    pub(super) cache: cache::Options,
    pub(super) client: AdaptClient,
    pub(super) controller: Config,
    pub(super) metrics: ServerOptions,
    pub(super) health_probe: Endpoint,
    pub(super) liveness: String,
    pub(super) readiness: String,
    pub(super) stuck_after: Option<Duration>,
    pub(super) stale_after: Option<Duration>,
}

/// How long running reconciles may take to finish when a manager stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Not at all: they are dropped at once.
    Immediate,
    /// This long; then they are dropped, and the manager names them in its error.
    Within(Duration),
    /// As long as they like.
    Unbounded,
}

impl Options {
    /// Options of an operator named `name`: the field manager of its writes.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            cache_sync_timeout: Duration::from_secs(120),
            graceful_shutdown_timeout: Shutdown::Within(Duration::from_secs(30)),
            seed: None,
            epoch: None,
            host: None,
            leader_election: None,
            cache: cache::Options::default(),
            client: AdaptClient::default(),
            controller: Config::default(),
            metrics: ServerOptions::default(),
            health_probe: Endpoint::Disabled,
            liveness: "/healthz".to_owned(),
            readiness: "/readyz".to_owned(),
            stuck_after: None,
            stale_after: Some(Duration::from_secs(300)),
        }
    }

    /// How long the caches may take to become complete before the manager gives up. Default: 2 minutes.
    #[doc(alias = "CacheSyncTimeout")]
    pub fn cache_sync_timeout(mut self, timeout: Duration) -> Self {
        self.cache_sync_timeout = timeout;
        self
    }

    /// How long running reconciles may take to finish when the manager stops. Default: 30 seconds.
    ///
    /// What is left of it afterwards is for the other groups; the manager's servers answer the requests in work for as long,
    /// but no longer than a minute.
    #[doc(alias = "GracefulShutdownTimeout")]
    pub fn graceful_shutdown_timeout(mut self, timeout: Shutdown) -> Self {
        self.graceful_shutdown_timeout = timeout;
        self
    }

    /// How the caches hold objects. Default: compressed, and 64 MiB of them decoded.
    pub fn cache(mut self, options: cache::Options) -> Self {
        self.cache = options;
        self
    }

    /// How the manager's clients work: rate limit, warnings, write gates, [interceptors](ClientBuilder::interceptor). Default: as
    /// [`ClientBuilder`] says.
    ///
    /// What is said holds for [`Manager::client`](super::Manager::client) and
    /// [`Manager::ungated_client`](super::Manager::ungated_client) together: they share one rate limit, say. Leadership is a
    /// permit for writes all the same, and what is written is seen in the caches at once. Lists and watches of the caches,
    /// events and the leader election are not subject to it.
    ///
    /// ```
    /// use controller_runtime::{client::Warnings, manager::Options};
    ///
    /// let options = Options::new("guestbook-operator").client(|client| {
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

    /// How controllers work that do not say otherwise themselves. Default: as [`Config`] says.
    #[doc(alias = "Controller")]
    pub fn controller(mut self, config: Config) -> Self {
        self.controller = config;
        self
    }

    /// What the metrics of the client call the API server: `10.96.0.1:443`, say. Default: what the configuration says, in
    /// [`Manager::from_config`](crate::Manager::from_config); nothing in [`Manager::new`](crate::Manager::new), since a
    /// [`kube::Client`] does not tell.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Makes jitter and generated names the same in every run. Default: different ones.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Makes wall time advance from `epoch` with tokio's time, instead of reading the system clock: timestamps are then equal
    /// in every run of a test. Default: `None`, the system clock, or in paused time one reading of it that all clocks of the
    /// process share.
    ///
    /// An API server of the same test takes the same epoch. `kube_envtest` gives the one of its environment:
    ///
    /// ```
    /// use controller_runtime::{Manager, manager::{Epoch, Options}};
    /// use kube_envtest::Environment;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let new_year = Epoch::starting_now("2026-01-01T00:00:00Z".parse()?);
    /// let env = Environment::builder().epoch(new_year).seed(1).start().await?;
    /// let options = Options::new("guestbook-operator").epoch(env.epoch()).seed(1);
    /// let manager = Manager::new(env.client(), options);
    /// # Ok(())
    /// # }
    /// ```
    pub fn epoch(mut self, epoch: impl Into<Option<Epoch>>) -> Self {
        self.epoch = epoch.into();
        self
    }

    /// Lets one process at a time do what needs leader election: controllers, unless they say otherwise. Default: no
    /// election, everything runs.
    #[doc(alias = "LeaderElection")]
    pub fn leader_election(mut self, election: leader_election::Options) -> Self {
        self.leader_election = Some(election);
        self
    }

    /// Serves metrics. Default: not.
    #[doc(alias = "Metrics")]
    pub fn metrics(mut self, server: ServerOptions) -> Self {
        self.metrics = server;
        self
    }

    /// Serves liveness and readiness here. Default: nowhere.
    #[doc(alias = "HealthProbeBindAddress")]
    pub fn health_probe_bind_address(mut self, address: Endpoint) -> Self {
        self.health_probe = address;
        self
    }

    /// The path of liveness. Default: `/healthz`.
    #[doc(alias = "LivenessEndpointName")]
    pub fn liveness_endpoint(mut self, path: impl Into<String>) -> Self {
        self.liveness = path.into();
        self
    }

    /// The path of readiness. Default: `/readyz`.
    #[doc(alias = "ReadinessEndpointName")]
    pub fn readiness_endpoint(mut self, path: impl Into<String>) -> Self {
        self.readiness = path.into();
        self
    }

    /// Fails liveness, so that the process is restarted, while a reconcile takes longer than this. Default: never, because
    /// nobody but you knows what is too long.
    pub fn stuck_after(mut self, limit: Duration) -> Self {
        self.stuck_after = Some(limit);
        self
    }

    /// Fails readiness while a list or watch of a cache has failed, time and again, for longer than this: what is read of it is
    /// that old. `None` is never. Default: 5 minutes, a multiple of the longest wait between two attempts.
    ///
    /// A right or a definition that was taken away shows in that way, at the latest when the watch is renewed, which is after
    /// 10 minutes. An operator that can do without a kind that comes and goes wants `None`, or reads it only while it is
    /// there.
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

/// What is said of the clients.
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
