//! RBAC objects: the ServiceAccount and the roles of the operator, and roles for users of its kinds. Also the namespace.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::{ManifestObject, Part, RenderInput};

/// Access levels that Kubernetes aggregates: name, verbs for the objects, and verbs for their status.
const LEVELS: [(&str, &[&str], &[&str]); 3] = [
    ("view", &["get", "list", "watch"], &["get"]),
    ("edit", &["create", "update", "patch", "delete", "deletecollection"], &[]),
    ("admin", &[], &["update", "patch"]),
];

/// The namespace, unless it is one that every cluster has.
pub(super) fn namespace(target: &RenderInput<'_>) -> Option<ManifestObject> {
    let name = target.namespace;
    if name == "default" || name.starts_with("kube-") {
        return None;
    }
    let object = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": name, "labels": { "pod-security.kubernetes.io/enforce": "restricted" } },
    });
    Some(ManifestObject::new(Part::Namespace, object))
}

/// The ServiceAccount and the roles.
pub(super) fn objects(target: &RenderInput<'_>) -> Vec<ManifestObject> {
    let account = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": { "name": target.name(), "namespace": target.namespace },
    });
    let mut objects = vec![account];
    objects.extend(own_roles(target));
    objects.extend(LEVELS.iter().filter_map(|(level, verbs, status)| role_of(target, level, verbs, status)));
    if target.program.ports.metrics.is_some_and(|metrics| metrics.authorized) {
        objects.push(metrics_reader(target));
    }
    objects.into_iter().map(|object| ManifestObject::new(Part::Rbac, object)).collect()
}

/// Roles of the operator, with their bindings.
fn own_roles(target: &RenderInput<'_>) -> Vec<Value> {
    let (name, namespace) = (target.name(), target.namespace);
    let roles = target.program.declarations.roles(name, namespace);
    let bindings = roles.bindings(name, namespace);
    let mut objects = Vec::new();
    objects.extend(roles.cluster_role.as_ref().map(json));
    objects.extend(bindings.cluster_role_binding.as_ref().map(json));
    for (role, binding) in roles.roles.iter().zip(&bindings.role_bindings) {
        objects.extend([json(role), json(binding)]);
    }
    objects
}

fn json<K: Serialize>(object: &K) -> Value {
    serde_json::to_value(object).expect("types of Kubernetes have a JSON form")
}

/// The role of readers of metrics and explanations. The manifests do not bind it; a binding to Prometheus is an example.
fn metrics_reader(target: &RenderInput<'_>) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": format!("{}-metrics-reader", target.name()) },
        "rules": [{ "nonResourceURLs": ["/metrics", "/explain", "/explain/*"], "verbs": ["get"] }],
    })
}

/// The role of users of the kinds at a level, unless it would be empty.
fn role_of(target: &RenderInput<'_>, level: &str, verbs: &[&str], status: &[&str]) -> Option<Value> {
    let mut by_group: BTreeMap<&str, (Vec<String>, Vec<String>)> = BTreeMap::new();
    for definition in &target.program.definitions {
        let spec = &definition.spec;
        let (objects, subresources) = by_group.entry(&spec.group).or_default();
        let plural = &spec.names.plural;
        objects.push(plural.clone());
        let served = || spec.versions.iter().filter_map(|version| version.subresources.as_ref());
        if served().any(|subresources| subresources.status.is_some()) {
            subresources.push(format!("{plural}/status"));
        }
    }
    let mut rules = Vec::new();
    for (group, (objects, subresources)) in by_group {
        for (resources, verbs) in [(objects, verbs), (subresources, status)] {
            if !resources.is_empty() && !verbs.is_empty() {
                rules.push(json!({ "apiGroups": [group], "resources": resources, "verbs": verbs }));
            }
        }
    }
    (!rules.is_empty()).then(|| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {
                "name": format!("{}-{level}", target.name()),
                "labels": { format!("rbac.authorization.k8s.io/aggregate-to-{level}"): "true" },
            },
            "rules": rules,
        })
    })
}
