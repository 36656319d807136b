//! What is there before anybody asks: the objects that a kube-apiserver makes when it starts.
//!
//! Namespaces first, then what is in them. An object that exists, in a data file say, is left as it is; one that was deleted
//! comes back with the next start.

mod address;
mod api_services;
mod certificates;
mod flow_control;
mod roles;

use std::net::SocketAddr;

use serde_json::{Value, json};

pub(crate) use api_services::follow_definitions;
pub(crate) use certificates::{ROOT, publish_root};

use crate::namespaces;
use crate::server::Server;
use crate::store::Key;
use crate::verbs::{create, metadata, update};

/// Who owns these objects.
const MANAGER: &str = "kube-apiserver";

/// Creates what is not there.
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

/// From now on the server is reached here, with TLS by those who trust this authority, a certificate as PEM.
pub(crate) fn advertise(server: &Server, address: SocketAddr, authority: Option<&str>) {
    address::advertise(server, address);
    if let Some(authority) = authority {
        server.set_authority(authority);
        certificates::advertise(server, authority);
    }
}

/// Priorities of pods that a cluster cannot do without.
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

/// Stores an object of a builtin kind, unless there is one of that name.
pub(crate) fn put(server: &Server, group: &str, plural: &str, object: Value) {
    put_as(server, MANAGER, group, plural, object);
}

/// The same, owned by `manager`.
fn put_as(server: &Server, manager: &str, group: &str, plural: &str, mut object: Value) {
    let Some(served) = server.registry().get(group, "v1", plural).cloned() else {
        return;
    };
    let key = Key::new(metadata::text(&object, "namespace"), metadata::text(&object, "name"));
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
