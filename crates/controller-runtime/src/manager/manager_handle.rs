//! [`Manager`], the handle of a manager.

use std::{fmt, future::Future, sync::Arc};

use kube_clock::Clock;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    AddError, ManagerOptions, NeverReadyError, Runnable, RunnableHandle, State, UnmanagedController,
    cache_runnable::CacheRunnable,
    clients::{Clients, Observers, connect, host_of},
    cluster::Clusters,
    election_setup::ElectionSetup,
    explain_api::{RecentAnswers, Subscriptions},
    explainer::Explainer,
    servers::Servers,
    webhook_setup::ManagerWebhooks,
};
#[cfg(doc)]
use super::{ManagerError, RunContext, Signals, WeakManager};
use crate::{
    cache::{self, Cache, Cached, DeletionReplay},
    client::{Client, DeclarationCheck, transport::declaration_check::UndeclaredRequests},
    controller::{self, Controller, ControllerSettings, GroupKind, WarmUp},
    findings::client_calls::ClientFindings,
    metrics::Metrics,
    object::StaticObject,
    reconcile,
    request_queue::Explain,
    runnable::{
        self, ControllerName, Group, Lifecycle, LifecycleInput, Readiness, ReadyWhen, RegisteredRunnable,
        Runnables, wait_until_ready,
    },
};

/// Runs controllers and other [`Runnable`]s, which share its clients and caches.
///
/// A `Manager` is a handle: its clones refer to the same manager. The manager owns its controllers and runnables, so these must
/// not hold a `Manager`. They use [`RunContext::manager`] or a [`WeakManager`].
///
/// # Lifecycle
///
/// [`Manager::run`] starts runnables in groups, one after the other: servers of metrics and probes; webhooks; caches;
/// runnables without leader election; [warm-ups](Manager::add_warm_up); controllers and other runnables with leader election.
/// Each group starts when the previous one is ready: when its servers listen, or its caches have received their initial list.
/// With [leader election](ManagerOptions::leader_election) the last group waits until this process leads. When the process
/// loses the lease, the manager drops that group, and the process is a standby again.
///
/// When the shutdown future completes, the manager stops the groups in reverse order. No new reconcile begins, and running
/// reconciles may finish within [`ManagerOptions::graceful_shutdown_timeout`]. After this time the manager drops reconciles that
/// still run, and its error names them. It releases the lease when nothing that needs the lease runs any more.
///
/// If a runnable fails, the whole manager stops in the same order. Runnables can be added and
/// [removed](RunnableHandle::remove) while the manager runs. An added runnable starts at once if its group has started.
///
/// Two managers in one process, or two successive runs of one, are independent of each other. Only two things are
/// process-wide: a panic hook, which records the place of a panic in a reconcile and then calls the previous hook, and
/// the signals of [`Signals`].
///
/// # Code that does not await
///
/// A reconcile can be stopped only at an `.await`. On a multi-threaded runtime, a reconcile that computes without an
/// `.await` occupies its thread. At a shutdown, [`ManagerError::Unstoppable`] names such a reconcile. When the lease is
/// lost, the log names it, and the check `leader-election` of `/healthz` fails, so that Kubernetes restarts the
/// process. Until then the reconcile continues without the lease, and [`Manager::client`] refuses its writes.
///
/// On a single-threaded runtime such a reconcile blocks everything else: the lease is not renewed, so another process takes it
/// over; no probe is answered; no timeout fires; no shutdown begins. Two guarantees still hold: writes are refused once
/// the lease has expired, and the second signal ends the process ([`Manager::run_until_signal`]). Move long
/// computations to [`tokio::task::spawn_blocking`].
///
/// # Example
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use controller_runtime::{Manager, ManagerOptions, client::get_config};
///
/// let config = get_config(None, None).await?;
/// let manager = Manager::from_config(config, ManagerOptions::new("guestbook-operator"))?;
/// // … build controllers …
/// manager.run_until_signal().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Manager {
    pub(super) shared: Arc<ManagerShared>,
}

