//! The server: how it is started, called in process, and reached over a socket.

mod body;
mod changes;
mod connection;
mod deadline;
mod dispatch;
mod drain;
mod finish;
#[cfg_attr(not(feature = "gzip"), path = "no_gzip.rs")]
mod gzip;
mod inject;
mod intake;
mod kubeconfig;
mod listener;
mod openapi;
mod patience;
mod progress;
mod routes;
mod service;
mod state;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod warnings;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use kube_clock::Epoch;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::Duration;

pub use body::ResponseBody;
pub(crate) use changes::Subscription;
pub(crate) use listener::Closing;
pub use listener::{ListenError, ListenOptions, Listener, Transport};
pub use service::ApiService;
use state::Contents;
pub(crate) use state::{Refused, Server};
pub(crate) use warnings::Warnings;

use crate::admission::Admission;
use crate::authentication::{Authenticator, Tokens};
use crate::clock::Clock;
use crate::event_ttl::EVENT_TTL;
use crate::faults::Faults;
#[cfg(feature = "persistence")]
use crate::persistence::{DataFile, DataFileError, Journal};
use crate::registry::{Registry, Served};
use crate::store::{HISTORY_AGE, HistoryLimits, Store};

/// Which parts of a control plane run besides the API itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Profile {
    /// The API alone, as controller-runtime's envtest has it: owned objects stay when their owner goes, and a deleted
    /// namespace stays `Terminating`.
    #[default]
    Envtest,
    /// With garbage collection, namespace deletion, a service account `default` in every namespace, and volumes and their
    /// claims let go once they are deleted and not in use.
    Dev,
}

/// How a server is started. The default is profile [`Envtest`](Profile::Envtest), seed 0, the system's time.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Which controllers run.
    pub profile: Profile,
    /// Where uids and generated names come from: the same seed gives the same ones, in the order of the requests. Faults
    /// with a probability draw from it too, apart from those.
    pub seed: u64,
    /// Epoch that wall time advances from with tokio's time. `None` is the system clock; in paused time it is one reading of it
    /// that all clocks of the process share.
    pub epoch: Option<Epoch>,
    /// Who may reach the server over a socket. With `None` everybody may, as admin, from this machine.
    pub tokens: Option<Tokens>,
    /// How long a deleted namespace is left as it is before it is emptied, in profile [`Dev`](Profile::Dev). The default is
    /// not at all; kube-controller-manager waits 5 s. From 1 s on, the times in `managedFields`, which have whole seconds, tell
    /// its writes from those before the deletion.
    pub namespace_grace: Duration,
    /// Watches, exact lists and continue tokens that begin before a change older than this are told 410. The default is five
    /// minutes, as in clusters on etcd. Zero makes every list a race, for tests of clients.
    pub history_age: Duration,
    /// How long Events are kept after their last change, as kube-apiserver's `--event-ttl`. The default is an hour.
    pub event_ttl: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            seed: 0,
            epoch: None,
            tokens: None,
            namespace_grace: Duration::ZERO,
            history_age: HISTORY_AGE,
            event_ttl: EVENT_TTL,
        }
    }
}

impl Options {
    /// The same options with this profile.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// The same options with this seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The same options with these users; callers in the process need no token.
    #[must_use]
    pub fn tokens(mut self, tokens: Tokens) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// The same options with this time between the deletion of a namespace and that of what is in it.
    #[must_use]
    pub fn namespace_grace(mut self, grace: Duration) -> Self {
        self.namespace_grace = grace;
        self
    }

    /// The same options with this age of changes that can still be asked for.
    #[must_use]
    pub fn history_age(mut self, age: Duration) -> Self {
        self.history_age = age;
        self
    }

    /// The same options with this life of Events.
    #[must_use]
    pub fn event_ttl(mut self, ttl: Duration) -> Self {
        self.event_ttl = ttl;
        self
    }

    /// Sets the epoch that wall time advances from, for timestamps that are equal in every run.
    /// Servers and operators that are given one epoch agree.
    #[must_use]
    pub fn epoch(mut self, epoch: Epoch) -> Self {
        self.epoch = Some(epoch);
        self
    }
}

impl Options {
    fn history_limits(&self) -> HistoryLimits {
        HistoryLimits { age: self.history_age, ..HistoryLimits::default() }
    }
}

/// A running API server. Clones are handles of the same server.
///
/// Its state lives in memory. When the last handle, service and listener are gone, its controllers stop and the state
/// goes with them, unless it is [in a file](Self::open) too.
#[derive(Clone)]
pub struct ApiServer {
    core: Arc<Core>,
}

/// What handles, services and listeners share.
struct Core {
    server: Arc<Server>,
    /// Dropping the set aborts the controllers, which hold the server but not this.
    _controllers: Mutex<JoinSet<()>>,
}

