//! `pods/resize`: changes the resources of a running pod's containers.

use std::collections::BTreeMap;

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::qos_class;
use crate::kinds::builtin::shared::fields::{elements, keep_write, put, text};
use crate::kinds::builtin::shared::pod_spec;

const LISTS: [&str; 2] = ["initContainers", "containers"];
/// Resources that a resize may change.
const RESIZABLE: [&str; 2] = ["cpu", "memory"];

/// Restores all fields except resources and resize policies.
pub(super) fn keep_all_but_resources(old: &Value, new: &mut Value) {
    let mut wanted = new.take();
    new.clone_from(old);
    for list in LISTS {
        let mut given: BTreeMap<String, &mut Value> = BTreeMap::new();
        for container in elements(&mut wanted["spec"], list) {
            given.entry(text(container, "name").to_owned()).or_insert(container);
        }
        for container in elements(&mut new["spec"], list) {
            let Some(given) = given.get_mut(text(container, "name")) else {
                continue;
            };
            for field in ["resources", "resizePolicy"] {
                put(container, field, given[field].take());
            }
        }
    }
    keep_write(wanted["metadata"].take(), new);
}

/// Validates the new resources of a pod.
pub(super) fn validate(old: &Value, new: &Value) -> Vec<FieldError> {
    if pod_spec::is_mirror(old) {
        return vec![FieldError::forbidden("", "static pods cannot be resized")];
    }
    if old["spec"]["os"]["name"] == "windows" {
        return vec![FieldError::forbidden("", "windows pods cannot be resized")];
    }
    let mut errors = pod_spec::validate_pod(new);
    let class = qos_class(&old["spec"]);
    if qos_class(&new["spec"]) != class {
        let why = "Pod QOS Class may not change as a result of resizing";
        errors.push(FieldError::invalid("spec", &json!(class).to_string(), why));
    }
    for list in LISTS {
        // Both states have the same containers in the same order: only their resources were taken from the request.
        let containers = |pod: &Value| pod["spec"][list].as_array().cloned().unwrap_or_default();
        for (index, (before, after)) in containers(old).iter().zip(&containers(new)).enumerate() {
            for kind in ["requests", "limits"] {
                if loses_any(&before["resources"][kind], &after["resources"][kind]) {
                    let field = format!("spec.{list}[{index}].resources.{kind}");
                    errors.push(FieldError::forbidden(field, &format!("resource {kind} cannot be removed")));
                }
            }
        }
    }
    if fixed(&old["spec"]) != fixed(&new["spec"]) {
        errors.push(FieldError::forbidden("spec", "only cpu and memory resources are mutable"));
    }
    errors
}

fn loses_any(before: &Value, after: &Value) -> bool {
    RESIZABLE.iter().any(|name| before.get(name).is_some() && after.get(name).is_none())
}

/// Returns the spec without the resources that a resize may change.
fn fixed(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for list in LISTS {
        for container in elements(&mut spec, list) {
            put(container, "resizePolicy", Value::Null);
            let mut resources = container["resources"].take();
            for kind in ["requests", "limits"] {
                let mut amounts = resources[kind].take();
                if let Some(amounts) = amounts.as_object_mut() {
                    amounts.retain(|name, _| !RESIZABLE.contains(&name.as_str()));
                }
                let none = amounts.as_object().is_none_or(serde_json::Map::is_empty);
                put(&mut resources, kind, if none { Value::Null } else { amounts });
            }
            container["resources"] = resources;
        }
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(resources: &Value, expected: &[&str]) {
        let old = json!({"metadata": {}, "spec": {"containers": [{"name": "c", "image": "x", "resources": {
            "requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"},
        }}]}});
        let mut new = old.clone();
        new["spec"]["nodeName"] = json!("elsewhere");
        new["spec"]["containers"][0]["resources"] = resources.clone();
        keep_all_but_resources(&old, &mut new);
        assert_eq!(new["spec"]["nodeName"], Value::Null);
        let errors: Vec<String> = validate(&old, &new).iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected);
    }

    #[test]
    fn cpu_and_memory_change_within_limits() {
        let limits = json!({"cpu": "0.5", "memory": "64Mi"});
        check(&json!({"requests": {"cpu": "500m", "memory": "32Mi"}, "limits": limits}), &[]);
        check(
            &json!({"requests": {"cpu": "501m", "memory": "32Mi"}, "limits": limits}),
            &[
                "spec.containers[0].resources.requests: Invalid value: \"501m\": must be less than or equal to cpu limit of 500m",
            ],
        );
    }

    #[test]
    fn neither_the_class_nor_other_resources_change() {
        check(
            &json!({}),
            &[
                "spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing",
                "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
                "spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed",
            ],
        );
        check(
            &json!({"requests": {"cpu": "1m", "memory": "1Mi", "x/y": "1"}, "limits": {"cpu": "2", "memory": "2Mi", "x/y": "1"}}),
            &["spec: Forbidden: only cpu and memory resources are mutable"],
        );
    }
}
