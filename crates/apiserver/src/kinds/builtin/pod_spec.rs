//! Validation of a pod's spec, on its own or in the template of a workload.

use std::collections::BTreeSet;

use kube_apimachinery::quantity;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use crate::kind::resource::Resource;

/// Returns the path and the spec of the pod, or of the pod template, in an object.
fn of<'a>(resource: &Resource, object: &'a Value) -> Option<(&'static str, &'a Value)> {
    let (path, pointer) = match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Pod") => ("spec", "/spec"),
        ("", "PodTemplate") => ("template.spec", "/template/spec"),
        ("", "ReplicationController") | ("batch", "Job") => ("spec.template.spec", "/spec/template/spec"),
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet") => {
            ("spec.template.spec", "/spec/template/spec")
        }
        ("batch", "CronJob") => {
            ("spec.jobTemplate.spec.template.spec", "/spec/jobTemplate/spec/template/spec")
        }
        _ => return None,
    };
    Some((path, object.pointer(pointer)?))
}

/// Validates that containers have a name and an image, and mount existing volumes.
pub(super) fn validate(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let Some((path, spec)) = of(resource, object) else {
        return Vec::new();
    };
    let containers = list(spec, "containers");
    if containers.is_empty() {
        return vec![FieldError::required(format!("{path}.containers"), "")];
    }
    let mut volumes: BTreeSet<&str> =
        list(spec, "volumes").iter().map(|volume| text(volume, "name")).collect();
    if resource.kind == "StatefulSet" {
        let claims = list(&object["spec"], "volumeClaimTemplates").iter();
        volumes.extend(claims.map(|claim| text(&claim["metadata"], "name")));
    }
    let mut errors = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        let path = format!("{path}.containers[{index}]");
        for field in ["name", "image"] {
            if text(container, field).is_empty() {
                errors.push(FieldError::required(format!("{path}.{field}"), ""));
            }
        }
        errors.extend(within_limits(&container["resources"], &format!("{path}.resources.requests")));
        for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
            let name = text(mount, "name");
            if !name.is_empty() && !volumes.contains(name) {
                errors.push(FieldError {
                    reason: "FieldValueNotFound",
                    field: format!("{path}.volumeMounts[{index}].name"),
                    message: format!("Not found: {}", Value::from(name)),
                });
            }
        }
    }
    errors
}

/// Validates that requests do not exceed limits.
fn within_limits(resources: &Value, path: &str) -> Vec<FieldError> {
    let requests = resources["requests"].as_object().into_iter().flatten();
    requests
        .filter_map(|(name, request)| {
            let limit = resources["limits"].get(name)?;
            (quantity::value(request)? > quantity::value(limit)?).then(|| {
                let why = format!(
                    "must be less than or equal to {name} limit of {}",
                    limit.as_str().unwrap_or_default()
                );
                FieldError::invalid(path, &request.to_string(), &why)
            })
        })
        .collect()
}

/// Returns warnings about accepted but probably unintended values.
pub(super) fn warnings(resource: &Resource, object: &Value) -> Vec<String> {
    let Some((path, spec)) = of(resource, object) else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    for (index, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        if constraint["labelSelector"].is_null() {
            warnings.push(format!(
                "{path}.topologySpreadConstraints[{index}].labelSelector: a null labelSelector results in matching no pod"
            ));
        }
    }
    for kind in ["initContainers", "containers"] {
        for (index, container) in list(spec, kind).iter().enumerate() {
            let mut seen = BTreeSet::new();
            for (variable, name) in list(container, "env").iter().map(|entry| text(entry, "name")).enumerate()
            {
                if !seen.insert(name) {
                    warnings.push(format!(
                        "{path}.{kind}[{index}].env[{variable}]: hides previous definition of {}, which may be dropped \
                         when using apply",
                        Value::from(name)
                    ));
                }
            }
        }
    }
    warnings
}

fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(kind: &str, object: &Value) -> Vec<String> {
        let served = super::super::served();
        let (resource, _) = served.iter().find(|(resource, _)| resource.kind == kind).unwrap();
        validate(resource, object).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn containers_mount_what_the_pod_has() {
        let container =
            json!({"name": "c", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]});
        assert_eq!(
            errors("Pod", &json!({"spec": {"containers": [container]}})),
            ["spec.containers[0].volumeMounts[0].name: Not found: \"v\""]
        );
        let own = json!({"spec": {"containers": [container], "volumes": [{"name": "v"}]}});
        assert_eq!(errors("Pod", &own), [""; 0]);
        let claimed = json!({"spec": {
            "template": {"spec": {"containers": [container]}}, "volumeClaimTemplates": [{"metadata": {"name": "v"}}],
        }});
        assert_eq!(errors("StatefulSet", &claimed), [""; 0]);
    }

    #[test]
    fn a_pod_without_containers_is_none() {
        assert_eq!(
            errors("Pod", &json!({"spec": {"containers": null}})),
            ["spec.containers: Required value"]
        );
        assert_eq!(
            errors("Pod", &json!({"spec": {"containers": [{"name": ""}]}})),
            ["spec.containers[0].name: Required value", "spec.containers[0].image: Required value"]
        );
    }
}
