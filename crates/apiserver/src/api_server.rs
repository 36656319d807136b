//! The server: start, and access in process or over a socket.

mod options;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use kube_clock::Epoch;
use tokio::task::JoinSet;

pub use self::options::{Options, Profile, Switch};
use crate::api::admission::Admission;
use crate::api::audit::{Audit, AuditLog, AuditSink};
use crate::api::authentication::Authenticator;
use crate::api::authorization::{Authorizer, RoleIndex};
use crate::api::conversion::Converter;
use crate::api::flow_control::FlowControl;
use crate::api::impersonation::Impersonation;
use crate::api::verbs::Context;
use crate::controllers::api_availability::RegisteredApis;
use crate::controllers::definitions::Definitions;
use crate::controllers::service_addresses::ServiceAddresses;
use crate::faults::{Faults, Injector};
use crate::http::{ApiService, BodyLimit, Core, Server};
use crate::kind::registry::Registry;
use crate::kinds::builtin;
use crate::listener::{ListenError, ListenOptions, Listener};
use crate::state::clock::Clock;
#[cfg(feature = "persistence")]
use crate::state::persistence::{CommitJournal, DataFile, DataFileError};
use crate::state::{ClusterState, Commit, CommitObserver, InitialState, Services};
use crate::store::Store;
use crate::user::UserInfo;
use crate::webhook_client::WebhookClient;
use crate::{bootstrap, controllers};

///
/// The state is in memory. When the last handle, service and listener are dropped, the controllers stop and the state is lost, unless the
/// server was started with a data file ([`open`](Self::open)).
#[derive(Clone)]
pub struct ApiServer {
    core: Arc<Core>,
    profile: Profile,
    indices: Indices,
}

/// State that the server derives from its objects and updates with each commit.
#[derive(Clone)]
struct Indices {
    definitions: Arc<Definitions>,
    roles: Arc<RoleIndex>,
    services: Arc<Services>,
}

impl Indices {
    /// Creates copies for a server that begins in the state of this one.
    fn fork(&self) -> Self {
        Self {
            definitions: Arc::new(self.definitions.fork()),
            roles: Arc::new(self.roles.fork()),
            services: Arc::new(self.services.fork()),
        }
    }
}

/// State of a server at one moment, from which other servers [begin](ApiServer::start_at).
#[doc(hidden)]
pub struct Checkpoint {
    state: InitialState,
    indices: Indices,
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpoint").finish_non_exhaustive()
    }
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").field("profile", &self.profile).finish_non_exhaustive()
    }
}

impl ApiServer {
    /// Starts a server with the objects that every kube-apiserver creates: namespaces, roles, priorities, the Service `kubernetes`. The
    /// server is ready when this function returns.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    #[must_use]
    pub fn start(options: Options) -> Self {
        let (limits, admission) = (options.history_limits(), options.admission());
        Self::begin(options, InitialState::of(Store::new(limits), None), admission)
    }

    /// Starts a server that keeps its objects in a data file.
    ///
    /// Objects that an earlier server stored in this file are restored, with their UIDs and resource versions. With a new file the server
    /// starts like [`start`](Self::start). Watches and lists that continue from before the restart are answered with 410. Reading the file
    /// blocks the calling thread. The file is released when the last handle, service and listener are dropped. The task behind a
    /// `kube::Client` ends a moment after the client's last clone.
    ///
    /// # Errors
    /// [`DataFileError`] names the file and a remedy; the file is unchanged.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    #[cfg(feature = "persistence")]
    pub fn open(options: Options, file: &DataFile) -> Result<Self, DataFileError> {
        let (journal, contents) = CommitJournal::open(file)?;
        let limits = options.history_limits();
        let store = match contents.revision {
            Some(revision) => Store::restored(limits, revision, contents.objects),
            None => Store::new(limits),
        };
        let admission = options.admission();
        Ok(Self::begin(options, InitialState::of(store, Some(journal)), admission))
    }

    /// Starts a server with a custom admission chain.
    #[cfg(test)]
    pub(crate) fn start_with(options: Options, admission: Admission) -> Self {
        let limits = options.history_limits();
        Self::begin(options, InitialState::of(Store::new(limits), None), admission)
    }