pub(super) struct ManagerShared {
    pub(super) client: Client,
    /// Client without the write gate of leader election.
    pub(super) ungated: Client,
    pub(super) cache: Arc<Cache>,
    /// Caches of other clusters.
    pub(super) clusters: Clusters,
    pub(super) options: ManagerOptions,
    pub(super) metrics: Metrics,
    pub(super) registry: Arc<Runnables>,
    pub(super) state: watch::Sender<State>,
    pub(super) readiness: watch::Sender<Readiness>,
    pub(super) election: Option<ElectionSetup>,
    /// Whether this process leads.
    pub(super) leads: watch::Sender<bool>,
    /// Names of reconciles and runnables that still run after the lease was lost, because they cannot be stopped.
    pub(super) overdue: watch::Sender<Vec<String>>,
    pub(super) servers: Servers,
    pub(super) webhooks: ManagerWebhooks,
    pub(super) explainer: Arc<Explainer>,
    /// Check of requests, if the options ask for it.
    pub(super) declaration_check: Option<Arc<DeclarationCheck>>,
}

impl Manager {
    /// Makes a manager that reaches the cluster through `client`: for tests with an in-process client, and for
    /// connections that you make yourself. In operators prefer [`Manager::from_config`], which detects dead
    /// connections.
    ///
    /// The leader election uses `client` as well, unless
    /// [`LeaderElectionOptions::client`](crate::leader_election::LeaderElectionOptions::client) sets another one.
    /// [`Manager::from_config`] makes a separate connection for it.
    ///
    /// Each request is sent once, even if `client` retries by itself: the retries of [`kube::Config::default_retry`],
    /// which [`kube::Client::try_default`] turns on, do not apply to requests of this manager and its clients.
    #[must_use]
    pub fn new(client: kube::Client, options: ManagerOptions) -> Self {
        let metrics = Metrics::default();
        let findings = Arc::new(ClientFindings::default());
        let replay = DeletionReplay::with(options.leader_election.as_ref());
        let cache = Cache::new(options.cache.clone(), replay).observed_by(Arc::clone(&findings) as _);
        let cache = Arc::new(cache);
        options.metrics.declare(cache.declarations());
        if let Some(election) = &options.leader_election {
            election.declare(cache.declarations());
        }
        let host = options.host.as_deref().unwrap_or_default();
        let election = ElectionSetup::new(&client, host, &options, &metrics);
        let declaration_check = declaration_check(&client, &options, &cache);
        let observers =
            Observers { cache: &cache, findings: &findings, declaration_check: declaration_check.as_ref() };
        let clients = Clients::new(client, host, &options, &metrics, election.as_ref(), None, &observers);
        let caches = Arc::new(CacheRunnable {
            cache: Arc::clone(&cache),
            client: clients.ungated.kube().clone(),
            sync_timeout: options.cache_sync_timeout,
        });
        let lifecycle = if election.is_some() { Lifecycle::with_election() } else { Lifecycle::new() };
        let (registry, clusters) = (Arc::new(Runnables::new(lifecycle)), Clusters::default());
        let webhooks = ManagerWebhooks::new(&options, &metrics);
        let leads = watch::Sender::new(false);
        let explainer = Explainer {
            name: Arc::clone(&options.name),
            clock: Clock::new(options.epoch),
            registry: Arc::downgrade(&registry),
            client: clients.ungated.clone(),
            cache: Arc::clone(&cache),
            clusters: clusters.clone(),
            findings,
            webhooks: webhooks.registered().clone(),
            versions: Mutex::default(),
            lease: election.as_ref().map(|election| election.options.id().to_owned()),
            leads: leads.subscribe(),
            recent: RecentAnswers::default(),
            subscriptions: Subscriptions::default(),
        };
        let manager = Self {
            shared: Arc::new(ManagerShared {
                client: clients.gated,
                ungated: clients.ungated,
                cache,
                clusters,
                webhooks,
                metrics,
                registry,
                state: watch::Sender::new(State::Built),
                readiness: watch::Sender::new(Readiness::NotYet),
                leads,
                overdue: watch::Sender::default(),
                election,
                options,
                servers: Servers::default(),
                explainer: Arc::new(explainer),
                declaration_check,
            }),
        };
        let (cache, clusters) = (Arc::clone(&manager.shared.cache), manager.shared.clusters.clone());
        manager
            .shared
            .metrics
            .caches(move || cache.resource_stats().into_iter().chain(clusters.resource_stats()).collect());
        manager.add_servers();
        manager.add_own(caches, Group::Caches);
        manager
    }

