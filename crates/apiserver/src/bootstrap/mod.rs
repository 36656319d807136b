//! What is there before anybody asks: the objects that a kube-apiserver makes when it starts.
//!
//! Namespaces first, then what is in them. An object that exists, in a data file say, is left as it is; one that was deleted
//! comes back with the next start.

mod flow_control;
mod roles;

use serde_json::{Value, json};

use crate::namespaces;
use crate::server::Server;
use crate::store::Key;
use crate::verbs::{create, metadata, update};

/// Who owns these objects.
const MANAGER: &str = "kube-apiserver";
/// The first address of the range from which a kube-apiserver takes those of Services.
const CLUSTER_IP: &str = "10.96.0.1";
/// Where the server is. It may have no address at all, or several, and later than this.
const ADDRESS: &str = "127.0.0.1";
const PORT: u16 = 6443;

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
    put(server, "", "services", service());
    put(server, "", "endpoints", endpoints());
    put(server, "discovery.k8s.io", "endpointslices", endpoint_slice());
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

/// How programs in the cluster find the server.
fn service() -> Value {
    json!({
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": CLUSTER_IP, "clusterIPs": [CLUSTER_IP], "type": "ClusterIP", "sessionAffinity": "None",
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": PORT}],
        },
        "status": {"loadBalancer": {}},
    })
}

fn endpoints() -> Value {
    json!({
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{
            "addresses": [{"ip": ADDRESS}],
            "ports": [{"name": "https", "port": PORT, "protocol": "TCP"}],
        }],
    })
}

fn endpoint_slice() -> Value {
    json!({
        "metadata": {
            "name": "kubernetes", "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": PORT, "protocol": "TCP"}],
    })
}

/// Stores an object of a builtin kind, unless there is one of that name.
pub(crate) fn put(server: &Server, group: &str, plural: &str, mut object: Value) {
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
    update::track_as(server, &served, MANAGER, "", None, &mut object);
    create::put_if_absent(server, &served, &key, &object);
}
