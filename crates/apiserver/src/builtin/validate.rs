//! What is wrong with objects of builtin kinds beyond their schema: the checks that clients run into first.
//!
//! Depth per kind follows with the kinds; what is checked here is checked as a kube-apiserver checks it.

use serde_json::{Value, json};

use super::event;
use crate::resource::Resource;
use crate::selector::LabelSelector;
use crate::status::FieldError;

/// Errors of a new object, or of the new state of `old`.
pub(super) fn validate(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("" | "events.k8s.io", "Event") => event::validate(resource, new, old.is_none()),
        ("", "ConfigMap" | "Secret") => kept_data(resource, new, old),
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet") => workload(resource, new, old),
        ("apps", "ControllerRevision") => controller_revision(new, old),
        _ => Vec::new(),
    }
}

/// Data that is immutable stays so, and the type of a Secret too.
fn kept_data(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(old) = old else {
        return errors;
    };
    if resource.kind == "Secret" && new["type"] != old["type"] {
        errors.push(FieldError::invalid(
            "type",
            &new["type"].to_string(),
            "field is immutable",
        ));
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

/// A workload selects its own pods, for good.
fn workload(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = &new["spec"];
    let mut errors = Vec::new();
    errors.extend(not_negative(spec, "replicas"));
    let selector = &spec["selector"];
    let labels = &spec["template"]["metadata"]["labels"];
    if selector.is_null() {
        errors.push(FieldError::required("spec.selector", ""));
    } else if is_empty(selector) {
        // ReplicaSets say so too: their validation was copied.
        let name = if resource.kind == "ReplicaSet" {
            "deployment"
        } else {
            &resource.singular
        };
        let why = format!("empty selector is invalid for {name}");
        errors.push(FieldError::invalid("spec.selector", "{}", &why));
    }
    match LabelSelector::from_object(selector) {
        None => errors.push(FieldError::invalid(
            "spec.selector",
            &selector.to_string(),
            "invalid label selector",
        )),
        Some(_) if is_empty(selector) => {}
        Some(parsed) if parsed.is_empty() || !parsed.matches_labels(Some(labels)) => {
            errors.push(FieldError::invalid(
                "spec.template.metadata.labels",
                &labels.to_string(),
                "`selector` does not match template `labels`",
            ));
        }
        Some(_) => {}
    }
    errors.extend(containers(&spec["template"]["spec"]["containers"]));
    if resource.kind == "Deployment" {
        errors.extend(strategy(&spec["strategy"]));
    }
    for field in ["minReadySeconds", "revisionHistoryLimit"] {
        errors.extend(not_negative(spec, field));
    }
    if resource.kind == "Deployment" {
        errors.extend(deadline(spec));
    }
    if let Some(old) = old {
        errors.extend(kept_spec(resource, &old["spec"], spec));
    }
    errors
}

fn not_negative(spec: &Value, field: &str) -> Option<FieldError> {
    let number = spec[field].as_i64().filter(|number| *number < 0)?;
    Some(FieldError::invalid(
        format!("spec.{field}"),
        &number.to_string(),
        "must be greater than or equal to 0",
    ))
}

/// Pods are replaced all at once, or within limits of which one lets something happen.
fn strategy(strategy: &Value) -> Option<FieldError> {
    const PATH: &str = "spec.strategy";
    let rolling = &strategy["rollingUpdate"];
    match strategy["type"].as_str().unwrap_or_default() {
        "Recreate" if !rolling.is_null() => Some(FieldError::forbidden(
            format!("{PATH}.rollingUpdate"),
            "may not be specified when strategy `type` is 'Recreate'",
        )),
        "RollingUpdate" if is_none(&rolling["maxUnavailable"]) && is_none(&rolling["maxSurge"]) => {
            Some(FieldError::invalid(
                format!("{PATH}.rollingUpdate.maxUnavailable"),
                &rolling["maxUnavailable"].to_string(),
                "may not be 0 when `maxSurge` is 0",
            ))
        }
        "Recreate" | "RollingUpdate" => None,
        // The value is shown as the Go struct, whose unknown types have no limits.
        other => Some(FieldError {
            reason: "FieldValueNotSupported",
            field: PATH.to_owned(),
            message: format!(
                "Unsupported value: {{\"Type\":{},\"RollingUpdate\":null}}: supported values: \"Recreate\", \
                 \"RollingUpdate\"",
                json!(other)
            ),
        }),
    }
}

/// `0` or `0%`.
fn is_none(limit: &Value) -> bool {
    limit.as_str().map_or(limit.as_i64() == Some(0), |text| {
        text.trim_end_matches('%') == "0"
    })
}

/// Progress takes longer than a pod needs to count as ready. Zero is a mistake that Kubernetes lets pass elsewhere.
fn deadline(spec: &Value) -> Option<FieldError> {
    let deadline = spec["progressDeadlineSeconds"].as_i64()?;
    let ready = spec["minReadySeconds"].as_i64().unwrap_or_default();
    (ready >= 0 && deadline <= ready).then(|| {
        FieldError::invalid(
            "spec.progressDeadlineSeconds",
            &deadline.to_string(),
            "must be greater than minReadySeconds",
        )
    })
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
            errors.push(FieldError::invalid(
                "data",
                &new["data"].to_string(),
                "field is immutable",
            ));
        }
        _ => {}
    }
    errors
}

