//! The roles that let a cluster be used at all: everything for administrators, and for all others to look around.
//!
//! What they are is in the documentation of Kubernetes, "Using RBAC Authorization", under default roles. The roles for users
//! of namespaces (`admin`, `edit`, `view`) and for components are absent, as is access control itself.

use serde_json::{Value, json};

const EVERYBODY: &[&str] = &["system:authenticated", "system:unauthenticated"];

/// (name, who has it).
const ROLES: [(&str, &[&str]); 4] = [
    ("cluster-admin", &["system:masters"]),
    ("system:basic-user", &["system:authenticated"]),
    ("system:discovery", &["system:authenticated"]),
    ("system:public-info-viewer", EVERYBODY),
];

pub(super) fn cluster_roles() -> impl Iterator<Item = Value> {
    ROLES.into_iter().map(|(name, _)| json!({"metadata": metadata(name), "rules": rules(name)}))
}

/// Each role is bound by a binding of its name.
pub(super) fn cluster_role_bindings() -> impl Iterator<Item = Value> {
    ROLES.into_iter().map(|(name, groups)| {
        let subject =
            |group| json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": group});
        json!({
            "metadata": metadata(name),
            "roleRef": {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": name},
            "subjects": groups.iter().map(subject).collect::<Vec<_>>(),
        })
    })
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    })
}

fn rules(role: &str) -> Value {
    let health = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
    match role {
        "cluster-admin" => json!([
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ]),
        "system:basic-user" => json!([
            {
                "apiGroups": ["authorization.k8s.io"], "verbs": ["create"],
                "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
            },
            {"apiGroups": ["authentication.k8s.io"], "verbs": ["create"], "resources": ["selfsubjectreviews"]},
        ]),
        "system:discovery" => {
            let documents = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"];
            let urls: Vec<_> = documents.into_iter().chain(health).collect();
            json!([{"nonResourceURLs": urls, "verbs": ["get"]}])
        }
        _ => json!([{"nonResourceURLs": health, "verbs": ["get"]}]),
    }
}
