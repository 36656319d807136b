//! Annotations with a meaning for pods: mirror pods, tolerations, deletion costs, and profiles of seccomp and AppArmor.

use kube_apimachinery::decode;
use kube_apimachinery::go::quote;
use kube_apimachinery::status::FieldError;
use serde_json::{Map, Value, json};

use super::{CONTAINERS, GatedValues, placement};
use crate::kinds::builtin::shared::field_checks::{descending_path, invalid_text};
use crate::kinds::builtin::shared::fields::{list, text};

/// Annotation of mirror pods, which kubelets create to show pods from local files.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Prefix of annotations with the AppArmor profile of a container. A field replaces them.
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
/// Prefix of annotations with the seccomp profile of a container. A field replaces them.
const SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";
/// Annotation with the seccomp profile of a pod. A field replaces it.
const POD_SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
/// Annotation with the tolerations of a pod. A field replaces it.
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
/// Annotation with the cost of deleting a pod, compared with other pods of its ReplicaSet.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Whether the pod is a mirror pod.
pub(in crate::kinds::builtin) fn is_mirror(pod: &Value) -> bool {
    pod["metadata"]["annotations"].get(MIRROR).is_some()
}

/// Checks that an update does not change protected annotations, and validates the new ones.
pub(in crate::kinds::builtin) fn pod_annotation_updates(old: &Value, new: &Value) -> Vec<FieldError> {
    const PATH: &str = "metadata.annotations";
    let (before, after) = (&old["metadata"]["annotations"], &new["metadata"]["annotations"]);
    let mut errors = Vec::new();
    let mut refuse = |key: &str, verb: &str| {
        let what = match key {
            // The kubelet recognizes its own mirror pods by this annotation.
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

/// Validates annotations with a meaning for pods.
pub(super) fn pod_annotations(metadata: &Value, spec: &Value, path: &str) -> Vec<FieldError> {
    let given = &metadata["annotations"];
    let mut errors = Vec::new();
    if let Some(value) = given[MIRROR].as_str()
        && text(spec, "nodeName").is_empty()
    {
        let why = "must set spec.nodeName if mirror pod annotation is set";
        errors.push(invalid_text(format!("{path}[{MIRROR}]"), value, why));
    }
    if let Some(tolerations) = given[TOLERATIONS].as_str().filter(|text| !text.is_empty()) {
        errors.extend(annotated_tolerations(tolerations, path));
    }
    if let Some(cost) = given[DELETION_COST].as_str() {
        // The number is written without plus sign and leading zeros, so that it has only one form.
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
    // kube-apiserver's path has a dot before the name of these annotations, and brackets around the names of others.
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

/// Validates tolerations in their annotation.
fn annotated_tolerations(text: &str, path: &str) -> Vec<FieldError> {
    match decode::json(text.as_bytes()) {
        Ok(decoded) => {
            let spec = json!({"tolerations": decoded.value});
            let errors = placement::tolerations(&spec, path, GatedValues::default());
            // Errors have the name of the annotation in place of the field's.
            let renamed = |error: FieldError| FieldError {
                field: error.field.replacen("tolerations", TOLERATIONS, 1),
                ..error
            };
            errors.into_iter().map(renamed).collect()
        }
        Err(why) => vec![invalid_text(path, TOLERATIONS, &why)],
    }
}

/// Checks that profiles in the fields of a new pod or template agree with those in its annotations.
pub(super) fn profiles_that_differ(pod: &Value, path: &str) -> Vec<FieldError> {
    let (annotations, spec) = (&pod["metadata"]["annotations"], &pod["spec"]);
    let containers: Vec<(&Value, String)> = CONTAINERS
        .into_iter()
        .flat_map(move |kind| {
            let containers = list(spec, kind).iter().enumerate();
            containers.map(move |(index, container)| (container, format!("{path}.{kind}[{index}]")))
        })
        .collect();
    let mut errors = Vec::new();
    let of_pod = [(POD_SECCOMP.to_owned(), spec, path)];
    let of_containers = containers
        .iter()
        .map(|(container, path)| (format!("{SECCOMP}{}", text(container, "name")), *container, &**path));
    for (annotation, owner, path) in of_pod.into_iter().chain(of_containers) {
        let profile = &owner["securityContext"]["seccompProfile"];
        let Some(annotated) = annotations[&annotation].as_str() else { continue };
        let types = ["runtime/default", "docker/default"];
        let path = format!("{path}.securityContext.seccompProfile");
        errors.extend(difference("seccomp", profile, annotated, &types, &path));
    }
    // AppArmor exists on Linux only, so kube-apiserver does not compare its profiles for Windows pods.
    if spec["os"]["name"] == "windows" {
        return errors;
    }
    for (container, path) in &containers {
        let own = &container["securityContext"]["appArmorProfile"];
        // Unlike the seccomp annotation, that of AppArmor is also compared with the pod's profile, which the container inherits.
        let profile = if own.is_null() { &spec["securityContext"]["appArmorProfile"] } else { own };
        let Some(annotated) = annotations[&format!("{APP_ARMOR}{}", text(container, "name"))].as_str() else {
            continue;
        };
        let path = format!("{path}.securityContext.appArmorProfile");
        errors.extend(difference("apparmor", profile, annotated, &["runtime/default"], &path));
    }
    errors
}

/// Returns the error for a profile at `path` that differs from the annotated one. `defaults` are the annotations that mean the runtime's
/// default profile.
fn difference(
    what: &str,
    profile: &Value,
    annotated: &str,
    defaults: &[&str],
    path: &str,
) -> Option<FieldError> {
    let is_same = match text(profile, "type") {
        "Unconfined" => annotated == "unconfined",
        "RuntimeDefault" => defaults.contains(&annotated),
        "Localhost" => match annotated.strip_prefix("localhost/") {
            Some(file) if profile["localhostProfile"] != file => {
                let why = format!("{what} profile in annotation and field must match");
                return Some(FieldError::forbidden(format!("{path}.localhostProfile"), &why));
            }
            file => file.is_some(),
        },
        _ => true,
    };
    let why = || format!("{what} type in annotation and field must match");
    (!is_same).then(|| FieldError::forbidden(format!("{path}.type"), &why()))
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

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn tolerations_in_an_annotation_are_validated() {
        for (tolerations, expected) in [
            (
                "x",
                "metadata.annotations: Invalid value: \"scheduler.alpha.kubernetes.io/tolerations\": invalid character 'x' looking for \
                 beginning of value",
            ),
            (
                "[{\"operator\":\"Equal\",\"value\":\"a\"}]",
                "metadata.annotations.scheduler.alpha.kubernetes.io/tolerations[0].operator: Invalid value: \"Equal\": operator must be \
                 Exists when `key` is empty, which means \"match all values and all keys\"",
            ),
        ] {
            check(None, &json!({TOLERATIONS: tolerations}), &[expected]);
        }
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn profiles_in_annotations_and_fields_agree() {
        let pod = json!({
            "metadata": {"annotations": {
                "seccomp.security.alpha.kubernetes.io/pod": "localhost/a",
                "container.seccomp.security.alpha.kubernetes.io/c": "unconfined",
                "container.apparmor.security.beta.kubernetes.io/c": "localhost/",
                "container.apparmor.security.beta.kubernetes.io/d": "unconfined",
            }},
            "spec": {
                "securityContext": {"seccompProfile": {"type": "Unconfined"}, "appArmorProfile": {"type": "Unconfined"}},
                "containers": [
                    {"name": "c", "securityContext": {
                        "seccompProfile": {"type": "Localhost", "localhostProfile": "z"},
                        "appArmorProfile": {"type": "Localhost", "localhostProfile": "q"},
                    }},
                    {"name": "d"},
                ],
            },
        });
        let errors: Vec<String> =
            profiles_that_differ(&pod, "spec").iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match",
                "spec.containers[0].securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match",
                "spec.containers[0].securityContext.appArmorProfile.localhostProfile: Forbidden: apparmor profile in annotation and \
                 field must match",
            ]
        );
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
