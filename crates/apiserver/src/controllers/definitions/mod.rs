//! CustomResourceDefinitions: acceptance of their names, the resources that they serve, and their deletion.
//!
//! In kube-apiserver several controllers do this asynchronously, and clients wait for them. Here names are accepted and resources are
//! served within the request that writes the definition, so that a resource is served when the client receives the response. The
//! intermediate states are committed too, because clients watch them. A deleted definition is removed later, after [a task](run) has
//! deleted its objects.

mod cleanup;
mod known;
mod names;
mod served_resource;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::{Mutex, ReentrantMutex};
use serde_json::Value;
use tokio::sync::Notify;

use self::known::KnownDefinitions;
use crate::bootstrap;
use crate::kind::registry::{Registry, ServedKind};
use crate::kind::resource::StorageKey;
use crate::kinds::definition::{CLEANUP, GROUP, PLURAL, is_table, table};
use crate::state::{ClusterState, CommitObserver};
use crate::store::{Change, Key};

/// Definitions and the resources that they define. As an observer of all commits it accepts names and updates the served resources.
#[derive(Default)]
pub(crate) struct Definitions {
    /// Locked by one thread at a time, so that two definitions cannot get the same name, and an older registry cannot replace a newer one.
    known: ReentrantMutex<RefCell<KnownDefinitions>>,
    /// Definitions that wait for the deletion of their objects, with the storage keys of the objects.
    deleting: Mutex<BTreeMap<Key, StorageKey>>,
    /// Wakes the task that deletes these objects.
    wake: Notify,
}

impl CommitObserver for Arc<Definitions> {
    fn committed(&self, cluster: &ClusterState, storage: &StorageKey, key: &Key) {
        if is_table(storage) {
            self.update(cluster, BTreeSet::from([key.clone()]));
        } else if self.deleting.lock().values().any(|deleting| deleting == storage) {
            // An object that the task could not delete has changed, or an object that waited for its finalizers was removed.
            self.wake.notify_one();
        }
    }
}

impl Definitions {
    /// Processes changed definitions.
    fn update(&self, cluster: &ClusterState, changed: BTreeSet<Key>) {
        let known = self.known.lock();
        // The lock is reentrant: `settle` below commits a status, and this observer is called for that commit in the same thread. There is
        // nothing to do here, because `settle` reads the definition again after its commit.
        let Ok(mut known) = known.try_borrow_mut() else {
            return;
        };
        let Some(served) = cluster.registry().get(GROUP, "v1", PLURAL).cloned() else {
            return;
        };
        let changes = known.settle(cluster, &served, changed);
        replace_registry(cluster, &changes.removed, &changes.added);
        known.deleting().clone_into(&mut self.deleting.lock());
        if !known.deleting().is_empty() {
            self.wake.notify_one();
        }
    }

    /// Creates a copy for a server that begins in the state of this one.
    pub(crate) fn fork(&self) -> Self {
        let known = self.known.lock().borrow().clone();
        let deleting = Mutex::new(known.deleting().clone());
        Self { known: ReentrantMutex::new(RefCell::new(known)), deleting, wake: Notify::new() }
    }

    /// Serves the resources of stored definitions, as after a restart.
    pub(crate) fn restore(&self, cluster: &ClusterState) {
        let snapshot = cluster.read(|store| store.snapshot(&table()));
        self.update(cluster, snapshot.range("", None).map(|(key, _)| key.clone()).collect());
    }
}

/// Deletes the objects of deleted definitions, and then the definitions, until its task is aborted.
pub(crate) async fn run(cluster: Arc<ClusterState>, definitions: Arc<Definitions>) {
    loop {
        // A commit from now on leaves a permit, so that the wait below ends at once.
        let deleting: Vec<Key> = definitions.deleting.lock().keys().cloned().collect();
        for key in deleting {
            cleanup::run(&cluster, &key).await;
        }
        definitions.wake.notified().await;
    }
}

/// Stores a new state of a definition. Returns `false` if another write has changed the definition since revision `expected`.
fn put(cluster: &ClusterState, served: &ServedKind, key: &Key, expected: u64, definition: &Value) -> bool {
    let change = Change::Put(served.document(definition));
    commit(cluster, served, key, expected, change)
}

fn commit(cluster: &ClusterState, served: &ServedKind, key: &Key, expected: u64, change: Change) -> bool {
    cluster.commit_unguarded(served.storage(), key, Some(expected), change).is_ok()
}

/// Replaces the registry by one without `removed` and with `added`. All other resources keep their identity.
fn replace_registry(cluster: &ClusterState, removed: &[Arc<ServedKind>], added: &[Arc<ServedKind>]) {
    if removed.is_empty() && added.is_empty() {
        return;
    }
    let mut new = Registry::clone(&cluster.registry());
    removed.iter().for_each(|served| new.remove(served));
    for served in added {
        // The table is opened first, because requests may arrive as soon as the registry has the resource.
        cluster.open(served.storage());
        new.add(Arc::clone(served));
    }
    new.retire(removed, added);
    let affected: BTreeSet<&StorageKey> = removed.iter().map(|served| served.storage()).collect();
    let affected: Vec<StorageKey> = affected.into_iter().cloned().collect();
    let gone: Vec<StorageKey> =
        affected.iter().filter(|storage| !new.serves_table(storage)).cloned().collect();
    cluster.set_registry(new, &affected);
    let changed = removed.iter().chain(added).map(|served| served.resource.group_version());
    bootstrap::follow_definitions(cluster, &changed.collect());
    for storage in gone {
        // A resource that is no longer served may still have objects.
        let empty = cluster.read(|store| store.snapshot(&storage).len() == 0);
        if empty {
            cluster.close(&storage);
        }
    }
}

#[cfg(test)]
mod tests;
