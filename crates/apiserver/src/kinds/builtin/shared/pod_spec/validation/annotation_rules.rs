//! Annotations that have a meaning for pods: mirror pods, the cost of a deletion, and profiles of seccomp and AppArmor.

use kube_apimachinery::go::quote;
use kube_apimachinery::status::FieldError;
use serde_json::{Map, Value};

use super::CONTAINERS;
use crate::kinds::builtin::shared::field_checks::{descending_path, invalid_text};
use crate::kinds::builtin::shared::fields::{list, text};

/// Annotation of the pod that a kubelet created for a file.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Prefix of the annotation with the AppArmor profile of a container, which a field replaces.
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
/// Prefix of the annotation with the seccomp profile of a container, which a field replaces.
const SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";
/// Annotation with the seccomp profile of a pod, which a field replaces.
const POD_SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
/// Annotation with the cost of deleting the pod, relative to others of its ReplicaSet.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Whether a kubelet created the pod for a file.
pub(in crate::kinds::builtin) fn is_mirror(pod: &Value) -> bool {
    pod["metadata"]["annotations"].get(MIRROR).is_some()
}

/// Validates changes of annotations that have a meaning for pods.
pub(in crate::kinds::builtin) fn pod_annotation_updates(old: &Value, new: &Value) -> Vec<FieldError> {
    const PATH: &str = "metadata.annotations";
    let (before, after) = (&old["metadata"]["annotations"], &new["metadata"]["annotations"]);
    let mut errors = Vec::new();
    let mut refuse = |key: &str, verb: &str| {
        let what = match key {
            MIRROR => "mirror pod annotation",
            _ if key.starts_with(APP_ARMOR) => "AppArmor annotations",
            _ => return,
        };
        errors.push(FieldError::forbidden(format!("{PATH}[{key}]"), &format!("may not {verb} {what}")));
    };
    for (key, value) in before.as_object().into_iter().flatten() {
        if after.get(key) != Some(value) {
            refuse(key, "remove or update");
        }
    }
    for key in after.as_object().into_iter().flat_map(Map::keys).filter(|key| before.get(*key).is_none()) {
        refuse(key, "add");
    }
    errors.extend(pod_annotations(&new["metadata"], &new["spec"], PATH));
    errors
}

/// Validates annotations that have a meaning for pods.
pub(super) fn pod_annotations(metadata: &Value, spec: &Value, path: &str) -> Vec<FieldError> {
    let given = &metadata["annotations"];
    let mut errors = Vec::new();
    if let Some(value) = given[MIRROR].as_str()
        && text(spec, "nodeName").is_empty()
    {
        let why = "must set spec.nodeName if mirror pod annotation is set";
        errors.push(invalid_text(format!("{path}[{MIRROR}]"), value, why));
    }
    if let Some(cost) = given[DELETION_COST].as_str() {
        let digits = cost.strip_prefix('-').unwrap_or(cost);
        let is_plain =
            cost == "0" || cost.starts_with('-') || cost.starts_with(|c: char| ('1'..='9').contains(&c));
        if !is_plain || digits.starts_with('+') || cost.parse::<i32>().is_err() {
            errors.push(invalid_text(format!("{path}[{DELETION_COST}]"), cost, "must be a 32bit integer"));
        }
    }
    let given = given.as_object().into_iter().flatten();
    let profiles: Vec<(&String, &str)> =
        given.filter_map(|(key, value)| Some((key, value.as_str()?))).collect();
    let is_of_pod = |(key, _): &&(&String, &str)| *key == POD_SECCOMP;
    let of_containers = profiles.iter().filter(|(key, _)| key.starts_with(SECCOMP));
    for (key, profile) in profiles.iter().filter(is_of_pod).chain(of_containers) {
        errors.extend(seccomp_profile(profile, &format!("{path}.{key}")));
    }
    for (key, profile) in &profiles {
        let Some(container) = key.strip_prefix(APP_ARMOR) else { continue };
        let mut all = CONTAINERS.iter().flat_map(|field| list(spec, field));
        if !all.any(|known| text(known, "name") == container) {
            errors.push(invalid_text(format!("{path}[{key}]"), container, "container not found"));
        }
        if !["", "runtime/default", "unconfined"].contains(profile) && !profile.starts_with("localhost/") {
            let why = format!("invalid AppArmor profile name: {}", quote(profile));
            errors.push(invalid_text(format!("{path}[{key}]"), profile, &why));
        }
    }
    errors
}

/// Validates a seccomp profile in an annotation.
fn seccomp_profile(profile: &str, field: &str) -> Vec<FieldError> {
    match profile {
        "runtime/default" | "docker/default" | "unconfined" => Vec::new(),
        _ => match profile.strip_prefix("localhost/") {
            Some(file) => descending_path(file, field),
            None => vec![invalid_text(field, profile, "must be a valid seccomp profile")],
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(old: Option<&Value>, annotations: &Value, expected: &[&str]) {
        let pod = |annotations: &Value| json!({"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "c"}]}});
        let errors = match old {
            None => pod_annotations(
                &pod(annotations)["metadata"],
                &pod(annotations)["spec"],
                "metadata.annotations",
            ),
            Some(old) => pod_annotation_updates(&pod(old), &pod(annotations)),
        };
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected, "{old:?} {annotations}");
    }

    /// Recorded from kube-apiserver v1.36.3, except those about AppArmor, which are read in its source.
    #[test]
    fn profiles_in_annotations_are_validated() {
        check(
            None,
            &json!({"container.seccomp.security.alpha.kubernetes.io/c": "x", "seccomp.security.alpha.kubernetes.io/pod": "runtime/default"}),
            &[
                "metadata.annotations.container.seccomp.security.alpha.kubernetes.io/c: Invalid value: \"x\": must be a valid seccomp profile",
            ],
        );
        check(
            None,
            &json!({"container.apparmor.security.beta.kubernetes.io/d": "x"}),
            &[
                "metadata.annotations[container.apparmor.security.beta.kubernetes.io/d]: Invalid value: \"d\": container not found",
                "metadata.annotations[container.apparmor.security.beta.kubernetes.io/d]: Invalid value: \"x\": invalid AppArmor profile name: \"x\"",
            ],
        );
        check(None, &json!({"container.apparmor.security.beta.kubernetes.io/c": "localhost/x"}), &[]);
    }

    #[test]
    fn a_pod_does_not_become_a_mirror_pod() {
        const MIRRORED: &str = "kubernetes.io/config.mirror";
        // Recorded from kube-apiserver v1.36.3.
        check(
            Some(&json!({})),
            &json!({MIRRORED: "x"}),
            &[
                "metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not add mirror pod annotation",
                "metadata.annotations[kubernetes.io/config.mirror]: Invalid value: \"x\": must set spec.nodeName if mirror pod annotation is set",
            ],
        );
        check(
            Some(&json!({MIRRORED: "x"})),
            &json!({}),
            &[
                "metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not remove or update mirror pod annotation",
            ],
        );
    }
}
