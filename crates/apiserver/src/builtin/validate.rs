//! What is wrong with objects of builtin kinds beyond their schema: the checks that clients run into first.
//!
//! Depth per kind follows with the kinds; what is checked here is checked as a kube-apiserver checks it.

use serde_json::Value;

use super::{event, pod_spec, pod_update, workload};
use crate::resource::Resource;
use crate::status::FieldError;

/// Errors of a new object, or of the new state of `old`.
pub(super) fn validate(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("" | "events.k8s.io", "Event") => event::validate(resource, new, old.is_none()),
        ("", "ConfigMap" | "Secret") => kept_data(resource, new, old),
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet") => {
            workload::validate(resource, new, old)
        }
        ("apps", "ControllerRevision") => controller_revision(new, old),
        ("", "Pod") => match old {
            Some(old) => pod_update::validate(old, new),
            None => pod_spec::validate(resource, new),
        },
        _ => pod_spec::validate(resource, new),
    }
}

/// Data that is immutable stays so, and the type of a Secret too.
fn kept_data(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(old) = old else {
        return errors;
    };
    if resource.kind == "Secret" && new["type"] != old["type"] {
        errors.push(FieldError::invalid("type", &new["type"].to_string(), "field is immutable"));
    }
    if old["immutable"] == true {
        let mut kept = |field: &str| {
            let why = "field is immutable when `immutable` is set";
            errors.push(FieldError::forbidden(field, why));
        };
        if new["immutable"] != true {
            kept("immutable");
        }
        for field in ["data", "binaryData"] {
            if new[field] != old[field] {
                kept(field);
            }
        }
    }
    errors
}

/// A revision is what a workload was, and stays that.
fn controller_revision(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(number) = new["revision"].as_i64().filter(|number| *number < 0) {
        let why = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("revision", &number.to_string(), why));
    }
    match old {
        None if new["data"].is_null() => errors.push(FieldError::required("data", "data is mandatory")),
        Some(old) if old["data"] != new["data"] || old["revision"] != new["revision"] => {
            errors.push(FieldError::invalid("data", &new["data"].to_string(), "field is immutable"));
        }
        _ => {}
    }
    errors
}

/// What clients are told about an object that is accepted.
pub(super) fn warnings(resource: &Resource, object: &Value) -> Vec<String> {
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
            &json!({"spec": {"selector": null, "template": {"metadata": {}, "spec": {"containers": null}}}}),
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
