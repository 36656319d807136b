//! Options of a server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use kube_clock::Epoch;
use tokio::time::Duration;

use crate::api::admission::{Admission, AdmissionPlugin, PluginDefault};
use crate::api::authentication::Tokens;
#[cfg(feature = "tls")]
use crate::api::authentication::{ClientAuthority, ServiceAccountKeys};
use crate::api::authorization::AuthorizationMode;
use crate::controllers::event_ttl::EVENT_TTL;
use crate::kinds::builtin::service::pool::ServiceRange;
use crate::store::{HISTORY_AGE, HistoryLimits};
use crate::webhook_client::WebhookTransport;

/// Controllers that the server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Profile {
    /// No controllers, as in controller-runtime's envtest: dependents remain when their owner is deleted, and a deleted namespace remains
    /// `Terminating`.
    #[default]
    Envtest,
    /// Controllers like those of a cluster. They collect garbage, empty deleted namespaces, create a service account `default` in every
    /// namespace, and count the objects that ResourceQuotas limit. They also remove the protection finalizers of deleted volumes and claims
    /// that are not in use, and aggregate the rules of ClusterRoles such as `admin`, `edit` and `view`, which have no rules otherwise.
    Dev,
}

/// Options of a server. The defaults are profile [`Envtest`](Profile::Envtest), seed 0 and the time of the system.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Controllers that run.
    pub profile: Profile,
    /// Seed of UIDs and generated names: servers with the same seed generate the same values for the same sequence of requests. Faults with
    /// a probability also draw from the seed, independently of UIDs and names.
    pub seed: u64,
    /// Epoch from which wall time advances with tokio's time. With `None`, wall time is that of the system clock. In paused time it then
    /// starts from a single reading of that clock, which all clocks of the process share.
    pub epoch: Option<Epoch>,
    /// Tokens and users of clients over sockets. With `None`, and without an authority of client certificates, every client is admin, and
    /// listeners accept loopback addresses only.
    pub tokens: Option<Tokens>,
    /// Authorities that sign client certificates. If set, clients without credentials are anonymous, as with [tokens](Self::tokens).
    #[cfg(feature = "tls")]
    pub client_authority: Option<ClientAuthority>,
    /// Keys of service account tokens. With `None` the server signs them with a secret of its own.
    #[cfg(feature = "tls")]
    pub service_account_keys: Option<ServiceAccountKeys>,
    /// Access control of users other than administrators. By default they have the permissions of the roles that are bound to them.
    pub authorization: AuthorizationMode,
    /// Delay between deleting a namespace and deleting its contents, in profile [`Dev`](Profile::Dev). The default is zero;
    /// kube-controller-manager waits 5 s. With at least 1 s, the times in `managedFields`, which are whole seconds, distinguish writes of
    /// the namespace controller from earlier writes.
    pub namespace_grace: Duration,
    /// Age up to which old revisions are served. Watches, exact lists and continue tokens that begin at an older revision are answered with
    /// 410. The default is five minutes, as in clusters with etcd. With zero every paged list may expire before its next page, for tests of
    /// clients.
    pub history_age: Duration,
    /// Time that Events are kept after their last change, like kube-apiserver's `--event-ttl`. The default is an hour.
    pub event_ttl: Duration,
    /// Answers calls of webhooks within the process. With `None`, the default, webhooks are called over sockets.
    pub webhook_transport: Option<Arc<dyn WebhookTransport>>,
    /// Addresses of services by namespace and name, for webhooks whose `clientConfig` names a service: the server has no network
    /// with cluster IPs. A service without an entry is reached at the addresses in its EndpointSlices, or else at its cluster IP.
    pub service_addresses: BTreeMap<(String, String), SocketAddr>,
    /// Range of the cluster IPs of Services, like kube-apiserver's `--service-cluster-ip-range`. The default is `10.96.0.0/12`.
    pub service_range: ServiceRange,
    /// Admission plugins that are switched on or off, overriding the default of the [profile](Self::profile).
    pub admission_plugins: BTreeMap<AdmissionPlugin, Switch>,
}

