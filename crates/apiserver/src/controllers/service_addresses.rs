//! IPAddresses: an object for each cluster IP of a Service, named after the address.
//!
//! They only inform clients: the addresses in use are those of the stored Services. kube-apiserver creates an IPAddress before its Service;
//! here it follows right after the commit of the Service, before its client receives the response.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::Arc;

use kube_apimachinery::metadata;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha512};

use crate::kind::registry::ServedKind;
use crate::kind::resource::StorageKey;
use crate::state::{ClusterState, CommitObserver, writer};
use crate::store::{Change, Key, Store, Stored, TypeMeta};

const GROUP: &str = "networking.k8s.io";
const PLURAL: &str = "ipaddresses";
/// Field manager of the objects, as in kube-apiserver.
const MANAGER: &str = "kube-apiserver";
/// Label with the allocator that manages an IPAddress.
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
const ALLOCATOR: &str = "ipallocator.k8s.io";

/// Addresses of each Service, as far as IPAddresses were written for them.
#[derive(Debug, Default)]
pub(crate) struct ServiceAddresses(Mutex<BTreeMap<Key, Vec<Ipv4Addr>>>);

impl ServiceAddresses {
    /// Reads all stored Services, as after a restart.
    pub(crate) fn refresh(&self, cluster: &ClusterState) {
        let snapshot = cluster.read(|store| store.snapshot(&services()));
        for (key, _) in snapshot.range("", None) {
            self.update(cluster, key);
        }
    }

    /// Writes and removes the IPAddresses of a Service.
    fn update(&self, cluster: &ClusterState, service: &Key) {
        let Some(served) = cluster.registry().get(GROUP, "v1", PLURAL).cloned() else {
            return;
        };
        let (now, before) = {
            // The store is read under the lock: of two commits of a Service, the one that gets the lock last finds the later state.
            let mut known = self.0.lock();
            let now = cluster.read(|store| addresses(store, service));
            let before = if now.is_empty() {
                known.remove(service)
            } else {
                known.insert(service.clone(), now.clone())
            };
            (now, before.unwrap_or_default())
        };
        for address in before.iter().filter(|address| !now.contains(address)) {
            release(cluster, &served, service, *address);
        }
        for address in now.iter().filter(|address| !before.contains(address)) {
            create(cluster, &served, service, *address);
        }
    }
}

impl CommitObserver for Arc<ServiceAddresses> {
    fn committed(&self, cluster: &ClusterState, storage: &StorageKey, key: &Key) {
        if storage.group.is_empty() && storage.plural == "services" {
            self.update(cluster, key);
        }
    }
}

fn services() -> StorageKey {
    StorageKey::core("services")
}

/// Returns the cluster IPs of a stored Service; none if it does not exist, or is headless.
fn addresses(store: &Store<StorageKey>, service: &Key) -> Vec<Ipv4Addr> {
    let Some(stored) = store.get(&services(), service) else {
        return Vec::new();
    };
    let object = stored.document.to_value(&TypeMeta::new("v1", "Service"), stored.revision);
    let texts = object["spec"]["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str);
    texts.filter_map(|text| text.parse().ok()).collect()
}

/// Creates the IPAddress of a Service, unless it exists.
fn create(cluster: &ClusterState, served: &ServedKind, service: &Key, address: Ipv4Addr) {
    let key = Key::new("", &address.to_string());
    let (parent, exists) = cluster.read(|store| {
        (store.get(&services(), service).cloned(), store.get(served.storage(), &key).is_some())
    });
    let Some(parent) = parent.filter(|_| !exists) else {
        return;
    };
    let mut object = json!({
        "metadata": {
            "name": address, "uid": uid(&parent, address), "creationTimestamp": cluster.clock.now_seconds(),
            "labels": {"ipaddress.kubernetes.io/ip-family": "IPv4", MANAGED_BY: ALLOCATOR},
        },
        "spec": {
            "parentRef": {"resource": "services", "namespace": service.namespace(), "name": service.name()},
        },
    });
    served.conform(&mut object);
    writer::track_as(cluster, served, MANAGER, "", None, &mut object);
    // The Service may have lost the address meanwhile. Its own commit has released it already.
    let has_it = |store: &Store<StorageKey>| {
        if addresses(store, service).contains(&address) { Ok(()) } else { Err(()) }
    };
    // On a conflict, a client has created the object.
    let _ = cluster.commit(served.storage(), &key, None, Change::Put(served.document(&object)), has_it);
}

/// Returns the UID of a new IPAddress. It is computed from the state of the Service that needs the address, so that Services do not change
/// which UIDs and names the server generates from its seed.
fn uid(service: &Stored, address: Ipv4Addr) -> String {
    let object = service.document.to_value(&TypeMeta::new("v1", "Service"), service.revision);
    let source = format!("{} {} {address}", metadata::text(&object, "uid"), service.revision);
    let mut bytes: Vec<u8> = Sha512::digest(source).iter().copied().take(16).collect();
    // Version 4, and the variant of RFC 9562.
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        let dash = if [4, 6, 8, 10].contains(&at) { "-" } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{dash}{byte:02x}");
    }
    text
}

