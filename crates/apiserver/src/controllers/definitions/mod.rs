//! CustomResourceDefinitions: acceptance of their names, the resources that they serve, and their deletion.
//!
//! In kube-apiserver several controllers do this asynchronously, and clients wait for them. Here it happens within the
//! request that writes the definition, so that a resource is served when the write is answered. The intermediate states
//! are committed too, because clients watch them.

mod cleanup;
mod names;
mod resource;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use kube_apimachinery::metadata;
use parking_lot::ReentrantMutex;
use serde_json::Value;
use tokio::task::yield_now;

use crate::bootstrap;
use crate::kind::registry::{Registry, Served};
use crate::kind::resource::StorageKey;
use crate::kinds::definition::{CLEANUP, GROUP, PLURAL, is_table, table};
use crate::state::{ClusterState, CommitObserver, Refused};
use crate::store::{Change, Key, Stored};

/// Definitions and the resources that they define. Observes all commits: accepts names, updates the served resources, and completes
/// deletions.
#[derive(Default)]
pub(crate) struct Definitions {
    /// Locked by one thread at a time: two definitions must not get the same name, and no registry may replace a newer one.
    known: ReentrantMutex<RefCell<Known>>,
}

impl CommitObserver for Arc<Definitions> {
    fn committed(&self, cluster: &ClusterState, storage: &StorageKey, _key: &Key) {
        self.update(cluster, storage);
    }
}

impl Definitions {
    /// Reacts to a commit that changed a definition, or an object of a terminating definition.
    fn update(&self, cluster: &ClusterState, storage: &StorageKey) {
        if !is_table(storage) {
            // Most writes concern neither definitions nor objects whose definition is being deleted.
            let waiting = cluster.registry().all().any(|served| {
                served.custom.as_ref().is_some_and(|custom| custom.terminating) && served.storage() == storage
            });
            if !waiting || !has_work(cluster, storage) {
                return;
            }
        }
        let known = self.known.lock();
        // Borrowed by this thread: the commit is one of those made below, which reads the definitions again after it.
        let Ok(mut known) = known.try_borrow_mut() else {
            return;
        };
        let Some(served) = cluster.registry().get(GROUP, "v1", PLURAL).cloned() else {
            return;
        };
        known.settle(cluster, &served);
        if !known.definitions.iter().any(|(_, _, definition)| metadata::is_terminating(definition)) {
            return;
        }
        cleanup::run(cluster, &served, &known.definitions);
        // Another definition may now get the names of a removed one.
        known.settle(cluster, &served);
    }

    /// Serves the resources of stored definitions, as after a restart.
    pub(crate) fn restore(&self, cluster: &ClusterState) {
        self.update(cluster, &table());
    }
}

/// Whether there is anything to do for the objects of a terminating definition: some are still to be deleted, or none is left.
/// Most writes are of objects that wait for their finalizers, and cost a look at a flag of each.
fn has_work(cluster: &ClusterState, storage: &StorageKey) -> bool {
    let snapshot = cluster.read(|store| store.snapshot(storage));
    snapshot.len() == 0 || snapshot.range("", None).any(|(_, stored)| !stored.document.is_terminating())
}

/// Deletes the objects of terminating definitions that the deletion of the definition left, until its task is aborted.
pub(crate) async fn run(cluster: Arc<ClusterState>, definitions: Arc<Definitions>) {
    let mut changes = cluster.changes(&table());
    loop {
        let latest = changes.latest();
        while let Some(storage) = unfinished(&cluster) {
            definitions.update(&cluster, &storage);
            yield_now().await;
        }
        changes.see(latest);
        if changes.news().await.is_none() {
            return;
        }
    }
}