    /// Makes a manager that connects to the cluster of `config`.
    ///
    /// With leader election the manager has a second client, so that no other request of the operator can delay a
    /// renewal of the lease. Both are made by [`client::connect`](crate::client::connect): with HTTP/2 if the API
    /// server offers it, so that all watches share a few connections, and with pings and TCP keepalive, which detect a
    /// vanished peer within a minute. Their `User-Agent` is that of `config` or else the operator's name, as in
    /// `guestbook-operator`, with the suffix `/leader-election` on the second. Both send each request once:
    /// [`kube::Config::default_retry`] has no effect, because [`Manager::client`] has retries of its own. Metrics name
    /// the API server by host and port of its URL, as in Go, unless [`ManagerOptions::host`] sets another name.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use controller_runtime::{Manager, ManagerOptions};
    ///
    /// let config = controller_runtime::client::get_config(None, None).await?;
    /// let manager = Manager::from_config(config, ManagerOptions::new("guestbook-operator"))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The configuration cannot be used.
    pub fn from_config(config: kube::Config, mut options: ManagerOptions) -> Result<Self, kube::Error> {
        let election = options.leader_election.take().map(|election| match election.own_client() {
            Some(_) => Ok(election),
            None => connect(config.clone(), &options.name, "/leader-election")
                .map(|client| election.client(client)),
        });
        options.leader_election = election.transpose()?;
        options.host = options.host.take().or_else(|| host_of(&config.cluster_url));
        Ok(Self::new(connect(config, &options.name, "")?, options))
    }

    /// The client for reconcilers. Its field manager is the name of the manager. With leader election it writes only
    /// while this process leads; otherwise writes fail with
    /// [`ErrorKind::NotPermitted`](crate::client::ErrorKind::NotPermitted).
    ///
    /// Do not use it in reconciles of a controller without leader election, which also runs on standbys: use
    /// [`Context::client`](crate::Context::client) or [`Manager::ungated_client`]. There writes of this client fail
    /// with [`ErrorKind::NotSent`](crate::client::ErrorKind::NotSent) even on the leader, so that the mistake shows
    /// before a failover.
    #[must_use]
    pub fn client(&self) -> Client {
        self.shared.client.clone()
    }

    /// The client for code that needs no leader election. It writes whether this process leads or not.
    #[must_use]
    pub fn ungated_client(&self) -> Client {
        self.shared.ungated.clone()
    }

    /// The cached objects of kind `K`: all of them, unless another selection is the default
    /// ([`CacheBuilder::as_default`](crate::cache::CacheBuilder::as_default)).
    ///
    /// All handles of a kind, and all controllers that watch it, share one list and watch. The watch starts with the
    /// manager, or at once if the manager is running, and stops when the last handle and source are dropped.
    #[must_use]
    #[track_caller]
    pub fn cached<K: StaticObject>(&self) -> Cached<K> {
        self.shared.cache.declared_of_kind()
    }

