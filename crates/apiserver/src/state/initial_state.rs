//! State with which a server starts: empty, restored from a data file, or copied from another server.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ClusterState;
use super::persistence::CommitJournal;
use crate::kind::registry::Registry;
use crate::kind::resource::StorageKey;
use crate::store::Store;

/// Contents of a server when it starts.
pub(crate) struct InitialState {
    pub(crate) store: Store<StorageKey>,
    /// Data file, if there is one.
    pub(crate) journal: Option<CommitJournal>,
    /// State of another server besides the store, if this one begins where that one was.
    pub(crate) forked: Option<Forked>,
}

impl InitialState {
    /// Contents of a server that begins with these objects.
    pub(crate) fn of(store: Store<StorageKey>, journal: Option<CommitJournal>) -> Self {
        Self { store, journal, forked: None }
    }

    /// Copies the contents, without a data file.
    pub(crate) fn copy(&self) -> Self {
        Self { store: self.store.fork(), journal: None, forked: self.forked.clone() }
    }
}

/// State of a server besides its objects.
#[derive(Clone)]
pub(crate) struct Forked {
    pub(super) random: fastrand::Rng,
    pub(super) audit_ids: fastrand::Rng,
    pub(super) registry: Arc<Registry>,
    pub(super) registry_since: i64,
    pub(super) registry_version: u64,
}

impl ClusterState {
    /// Copies the state for a server that begins where this one is.
    pub(crate) fn fork(&self) -> InitialState {
        let forked = Forked {
            random: self.random.lock().clone(),
            audit_ids: self.audit_ids.lock().clone(),
            registry: self.registry(),
            registry_since: self.registry_since.load(Ordering::Relaxed),
            registry_version: self.registry_version(),
        };
        InitialState { store: self.read(Store::fork), journal: None, forked: Some(forked) }
    }
}
