use std::{collections::BTreeMap, fmt};

use super::Timing;

/// Which lease to hold in order to lead, and how.
///
/// ```
/// use controller_runtime::leader_election::Options;
///
/// let options = Options::new("guestbook-operator.example.com").namespace("guestbook-system");
/// ```
#[derive(Clone)]
#[must_use]
pub struct Options {
    pub(super) id: String,
    pub(super) namespace: Option<String>,
    pub(super) identity: Option<String>,
    pub(super) timing: Timing,
    pub(super) release_on_cancel: bool,
    pub(super) labels: BTreeMap<String, String>,
    client: Option<kube::Client>,
}

impl Options {
    /// The candidates for the lease of this name lead one at a time.
    #[doc(alias = "LeaderElectionID")]
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            namespace: None,
            identity: None,
            timing: Timing::default(),
            release_on_cancel: true,
            labels: BTreeMap::new(),
            client: None,
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn has_identity(&self) -> bool {
        self.identity.is_some()
    }

    /// Where the lease is. Default: the namespace of the election's client, in a cluster that of the pod.
    #[doc(alias = "LeaderElectionNamespace")]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Who the candidate is, which no other candidate may ever be: one that comes after it in the same pod included.
    /// Default: the host's name and a random UUID. A manager with a [seed](crate::manager::Options::seed) has no default and
    /// does not run without one, because every candidate of that seed would be the same and all of them would lead.
    #[doc(alias = "Identity")]
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// How fast a leader is replaced. Default: [`Timing::default`].
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Whether to give the lease back at the shutdown, when all that leads has stopped, so that another candidate leads at
    /// once. Default: yes, unlike Go, where it may be given back while reconciles still run.
    #[doc(alias = "LeaderElectionReleaseOnCancel")]
    pub fn release_on_cancel(mut self, release: bool) -> Self {
        self.release_on_cancel = release;
        self
    }

    /// Sets a label on the lease where this candidate creates it.
    #[doc(alias = "LeaderElectionLabels")]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Asks for the lease through `client`, of which nothing else makes use: what else the process does cannot keep a renewal
    /// waiting. It may also be of another cluster than the manager's. Default: the manager's, unless that was made by
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

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, namespace, identity, timing, release_on_cancel, labels, client } = self;
        f.debug_struct("Options")
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