    /// The manager's caches, for options that [`Manager::cached`] lacks: single namespaces, selectors, dynamic kinds.
    #[must_use]
    pub fn cache(&self) -> cache::Caches<'_> {
        cache::Caches::new(&self.shared.cache)
    }

    /// The metrics of this manager. Metrics of your own can be added to them.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Adds a runnable. It starts with the others of its group, or at once if these have started.
    ///
    /// # Errors
    ///
    /// The manager is stopping or has stopped.
    pub fn add(&self, runnable: impl Runnable) -> Result<RunnableHandle, AddError> {
        let group = if runnable.needs_leader_election() { Group::LeaderElected } else { Group::Others };
        self.add_to(group, runnable)
    }

    /// Adds a runnable that prepares this process: the process becomes a candidate only when the runnable has returned
    /// or has reported that it is ready. Without leader election, controllers start only then.
    ///
    /// # Errors
    ///
    /// The manager is stopping or has stopped.
    #[doc(alias = "EnableWarmup")]
    pub fn add_warm_up(&self, runnable: impl Runnable) -> Result<RunnableHandle, AddError> {
        let name = runnable.name();
        let make = || RegisteredRunnable::new(runnable);
        let added = self.shared.registry.add(ControllerName::Any, Group::WarmUp, ReadyWhen::Signalled, make);
        Ok(self.handle(added.map_err(|refusal| AddError::refused(&name, refusal))?))
    }

    /// Completes when the manager has become [`State::Ready`].
    ///
    /// # Errors
    ///
    /// The manager stopped or was dropped before that.
    pub fn ready(&self) -> impl Future<Output = Result<(), NeverReadyError>> + Send + use<> {
        wait_until_ready(self.shared.readiness.subscribe())
    }

    /// A receiver of the manager's state, which is notified of each change.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<State> {
        self.shared.state.subscribe()
    }

    /// A receiver of whether this process holds the lease, which is notified of each change. Always `false` without leader
    /// election.
    #[must_use]
    #[doc(alias = "Elected")]
    pub fn leads(&self) -> watch::Receiver<bool> {
        self.shared.leads.subscribe()
    }

    /// Adds a runnable of this crate. Called before the manager runs, when no runnable is refused.
    pub(super) fn add_own(&self, runnable: impl Runnable, group: Group) {
        let added = self.add_to(group, runnable);
        debug_assert!(added.is_ok(), "a manager that has not been run accepts every runnable");
    }

    pub(super) fn add_to(&self, group: Group, runnable: impl Runnable) -> Result<RunnableHandle, AddError> {
        let name = runnable.name();
        let ready = if runnable.signals_ready() { ReadyWhen::Signalled } else { ReadyWhen::Started };
        let make = || RegisteredRunnable::new(runnable);
        let added = self.shared.registry.add(ControllerName::Any, group, ready, make);
        Ok(self.handle(added.map_err(|refusal| AddError::refused(&name, refusal))?))
    }

    /// Adds a controller. Its kinds are watched only if it is accepted.
    pub(crate) fn add_controller<R: reconcile::Request>(
        &self,
        name: &str,
        settings: &ControllerSettings,
        make: impl FnOnce(&Cache, &Metrics) -> Controller<R>,
    ) -> Result<controller::ControllerHandle<R>, AddError> {
        let registry = &self.shared.registry;
        let group = if settings.needs_leader_election { Group::LeaderElected } else { Group::Others };
        let mut made = None;
        let make = || {
            let controller = Arc::new(make(&self.shared.cache, &self.shared.metrics));
            let explains = Arc::new(controller.explained());
            made = Some(Arc::clone(&controller));
            RegisteredRunnable::of_controller(controller, explains)
        };
        let added = registry.add(name_rule(name, settings), group, ReadyWhen::Started, make);
        let id = added.map_err(|refusal| AddError::refused(name, refusal))?;
        let controller = made.expect("the registry made the controller that it accepted");
        let mut runnables = vec![self.handle(id)];
        if settings.warms_up {
            let warm_up = WarmUp(Arc::clone(&controller));
            match self.add_warm_up(warm_up) {
                Ok(handle) => runnables.push(handle),
                Err(stopping) => {
                    // The manager began to stop in between. Without its warm-up the controller would have no sources.
                    registry.step(LifecycleInput::Remove(id));
                    return Err(stopping);
                }
            }
        }
        Ok(self.handle_of(&controller, runnables))
    }

    /// Makes a controller that the caller runs. Its kinds are watched only if it is accepted.
    pub(crate) fn unmanaged<R: reconcile::Request>(
        &self,
        name: &str,
        settings: &ControllerSettings,
        make: impl FnOnce(&Cache, &Metrics) -> Controller<R>,
    ) -> Result<UnmanagedController<R>, AddError> {
        let mut made = None;
        let make = || -> Arc<dyn Explain> {
            let controller = Arc::new(make(&self.shared.cache, &self.shared.metrics));
            let explains = Arc::new(controller.explained());
            made = Some(controller);
            explains
        };
        let reserved = self.shared.registry.reserve(name, name_rule(name, settings), make);
        let name = reserved.map_err(|refusal| AddError::refused(name, refusal))?;
        let controller = made.expect("the registry made the controller that it accepted");
        Ok(UnmanagedController::new(controller, self.clone(), name))
    }

    pub(crate) fn handle_of<R: reconcile::Request>(
        &self,
        controller: &Controller<R>,
        runnables: Vec<RunnableHandle>,
    ) -> controller::ControllerHandle<R> {
        controller::ControllerHandle::new(controller, Arc::clone(&self.shared.cache), runnables)
    }

    /// The options that the manager was made with.
    #[cfg(feature = "manifests")]
    pub(crate) fn options(&self) -> &ManagerOptions {
        &self.shared.options
    }

    /// Wall time for this manager and its runnables.
    pub(crate) fn clock(&self) -> Clock {
        Clock::new(self.shared.options.epoch)
    }

    /// Settings of the controller `name` with its own options `own`.
    pub(crate) fn settle(
        &self,
        name: &str,
        own: &controller::Config,
        kind: Option<&GroupKind>,
    ) -> Result<ControllerSettings, AddError> {
        let ManagerOptions { controller, cache_sync_timeout, .. } = &self.shared.options;
        Ok(own.settle(name, controller, *cache_sync_timeout, kind)?)
    }

    pub(super) fn handle(&self, id: runnable::Id) -> RunnableHandle {
        RunnableHandle::new(id, &self.shared.registry)
    }
}

