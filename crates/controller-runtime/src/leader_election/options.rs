//! Options of leader election.

use std::{collections::BTreeMap, fmt, panic::Location};

use super::Timing;
use crate::rights::{self, CodeLine, DeclarationLog, ScopeOf};

/// The lease of an election, and how this candidate takes part.
///
/// ```
/// use controller_runtime::leader_election::LeaderElectionOptions;
///
/// let options = LeaderElectionOptions::new("guestbook-operator.example.com").namespace("guestbook-system");
/// ```
#[derive(Clone)]
#[must_use]
pub struct LeaderElectionOptions {
    pub(super) id: String,
    pub(super) namespace: Option<String>,
    pub(super) identity: Option<String>,
    pub(super) timing: Timing,
    pub(super) release_on_cancel: bool,
    pub(super) labels: BTreeMap<String, String>,
    client: Option<kube::Client>,
    /// Line of the program that made the options.
    place: CodeLine,
}

impl LeaderElectionOptions {
    /// Makes options for the lease of this name; one of its candidates leads at a time.
    #[doc(alias = "LeaderElectionID")]
    #[track_caller]
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            namespace: None,
            identity: None,
            timing: Timing::default(),
            release_on_cancel: true,
            labels: BTreeMap::new(),
            client: None,
            place: Location::caller(),
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Records the rights to take part.
    pub(crate) fn declare(&self, log: &DeclarationLog) {
        let scope = ScopeOf::namespace(self.namespace.as_deref());
        for declaration in rights::election(&self.id, self.place) {
            log.record(declaration, &scope);
        }
        log.record(rights::events("leader election", self.place), &scope);
    }

    pub(crate) fn has_identity(&self) -> bool {
        self.identity.is_some()
    }

    /// Sets the namespace of the lease. Default: that of the election's client, in a cluster the pod's namespace.
    #[doc(alias = "LeaderElectionNamespace")]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets the candidate's identity, which no other candidate may ever have, not even a later one in the same pod. Default:
    /// the host's name and a random UUID. A manager with a [seed](crate::ManagerOptions::seed) has no default, and does not run
    /// without an identity: all candidates with that seed would have the same one, and all of them would lead.
    #[doc(alias = "Identity")]
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Sets how fast a leader is replaced. Default: a lease duration of 15 s, a renew deadline of 10 s and a retry period of 2 s.
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Sets whether the lease is released at a shutdown, so that another candidate leads at once. Default: yes. The release happens
    /// after everything that needs the lease has stopped; in Go it is off by default, and may happen while reconciles still run.
    #[doc(alias = "LeaderElectionReleaseOnCancel")]
    pub fn release_on_cancel(mut self, release: bool) -> Self {
        self.release_on_cancel = release;
        self
    }

    /// Sets a label on the lease if this candidate creates it.
    #[doc(alias = "LeaderElectionLabels")]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Sends the election's requests through `client`. Use the client for nothing else, so that other requests cannot delay a
    /// renewal. It may reach another cluster than the manager's. Default: the manager's client, except with
    /// [`Manager::from_config`](crate::Manager::from_config), which gives the election a connection of its own.
    #[doc(alias = "LeaderElectionConfig")]
    pub fn client(mut self, client: kube::Client) -> Self {
        self.client = Some(client);
        self
    }

    pub(crate) fn own_client(&self) -> Option<&kube::Client> {
        self.client.as_ref()
    }
}

impl fmt::Debug for LeaderElectionOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, namespace, identity, timing, release_on_cancel, labels, client, place: _ } = self;
        f.debug_struct("LeaderElectionOptions")
            .field("id", id)
            .field("namespace", namespace)
            .field("identity", identity)
            .field("timing", timing)
            .field("release_on_cancel", release_on_cancel)
            .field("labels", labels)
            .field("has_own_client", &client.is_some())
            .finish()
    }
}
