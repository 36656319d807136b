//! Validation of builtin kinds beyond their schema: the checks that clients meet most often.
//!
//! More checks are added per kind; each implemented check behaves as in kube-apiserver.

use kube_apimachinery::go::quote;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::{
    event, immutable_fields, limit_range, node, pod_spec, pod_update, priority_class, quota, roles, service,
    webhook_configuration, workload,
};
use crate::kind::resource::Resource;

/// Returns the errors of a new object, or of the new state of `old`.
pub(super) fn validate(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("" | "events.k8s.io", "Event") => event::validate(resource, new, old.is_none()),
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet") => {
            workload::validate(resource, new, old)
        }
        ("apps", "ControllerRevision") => immutable_fields::controller_revision(new, old),
        ("", "Node") => node::validate(new, old),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => roles::validate_role(resource, new),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            roles::validate_binding(resource, new, old)
        }
        ("node.k8s.io", "RuntimeClass") if old.is_none() => runtime_class(new),
        ("", "LimitRange") => limit_range::validate(new),
        ("", "ResourceQuota") => quota::validate(new, old),
        ("scheduling.k8s.io", "PriorityClass") if old.is_none() => priority_class::validate(new),
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => webhook_configuration::validate(new, old),
        ("", "Service") => {
            let mut errors = service::validate(new);
            errors.extend(old.into_iter().flat_map(|old| immutable_fields::validate(resource, old, new)));
            errors
        }
        ("", "Pod") => match old {
            Some(old) => pod_update::validate(old, new),
            None => pod_spec::validate(resource, new),
        },
        _ => {
            let mut errors = pod_spec::validate(resource, new);
            errors.extend(old.into_iter().flat_map(|old| immutable_fields::validate(resource, old, new)));
            errors
        }
    }
}

/// Validates the handler of a new runtime class.
fn runtime_class(class: &Value) -> Vec<FieldError> {
    let handler = class["handler"].as_str().unwrap_or_default();
    if handler.is_empty() {
        return vec![FieldError::required("handler", "")];
    }
    names::label(handler).iter().map(|why| FieldError::invalid("handler", &quote(handler), why)).collect()
}

/// Returns the warnings for an accepted object.
pub(super) fn warnings(resource: &Resource, object: &Value) -> Vec<String> {
    if resource.group.is_empty() && resource.kind == "Service" {
        return service::warnings(object);
    }
    pod_spec::warnings(resource, object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(kind: &str, new: &Value, old: Option<&Value>, expected: &[&str]) {
        let served = super::super::served();
        let (resource, _) = served.iter().find(|(resource, _)| resource.kind == kind).unwrap();
        let errors: Vec<String> = validate(resource, new, old).iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected);
    }

    fn deployment(selector: &Value) -> Value {
        json!({"spec": {
            "replicas": 1, "selector": selector, "strategy": {"type": "Recreate"},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}},
        }})
    }

    #[test]
    fn a_workload_selects_the_pods_it_makes() {
        check("Deployment", &deployment(&json!({"matchLabels": {"app": "web"}})), None, &[]);
        check(
            "Deployment",
            &deployment(&json!({"matchLabels": {"app": "other"}})),
            None,
            &[
                "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`",
            ],
        );
        check(
            "Deployment",
            &deployment(&json!({})),
            None,
            &["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
        );
    }

    #[test]
    fn an_empty_workload_lacks_everything() {
        check(
            "StatefulSet",
            &json!({"spec": {
                "selector": null, "template": {"metadata": {}, "spec": {"containers": null}},
                "podManagementPolicy": "Parallel", "updateStrategy": {"type": "OnDelete"},
            }}),
            None,
            &[
                "spec.selector: Required value",
                "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
                "spec.template.spec.containers: Required value",
            ],
        );
    }

    #[test]
    fn a_deployment_replaces_its_pods_in_a_way_that_can_end() {
        for (strategy, expected) in [
            (json!({"type": "Recreate"}), &[][..]),
            (
                json!({"type": "Recreate", "rollingUpdate": {}}),
                &[
                    "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
                ],
            ),
            (
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}),
                &[
                    "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0",
                ],
            ),
            (
                json!({"type": "Nope"}),
                &[
                    "spec.strategy: Unsupported value: {\"Type\":\"Nope\",\"RollingUpdate\":null}: supported values: \
                     \"Recreate\", \"RollingUpdate\"",
                ],
            ),
        ] {
            let mut object = deployment(&json!({"matchLabels": {"app": "web"}}));
            object["spec"]["strategy"] = strategy;
            check("Deployment", &object, None, expected);
        }
    }

    #[test]
    fn what_is_hardly_meant_is_told() {
        let served = super::super::served();
        let (resource, _) = served.iter().find(|(resource, _)| resource.kind == "Deployment").unwrap();
        let mut object = deployment(&json!({}));
        let pod = &mut object["spec"]["template"]["spec"];
        pod["topologySpreadConstraints"] = json!([{"labelSelector": {}}, {"topologyKey": "zone"}]);
        pod["containers"][0]["env"] = json!([{"name": "A"}, {"name": "B"}, {"name": "A"}]);
        assert_eq!(
            warnings(resource, &object),
            [
                "spec.template.spec.topologySpreadConstraints[1].labelSelector: a null labelSelector results in \
                 matching no pod",
                "spec.template.spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when \
                 using apply",
            ]
        );
    }

    #[test]
    fn selectors_stay() {
        let old = deployment(&json!({"matchLabels": {"app": "web"}}));
        let mut new = deployment(&json!({"matchLabels": {"app": "changed"}}));
        new["spec"]["template"]["metadata"]["labels"] = json!({"app": "changed"});
        check(
            "Deployment",
            &new,
            Some(&old),
            &["spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"changed\"}}: field is immutable"],
        );
    }

    #[test]
    fn what_is_immutable_stays() {
        let old = json!({"data": {"k": "v"}, "immutable": true, "type": "Opaque"});
        check("ConfigMap", &json!({"data": {"k": "v"}, "immutable": true}), Some(&old), &[]);
        check(
            "ConfigMap",
            &json!({"data": {"k": "w"}}),
            Some(&old),
            &[
                "immutable: Forbidden: field is immutable when `immutable` is set",
                "data: Forbidden: field is immutable when `immutable` is set",
            ],
        );
        check(
            "Secret",
            &json!({"type": "other"}),
            Some(&json!({"type": "Opaque"})),
            &["type: Invalid value: \"other\": field is immutable"],
        );
    }
}
