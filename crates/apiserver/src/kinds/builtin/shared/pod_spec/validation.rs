//! Validation of a pod's spec, on its own or in the template of a workload.

use std::collections::BTreeSet;

use kube_apimachinery::quantity;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::at;
use crate::kinds::builtin::shared::fields::{list, text};

/// Validates that the containers of the pod's spec at `path` have a name and an image, and mount existing volumes.
pub(in crate::kinds::builtin) fn validate(object: &Value, path: &str) -> Vec<FieldError> {
    validate_with_volumes(object, path, [])
}

/// Like [`validate`], but the pod also has these volumes.
pub(in crate::kinds::builtin) fn validate_with_volumes<'a>(
    object: &'a Value,
    path: &str,
    more: impl IntoIterator<Item = &'a str>,
) -> Vec<FieldError> {
    let Some(spec) = at(object, path) else {
        return Vec::new();
    };
    let containers = list(spec, "containers");
    if containers.is_empty() {
        return vec![FieldError::required(format!("{path}.containers"), "")];
    }
    let mut volumes: BTreeSet<&str> =
        list(spec, "volumes").iter().map(|volume| text(volume, "name")).collect();
    volumes.extend(more);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(object: &Value) -> Vec<String> {
        validate(object, "spec").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn containers_mount_what_the_pod_has() {
        let container =
            json!({"name": "c", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]});
        assert_eq!(
            errors(&json!({"spec": {"containers": [container]}})),
            ["spec.containers[0].volumeMounts[0].name: Not found: \"v\""]
        );
        let own = json!({"spec": {"containers": [container], "volumes": [{"name": "v"}]}});
        assert_eq!(errors(&own), [""; 0]);
        let without = json!({"spec": {"containers": [container]}});
        assert!(validate_with_volumes(&without, "spec", ["v"]).is_empty());
    }

    #[test]
    fn a_pod_without_containers_is_none() {
        assert_eq!(errors(&json!({"spec": {"containers": null}})), ["spec.containers: Required value"]);
        assert_eq!(
            errors(&json!({"spec": {"containers": [{"name": ""}]}})),
            ["spec.containers[0].name: Required value", "spec.containers[0].image: Required value"]
        );
    }
}
