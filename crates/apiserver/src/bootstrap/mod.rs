//! Bootstrap: the objects that kube-apiserver creates when it starts.
//!
//! Namespaces come first, then the objects in them. Existing objects, for example from a data file, are left unchanged.
//! Deleted ones are created again at the next start.

mod address;
mod api_services;
mod certificates;
mod flow_control;
mod roles;

use std::net::SocketAddr;

use kube_apimachinery::metadata;
use serde_json::{Value, json};

pub(crate) use api_services::follow_definitions;
pub(crate) use certificates::{ROOT, publish_root};

use crate::namespaces;
use crate::server::Server;
use crate::store::Key;
use crate::verbs::{create, update};

/// Field manager of these objects.
const MANAGER: &str = "kube-apiserver";

/// Creates the missing objects.
pub(crate) fn create(server: &Server) {
    namespaces::create_defaults(server);
    for (name, value, description) in PRIORITIES {
        let class = json!({"metadata": {"name": name}, "value": value, "description": description});
        put(server, "scheduling.k8s.io", "priorityclasses", class);
    }
    for level in flow_control::priority_levels() {
        put(server, "flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", level);
    }
    for schema in flow_control::flow_schemas(&server.clock.now_seconds()) {
        put(server, "flowcontrol.apiserver.k8s.io", "flowschemas", schema);
    }
    for role in roles::cluster_roles() {
        put(server, "rbac.authorization.k8s.io", "clusterroles", role);
    }
    for binding in roles::cluster_role_bindings() {
        put(server, "rbac.authorization.k8s.io", "clusterrolebindings", binding);
    }
    for (group, plural, object) in address::objects(server.address()) {
        put(server, group, plural, object);
    }
    put(server, "networking.k8s.io", "servicecidrs", address::range(&server.clock.now_seconds()));
    api_services::create(server);
}

/// Returns the ConfigMap with the day since which the use of tokens in Secrets is tracked. The server has no such tokens, but
/// the controller that cleans them up waits for this object.
fn legacy_token_tracking(now: &str) -> Value {
    let day = now.split('T').next().unwrap_or_default();
    json!({
        "metadata": {"name": "kube-apiserver-legacy-service-account-token-tracking", "namespace": "kube-system"},
        "data": {"since": day},
    })
}

/// Publishes the address of a new listener, and its certificate authority (PEM) if it uses TLS.
pub(crate) fn advertise(server: &Server, address: SocketAddr, authority: Option<&str>) {
    address::advertise(server, address);
    // Only programs that connect over a socket wait for this object, such as kube-controller-manager.
    put(server, "", "configmaps", legacy_token_tracking(&server.clock.now_seconds()));
    if let Some(authority) = authority {
        server.set_authority(authority);
        certificates::advertise(server, authority);
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

/// Creates an object of a builtin kind, unless one with its name exists.
pub(crate) fn put(server: &Server, group: &str, plural: &str, object: Value) {
    put_as(server, MANAGER, group, plural, object);
}

/// Like [`put`], with another field manager.
fn put_as(server: &Server, manager: &str, group: &str, plural: &str, mut object: Value) {
    let Some(served) = server.registry().get(group, "v1", plural).cloned() else {
        return;
    };
    let key = Key::new(metadata::text(&object, "namespace"), metadata::text(&object, "name"));
    // Before a UID is generated. `put_if_absent` checks again, under the lock.
    if server.read(|store| store.get(served.storage(), &key).is_some()) {
        return;
    }
    let fields = metadata::of(&mut object);
    fields.insert("uid".to_owned(), json!(server.uid()));
    fields.insert("creationTimestamp".to_owned(), json!(server.clock.now_seconds()));
    if served.resource.rules.generation != crate::resource::Generation::Never {
        fields.insert("generation".to_owned(), json!(1));
    }
    served.conform(&mut object);
    update::track_as(server, &served, manager, "", None, &mut object);
    create::put_if_absent(server, &served, &key, &object);
}
