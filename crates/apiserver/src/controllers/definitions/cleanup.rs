//! Deletion of a definition: its objects are deleted before the definition.

use kube_apimachinery::metadata;
use serde_json::Value;

use super::names::track;
use super::{CLEANUP, Definition, commit, put, resource};
use crate::kind::registry::Served;
use crate::kind::resource::StorageKey;
use crate::kinds::definition::{condition, set_condition};
use crate::state::ClusterState;
use crate::state::deletion::begin_deletion;
use crate::store::{Change, Key, Snapshot};

/// Deletes the objects of terminating definitions, and the definitions without objects.
pub(super) fn run(cluster: &ClusterState, served: &Served, definitions: &[Definition]) {
    for (key, revision, definition) in definitions {
        if metadata::is_terminating(definition) && metadata::finalizers(definition).contains(&CLEANUP) {
            finish(cluster, served, key, *revision, definition);
        }
    }
}

fn finish(cluster: &ClusterState, served: &Served, key: &Key, mut revision: u64, definition: &Value) {
    let mut definition = definition.clone();
    let storage = StorageKey {
        group: definition["spec"]["group"].as_str().unwrap_or_default().to_owned(),
        plural: definition["status"]["acceptedNames"]["plural"].as_str().unwrap_or_default().to_owned(),
    };
    let established = condition(&definition, "Established") == "True";
    if established && reason(&definition) == "InstanceDeletionPending" {
        let mut next = definition.clone();
        let message = "CustomResource deletion is in progress";
        set_condition(
            &cluster.clock.now_seconds(),
            &mut next,
            "Terminating",
            "True",
            "InstanceDeletionInProgress",
            message,
        );
        track(cluster, served, &definition, &mut next);
        if !put(cluster, served, key, revision, &next) {
            return;
        }
        let Some(stored) = cluster.read(|store| store.get(served.storage(), key).cloned()) else {
            return;
        };
        revision = stored.revision;
        definition = served.value(&stored);
    }
    // Repeated at each call, because an object that changed during an earlier deletion was not deleted.
    if established && !resource::is_builtin(&definition, &cluster.registry()) {
        let snapshot = cluster.read(|store| store.snapshot(&storage));
        // Objects are deleted even if no version is served.
        if let Some(instances) = resource::of_storage(&definition, &cluster.registry()) {
            delete_instances(cluster, &instances, &snapshot);
        }
        if cluster.read(|store| store.snapshot(&storage).len() > 0) {
            return;
        }
    }
    let finalizers: Vec<String> = metadata::finalizers(&definition)
        .into_iter()
        .filter(|finalizer| *finalizer != CLEANUP)
        .map(str::to_owned)
        .collect();
    if finalizers.is_empty() {
        if commit(cluster, served, key, revision, Change::Delete)
            && !cluster.registry().tables().contains(&storage)
        {
            // The resource was not served, so `renew_registry` does not close its table.
            cluster.close(&storage);
        }
    } else {
        metadata::set_finalizers(&mut definition, &finalizers);
        put(cluster, served, key, revision, &definition);
    }
}

fn reason(definition: &Value) -> &str {
    definition["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Terminating")
        .and_then(|condition| condition["reason"].as_str())
        .unwrap_or_default()
}

/// Objects that one call deletes, about 10 ms. The task of [`run`](super::run) deletes further ones.
const BATCH: usize = 256;

/// Deletes up to [`BATCH`] objects of a snapshot, and marks those with finalizers as being deleted. Objects that are marked
/// already wait for their finalizers.
fn delete_instances(cluster: &ClusterState, served: &Served, snapshot: &Snapshot) {
    let living = snapshot.range("", None).filter(|(_, stored)| !stored.document.is_terminating());
    for (key, stored) in living.take(BATCH) {
        let object = served.value(stored);
        let finalizers = metadata::owned_finalizers(&object);
        // On a conflict the object has changed, and that write runs the cleanup again.
        begin_deletion(cluster, served, key, stored.revision, &object, &finalizers);
    }
}
