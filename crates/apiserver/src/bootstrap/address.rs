//! Publishes the server's address to programs in the cluster: the Service `kubernetes`, its Endpoints and its EndpointSlice.
//!
//! As in kube-apiserver, the objects are written when the server starts, and updated when it begins to listen. With several listeners they
//! name the last one that was opened, and they keep its address when it closes.

use std::net::{Ipv4Addr, SocketAddr};

use serde_json::{Value, json};

use super::{MANAGER, put};
use crate::state::writer;
use crate::state::{ClusterState, Refused, SERVICE_NAME};
use crate::store::{Change, Key};

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";
/// Maximum number of attempts to update an object that other writes change at the same time.
const ATTEMPTS: usize = 64;

/// Returns the objects that contain the address, as (group, plural, object).
pub(super) fn objects(
    cluster: &ClusterState,
    address: SocketAddr,
) -> [(&'static str, &'static str, Value); 3] {
    [
        ("", "services", service(cluster.service_range().0, address)),
        ("", "endpoints", endpoints(address)),
        ("discovery.k8s.io", "endpointslices", endpoint_slice(address)),
    ]
}

/// Publishes a new address.
pub(super) fn advertise(cluster: &ClusterState, address: SocketAddr) {
    cluster.set_address(address);
    for (group, plural, object) in objects(cluster, address) {
        replace(cluster, group, plural, object);
    }
}

/// The Service by which programs in the cluster find the server.
fn service(cluster_ip: Ipv4Addr, address: SocketAddr) -> Value {
    json!({
        "metadata": {
            "name": NAME, "namespace": NAMESPACE,
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": cluster_ip, "clusterIPs": [cluster_ip], "type": "ClusterIP", "sessionAffinity": "None",
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": address.port()}],
        },
        "status": {"loadBalancer": {}},
    })
}

/// The ServiceCIDR of the range of cluster IPs.
pub(super) fn range(cluster: &ClusterState) -> Value {
    let condition = json!({
        ".": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:status": {}, "f:type": {},
    });
    json!({
        "metadata": {"name": NAME, "managedFields": [{
            "manager": "kubernetes-service-cidr-controller", "operation": "Apply", "subresource": "status",
            "apiVersion": "networking.k8s.io/v1", "time": cluster.clock.now_seconds(), "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": condition}}},
        }]},
        "spec": {"cidrs": [cluster.service_range().1.to_string()]},
        "status": {"conditions": [{
            "type": "Ready", "status": "True", "lastTransitionTime": cluster.clock.now_seconds(),
            "reason": "", "message": "Kubernetes default Service CIDR is ready",
        }]},
    })
}

fn endpoints(address: SocketAddr) -> Value {
    json!({
        "metadata": {
            "name": NAME, "namespace": NAMESPACE,
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{
            "addresses": [{"ip": address.ip()}],
            "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}],
        }],
    })
}

fn endpoint_slice(address: SocketAddr) -> Value {
    json!({
        "metadata": {
            "name": NAME, "namespace": NAMESPACE, "labels": {SERVICE_NAME: "kubernetes"},
        },
        "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [address.ip()], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}],
    })
}

/// Sets the address in an object to the address in `wanted`, and leaves its other fields unchanged.
fn replace(cluster: &ClusterState, group: &str, plural: &str, wanted: Value) {
    let Some(served) = cluster.registry().get(group, "v1", plural).cloned() else {
        return;
    };
    let key = Key::new(NAMESPACE, NAME);
    for _ in 0..ATTEMPTS {
        let Some(stored) = cluster.read(|store| store.get(served.storage(), &key).cloned()) else {
            return put(cluster, group, plural, wanted);
        };
        let old = served.value(&stored);
        // The address type of an EndpointSlice is immutable, so the slice is deleted and created again.
        let change = if old["addressType"] == wanted["addressType"] {
            let mut new = old.clone();
            for field in ["subsets", "endpoints", "ports"] {
                if !wanted[field].is_null() {
                    new[field] = wanted[field].clone();
                }
            }
            if !wanted["spec"].is_null() {
                new["spec"]["ports"] = wanted["spec"]["ports"].clone();
            }
            served.conform(&mut new);
            if new == old {
                return;
            }
            if let Some(generation) = old["metadata"]["generation"].as_i64() {
                new["metadata"]["generation"] = json!(generation + 1);
            }
            writer::track_as(cluster, &served, MANAGER, "", Some(&old), &mut new);
            Change::Put(served.document(&new))
        } else {
            Change::Delete
        };
        let is_deleted = matches!(change, Change::Delete);
        match cluster.commit_unguarded(served.storage(), &key, Some(stored.revision), change) {
            // Another write came first: the next attempt starts from its result.
            Err(Refused::Conflict) => {}
            Ok(_) if is_deleted => return put(cluster, group, plural, wanted),
            Ok(_) | Err(Refused::Because(_)) => return,
        }
    }
}
