//! Plugin `PodSecurity`: pods must meet the pod security standard that the labels of their namespace enforce.
//!
//! Standards for warnings also apply to the pod templates of workloads. A stricter standard of a namespace warns about its existing pods.
//! [`security_policy`] reads the labels, and [`security_checks`] evaluates a standard; both are pure.

mod baseline_checks;
mod restricted_checks;
mod security_checks;
mod security_policy;

use std::collections::{BTreeMap, BTreeSet};

use kube_apimachinery::go;
use kube_apimachinery::metadata;
use kube_apimachinery::status::ApiError;
use serde_json::Value;

use super::rules::WriteRule;
use super::{Attributes, Operation};
use crate::store::Key;
use security_checks::{CheckedPod, Violation, violations};
use security_policy::{Level, PodSecurityPolicy, Standard};

/// Maximum number of existing pods that a new standard of their namespace is compared with.
const MAX_PODS: usize = 3000;
/// Subresources of pods that do not change containers.
const IGNORED: [&str; 8] = ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];
/// Kinds with pod templates, and the path of the template.
const TEMPLATES: [(&str, &str, &str); 8] = [
    ("", "podtemplates", "/template"),
    ("", "replicationcontrollers", "/spec/template"),
    ("apps", "daemonsets", "/spec/template"),
    ("apps", "deployments", "/spec/template"),
    ("apps", "replicasets", "/spec/template"),
    ("apps", "statefulsets", "/spec/template"),
    ("batch", "cronjobs", "/spec/jobTemplate/spec/template"),
    ("batch", "jobs", "/spec/template"),
];

pub(super) struct PodSecurity;

impl WriteRule for PodSecurity {
    fn validate(&self, attributes: &Attributes<'_>, object: &Value) -> Result<(), ApiError> {
        if attributes.is_of("", "namespaces") {
            return validate_namespace(attributes, object);
        }
        if attributes.is_below("", "pods") {
            return validate_pod(attributes, object);
        }
        let template = TEMPLATES.iter().find(|(group, plural, _)| attributes.is_of(group, plural));
        if let Some(template) = template.and_then(|(_, _, path)| object.pointer(path))
            && let Some(policy) = policy_of(attributes)
        {
            warn(attributes, policy.warn, &CheckedPod::of(template));
        }
        Ok(())
    }
}

/// Checks the labels of a namespace, and warns if its pods violate a new standard.
fn validate_namespace(attributes: &Attributes<'_>, namespace: &Value) -> Result<(), ApiError> {
    let (new, errors) = PodSecurityPolicy::of(namespace);
    let old = attributes.old.filter(|_| attributes.operation == Operation::Update).map(PodSecurityPolicy::of);
    let known = old.as_ref().map(|(_, errors)| errors);
    // Labels that were invalid before do not block other changes of the namespace.
    if !errors.is_empty() && known != Some(&errors) {
        return Err(ApiError::invalid("", "Namespace", attributes.name, errors));
    }
    let Some((old, _)) = old else { return Ok(()) };
    // A lower level of the same version cannot add violations.
    let is_relaxed = new.enforce.version == old.enforce.version && new.enforce.level <= old.enforce.level;
    if new.enforce.level == Level::Privileged || is_relaxed {
        return Ok(());
    }
    for warning in existing_pods(attributes.name, new.enforce, &attributes.list("", "pods", attributes.name))
    {
        attributes.warn(warning);
    }
    Ok(())
}

/// Refuses a pod that violates the enforced standard, and warns about one that violates the standard for warnings.
fn validate_pod(attributes: &Attributes<'_>, pod: &Value) -> Result<(), ApiError> {
    if IGNORED.contains(&attributes.subresource) {
        return Ok(());
    }
    let Some(policy) = policy_of(attributes) else {
        return Ok(());
    };
    if attributes.operation == Operation::Update
        && !attributes.old.is_some_and(|old| is_significant(old, pod))
    {
        return Ok(());
    }
    let checked = CheckedPod::of(pod);
    let found = violations(policy.enforce, &checked);
    if !found.is_empty() {
        let why =
            format!("violates PodSecurity {}: {}", go::quote(&policy.enforce.to_string()), details(&found));
        let resource = &attributes.served.resource;
        return Err(ApiError::forbidden(&resource.group, &resource.plural, attributes.name, &why));
    }
    // The pod meets the enforced standard, so an equal one has nothing to warn about.
    if policy.warn != policy.enforce {
        warn(attributes, policy.warn, &checked);
    }
    Ok(())
}

