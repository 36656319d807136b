//! APIServices of other servers: their condition `Available`, and the groups and versions that they add to discovery.
//!
//! This server proxies no requests, so such an APIService never becomes available. If its service is in order, the condition says that the
//! URL gave no response. The conditions are written right after the commit on which they depend, before its client receives the response.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube_apimachinery::go;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::kind::registry::{Registry, ServedKind};
use crate::kind::resource::StorageKey;
use crate::state::{ClusterState, CommitObserver, SERVICE_NAME, writer};
use crate::store::{Change, Key, TypeMeta};

const GROUP: &str = "apiregistration.k8s.io";
const PLURAL: &str = "apiservices";
/// Field manager of the conditions, as in kube-apiserver.
const MANAGER: &str = "kube-apiserver";
/// Maximum number of attempts to write a condition while others write the APIService. The next commit tries again.
const ATTEMPTS: usize = 5;

/// Index of the stored APIServices by name. It observes commits, so it contains each change before the client receives the response.
#[derive(Debug, Default)]
pub(crate) struct RegisteredApis {
    apis: Mutex<BTreeMap<String, RegisteredApi>>,
    /// Whether any APIService belongs to another server. Usually none does, and then requests skip the lock.
    has_remote: AtomicBool,
}

/// Group and version of an APIService, and the service that serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RegisteredApi {
    pub(crate) group: String,
    pub(crate) version: String,
    /// Namespace and name of the Service; `None` if this server serves the group and version.
    service: Option<(String, String)>,
}

impl RegisteredApi {
    fn read(object: &Value) -> Self {
        let spec = &object["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let service = &spec["service"];
        Self {
            group: text(&spec["group"]),
            version: text(&spec["version"]),
            service: (!service.is_null()).then(|| (text(&service["namespace"]), text(&service["name"]))),
        }
    }

    /// Whether another server serves the group and version.
    pub(crate) fn is_remote(&self) -> bool {
        self.service.is_some()
    }
}

impl RegisteredApis {
    /// Reads all stored APIServices, as after a restart.
    pub(crate) fn refresh(&self, cluster: &ClusterState) {
        let table = table();
        let snapshot = cluster.read(|store| store.snapshot(&table));
        for (key, _) in snapshot.range("", None) {
            self.update(cluster, key);
        }
    }

    /// Whether requests for a group and version belong to another server.
    pub(crate) fn is_remote(&self, group: &str, version: &str) -> bool {
        let is_remote = || {
            let apis = self.apis.lock();
            apis.get(&format!("{version}.{group}")).is_some_and(RegisteredApi::is_remote)
        };
        self.has_remote.load(Ordering::Acquire) && is_remote()
    }

    /// Returns the registered groups and versions of which `registry` serves no resource, by name.
    pub(crate) fn beyond(&self, registry: &Registry) -> Vec<RegisteredApi> {
        let apis = self.apis.lock();
        let is_served = |api: &RegisteredApi| {
            registry
                .all()
                .any(|served| served.resource.group == api.group && served.resource.version == api.version)
        };
        apis.values().filter(|api| !api.group.is_empty() && !is_served(api)).cloned().collect()
    }

    /// Reads the current state of one APIService. Returns whether another server serves it.
    fn update(&self, cluster: &ClusterState, key: &Key) -> bool {
        // The store is read under the lock. Of two commits of an object, the one that gets the lock last finds the later state.
        let mut apis = self.apis.lock();
        let stored = cluster.read(|store| store.get(&table(), key).cloned());
        let is_remote = match stored {
            None => {
                apis.remove(key.name());
                false
            }
            Some(stored) => {
                let kind = TypeMeta::new("apiregistration.k8s.io/v1", "APIService");
                let api = RegisteredApi::read(&stored.document.to_value(&kind, stored.revision));
                let is_remote = api.is_remote();
                apis.insert(key.name().to_owned(), api);
                is_remote
            }
        };
        self.has_remote.store(apis.values().any(RegisteredApi::is_remote), Ordering::Release);
        is_remote
    }

