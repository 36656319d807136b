//! Publishes certificate authorities to programs in the cluster: those that sign client certificates, and the one of TLS listeners.
//!
//! With several listeners it is the authority of the last one that was opened, and it stays published when that listener closes.

use serde_json::{Value, json};

use super::{MANAGER, put_as};
use crate::state::writer;
use crate::state::{ClusterState, Refused};
use crate::store::{Change, Key};

/// Name of the ConfigMap that publishes the authority in every namespace.
pub(crate) const ROOT: &str = "kube-root-ca.crt";
/// Field manager of that ConfigMap.
const PUBLISHER: &str = "kube-controller-manager";
/// Maximum number of attempts to update an object that other writes change at the same time.
const ATTEMPTS: usize = 64;

/// Publishes the authorities that sign client certificates, so that extension API servers and controllers accept the same clients.
pub(super) fn publish_client_authority(cluster: &ClusterState, authority: &str) {
    let map = json!({
        "metadata": {"namespace": "kube-system", "name": "extension-apiserver-authentication"},
        "data": {"client-ca-file": authority},
    });
    publish(cluster, MANAGER, map);
}

/// Publishes the authority to the pods of a namespace.
pub(crate) fn publish_root(cluster: &ClusterState, namespace: &str, authority: &str) {
    let map = json!({
        "metadata": {
            "namespace": namespace, "name": ROOT,
            "annotations": {
                "kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when \
                    using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                    guaranteed across distributions of Kubernetes clusters.",
            },
        },
        "data": {"ca.crt": authority},
    });
    publish(cluster, PUBLISHER, map);
}

/// Sets the data of a ConfigMap to the data of `wanted`, and leaves its other fields unchanged.
fn publish(cluster: &ClusterState, manager: &str, wanted: Value) {
    let Some(served) = cluster.registry().get("", "v1", "configmaps").cloned() else {
        return;
    };
    let text = |field: &str| wanted["metadata"][field].as_str().unwrap_or_default();
    let key = Key::new(text("namespace"), text("name"));
    for _ in 0..ATTEMPTS {
        let Some(stored) = cluster.read(|store| store.get(served.storage(), &key).cloned()) else {
            return put_as(cluster, manager, "", "configmaps", wanted);
        };
        let old = served.value(&stored);
        let mut new = old.clone();
        for (name, value) in wanted["data"].as_object().into_iter().flatten() {
            new["data"][name] = value.clone();
        }
        if new == old {
            return;
        }
        writer::track_as(cluster, &served, manager, "", Some(&old), &mut new);
        let change = Change::Put(served.document(&new));
        let committed = cluster.commit_unguarded(served.storage(), &key, Some(stored.revision), change);
        if !matches!(committed, Err(Refused::Conflict)) {
            return;
        }
    }
}