/// Reads the policy of the namespace of an object; `None` if there is no such namespace.
fn policy_of(attributes: &Attributes<'_>) -> Option<PodSecurityPolicy> {
    let namespace = attributes.get("", "namespaces", &Key::new("", attributes.namespace))?;
    Some(PodSecurityPolicy::of(&namespace).0)
}

fn warn(attributes: &Attributes<'_>, standard: Standard, pod: &CheckedPod<'_>) {
    let found = violations(standard, pod);
    if !found.is_empty() {
        let standard = go::quote(&standard.to_string());
        attributes.warn(format!("would violate PodSecurity {standard}: {}", details(&found)));
    }
}

/// Formats violations with their details.
fn details(violations: &[Violation]) -> String {
    let detail = |violation: &Violation| match violation.detail.as_str() {
        "" => violation.reason.to_owned(),
        detail => format!("{} ({detail})", violation.reason),
    };
    violations.iter().map(detail).collect::<Vec<_>>().join(", ")
}

/// Whether an update changes what the checks depend on: containers and their images. Nothing else of a spec can change.
fn is_significant(old: &Value, new: &Value) -> bool {
    let list = |pod: &Value, field: &str| pod["spec"][field].as_array().cloned().unwrap_or_default();
    let fixed = ["containers", "initContainers"].into_iter().any(|field| {
        let (old, new) = (list(old, field), list(new, field));
        old.len() != new.len() || old.iter().zip(&new).any(|(old, new)| old["image"] != new["image"])
    });
    let (before, after) = (list(old, "ephemeralContainers"), list(new, "ephemeralContainers"));
    fixed
        || after.iter().any(|container| {
            let same = before.iter().find(|known| known["name"] == container["name"]);
            same.is_none_or(|known| known["image"] != container["image"])
        })
}

/// Returns the warnings about the pods of a namespace that violate its new standard. Pods with equal reasons share a warning.
fn existing_pods(namespace: &str, standard: Standard, pods: &[Value]) -> Vec<String> {
    let all = by_controller(pods);
    let checked = &all[..all.len().min(MAX_PODS)];
    // Names of the pods by reason.
    let mut found: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for pod in checked {
        let reasons: Vec<&str> =
            violations(standard, &CheckedPod::of(pod)).iter().map(|violation| violation.reason).collect();
        if !reasons.is_empty() {
            found.entry(reasons.join(", ")).or_default().push(metadata::text(pod, "name"));
        }
    }
    let mut warnings = Vec::new();
    if checked.len() < all.len() {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {} of {} existing pods",
            checked.len(),
            all.len()
        ));
    }
    if !found.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {} violate the new PodSecurity enforce level {}",
            go::quote(namespace),
            go::quote(&standard.to_string())
        ));
    }
    let mut of_pods: Vec<String> = found
        .iter()
        .map(|(reasons, names)| {
            let first = names.iter().min().copied().unwrap_or_default();
            match names.len() {
                1 => format!("{first}: {reasons}"),
                2 => format!("{first} (and 1 other pod): {reasons}"),
                count => format!("{first} (and {} other pods): {reasons}", count - 1),
            }
        })
        .collect();
    of_pods.sort();
    warnings.extend(of_pods);
    warnings
}

/// Moves one pod of each controller to the front.
fn by_controller(pods: &[Value]) -> Vec<&Value> {
    let mut controllers = BTreeSet::new();
    let mut is_first = |pod: &&Value| {
        let owners = pod["metadata"]["ownerReferences"].as_array();
        let controller = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
        controller
            .and_then(|owner| owner["uid"].as_str())
            .is_none_or(|uid| controllers.insert(uid.to_owned()))
    };
    // Pods of a controller are alike. With one of each first, the limit cuts off as few different pods as
    // possible.
    let (mut first, mut others) = (Vec::new(), Vec::new());
    for pod in pods {
        if is_first(&pod) { &mut first } else { &mut others }.push(pod);
    }
    first.extend(others);
    first
}

#[cfg(test)]
mod tests;