/// What clients are told about an object that is accepted.
pub(super) fn warnings(resource: &Resource, object: &Value) -> Vec<String> {
    if resource.group != "apps" {
        return Vec::new();
    }
    let spread = &object["spec"]["template"]["spec"]["topologySpreadConstraints"];
    let constraints = spread.as_array().map_or(&[][..], Vec::as_slice);
    let without = constraints
        .iter()
        .enumerate()
        .filter(|(_, constraint)| constraint["labelSelector"].is_null());
    without
        .map(|(index, _)| {
            format!(
                "spec.template.spec.topologySpreadConstraints[{index}].labelSelector: a null labelSelector results in \
                 matching no pod"
            )
        })
        .collect()
}

/// Containers have a name and an image.
fn containers(list: &Value) -> Vec<FieldError> {
    const PATH: &str = "spec.template.spec.containers";
    let containers = list.as_array().map_or(&[][..], Vec::as_slice);
    if containers.is_empty() {
        return vec![FieldError::required(PATH, "")];
    }
    let missing = |container: &Value, key: &str| container[key].as_str().unwrap_or_default().is_empty();
    let mut errors = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        for key in ["name", "image"] {
            if missing(container, key) {
                errors.push(FieldError::required(format!("{PATH}[{index}].{key}"), ""));
            }
        }
    }
    errors
}

/// Of a StatefulSet most of the spec stays, of other workloads the selector.
fn kept_spec(resource: &Resource, old: &Value, new: &Value) -> Option<FieldError> {
    const CHANGEABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    if resource.kind == "StatefulSet" {
        let kept = |spec: &Value| {
            let mut spec = spec.clone();
            if let Some(fields) = spec.as_object_mut() {
                fields.retain(|key, _| !CHANGEABLE.contains(&key.as_str()));
            }
            spec
        };
        return (kept(old) != kept(new)).then(|| {
            let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                       'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                       'minReadySeconds' are forbidden";
            FieldError::forbidden("spec", why)
        });
    }
    (old["selector"] != new["selector"]).then(|| {
        FieldError::invalid(
            "spec.selector",
            &new["selector"].to_string(),
            "field is immutable",
        )
    })
}

fn is_empty(selector: &Value) -> bool {
    let without = |key: &str| {
        selector
            .get(key)
            .is_none_or(|part| part.is_null() || *part == json!({}) || *part == json!([]))
    };
    !selector.is_null() && without("matchLabels") && without("matchExpressions")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &str, new: &Value, old: Option<&Value>, expected: &[&str]) {
        let served = super::super::served();
        let (resource, _) = served.iter().find(|(resource, _)| resource.kind == kind).unwrap();
        let errors: Vec<String> = validate(resource, new, old)
            .iter()
            .map(ToString::to_string)
            .collect();
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
        check(
            "Deployment",
            &deployment(&json!({"matchLabels": {"app": "web"}})),
            None,
            &[],
        );
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
    fn a_constraint_that_matches_nothing_is_told() {
        let served = super::super::served();
        let (resource, _) = served
            .iter()
            .find(|(resource, _)| resource.kind == "Deployment")
            .unwrap();
        let mut object = deployment(&json!({}));
        object["spec"]["template"]["spec"]["topologySpreadConstraints"] =
            json!([{"labelSelector": {}}, {"topologyKey": "zone"}]);
        assert_eq!(
            warnings(resource, &object),
            [
                "spec.template.spec.topologySpreadConstraints[1].labelSelector: a null labelSelector results in \
                 matching no pod"
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
        check(
            "ConfigMap",
            &json!({"data": {"k": "v"}, "immutable": true}),
            Some(&old),
            &[],
        );
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
