//! Deletion of a definition: its objects are deleted before the definition.

use kube_apimachinery::metadata;
use serde_json::Value;

use super::known::is_deleting;
use super::names::track;
use super::{CLEANUP, GROUP, PLURAL, commit, put, served_resource};
use crate::kind::registry::ServedKind;
use crate::kinds::definition::{condition, set_condition};
use crate::state::deletion::begin_deletion;
use crate::state::{ClusterState, Turns};
use crate::store::{Change, Key, Snapshot};

/// Deletes the objects of a deleted definition, and then the definition if no object remains. Yields between the objects.
///
/// A conflict with another write ends this call. The other write wakes the task again. Dropping the future is safe: the next call
/// continues.
pub(super) async fn run(cluster: &ClusterState, key: &Key) {
    let Some(served) = cluster.registry().get(GROUP, "v1", PLURAL).cloned() else { return };
    let Some((revision, definition)) = read(cluster, &served, key) else { return };
    let Some((revision, mut definition)) = report_progress(cluster, &served, key, revision, definition)
    else {
        return;
    };
    let storage = served_resource::storage(&definition);
    if is_established(&definition) && !served_resource::is_builtin(&definition, &cluster.registry()) {
        let snapshot = cluster.read(|store| store.snapshot(&storage));
        // Objects are deleted even if no version is served.
        if let Some(instances) = served_resource::of_storage(&definition, &cluster.registry()) {
            delete_instances(cluster, &instances, &snapshot).await;
        }
        if cluster.read(|store| store.snapshot(&storage).len() > 0) {
            return;
        }
    }
    let mut finalizers = metadata::owned_finalizers(&definition);
    finalizers.retain(|finalizer| finalizer != CLEANUP);
    if finalizers.is_empty() {
        if commit(cluster, &served, key, revision, Change::Delete)
            && !cluster.registry().serves_table(&storage)
        {
            // The resource was not served, so its table was still open.
            cluster.close(&storage);
        }
    } else {
        metadata::set_finalizers(&mut definition, &finalizers);
        put(cluster, &served, key, revision, &definition);
    }
}

/// Reads a definition that waits for the deletion of its objects.
fn read(cluster: &ClusterState, served: &ServedKind, key: &Key) -> Option<(u64, Value)> {
    let stored = cluster.read(|store| store.get(served.storage(), key).cloned())?;
    let definition = served.value(&stored);
    is_deleting(&definition).then_some((stored.revision, definition))
}

/// Sets the condition `Terminating` to the reason that the deletion of objects has begun, and reads the definition again. Returns `None` if
/// another write has changed the definition.
fn report_progress(
    cluster: &ClusterState,
    served: &ServedKind,
    key: &Key,
    revision: u64,
    definition: Value,
) -> Option<(u64, Value)> {
    if !is_established(&definition) || reason(&definition) != "InstanceDeletionPending" {
        return Some((revision, definition));
    }
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
    if put(cluster, served, key, revision, &next) { read(cluster, served, key) } else { None }
}

fn is_established(definition: &Value) -> bool {
    condition(definition, "Established") == "True"
}

/// Returns the reason of the condition `Terminating`.
fn reason(definition: &Value) -> &str {
    definition["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Terminating")
        .and_then(|condition| condition["reason"].as_str())
        .unwrap_or_default()
}

/// Deletes the objects of a snapshot, and marks those with finalizers as being deleted. Objects that are already marked wait for the
/// removal of their finalizers.
async fn delete_instances(cluster: &ClusterState, served: &ServedKind, snapshot: &Snapshot) {
    let mut turns = Turns::default();
    let living = snapshot.range("", None).filter(|(_, stored)| !stored.document.is_terminating());
    for (key, stored) in living {
        let object = served.value(stored);
        let finalizers = metadata::owned_finalizers(&object);
        // On a conflict another write changed the object, which wakes the task again.
        begin_deletion(cluster, served, key, stored, &object, &finalizers);
        turns.pass().await;
    }
}
