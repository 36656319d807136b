//! Default roles: full access for administrators, discovery for all users, and the user-facing roles.
//!
//! They are documented in "Using RBAC Authorization" of the Kubernetes documentation. `admin`, `edit` and `view` aggregate other
//! roles by label, which is the work of a controller in kube-controller-manager: without it they have no rules, as with envtest.
//! Roles of components and controllers are absent, as is access control itself.

use serde_json::{Value, json};

const EVERYBODY: &[&str] = &["system:authenticated", "system:unauthenticated"];

/// Role name, and the groups that are bound to it by a binding of the same name.
const ROLES: [(&str, &[&str]); 5] = [
    ("cluster-admin", &["system:masters"]),
    ("system:auth-delegator", &[]),
    ("system:basic-user", &["system:authenticated"]),
    ("system:discovery", &["system:authenticated"]),
    ("system:public-info-viewer", EVERYBODY),
];

/// User-facing roles: name, role that includes it, and its own rules. `admin` includes `edit`, which includes `view`.
const USERS: [(&str, Option<&str>, &[Rule]); 3] =
    [("admin", None, ADMIN), ("edit", Some("admin"), EDIT), ("view", Some("edit"), VIEW)];

/// Verbs, group, resources.
type Rule = (&'static [&'static str], &'static str, &'static [&'static str]);

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

const ADMIN: &[Rule] = &[
    (&["create"], "authorization.k8s.io", &["localsubjectaccessreviews"]),
    (ALL, "rbac.authorization.k8s.io", &["rolebindings", "roles"]),
];

/// Includes Secrets and pod execution, which give access as any service account of the namespace.
const EDIT: &[Rule] = &[
    (READ, "", &["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"]),
    (&["impersonate"], "", &["serviceaccounts"]),
    (WRITE, "", &["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"]),
    (&["create"], "", &["pods/eviction"]),
    (
        WRITE,
        "",
        &[
            "configmaps",
            "events",
            "persistentvolumeclaims",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "secrets",
            "serviceaccounts",
            "services",
            "services/proxy",
        ],
    ),
    (&["create"], "", &["serviceaccounts/token"]),
    (
        WRITE,
        "apps",
        &[
            "daemonsets",
            "deployments",
            "deployments/rollback",
            "deployments/scale",
            "replicasets",
            "replicasets/scale",
            "statefulsets",
            "statefulsets/scale",
        ],
    ),
    (WRITE, "autoscaling", &["horizontalpodautoscalers"]),
    (WRITE, "batch", &["cronjobs", "jobs"]),
    (WRITE, "policy", &["poddisruptionbudgets"]),
    (WRITE, "networking.k8s.io", &["ingresses", "networkpolicies"]),
    (ALL, "coordination.k8s.io", &["leases"]),
];

const VIEW: &[Rule] = &[
    (
        READ,
        "",
        &[
            "configmaps",
            "endpoints",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "pods",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "serviceaccounts",
            "services",
            "services/status",
        ],
    ),
    (
        READ,
        "",
        &[
            "bindings",
            "events",
            "limitranges",
            "namespaces/status",
            "pods/log",
            "pods/status",
            "replicationcontrollers/status",
            "resourcequotas",
            "resourcequotas/status",
        ],
    ),
    (READ, "", &["namespaces"]),
    (READ, "discovery.k8s.io", &["endpointslices"]),
    (
        READ,
        "apps",
        &[
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status",
        ],
    ),
    (READ, "autoscaling", &["horizontalpodautoscalers", "horizontalpodautoscalers/status"]),
    (READ, "batch", &["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
    (READ, "policy", &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
    (READ, "networking.k8s.io", &["ingresses", "ingresses/status", "networkpolicies"]),
];

pub(super) fn cluster_roles() -> impl Iterator<Item = Value> {
    let own = ROLES.into_iter().map(|(name, _)| json!({"metadata": metadata(name), "rules": rules(name)}));
    own.chain(USERS.into_iter().flat_map(|(name, includer, rules)| {
        let mut sum = json!({
            "metadata": metadata(name), "rules": null,
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {included_in(name): "true"}}]},
        });
        if let Some(includer) = includer {
            sum["metadata"]["labels"][included_in(includer)] = json!("true");
        }
        let rule = |(verbs, group, resources): &Rule| {
            json!({"verbs": verbs, "apiGroups": [group], "resources": resources})
        };
        let mut part = json!({
            "metadata": metadata(&format!("system:aggregate-to-{name}")),
            "rules": rules.iter().map(rule).collect::<Vec<_>>(),
        });
        part["metadata"]["labels"][included_in(name)] = json!("true");
        [sum, part]
    }))
}

/// Returns the label of roles that are aggregated into a user-facing role.
fn included_in(name: &str) -> String {
    format!("rbac.authorization.k8s.io/aggregate-to-{name}")
}

pub(super) fn cluster_role_bindings() -> impl Iterator<Item = Value> {
    ROLES.into_iter().filter(|(_, groups)| !groups.is_empty()).map(|(name, groups)| {
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
        "system:auth-delegator" => json!([
            {"apiGroups": ["authentication.k8s.io"], "verbs": ["create"], "resources": ["tokenreviews"]},
            {"apiGroups": ["authorization.k8s.io"], "verbs": ["create"], "resources": ["subjectaccessreviews"]},
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