impl Drop for Core {
    fn drop(&mut self) {
        // A watch that is still read holds the server; it must not keep it for ever.
        self.server.closed.send_replace(true);
    }
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").field("profile", &self.core.server.profile).finish_non_exhaustive()
    }
}

impl ApiServer {
    /// Starts a server with the objects that every kube-apiserver makes: namespaces, roles, priorities, the Service
    /// `kubernetes`. It is ready when this returns.
    ///
    /// # Panics
    /// Outside of a tokio runtime whose time is enabled.
    #[must_use]
    pub fn start(options: Options) -> Self {
        let limits = options.history_limits();
        Self::begin(options, Contents { store: Store::new(limits), journal: None }, Admission::standard())
    }

    /// Starts a server whose objects are in a file, and outlive it.
    ///
    /// What was answered by an earlier server with this file is there, with its uids and resource versions; a new file begins
    /// as [`start`](Self::start) does. Watches and lists from before a restart are told that their revision is too old.
    /// Reading the file blocks. It is free when the last handle, service and listener are gone; the task behind a
    /// `kube::Client` ends a moment after its last clone.
    ///
    /// # Errors
    /// [`DataFileError`] names the file and what to do; the file is as it was.
    ///
    /// # Panics
    /// Outside of a tokio runtime whose time is enabled.
    #[cfg(feature = "persistence")]
    pub fn open(options: Options, file: &DataFile) -> Result<Self, DataFileError> {
        let (journal, contents) = Journal::open(file)?;
        let limits = options.history_limits();
        let store = match contents.revision {
            Some(revision) => Store::restored(limits, revision, contents.objects),
            None => Store::new(limits),
        };
        Ok(Self::begin(options, Contents { store, journal: Some(journal) }, Admission::standard()))
    }

    /// Starts a server with others who have a say in writes.
    #[cfg(test)]
    pub(crate) fn start_with(options: Options, admission: Admission) -> Self {
        let limits = options.history_limits();
        Self::begin(options, Contents { store: Store::new(limits), journal: None }, admission)
    }

    fn begin(options: Options, contents: Contents, admission: Admission) -> Self {
        let clock = Clock::new(options.epoch);
        let authenticator = Authenticator::new(options.tokens, options.seed);
        let builtin = crate::builtin::served();
        let registry = Registry::builtin(
            builtin.into_iter().map(|(resource, schema)| Served::new(resource, schema, None)).collect(),
        );
        let server = Arc::new(Server::new(
            options.profile,
            options.seed,
            clock,
            authenticator,
            admission,
            registry,
            contents,
        ));
        crate::crd::restore(&server);
        crate::bootstrap::create(&server);
        let mut controllers = JoinSet::new();
        controllers.spawn(crate::event_ttl::run(Arc::clone(&server), options.event_ttl));
        if options.profile == Profile::Dev {
            controllers.spawn(crate::gc::run(Arc::clone(&server)));
            controllers.spawn(crate::namespaces::run(Arc::clone(&server), options.namespace_grace));
            controllers.spawn(crate::protection::run(Arc::clone(&server)));
        }
        Self { core: Arc::new(Core { server, _controllers: Mutex::new(controllers) }) }
    }

    /// The server as a tower service, for clients in the same process.
    #[must_use]
    pub fn service(&self) -> ApiService {
        ApiService::new(Arc::clone(&self.core))
    }

    /// Epoch of [`Options::epoch`], for an operator that is to show the server's time.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.core.server.clock.epoch()
    }

    /// What requests are answered from.
    #[cfg(test)]
    pub(crate) fn server(&self) -> Arc<Server> {
        Arc::clone(&self.core.server)
    }

    /// What goes wrong on purpose: rules that are added and removed while the server runs.
    #[must_use]
    pub fn faults(&self) -> Faults {
        Faults::new(Arc::clone(&self.core.server))
    }

    /// Serves plain HTTP/1.1; port 0 picks a free one.
    ///
    /// Without [tokens](Options::tokens) everybody who reaches the port may do everything, so only loopback addresses are
    /// served then.
    ///
    /// # Errors
    /// [`ListenError`] names the address: it is not a loopback address and there are no tokens, or it cannot be bound, for
    /// example because the port is in use.
    pub async fn listen(&self, address: SocketAddr) -> Result<Listener, ListenError> {
        self.listen_with(address, ListenOptions::default()).await
    }

    /// Serves as the options say; see [`listen`](Self::listen).
    ///
    /// # Errors
    /// Those of [`listen`](Self::listen).
    pub async fn listen_with(
        &self,
        address: SocketAddr,
        options: ListenOptions,
    ) -> Result<Listener, ListenError> {
        Listener::bind(self.service(), address, options).await
    }
}
