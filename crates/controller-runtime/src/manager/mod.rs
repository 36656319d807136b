//! The manager: what controllers share, and the order in which it starts and stops.

mod alone;
mod caches;
mod clients;
mod cluster;
mod error;
mod explain;
#[cfg(feature = "clap")]
mod flags;
mod lifecycle;
mod options;
mod registry;
mod run;
mod runnable;
mod servers;
mod signals;
mod state;
mod weak;

use std::{
    fmt,
    future::Future,
    sync::{Arc, Weak},
};

use kube_clock::Clock;
use tokio::sync::watch;

#[cfg(feature = "clap")]
pub use self::flags::Flags;
pub(crate) use self::registry::ReservedName;
use self::{
    caches::Caches,
    clients::{Clients, connect, host_of, metered},
    cluster::Clusters,
    lifecycle::{Group, Id, Input},
    registry::{Entry, Registry},
    servers::Servers,
    state::Readiness,
};
pub use self::{
    cluster::Cluster,
    error::{AddError, Error},
    explain::ExplainError,
    options::{Epoch, Options, Shutdown},
    runnable::{BoxError, RunContext, Runnable},
    signals::Signals,
    state::{NeverReady, State},
    weak::WeakManager,
};
use crate::{
    cache::{self, Cache, Cached},
    client::Client,
    controller::{self, Controller, Explain, GroupKind, Settings, WarmUp},
    leader_election::{self, Issuer},
    metrics::{ElectionMetrics, Metrics},
    object::StaticObject,
    reconcile,
};
pub use crate::{
    cert::{CertFiles, CertificateError, Serving},
    http_server::{Endpoint, Handler, InvalidEndpoint, Request, Response},
};

/// Runs controllers and other [`Runnable`]s, with one cache for all of them.
///
/// A handle: clones are the same manager. It keeps what it runs, so what it runs must not keep it: use
/// [`RunContext::manager`] or a [`WeakManager`] there.
///
/// # Lifecycle
///
/// [`Manager::run`] starts what it runs in groups, each when the one before is ready: servers of metrics and probes,
/// webhooks, caches, what does not need to lead, then controllers. With
/// [leader election](Options::leader_election) the last of these wait until this process leads, and are dropped when it
/// loses the lease; it then stands by again. Ready means that servers listen and caches know the present.
///
/// When the shutdown future is done the manager drains, in the reverse order: no new reconcile begins, and those in work
/// may finish, for as long as [`Options::graceful_shutdown_timeout`] says. Then it stops what is left and names it. The
/// lease is given back when nothing that needs it runs any more, and not before.
///
/// The failure of one runnable stops all of them, in that order. Runnables can be added at any time until then, and are
/// started at once if the manager is that far, and [removed](Handle::remove).
///
/// Two managers, or two runs one after the other, live in one process without knowing each other. Of the process are
/// only a panic hook, which notes where a reconcile panicked and calls the one before it, and the signals of [`Signals`].
///
/// # What never waits
///
/// A reconcile can be stopped at an `.await`, and nowhere else. On a runtime with several threads one that computes without
/// any keeps its own thread, and is named: by [`Error::Unstoppable`] at a shutdown; when the lease is lost, in the log and
/// by the check `leader-election` of `/healthz`, so that the process is restarted. Until then it goes on without the lease,
/// and [`Manager::client`] refuses its writes.
///
/// A runtime of one thread does nothing else meanwhile. It renews no lease, which another process then takes over, it
/// answers no probe, keeps no timeout and begins no shutdown. Two things hold there too: writes are refused once the lease
/// has run out, and the second signal ends the process ([`Manager::run_until_signal`]). What computes for long belongs into
/// [`tokio::task::spawn_blocking`].
///
/// # Example
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use controller_runtime::{Manager, client::get_config, manager::Options};
///
/// let config = get_config(None, None).await?;
/// let manager = Manager::from_config(config, Options::new("guestbook-operator"))?;
/// // … build controllers …
/// manager.run_until_signal().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Manager {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    /// For what needs no leader.
    ungated: Client,
    cache: Arc<Cache>,
    /// The caches of other clusters.
    clusters: Clusters,
    options: Options,
    metrics: Metrics,
    registry: Arc<Registry>,
    state: watch::Sender<State>,
    readiness: watch::Sender<Readiness>,
    election: Option<Election>,
    /// Whether this process leads.
    leads: watch::Sender<bool>,
    /// What runs on although the lease was lost, because it cannot be stopped.
    overdue: watch::Sender<Vec<String>>,
    servers: Servers,
}

