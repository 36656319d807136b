//! Removes the protection finalizers of volumes and claims that are no longer in use (profile [`Dev`](crate::Profile::Dev)).
//!
//! Volumes and claims get these finalizers when they are created, in every profile. As in kube-controller-manager, the finalizer of a
//! deleted claim is removed once no running pod mounts it, and the finalizer of a deleted volume once it is not bound to a claim.

use std::sync::Arc;

use kube_apimachinery::metadata;
use serde_json::Value;

use super::garbage_collection as gc;
use crate::kind::registry::ServedKind;
use crate::kind::resource::StorageKey;
use crate::kinds::builtin::{CLAIM_PROTECTION, VOLUME_PROTECTION};
use crate::state::{ClusterState, Subscription};
use crate::store::Key;

/// Removes finalizers when volumes and claims become unused. Runs until its task is aborted.
pub(crate) async fn run(cluster: Arc<ClusterState>) {
    let mut commits = cluster.commits();
    // The controllers of a server that begins in the state of another one wait until they are released.
    commits.released().await;
    let tables = ["persistentvolumeclaims", "persistentvolumes", "pods"].map(table);
    let mut tables = tables.map(|table| cluster.changes(&table));
    loop {
        commits.see();
        if tables.iter().any(Subscription::has_news) {
            for table in &mut tables {
                table.see_all();
            }
            release(&cluster, "persistentvolumeclaims", CLAIM_PROTECTION, |key, _| {
                !is_mounted(&cluster, key)
            });
            release(&cluster, "persistentvolumes", VOLUME_PROTECTION, |_, volume| {
                volume["status"]["phase"] != "Bound"
            });
        }
        commits.turn().await;
    }
}

fn table(plural: &str) -> StorageKey {
    StorageKey::core(plural)
}

fn served(cluster: &ClusterState, plural: &str) -> Option<Arc<ServedKind>> {
    cluster.registry().get("", "v1", plural).cloned()
}

/// Removes the finalizer from those objects being deleted for which `is_free` returns true.
fn release(cluster: &ClusterState, plural: &str, finalizer: &str, is_free: impl Fn(&Key, &Value) -> bool) {
    let Some(served) = served(cluster, plural) else { return };
    let snapshot = cluster.read(|store| store.snapshot(served.storage()));
    let leaving = snapshot.range("", None).filter(|(_, stored)| stored.document.is_terminating());
    for (key, stored) in leaving {
        let object = served.value(stored);
        if metadata::finalizers(&object).contains(&finalizer) && is_free(key, &object) {
            gc::remove_finalizer(cluster, &gc::ReadObject::new(&served, key, stored, object), finalizer);
        }
    }
}

/// Whether the claim is mounted by a pod that is assigned to a node and has not ended.
fn is_mounted(cluster: &ClusterState, claim: &Key) -> bool {
    let Some(served) = served(cluster, "pods") else { return false };
    let snapshot = cluster.read(|store| store.snapshot(served.storage()));
    snapshot.range(claim.namespace(), None).any(|(key, stored)| {
        let pod = served.value(stored);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let has_ended = ["Succeeded", "Failed"].contains(&text(&pod["status"]["phase"]).as_str());
        let mounts = |volume: &Value| {
            // The claim of an ephemeral volume is named after the pod and the volume.
            let own = volume["ephemeral"].is_object()
                && format!("{}-{}", key.name(), text(&volume["name"])) == claim.name();
            own || volume["persistentVolumeClaim"]["claimName"] == claim.name()
        };
        !text(&pod["spec"]["nodeName"]).is_empty()
            && !has_ended
            && pod["spec"]["volumes"].as_array().into_iter().flatten().any(mounts)
    })
}
