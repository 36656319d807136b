//! Names of resources in limits and quotas. Kubernetes' own names have no domain; all others need one.

use kube_apimachinery::go::quote;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;

/// Kubernetes' own resources of containers, apart from those with the prefix `hugepages-`.
const CONTAINER: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Kubernetes' own resources that only quotas limit.
const QUOTA: [&str; 16] = [
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];
/// Kubernetes' own resources that are counted in whole numbers.
const WHOLE: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Whether the name is one of Kubernetes' own that quotas can limit.
pub(in crate::kinds::builtin) fn is_of_quota(name: &str) -> bool {
    let is_huge = ["hugepages-", "requests.hugepages-"].iter().any(|prefix| name.starts_with(prefix));
    CONTAINER.contains(&name) || QUOTA.contains(&name) || is_huge
}

/// Whether the resource is counted in whole numbers. That applies to objects, and to extended resources such as devices.
pub(in crate::kinds::builtin) fn is_whole(name: &str) -> bool {
    WHOLE.contains(&name) || is_foreign(name) && !name.starts_with("requests.")
}

/// Whether limits of the resource may exceed requests, so that a node can be overcommitted.
pub(in crate::kinds::builtin) fn can_overcommit(name: &str) -> bool {
    !is_foreign(name) && !name.starts_with("hugepages-")
}

/// Whether the name has a domain that is not one of Kubernetes' own.
pub(in crate::kinds::builtin) fn is_foreign(name: &str) -> bool {
    // Like kube-apiserver, this also takes `example-kubernetes.io/` for one of Kubernetes' own domains.
    name.contains('/') && !name.contains("kubernetes.io/")
}

/// Validates the name of a resource.
pub(in crate::kinds::builtin) fn validate(name: &str, path: &str) -> Vec<FieldError> {
    let wrong = names::qualified(name);
    if !wrong.is_empty() {
        return wrong.iter().map(|why| FieldError::invalid(path, &quote(name), why)).collect();
    }
    // `storage` is a resource of volume claims.
    if name.contains('/') || is_of_quota(name) || name == "storage" {
        return Vec::new();
    }
    vec![FieldError::invalid(path, &quote(name), "must be a standard resource type or fully qualified")]
}

/// Validates the name of a resource in a quota.
pub(in crate::kinds::builtin) fn validate_of_quota(name: &str, path: &str) -> Vec<FieldError> {
    let mut errors = validate(name, path);
    if !name.contains('/') && !is_of_quota(name) {
        errors.push(FieldError::invalid(path, &quote(name), "must be a standard resource for quota"));
    }
    errors
}

/// Validates the name of a resource that containers request.
pub(in crate::kinds::builtin) fn validate_of_container(name: &str, path: &str) -> Vec<FieldError> {
    let mut errors = validate(name, path);
    let why = if !name.contains('/') {
        let is_standard = CONTAINER.contains(&name) || name.starts_with("hugepages-");
        (!is_standard).then_some("must be a standard resource for containers")
    } else {
        // Quotas limit extended resources under the prefix `requests.`, so the prefixed name must be valid, too.
        let is_valid = || names::qualified(&format!("requests.{name}")).is_empty();
        let is_extended = !name.starts_with("requests.") && is_valid();
        (is_foreign(name) && !is_extended).then_some("doesn't follow extended resource name standard")
    };
    errors.extend(why.map(|why| FieldError::invalid(path, &quote(name), why)));
    errors
}