/// This process's part in an election.
struct Election {
    options: leader_election::Options,
    issuer: Arc<Issuer>,
    metrics: ElectionMetrics,
    /// What the lease is asked for by.
    client: kube::Client,
}

impl Manager {
    /// A manager that reaches the cluster through `client`: for tests, whose client is in process, and for connections of your
    /// own making. Operators use [`Manager::from_config`], whose connections find out when the API server is gone.
    ///
    /// The leader election uses `client` too, unless [`leader_election::Options::client`] sets another one;
    /// [`Manager::from_config`] gives it a connection of its own.
    ///
    /// Each request is sent once, whatever `client` does by itself: the retries of
    /// [`kube::Config::default_retry`], which [`kube::Client::try_default`] turns on, have no effect on requests of this manager
    /// and its clients.
    #[must_use]
    pub fn new(client: kube::Client, options: Options) -> Self {
        let metrics = Metrics::default();
        let cache = Arc::new(Cache::new(options.cache.clone(), options.leader_election.is_some()));
        let host = options.host.as_deref().unwrap_or_default();
        let election = options.leader_election.clone().map(|election| {
            let connection = election.own_client().unwrap_or(&client).clone();
            Election {
                client: metered(connection, host, &options, &metrics).build().kube().clone(),
                metrics: metrics.election(election.id()),
                issuer: Arc::new(Issuer::new()),
                options: election,
            }
        });
        let clients = Clients::new(client, host, &options, &metrics, election.as_ref(), &cache);
        let caches = Arc::new(Caches {
            cluster: None,
            cache: Arc::clone(&cache),
            client: clients.ungated.kube().clone(),
            sync_timeout: options.cache_sync_timeout,
        });
        let manager = Self {
            shared: Arc::new(Shared {
                client: clients.gated,
                ungated: clients.ungated,
                cache,
                clusters: Clusters::default(),
                metrics,
                registry: Arc::new(Registry::new(election.is_some())),
                state: watch::Sender::new(State::Built),
                readiness: watch::Sender::new(Readiness::NotYet),
                leads: watch::Sender::new(false),
                overdue: watch::Sender::default(),
                election,
                options,
                servers: Servers::default(),
            }),
        };
        let (cache, clusters) = (Arc::clone(&manager.shared.cache), manager.shared.clusters.clone());
        manager.shared.metrics.caches(move || cache.look().into_iter().chain(clusters.look()).collect());
        manager.add_servers();
        manager.add_own(caches, Group::Caches);
        manager
    }

    /// A manager that reaches the cluster that `config` names.
    ///
    /// With leader election there are two connections, so that nothing that the operator does can keep a renewal of the
    /// lease waiting. Both are made by [`client::connect`](crate::client::connect): with HTTP/2 where the API server offers it,
    /// so that all watches share a few connections, and with pings and TCP keepalive, by which a peer that has vanished is found
    /// within a minute. They call themselves `guestbook-operator` and `guestbook-operator/leader-election`, after the name in the
    /// options unless `config` has another `User-Agent`. Neither repeats requests by itself
    /// ([`kube::Config::default_retry`] has no effect): the manager does. Metrics call the API server by host and port of its URL, as in Go,
    /// unless [`Options::host`] says otherwise.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use controller_runtime::{Manager, manager::Options};
    ///
    /// let config = controller_runtime::client::get_config(None, None).await?;
    /// let manager = Manager::from_config(config, Options::new("guestbook-operator"))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The configuration cannot be used.
    pub fn from_config(config: kube::Config, mut options: Options) -> Result<Self, kube::Error> {
        let election = options.leader_election.take().map(|election| match election.own_client() {
            Some(_) => Ok(election),
            None => connect(config.clone(), &options.name, "/leader-election")
                .map(|client| election.client(client)),
        });
        options.leader_election = election.transpose()?;
        options.host = options.host.take().or_else(|| host_of(&config.cluster_url));
        Ok(Self::new(connect(config, &options.name, "")?, options))
    }