/// The check of requests against the declared rights; `None` if the options let undeclared requests pass.
fn declaration_check(
    client: &kube::Client,
    options: &ManagerOptions,
    cache: &Cache,
) -> Option<Arc<DeclarationCheck>> {
    let handling = options.undeclared_requests;
    (handling != UndeclaredRequests::Send).then(|| {
        Arc::new(DeclarationCheck {
            declared: Arc::clone(cache.declarations()),
            operator: Arc::clone(&options.name),
            namespace: client.default_namespace().to_owned(),
            handling,
            reported: Mutex::default(),
        })
    })
}

/// Names of controllers are unique, unless the controller's options allow others.
fn name_rule<'n>(name: &'n str, settings: &ControllerSettings) -> ControllerName<'n> {
    if settings.skip_name_validation { ControllerName::Any } else { ControllerName::Unique(name) }
}

impl ManagerShared {
    /// Returns whether the manager takes part in a leader election and has no valid permit to lead now.
    pub(super) fn has_lost(&self) -> bool {
        self.election.as_ref().is_some_and(|election| !election.issuer.permit().is_valid())
    }

    /// Publishes the lifecycle's state.
    pub(super) fn publish_state(&self) {
        let state = self.registry.state();
        let changed = self.state.send_if_modified(|known| std::mem::replace(known, state) != state);
        match state {
            State::Ready if changed => {
                self.readiness.send_replace(Readiness::Ready);
            }
            State::Stopped => {
                self.leads.send_replace(false);
                self.overdue.send_replace(Vec::new());
                // A manager that stopped before it was ready ends the futures of `Manager::ready` with an error.
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

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager")
            .field("options", &self.shared.options)
            .field("state", &*self.shared.state.borrow())
            .finish_non_exhaustive()
    }
}