    /// Copies the state of the server at this moment, for other servers that [begin](Self::start_at) there. Call it while no request is in
    /// progress and the controllers are [held](Self::hold_controllers) or idle. For simulations.
    #[doc(hidden)]
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint { state: self.core.server.cluster.fork(), indices: self.indices.fork() }
    }

    /// Starts a server in the state of another one, with its objects, revision and random numbers. Watches and lists that continue from
    /// before are answered with 410. Its controllers are [held](Self::hold_controllers). The options must be those of the other server.
    /// For simulations.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    #[doc(hidden)]
    #[must_use]
    pub fn start_at(options: Options, checkpoint: &Checkpoint) -> Self {
        let (state, indices) = (checkpoint.state.copy(), checkpoint.indices.fork());
        let admission = options.admission();
        Self::begin_at(options, state, indices, admission)
    }

    fn begin(options: Options, contents: InitialState, admission: Admission) -> Self {
        let indices = Indices {
            definitions: Arc::default(),
            roles: Arc::default(),
            services: Arc::new(Services::new(
                options.service_range,
                options.seed,
                options.service_addresses.clone(),
            )),
        };
        Self::begin_at(options, contents, indices, admission)
    }

    fn begin_at(options: Options, contents: InitialState, indices: Indices, admission: Admission) -> Self {
        let clock = Clock::new(options.epoch);
        let is_forked = contents.forked.is_some();
        #[cfg(feature = "tls")]
        let (client_authority, account_keys) = (options.client_authority, options.service_account_keys);
        #[cfg(not(feature = "tls"))]
        let (client_authority, account_keys) = (None, None);
        // The keys come last: they replace the secret of the server, which the other two options determine.
        let authenticator = Authenticator::new(options.tokens, options.seed)
            .with_client_authority(client_authority)
            .with_account_keys(account_keys);
        // The registry of a forked server comes with `contents`.
        let registry = if is_forked { Registry::default() } else { builtin::registry() };
        let Indices { definitions, roles, services } = indices.clone();
        let mut observers: Vec<Box<dyn CommitObserver>> =
            vec![Box::new(Arc::clone(&definitions)), Box::new(Arc::clone(&roles))];
        let configurations = admission.webhook_configurations();
        for configurations in &configurations {
            observers.push(Box::new(Arc::clone(configurations)));
        }
        let policies = admission.policy_hooks();
        for policies in &policies {
            observers.push(Box::new(Arc::clone(policies)));
        }
        observers.push(Box::new(Arc::clone(&services)));
        // These two are the last ones, because they write: the other indices then know the commit that they follow.
        let apis = Arc::new(RegisteredApis::default());
        observers.push(Box::new(Arc::clone(&apis)));
        let addresses = Arc::new(ServiceAddresses::default());
        observers.push(Box::new(Arc::clone(&addresses)));
        let cluster = Arc::new(ClusterState::new(
            options.seed,
            clock,
            registry,
            contents,
            observers,
            WebhookClient::new(options.webhook_transport),
            Arc::clone(&services),
        ));
        if is_forked {
            cluster.hold_controllers();
        } else {
            // Definitions come before the bootstrap and the controllers, which then find all resources served.
            definitions.restore(&cluster);
            roles.restore(&cluster);
            services.restore(&cluster);
        }
        // Not among the indices that a fork copies, so every server reads them from its store.
        configurations.iter().for_each(|configurations| configurations.refresh(&cluster));
        policies.iter().for_each(|policies| policies.refresh(&cluster));
        apis.refresh(&cluster);
        addresses.refresh(&cluster);
        if !is_forked {
            bootstrap::create(&cluster);
        }
        let mut controllers = JoinSet::new();
        controllers.spawn(controllers::event_ttl::run(Arc::clone(&cluster), options.event_ttl));
        controllers.spawn(controllers::definitions::run(Arc::clone(&cluster), definitions));
        controllers.spawn(controllers::flow_schema_status::follow(Arc::clone(&cluster)));
        if options.profile == Profile::Dev {
            if !is_forked {
                // Before `follow`, which only handles later commits.
                controllers::role_aggregation::complete(&cluster);
            }
            controllers.spawn(controllers::garbage_collection::run(Arc::clone(&cluster)));
            controllers.spawn(controllers::namespaces::run(Arc::clone(&cluster), options.namespace_grace));
            controllers.spawn(controllers::volume_protection::run(Arc::clone(&cluster)));
            controllers.spawn(controllers::role_aggregation::follow(Arc::clone(&cluster)));
            controllers.spawn(controllers::quota_usage::run(Arc::clone(&cluster)));
        }
        let flow_control = FlowControl::new(|table| cluster.changes(&table));
        let injector = Arc::new(Injector::new(options.seed));
        let context = Arc::new(Context {
            authenticator,
            authorizer: Arc::new(Authorizer::new(options.authorization, roles)),
            audit: Audit::default(),
            impersonation: Impersonation::default(),
            admission,
            converter: Converter::default(),
            apis,
            injector,
        });
        let server = Arc::new(Server { context, cluster, flow_control, body_limit: BodyLimit::default() });
        Self { core: Arc::new(Core::new(server, controllers)), profile: options.profile, indices }
    }

    /// Returns the server as a tower service, for clients in the same process.
    #[must_use]
    pub fn service(&self) -> ApiService {
        ApiService::new(Arc::clone(&self.core))
    }

    /// Like [`service`](Self::service), but requests without credentials come from `user`, with the permissions that roles grant to `user`.
    ///
    /// ```
    /// # use kube_apiserver_embedded::{ApiServer, Options, UserInfo};
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let server = ApiServer::start(Options::default());
    /// let jane = UserInfo::new("jane", "", ["devs"]);
    /// let client = kube::Client::new(server.service_for(jane), "default");
    /// let pods = kube::Api::<Pod>::default_namespaced(client).list(&Default::default()).await;
    /// assert!(pods.unwrap_err().to_string().contains("User \"jane\" cannot list resource \"pods\""));
    /// # }
    /// ```
    #[must_use]
    pub fn service_for(&self, user: UserInfo) -> ApiService {
        self.service().with_user(user)
    }

    /// Records requests from now on, with their users and the permissions that they need (see [`audit`](crate::audit)).
    #[must_use]
    pub fn audit(&self) -> AuditLog {
        let log = AuditLog::default();
        self.core.server.context.audit.add(log.sink());
        log
    }

    /// Sends the audit event of every request to `sink`, from now on and until the sink is dropped. The server holds only a weak reference
    /// to the sink.
    pub fn audit_to(&self, sink: &Arc<impl AuditSink + 'static>) {
        self.core.server.context.audit.add(Arc::clone(sink) as Arc<dyn AuditSink>);
    }

    /// Returns [`Options::epoch`], for an operator that runs on the server's clock.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.core.server.cluster.clock.epoch()
    }

    /// Returns the components through which requests pass, and the state of the cluster.
    #[cfg(test)]
    pub(crate) fn parts(&self) -> (Arc<Context>, Arc<ClusterState>) {
        (Arc::clone(&self.core.server.context), Arc::clone(&self.core.server.cluster))
    }

    /// Returns a handle for fault injection. Rules can be added and removed while the server runs.
    #[must_use]
    pub fn faults(&self) -> Faults {
        self.core.server.faults()
    }

    /// Replaces the [addresses](Options::service_addresses) of services while the server runs. Webhooks are called there from the next
    /// call on.
    pub fn set_service_addresses(&self, addresses: BTreeMap<(String, String), SocketAddr>) {
        self.indices.services.set_reachable(addresses);
    }

    /// Stops the garbage collector and the protection of volumes until [`release_controllers`](Self::release_controllers). Without this call
    /// they act after each commit. A simulation decides when they act.
    #[doc(hidden)]
    pub fn hold_controllers(&self) {
        self.core.server.cluster.hold_controllers();
    }

    /// Lets controllers act again that [`hold_controllers`](Self::hold_controllers) has stopped.
    #[doc(hidden)]
    pub fn release_controllers(&self) {
        self.core.server.cluster.release_controllers();
    }

    /// Calls `observe` for each commit from now on, whether of a client or of the server's own controllers, inside the call that commits.
    /// `observe` must not call the server. Returns `false`, and changes nothing, if there already is an observer. For simulations.
    #[doc(hidden)]
    #[must_use]
    pub fn observe_commits(&self, observe: impl Fn(&Commit) + Send + Sync + 'static) -> bool {
        self.core.server.cluster.set_tap(Box::new(observe))
    }

    /// Listens with plain HTTP/1.1. Port 0 picks a free port.
    ///
    /// Without [tokens](Options::tokens) and client certificates every client is admin, so only loopback addresses are accepted then.
    ///
    /// # Errors
    /// [`ListenError`] names the address. Either it is not a loopback address and every client would be admin, or it cannot be bound,
    /// for example because the port is in use.
    pub async fn listen(&self, address: SocketAddr) -> Result<Listener, ListenError> {
        self.listen_with(address, ListenOptions::default()).await
    }

    /// Listens with options; see [`listen`](Self::listen).
    ///
    /// # Errors
    /// Like [`listen`](Self::listen).
    pub async fn listen_with(
        &self,
        address: SocketAddr,
        options: ListenOptions,
    ) -> Result<Listener, ListenError> {
        Listener::bind(self.service(), address, options).await
    }
}
