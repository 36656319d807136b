//! CustomResourceDefinitions: which names they get, what they serve, and how they go.
//!
//! In kube-apiserver several controllers do this and clients wait for them. Here it happens in the turn of the request
//! that wrote the definition, so that a resource is served when its definition is answered; the intermediate states are
//! committed all the same, because clients watch them.

mod cleanup;
mod names;
pub(crate) mod object;
mod resource;
pub(crate) mod validate;

use serde_json::Value;

use crate::bootstrap;
use crate::registry::{Registry, Served};
use crate::resource::StorageKey;
use crate::server::{Refused, Server};
use crate::store::{Change, Key};
use crate::verbs::metadata;

pub(crate) const GROUP: &str = "apiextensions.k8s.io";
pub(crate) const PLURAL: &str = "customresourcedefinitions";
/// Keeps a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The table of definitions.
pub(crate) fn table() -> StorageKey {
    StorageKey { group: GROUP.to_owned(), plural: PLURAL.to_owned() }
}

pub(crate) fn is_table(storage: &StorageKey) -> bool {
    storage.group == GROUP && storage.plural == PLURAL
}

/// Follows a commit: if it changed a definition, or an object whose definition waits for it, names are settled, the
/// served resources renewed, and finished deletions completed.
pub(crate) fn after_write(server: &Server, storage: &StorageKey) {
    if !is_table(storage) {
        let waiting = server.registry().all().any(|served| {
            served.custom.as_ref().is_some_and(|custom| custom.terminating) && served.storage() == storage
        });
        if !waiting {
            return;
        }
    }
    let _turn = server.definitions.lock();
    let Some(served) = server.registry().get(GROUP, "v1", PLURAL).cloned() else {
        return;
    };
    let mut definitions = all(server, &served);
    names::settle(server, &served, &mut definitions);
    renew_registry(server, &definitions);
    if !definitions.iter().any(|(_, _, definition)| metadata::is_terminating(definition)) {
        return;
    }
    cleanup::run(server, &served);
    // Names that a removed definition held may be free for another one now.
    let mut definitions = all(server, &served);
    names::settle(server, &served, &mut definitions);
    renew_registry(server, &definitions);
}

/// Serves what the definitions that are already stored define, as after a restart.
pub(crate) fn restore(server: &Server) {
    after_write(server, &StorageKey { group: GROUP.to_owned(), plural: PLURAL.to_owned() });
}

/// A definition under its key, with the revision at which it was read.
type Definition = (Key, u64, Value);

/// All definitions in order. This reads all of them, so a write does it once, and once more if any is deleted.
fn all(server: &Server, served: &Served) -> Vec<Definition> {
    let snapshot = server.read(|store| store.snapshot(served.storage()));
    snapshot
        .range("", None)
        .map(|(key, stored)| (key.clone(), stored.revision, served.value(stored)))
        .collect()
}

/// Stores a new state of a definition; `false` if it changed meanwhile.
fn put(server: &Server, served: &Served, key: &Key, expected: u64, definition: &Value) -> bool {
    let change = Change::Put(served.document(definition));
    commit(server, served, key, expected, change)
}

fn commit(server: &Server, served: &Served, key: &Key, expected: u64, change: Change) -> bool {
    let outcome = server
        .commit(served.storage(), key, Some(expected), change, |_| Ok::<(), std::convert::Infallible>(()));
    !matches!(outcome, Err(Refused::Conflict))
}

/// Serves what the definitions define now. Resources whose definition did not change keep their identity.
fn renew_registry(server: &Server, definitions: &[Definition]) {
    let old = server.registry();
    let mut new: Registry = old.without_custom();
    for (_, _, definition) in definitions {
        for resource in resource::resources(definition, &old) {
            new.add(resource);
        }
    }
    let mut affected = Vec::new();
    let mut changed = false;
    for served in old.all().filter(|served| !new.serves(served)) {
        changed = true;
        affected.push(served.storage().clone());
    }
    for served in new.all().filter(|served| !old.serves(served)) {
        changed = true;
        server.open(served.storage());
    }
    if !changed {
        return;
    }
    new.retire(&old);
    let gone: Vec<StorageKey> = {
        let kept = new.tables();
        affected.iter().filter(|storage| !kept.contains(storage)).cloned().collect()
    };
    server.set_registry(new, &affected);
    bootstrap::follow_definitions(server);
    for storage in gone {
        // A version that is merely not served any more keeps its objects.
        let empty = server.read(|store| store.snapshot(&storage).len() == 0);
        if empty {
            server.close(&storage);
        }
    }
}

#[cfg(test)]
mod tests;
