//! Bootstrap: the objects that kube-apiserver creates when it starts.
//!
//! Namespaces come first, then the objects in them. Existing objects, for example from a data file, are left unchanged. Missing objects are
//! created again at the next start.

mod address;
mod api_services;
mod authority_config_maps;
mod priority_levels;
mod roles;
mod system_namespaces;

use std::net::SocketAddr;

use kube_apimachinery::metadata;
use serde_json::{Value, json};

pub(crate) use api_services::follow_definitions;
pub(crate) use authority_config_maps::{ROOT, publish_root};

use crate::state::ClusterState;
use crate::state::writer;
use crate::store::Key;

/// Group of the kinds of priority and fairness.
const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";
/// Field manager of the created objects.
const MANAGER: &str = "kube-apiserver";

/// Creates the missing objects.
pub(crate) fn create(cluster: &ClusterState) {
    system_namespaces::create(cluster);
    for (name, value, description) in PRIORITIES {
        let class = json!({"metadata": {"name": name}, "value": value, "description": description});
        put(cluster, "scheduling.k8s.io", "priorityclasses", class);
    }
    for level in priority_levels::priority_levels() {
        put_as(cluster, priority_levels::PRODUCER, FLOW_CONTROL, "prioritylevelconfigurations", level);
    }
    for schema in priority_levels::flow_schemas(&cluster.clock.now_seconds()) {
        put_as(cluster, priority_levels::PRODUCER, FLOW_CONTROL, "flowschemas", schema);
    }
    roles::create(cluster);
    for (group, plural, object) in address::objects(cluster, cluster.address()) {
        put(cluster, group, plural, object);
    }
    put(cluster, "networking.k8s.io", "servicecidrs", address::range(cluster));
    api_services::create(cluster);
}

/// Returns the ConfigMap with the day since which the use of tokens in Secrets is tracked. The server has no such tokens, but the
/// controller of kube-controller-manager that cleans them up waits for this object.
fn legacy_token_tracking(now: &str) -> Value {
    let day = now.split('T').next().unwrap_or_default();
    json!({
        "metadata": {"name": "kube-apiserver-legacy-service-account-token-tracking", "namespace": "kube-system"},
        "data": {"since": day},
    })
}

/// Publishes the address of a new listener, its certificate authority (PEM) if it uses TLS, and the authorities that sign client
/// certificates if the server accepts these.
pub(crate) fn advertise(
    cluster: &ClusterState,
    address: SocketAddr,
    serving_authority: Option<&str>,
    client_authority: Option<&str>,
) {
    address::advertise(cluster, address);
    // Only programs that connect over a socket, such as kube-controller-manager, wait for this object.
    put(cluster, "", "configmaps", legacy_token_tracking(&cluster.clock.now_seconds()));
    if let Some(authority) = serving_authority {
        cluster.set_authority(authority);
    }
    if let Some(authority) = client_authority {
        authority_config_maps::publish_client_authority(cluster, authority);
    }
}

/// Priority classes of critical pods.
const PRIORITIES: [(&str, i64, &str); 2] = [
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
];

/// Creates an object of a builtin kind, unless its name is taken.
pub(crate) fn put(cluster: &ClusterState, group: &str, plural: &str, object: Value) {
    put_as(cluster, MANAGER, group, plural, object);
}

/// Like [`put`], with another field manager.
fn put_as(cluster: &ClusterState, manager: &str, group: &str, plural: &str, mut object: Value) {
    let Some(served) = cluster.registry().get(group, "v1", plural).cloned() else {
        return;
    };
    let key = Key::new(metadata::text(&object, "namespace"), metadata::text(&object, "name"));
    // Checked before a UID is generated. `put_if_absent` checks again, under the lock.
    if cluster.read(|store| store.get(served.storage(), &key).is_some()) {
        return;
    }
    let fields = metadata::of(&mut object);
    fields.insert("uid".to_owned(), json!(cluster.uid()));
    fields.insert("creationTimestamp".to_owned(), json!(cluster.clock.now_seconds()));
    if served.resource.rules.generation.is_set_on_create() {
        fields.insert("generation".to_owned(), json!(1));
    }
    served.conform(&mut object);
    writer::track_as(cluster, &served, manager, "", None, &mut object);
    writer::put_if_absent(cluster, &served, &key, &object);
}