    /// The client for reconcilers: it writes in the name of the manager. With leader election it writes only while this
    /// process leads.
    ///
    /// Reconciles of a controller without leader election use [`Context::client`](crate::Context::client) or
    /// [`Manager::ungated_client`]. There this client's writes fail with
    /// [`ErrorKind::NotSent`](crate::client::ErrorKind::NotSent), on the leader as well: they would work there, and fail on each
    /// standby.
    #[must_use]
    pub fn client(&self) -> Client {
        self.shared.client.clone()
    }

    /// The client for what needs no leader election: it writes at any time.
    #[must_use]
    pub fn ungated_client(&self) -> Client {
        self.shared.ungated.clone()
    }

    /// The cached objects of kind `K`: all of them, unless another selection was made the default
    /// ([`CacheBuilder::as_default`](crate::cache::CacheBuilder::as_default)).
    ///
    /// All handles of a kind, and all controllers that watch it, share one list and watch. It starts with the manager,
    /// at once if that runs, and stops when nobody reads it any more.
    #[must_use]
    pub fn cached<K: StaticObject>(&self) -> Cached<K> {
        self.shared.cache.of_kind()
    }

    /// What is cached, for whoever needs more than [`Manager::cached`]: single namespaces, selectors, dynamic kinds.
    #[must_use]
    pub fn cache(&self) -> cache::Caches<'_> {
        cache::Caches::new(&self.shared.cache)
    }

    /// The metrics of this manager, for those of your own.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Takes a runnable. It is started with the others of its group, or at once if these have been started.
    ///
    /// # Errors
    ///
    /// The manager stops or has stopped.
    pub fn add(&self, runnable: impl Runnable) -> Result<Handle, AddError> {
        let group = if runnable.needs_leader_election() { Group::LeaderElected } else { Group::Others };
        self.add_to(group, runnable)
    }

    /// Takes a runnable that prepares this process: it stands for election only when this has returned, or has said that it
    /// is ready and goes on. Without leader election, controllers start only then.
    ///
    /// # Errors
    ///
    /// The manager stops or has stopped.
    #[doc(alias = "EnableWarmup")]
    pub fn add_warm_up(&self, runnable: impl Runnable) -> Result<Handle, AddError> {
        let name = runnable.name();
        let id = self.shared.registry.add(&name, false, Group::WarmUp, true, || Entry::new(runnable))?;
        Ok(self.handle(id))
    }

    /// Becomes done when the manager has become [`State::Ready`].
    ///
    /// # Errors
    ///
    /// The manager stopped or was dropped before that.
    pub fn ready(&self) -> impl Future<Output = Result<(), NeverReady>> + Send + use<> {
        state::wait_until_ready(self.shared.readiness.subscribe())
    }

    /// The state, now and as it changes.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<State> {
        self.shared.state.subscribe()
    }

    /// Whether this process leads, now and as it changes. Always `false` without leader election.
    #[must_use]
    #[doc(alias = "Elected")]
    pub fn leads(&self) -> watch::Receiver<bool> {
        self.shared.leads.subscribe()
    }

    /// Takes a runnable of this crate, of which there is always one and which is never refused.
    fn add_own(&self, runnable: impl Runnable, group: Group) {
        let added = self.add_to(group, runnable);
        debug_assert!(added.is_ok(), "a manager that has not been run takes everything");
    }

    fn add_to(&self, group: Group, runnable: impl Runnable) -> Result<Handle, AddError> {
        let (name, signals) = (runnable.name(), runnable.signals_ready());
        let id = self.shared.registry.add(&name, false, group, signals, || Entry::new(runnable))?;
        Ok(self.handle(id))
    }

    /// Takes a controller. Nothing is watched for one that is refused.
    pub(crate) fn add_controller<R: reconcile::Request>(
        &self,
        name: &str,
        settings: &Settings,
        make: impl FnOnce(&Cache, &Metrics) -> Controller<R>,
    ) -> Result<controller::Handle<R>, AddError> {
        let registry = &self.shared.registry;
        let group = if settings.needs_leader_election { Group::LeaderElected } else { Group::Others };
        let mut made = None;
        let make = || {
            let controller = Arc::new(make(&self.shared.cache, &self.shared.metrics));
            let explains = Arc::new(controller.inbox().clone());
            made = Some(Arc::clone(&controller));
            Entry::of_controller(controller, explains)
        };
        let id = registry.add(name, !settings.skip_name_validation, group, false, make)?;
        let controller = made.expect("what was added was made");
        let mut runnables = vec![self.handle(id)];
        if settings.warms_up {
            let warm_up = WarmUp(Arc::clone(&controller));
            match self.add_warm_up(warm_up) {
                Ok(handle) => runnables.push(handle),
                Err(stopping) => {
                    registry.step(Input::Remove(id));
                    return Err(stopping);
                }
            }
        }
        Ok(self.handle_of(&controller, runnables))
    }

    /// Makes a controller that somebody else runs. Nothing is watched for one that is refused.
    pub(crate) fn unmanaged<R: reconcile::Request>(
        &self,
        name: &str,
        settings: &Settings,
        make: impl FnOnce(&Cache, &Metrics) -> Controller<R>,
    ) -> Result<controller::Unmanaged<R>, AddError> {
        let mut made = None;
        let make = || -> Arc<dyn Explain> {
            let controller = Arc::new(make(&self.shared.cache, &self.shared.metrics));
            let explains = Arc::new(controller.inbox().clone());
            made = Some(controller);
            explains
        };
        let name = self.shared.registry.reserve(name, !settings.skip_name_validation, make)?;
        let controller = made.expect("what was taken note of was made");
        Ok(controller::Unmanaged::new(controller, self.clone(), name))
    }

    pub(crate) fn handle_of<R: reconcile::Request>(
        &self,
        controller: &Controller<R>,
        runnables: Vec<Handle>,
    ) -> controller::Handle<R> {
        controller::Handle::new(controller, Arc::clone(&self.shared.cache), runnables)
    }

    /// Wall time for this manager and all that it runs.
    pub(crate) fn clock(&self) -> Clock {
        Clock::new(self.shared.options.epoch)
    }

    /// Settings of the controller `name`, whose own options hold `own`.
    pub(crate) fn settle(
        &self,
        name: &str,
        own: &controller::Config,
        kind: Option<&GroupKind>,
    ) -> Result<Settings, AddError> {
        let Options { controller, cache_sync_timeout, .. } = &self.shared.options;
        Ok(own.settle(name, controller, *cache_sync_timeout, kind)?)
    }

    fn handle(&self, id: Id) -> Handle {
        Handle { id, registry: Arc::downgrade(&self.shared.registry) }
    }
}

