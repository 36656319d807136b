//! Which rights a list and watch needs, as a rule to copy.

use kube::core::ApiResource;

/// What to add to the operator's rights so that it may list and watch the resource.
pub(super) fn rule(resource: &ApiResource, namespace: Option<&str>) -> String {
    let role = namespace.map_or_else(
        || "a ClusterRole bound by a ClusterRoleBinding".to_owned(),
        |namespace| format!("a Role in namespace {namespace}"),
    );
    let ApiResource { group, plural, .. } = resource;
    format!(
        "give the operator's ServiceAccount {role} with the rule \
         {{apiGroups: [\"{group}\"], resources: [\"{plural}\"], verbs: [\"list\", \"watch\"]}}"
    )
}