/// Whether a plugin runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// The plugin runs.
    On,
    /// The plugin does not run.
    Off,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            seed: 0,
            epoch: None,
            tokens: None,
            #[cfg(feature = "tls")]
            client_authority: None,
            #[cfg(feature = "tls")]
            service_account_keys: None,
            authorization: AuthorizationMode::default(),
            namespace_grace: Duration::ZERO,
            history_age: HISTORY_AGE,
            event_ttl: EVENT_TTL,
            webhook_transport: None,
            service_addresses: BTreeMap::new(),
            service_range: ServiceRange::default(),
            admission_plugins: BTreeMap::new(),
        }
    }
}

impl Options {
    /// Sets the profile.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets the [seed](Self::seed).
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the users. Callers in the process need no token.
    #[must_use]
    pub fn tokens(mut self, tokens: Tokens) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Sets the [authorities](Self::client_authority) of client certificates. Callers in the process need no certificate.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn client_authority(mut self, authority: ClientAuthority) -> Self {
        self.client_authority = Some(authority);
        self
    }

    /// Sets the [keys](Self::service_account_keys) of service account tokens. With them tokens outlive the server, and other programs can
    /// verify them.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn service_account_keys(mut self, keys: ServiceAccountKeys) -> Self {
        self.service_account_keys = Some(keys);
        self
    }

    /// Sets the [mode](Self::authorization) of access control.
    #[must_use]
    pub fn authorization(mut self, mode: AuthorizationMode) -> Self {
        self.authorization = mode;
        self
    }

    /// Sets the [delay](Self::namespace_grace) between deleting a namespace and deleting its contents.
    #[must_use]
    pub fn namespace_grace(mut self, grace: Duration) -> Self {
        self.namespace_grace = grace;
        self
    }

    /// Sets the [age](Self::history_age) up to which old revisions are served.
    #[must_use]
    pub fn history_age(mut self, age: Duration) -> Self {
        self.history_age = age;
        self
    }

    /// Sets the [time](Self::event_ttl) that Events are kept.
    #[must_use]
    pub fn event_ttl(mut self, ttl: Duration) -> Self {
        self.event_ttl = ttl;
        self
    }

    /// Sets the [transport](Self::webhook_transport) of calls to webhooks.
    #[must_use]
    pub fn webhook_transport(mut self, transport: Arc<dyn WebhookTransport>) -> Self {
        self.webhook_transport = Some(transport);
        self
    }

    /// Sets the [address](Self::service_addresses) of a service, at which its webhooks are called.
    #[must_use]
    pub fn service_address(mut self, namespace: &str, name: &str, address: SocketAddr) -> Self {
        self.service_addresses.insert((namespace.to_owned(), name.to_owned()), address);
        self
    }

    /// Sets the [range](Self::service_range) of cluster IPs.
    #[must_use]
    pub fn service_range(mut self, range: ServiceRange) -> Self {
        self.service_range = range;
        self
    }

    /// Switches an admission plugin on, like kube-apiserver's `--enable-admission-plugins`.
    #[must_use]
    pub fn enable_admission_plugin(mut self, plugin: AdmissionPlugin) -> Self {
        self.admission_plugins.insert(plugin, Switch::On);
        self
    }

    /// Switches an admission plugin off, like kube-apiserver's `--disable-admission-plugins`.
    #[must_use]
    pub fn disable_admission_plugin(mut self, plugin: AdmissionPlugin) -> Self {
        self.admission_plugins.insert(plugin, Switch::Off);
        self
    }

    /// Sets the epoch from which wall time advances, so that timestamps are equal in every run. Servers and operators with the same epoch
    /// show the same time.
    #[must_use]
    pub fn epoch(mut self, epoch: Epoch) -> Self {
        self.epoch = Some(epoch);
        self
    }
}

impl Options {
    /// Whether an admission plugin runs.
    fn runs(&self, plugin: AdmissionPlugin) -> bool {
        let switch = self.admission_plugins.get(&plugin).copied();
        let default = match plugin.default_state() {
            PluginDefault::On => true,
            PluginDefault::OnInDev => self.profile == Profile::Dev,
            PluginDefault::Off => false,
        };
        switch.map_or(default, |switch| switch == Switch::On)
    }

    pub(super) fn admission(&self) -> Admission {
        Admission::new(|plugin| self.runs(plugin))
    }

    pub(super) fn history_limits(&self) -> HistoryLimits {
        HistoryLimits { age: self.history_age, ..HistoryLimits::default() }
    }
}