/// Returns the table of a terminating definition with objects that are not being deleted yet.
fn unfinished(cluster: &ClusterState) -> Option<StorageKey> {
    let registry = cluster.registry();
    let terminating =
        registry.all().filter(|served| served.custom.as_ref().is_some_and(|custom| custom.terminating));
    let mut tables = terminating.map(|served| served.storage().clone());
    tables.find(|table| {
        let snapshot = cluster.read(|store| store.snapshot(table));
        snapshot.range("", None).any(|(_, stored)| !stored.document.is_terminating())
    })
}

/// A definition with its key and the revision at which it was read.
type Definition = (Key, u64, Arc<Value>);

/// Definitions and their resources, kept between writes: a write parses only the definitions that changed.
#[derive(Default)]
struct Known {
    /// In the order of their keys.
    definitions: Vec<Definition>,
    /// Resources of a revision of a definition.
    resources: BTreeMap<Key, (u64, Vec<Arc<Served>>)>,
}

impl Known {
    /// Reads the definitions, accepts names and serves their resources.
    fn settle(&mut self, cluster: &ClusterState, served: &Served) {
        self.read(cluster, served);
        names::settle(cluster, served, &mut self.definitions);
        self.renew_registry(cluster);
    }

    fn read(&mut self, cluster: &ClusterState, served: &Served) {
        let before: BTreeMap<Key, (u64, Arc<Value>)> = std::mem::take(&mut self.definitions)
            .into_iter()
            .map(|(key, revision, definition)| (key, (revision, definition)))
            .collect();
        let snapshot = cluster.read(|store| store.snapshot(served.storage()));
        let read = |(key, stored): (&Key, &Arc<Stored>)| {
            let known = before.get(key).filter(|(revision, _)| *revision == stored.revision);
            let definition = known.map(|(_, definition)| Arc::clone(definition));
            let definition = definition.unwrap_or_else(|| Arc::new(served.value(stored)));
            (key.clone(), stored.revision, definition)
        };
        self.definitions = snapshot.range("", None).map(read).collect();
    }
}

/// Stores a new state of a definition; returns `false` if it changed meanwhile.
fn put(cluster: &ClusterState, served: &Served, key: &Key, expected: u64, definition: &Value) -> bool {
    let change = Change::Put(served.document(definition));
    commit(cluster, served, key, expected, change)
}

fn commit(cluster: &ClusterState, served: &Served, key: &Key, expected: u64, change: Change) -> bool {
    let outcome = cluster
        .commit(served.storage(), key, Some(expected), change, |_| Ok::<(), std::convert::Infallible>(()));
    !matches!(outcome, Err(Refused::Conflict))
}

impl Known {
    /// Replaces the registry by one with the current definitions. Resources of unchanged definitions keep their identity.
    fn renew_registry(&mut self, cluster: &ClusterState) {
        let old = cluster.registry();
        let mut new: Registry = old.without_custom();
        let mut before = std::mem::take(&mut self.resources);
        for (key, revision, definition) in &self.definitions {
            let known = before.remove(key).filter(|(known, _)| known == revision);
            let resources =
                known.map_or_else(|| resource::resources(definition, &old), |(_, resources)| resources);
            resources.iter().for_each(|resource| new.add(Arc::clone(resource)));
            self.resources.insert(key.clone(), (*revision, resources));
        }
        replace_registry(cluster, &old, new);
    }
}

/// Replaces the registry if it differs.
fn replace_registry(cluster: &ClusterState, old: &Registry, mut new: Registry) {
    let mut affected = Vec::new();
    let mut changed = false;
    for served in old.all().filter(|served| !new.serves(served)) {
        changed = true;
        affected.push(served.storage().clone());
    }
    for served in new.all().filter(|served| !old.serves(served)) {
        changed = true;
        // Before the registry names the resource, because a request may come as soon as it does.
        cluster.open(served.storage());
    }
    if !changed {
        return;
    }
    new.retire(old);
    let gone: Vec<StorageKey> = {
        let kept = new.tables();
        affected.iter().filter(|storage| !kept.contains(storage)).cloned().collect()
    };
    cluster.set_registry(new, &affected);
    bootstrap::follow_definitions(cluster);
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
