//! APIServices for all served groups and versions, as an aggregator registers them: builtin groups at the start, custom groups with their
//! definitions.
//!
//! They only inform clients about the available APIs. Changing or deleting an APIService has no effect. It is restored at the next start,
//! or when a definition of its group and version changes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::put;
use crate::state::ClusterState;
use crate::store::{Change, Key};

const GROUP: &str = "apiregistration.k8s.io";
const PLURAL: &str = "apiservices";
/// Label that names the origin of an APIService: the start of the server, or a definition.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Priorities of kube-apiserver's groups. The aggregator's own group has no APIService.
const PRIORITIES: [(&str, u32); 21] = [
    ("", 18_000),
    ("apps", 17_800),
    ("events.k8s.io", 17_750),
    ("authentication.k8s.io", 17_700),
    ("authorization.k8s.io", 17_600),
    ("autoscaling", 17_500),
    ("batch", 17_400),
    ("certificates.k8s.io", 17_300),
    ("networking.k8s.io", 17_200),
    ("policy", 17_100),
    ("rbac.authorization.k8s.io", 17_000),
    ("storage.k8s.io", 16_800),
    ("admissionregistration.k8s.io", 16_700),
    ("apiextensions.k8s.io", 16_700),
    ("scheduling.k8s.io", 16_600),
    ("coordination.k8s.io", 16_500),
    ("node.k8s.io", 16_300),
    ("discovery.k8s.io", 16_200),
    ("resource.k8s.io", 16_200),
    ("flowcontrol.apiserver.k8s.io", 16_100),
    ("internal.apiserver.k8s.io", 16_000),
];
/// Priority of custom groups.
const CUSTOM: u32 = 1000;

pub(crate) type GroupVersion = (String, String);

/// Registers the builtin groups.
pub(super) fn create(cluster: &ClusterState) {
    for (group, version) in builtin(cluster) {
        let Some((_, group_priority)) = PRIORITIES.iter().find(|(known, _)| *known == group) else {
            continue;
        };
        let version_priority = match (&*group, &*version) {
            ("", _) => 1,
            ("autoscaling", "v2") => 30,
            ("flowcontrol.apiserver.k8s.io", "v1") => 21,
            _ => 15,
        };
        register(cluster, "onstart", &group, &version, *group_priority, version_priority);
    }
}

/// Registers the groups and versions of definitions among `changed`, and removes those that no definition defines any more.
pub(crate) fn follow_definitions(cluster: &ClusterState, changed: &BTreeSet<GroupVersion>) {
    let registry = cluster.registry();
    let Some(resource) = registry.get(GROUP, "v1", PLURAL) else {
        return;
    };
    for (group, version) in changed {
        if registry.defines(group, version) {
            register(cluster, "true", group, version, CUSTOM, 100);
            continue;
        }
        let key = Key::new("", &name(group, version));
        let Some(stored) = cluster.read(|store| store.get(resource.storage(), &key).cloned()) else {
            continue;
        };
        if stored.document.labels().get(MANAGED).is_some_and(|by| by == "true") {
            let revision = Some(stored.revision);
            // On a conflict another client has changed the APIService, which then stays as it is.
            let _ = cluster.commit_unguarded(resource.storage(), &key, revision, Change::Delete);
        }
    }
}

/// Returns the groups and versions of builtin kinds.
fn builtin(cluster: &ClusterState) -> BTreeSet<GroupVersion> {
    let registry = cluster.registry();
    let served = registry.all().filter(|served| !served.is_custom());
    served.map(|served| (served.resource.group.clone(), served.resource.version.clone())).collect()
}

fn name(group: &str, version: &str) -> String {
    format!("{version}.{group}")
}

fn register(
    cluster: &ClusterState,
    managed: &str,
    group: &str,
    version: &str,
    group_priority: u32,
    version_priority: u32,
) {
    let mut spec = json!({
        "version": version, "groupPriorityMinimum": group_priority, "versionPriority": version_priority,
    });
    if !group.is_empty() {
        spec["group"] = json!(group);
    }
    let available = json!({
        "type": "Available", "status": "True", "lastTransitionTime": cluster.clock.now_seconds(),
        "reason": "Local", "message": "Local APIServices are always available",
    });
    let labels: Value = json!({MANAGED: managed});
    let service = json!({
        "metadata": {"name": name(group, version), "labels": labels},
        "spec": spec, "status": {"conditions": [available]},
    });
    put(cluster, GROUP, PLURAL, service);
}
