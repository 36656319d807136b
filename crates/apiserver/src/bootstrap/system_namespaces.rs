//! Namespaces of every cluster.

use serde_json::json;

use crate::kinds::namespace::{default, prepare_create};
use crate::state::{ClusterState, writer};
use crate::store::Key;

/// Namespaces of every cluster.
const DEFAULTS: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// Creates the default namespaces.
pub(super) fn create(cluster: &ClusterState) {
    let Some(served) = cluster.registry().get("", "v1", "namespaces").cloned() else {
        return;
    };
    for name in DEFAULTS {
        let mut namespace = json!({
            "metadata": {"name": name, "uid": cluster.uid(), "creationTimestamp": cluster.clock.now_seconds()},
        });
        default(&mut namespace);
        // As for a namespace of a client, the fields that are set after tracking have no manager.
        writer::track_as(cluster, &served, "kube-apiserver", "", None, &mut namespace);
        prepare_create(&mut namespace);
        writer::put_if_absent(cluster, &served, &Key::new("", name), &namespace);
    }
}