    /// Returns the names of the APIServices with a service in the namespace.
    fn in_namespace(&self, namespace: &str) -> Vec<String> {
        let apis = self.apis.lock();
        let is_there = |api: &RegisteredApi| api.service.as_ref().is_some_and(|(of, _)| of == namespace);
        apis.iter().filter(|(_, api)| is_there(api)).map(|(name, _)| name.clone()).collect()
    }
}

impl CommitObserver for Arc<RegisteredApis> {
    fn committed(&self, cluster: &ClusterState, storage: &StorageKey, key: &Key) {
        let table = (storage.group.as_str(), storage.plural.as_str());
        if table == (GROUP, PLURAL) && self.update(cluster, key) {
            check(cluster, key.name());
        }
        // The condition of a remote APIService depends on the Service that it names, and on the endpoints of that Service.
        if [("", "services"), ("discovery.k8s.io", "endpointslices")].contains(&table) {
            self.in_namespace(key.namespace()).iter().for_each(|name| check(cluster, name));
        }
    }
}

fn table() -> StorageKey {
    StorageKey { group: GROUP.to_owned(), plural: PLURAL.to_owned() }
}

/// Writes the condition of an APIService, if it differs.
fn check(cluster: &ClusterState, name: &str) {
    let Some(served) = cluster.registry().get(GROUP, "v1", PLURAL).cloned() else {
        return;
    };
    let key = Key::new("", name);
    for _ in 0..ATTEMPTS {
        let Some(stored) = cluster.read(|store| store.get(served.storage(), &key).cloned()) else {
            return;
        };
        let old = served.value(&stored);
        let mut new = old.clone();
        let problem = problem(cluster, &old["spec"]);
        set_unavailable(&mut new["status"], &problem, &cluster.clock.now_seconds());
        // Each commit of an APIService leads to another check, so an unconditional write would never end.
        if new == old {
            return;
        }
        writer::track_as(cluster, &served, MANAGER, "status", Some(&old), &mut new);
        let change = Change::Put(served.document(&new));
        if cluster.commit_unguarded(served.storage(), &key, Some(stored.revision), change).is_ok() {
            return;
        }
    }
}

/// Reason and message of the condition.
type Problem = (&'static str, String);

/// Returns why an APIService is not available.
fn problem(cluster: &ClusterState, spec: &Value) -> Problem {
    let reference = &spec["service"];
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let port = reference["port"].as_i64().unwrap_or_default();
    let of = format!("service/{name} in {}", go::quote(namespace));
    let Some(service) = get(cluster, "", "services", &Key::new(namespace, name)) else {
        return ("ServiceNotFound", format!("{of} is not present"));
    };
    // As in kube-apiserver, only the type ClusterIP needs the port and ready endpoints. An ExternalName, for example, has neither.
    if service["spec"]["type"] == "ClusterIP" {
        let ports = service["spec"]["ports"].as_array().into_iter().flatten();
        let Some(found) = ports.into_iter().find(|found| found["port"] == port) else {
            return ("ServicePortError", format!("{of} is not listening on port {port}"));
        };
        let port_name = found["name"].as_str().unwrap_or_default();
        let slices = slices_of(cluster, namespace, name);
        if slices.is_empty() {
            return ("EndpointsNotFound", format!("cannot find endpointslices for {of}"));
        }
        if !slices.iter().any(|slice| is_ready(slice, port_name)) {
            let why =
                format!("endpointslices for {of} have no addresses with port name {}", go::quote(port_name));
            return ("MissingEndpoints", why);
        }
    }
    let address = service["spec"]["clusterIP"].as_str().unwrap_or_default();
    let path = |field: &str| spec[field].as_str().unwrap_or_default();
    let url = format!("https://{address}:{port}/apis/{}/{}", path("group"), path("version"));
    let why = format!("failing or missing response from {url}: requests are not proxied by this server");
    ("FailedDiscoveryCheck", why)
}

/// Returns the EndpointSlices of a Service.
fn slices_of(cluster: &ClusterState, namespace: &str, service: &str) -> Vec<Value> {
    let Some(served) = served(cluster, "discovery.k8s.io", "endpointslices") else {
        return Vec::new();
    };
    let snapshot = cluster.read(|store| store.snapshot(served.storage()));
    snapshot
        .range(namespace, None)
        .filter(|(_, stored)| stored.document.labels().get(SERVICE_NAME).is_some_and(|of| of == service))
        .map(|(_, stored)| served.value(stored))
        .collect()
}

/// Whether a slice has a ready endpoint and a port of this name.
fn is_ready(slice: &Value, port_name: &str) -> bool {
    let elements = |field: &str| slice[field].as_array().cloned().unwrap_or_default();
    let is_port = |port: &Value| port["name"] == port_name && port["port"].is_number();
    elements("endpoints").iter().any(|endpoint| endpoint["conditions"]["ready"] != false)
        && elements("ports").iter().any(is_port)
}

fn get(cluster: &ClusterState, group: &str, plural: &str, key: &Key) -> Option<Value> {
    let served = served(cluster, group, plural)?;
    let stored = cluster.read(|store| store.get(served.storage(), key).cloned())?;
    Some(served.value(&stored))
}

fn served(cluster: &ClusterState, group: &str, plural: &str) -> Option<Arc<ServedKind>> {
    cluster.registry().get(group, "v1", plural).cloned()
}

/// Sets the condition `Available` to false. If it already is false, it keeps its `lastTransitionTime`.
fn set_unavailable(status: &mut Value, (reason, message): &Problem, now: &str) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else {
        return;
    };
    let mut condition = json!({
        "type": "Available", "status": "False", "lastTransitionTime": now, "reason": reason, "message": message,
    });
    match conditions.iter_mut().find(|condition| condition["type"] == "Available") {
        Some(old) => {
            if old["status"] == "False" {
                condition["lastTransitionTime"] = old["lastTransitionTime"].take();
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    const APIS: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

    /// Reason and message of the condition of the APIService.
    fn condition(server: &ClusterState) -> [String; 2] {
        let api = get(server, GROUP, PLURAL, &Key::new("", "v1.b.example.com")).unwrap();
        let condition = &api["status"]["conditions"][0];
        assert_eq!(condition["status"], "False");
        ["reason", "message"].map(|field| condition[field].as_str().unwrap().to_owned())
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[tokio::test]
    async fn the_condition_follows_the_service_and_its_endpoints() {
        let server = testing::server();
        let api = json!({
            "metadata": {"name": "v1.b.example.com"},
            "spec": {
                "group": "b.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
                "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "s"},
            },
        });
        testing::create(&server, APIS, &api).unwrap();
        let expected = ["ServiceNotFound", "service/s in \"default\" is not present"];
        assert_eq!(condition(&server), expected);

        let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
        testing::create(&server, "/api/v1/namespaces/default/services", &service).unwrap();
        let expected = ["ServicePortError", "service/s in \"default\" is not listening on port 443"];
        assert_eq!(condition(&server), expected);

        testing::delete(&server, "/api/v1/namespaces/default/services/s").unwrap();
        assert_eq!(condition(&server)[0], "ServiceNotFound");
        let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 443}]}});
        testing::create(&server, "/api/v1/namespaces/default/services", &service).unwrap();
        let expected = ["EndpointsNotFound", "cannot find endpointslices for service/s in \"default\""];
        assert_eq!(condition(&server), expected);

        let slice = |name: &str, ready: bool| {
            json!({
                "metadata": {"name": name, "labels": {SERVICE_NAME: "s"}}, "addressType": "IPv4",
                "endpoints": [{"addresses": ["1.2.3.4"], "conditions": {"ready": ready}}],
                "ports": [{"name": "", "port": 443}],
            })
        };
        let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        testing::create(&server, slices, &slice("a", false)).unwrap();
        assert_eq!(condition(&server)[0], "MissingEndpoints");
        testing::create(&server, slices, &slice("b", true)).unwrap();
        assert_eq!(condition(&server)[0], "FailedDiscoveryCheck");
    }

    #[test]
    fn a_condition_that_stays_false_keeps_its_time() {
        let mut status = json!({});
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z");
        set_unavailable(&mut status, &("ServiceNotFound", "a".to_owned()), early);
        set_unavailable(&mut status, &("ServicePortError", "b".to_owned()), late);
        assert_eq!(
            status["conditions"],
            json!([{
                "type": "Available", "status": "False", "lastTransitionTime": early, "reason": "ServicePortError",
                "message": "b",
            }])
        );
    }
}