/// Removes the IPAddress of a Service. One that names another parent belongs to a client.
fn release(cluster: &ClusterState, served: &ServedKind, service: &Key, address: Ipv4Addr) {
    let key = Key::new("", &address.to_string());
    let Some(stored) = cluster.read(|store| store.get(served.storage(), &key).cloned()) else {
        return;
    };
    let parent = served.value(&stored)["spec"]["parentRef"].take();
    let is_own = stored.document.labels().get(MANAGED_BY).is_some_and(|by| by == ALLOCATOR)
        && parent["resource"] == "services"
        && parent["namespace"] == service.namespace()
        && parent["name"] == service.name();
    if !is_own {
        return;
    }
    let lacks_it = |store: &Store<StorageKey>| {
        if addresses(store, service).contains(&address) { Err(()) } else { Ok(()) }
    };
    // On a conflict, a client has changed the object, which then stays as it is.
    let _ = cluster.commit(served.storage(), &key, Some(stored.revision), Change::Delete, lacks_it);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Running};

    const SERVICES: &str = "/api/v1/namespaces/default/services";

    /// Names of the IPAddresses of the Service `s`.
    fn names(server: &Running) -> Vec<String> {
        let served = server.registry().get(GROUP, "v1", PLURAL).cloned().unwrap();
        let snapshot = server.read(|store| store.snapshot(served.storage()));
        snapshot
            .range("", None)
            .filter(|(_, stored)| served.value(stored)["spec"]["parentRef"]["name"] == "s")
            .map(|(key, _)| key.name().to_owned())
            .collect()
    }

    #[tokio::test]
    async fn a_service_has_an_address_object_as_long_as_it_exists() {
        let server = testing::server();
        let address = server.service_range().0;
        let address = Ipv4Addr::from(u32::from(address) + 9).to_string();
        let service =
            json!({"metadata": {"name": "s"}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}});
        testing::create(&server, SERVICES, &service).unwrap();
        assert_eq!(names(&server), [address]);
        testing::delete(&server, &format!("{SERVICES}/s")).unwrap();
        assert_eq!(names(&server), [""; 0]);
        let headless =
            json!({"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}});
        testing::create(&server, SERVICES, &headless).unwrap();
        assert_eq!(names(&server), [""; 0]);
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[tokio::test]
    async fn the_object_is_that_of_the_allocator() {
        let server = testing::server();
        let served = server.registry().get(GROUP, "v1", PLURAL).cloned().unwrap();
        let key = Key::new("", &server.service_range().0.to_string());
        let stored = server.read(|store| store.get(served.storage(), &key).cloned()).unwrap();
        let object = served.value(&stored);
        assert_eq!(
            object["metadata"]["labels"],
            json!({"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"})
        );
        assert_eq!(
            object["spec"],
            json!({"parentRef": {"resource": "services", "namespace": "default", "name": "kubernetes"}})
        );
        let uid = object["metadata"]["uid"].as_str().unwrap();
        let parts: Vec<usize> = uid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12], "{uid}");
        let entry = &object["metadata"]["managedFields"][0];
        assert_eq!(entry["manager"], "kube-apiserver");
        assert_eq!(
            entry["fieldsV1"],
            json!({
                "f:metadata": {"f:labels": {
                    ".": {}, "f:ipaddress.kubernetes.io/ip-family": {}, "f:ipaddress.kubernetes.io/managed-by": {},
                }},
                "f:spec": {"f:parentRef": {".": {}, "f:name": {}, "f:namespace": {}, "f:resource": {}}},
            })
        );
    }
}