impl Shared {
    /// Whether leadership is needed and not there.
    fn has_lost(&self) -> bool {
        self.election.as_ref().is_some_and(|election| !election.issuer.permit().is_valid())
    }

    /// Tells of the lifecycle's state.
    fn publish_state(&self) {
        let state = self.registry.state();
        let changed = self.state.send_if_modified(|known| std::mem::replace(known, state) != state);
        match state {
            State::Ready if changed => {
                self.readiness.send_replace(Readiness::Ready);
            }
            State::Stopped => {
                self.leads.send_replace(false);
                self.overdue.send_replace(Vec::new());
                self.readiness.send_if_modified(|readiness| {
                    let never = *readiness == Readiness::NotYet;
                    if never {
                        *readiness = Readiness::Never;
                    }
                    never
                });
            }
            _ => {}
        }
    }
}

/// A runnable or controller that was given to a manager. Dropping it changes nothing.
#[derive(Clone)]
pub struct Handle {
    id: Id,
    /// Weak, because what is in the registry may keep its own handle.
    registry: Weak<Registry>,
}

impl Handle {
    /// Takes the runnable back: asks it to finish, as at a shutdown, and waits until it has. For a controller that is when
    /// its running reconciles are done. A name is free again then.
    ///
    /// # Cancellation
    ///
    /// Dropping the future only ends the wait.
    pub async fn remove(self) {
        let Some(registry) = self.registry.upgrade() else { return };
        registry.step(Input::Remove(self.id));
        registry.forgotten(self.id).await;
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("id", &self.id).finish_non_exhaustive()
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager")
            .field("options", &self.shared.options)
            .field("state", &*self.shared.state.borrow())
            .finish_non_exhaustive()
    }
}
