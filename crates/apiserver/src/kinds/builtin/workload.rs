//! Validation of workloads: selector, template, and update strategy.

use kube_apimachinery::selector::LabelSelector;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::pod_spec;
use crate::kind::resource::Resource;

/// Validates a workload: its selector must match its own pods and never changes.
pub(super) fn validate(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = &new["spec"];
    let mut errors = Vec::new();
    if resource.kind == "StatefulSet" {
        errors.extend(stateful(spec));
    }
    errors.extend(not_negative(spec, "replicas"));
    let selector = &spec["selector"];
    let labels = &spec["template"]["metadata"]["labels"];
    if selector.is_null() {
        errors.push(FieldError::required("spec.selector", ""));
    } else if is_empty(selector) {
        // kube-apiserver names Deployments here, because it copied their validation.
        let name = if resource.kind == "ReplicaSet" { "deployment" } else { &resource.singular };
        let why = format!("empty selector is invalid for {name}");
        errors.push(FieldError::invalid("spec.selector", "{}", &why));
    }
    match LabelSelector::from_object(selector) {
        None => {
            errors.push(FieldError::invalid(
                "spec.selector",
                &selector.to_string(),
                "invalid label selector",
            ));
        }
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
    errors.extend(pod_spec::validate(resource, new));
    // Errors come in kube-apiserver's order, so Deployments are checked in two places.
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

/// Validates the policies of a StatefulSet.
fn stateful(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match text(&spec["podManagementPolicy"]).as_str() {
        "" => errors.push(FieldError::required("spec.podManagementPolicy", "")),
        "OrderedReady" | "Parallel" => {}
        other => {
            let why = "must be 'OrderedReady' or 'Parallel'";
            errors.push(FieldError::invalid("spec.podManagementPolicy", &json!(other).to_string(), why));
        }
    }
    match text(&spec["updateStrategy"]["type"]).as_str() {
        "" => errors.push(FieldError::required("spec.updateStrategy", "")),
        "OnDelete" | "RollingUpdate" => {}
        // The message shows the value as a Go struct, which has no limits for unknown types.
        other => {
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":null}}", json!(other));
            let why = "must be 'RollingUpdate' or 'OnDelete'";
            errors.push(FieldError::invalid("spec.updateStrategy", &shown, why));
        }
    }
    let retention = &spec["persistentVolumeClaimRetentionPolicy"];
    for field in ["whenDeleted", "whenScaled"] {
        let supported = ["Retain", "Delete"];
        let policy = text(&retention[field]);
        if retention.is_object() && !supported.contains(&policy.as_str()) {
            let field = format!("spec.persistentVolumeClaimRetentionPolicy.{field}");
            errors.push(FieldError::not_supported(field, &policy, &supported));
        }
    }
    errors
}

/// Validates the strategy of a Deployment: limits only for rolling updates, and not both zero.
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
        // The message shows the value as a Go struct, which has no limits for unknown types.
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

/// Whether a limit is `0` or `0%`.
fn is_none(limit: &Value) -> bool {
    limit.as_str().map_or(limit.as_i64() == Some(0), |text| text.trim_end_matches('%') == "0")
}

/// Validates that the progress deadline exceeds the time until a pod counts as available.
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

/// Checks immutable fields: most of the spec for a StatefulSet, the selector for other workloads.
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
    (old["selector"] != new["selector"])
        .then(|| FieldError::invalid("spec.selector", &new["selector"].to_string(), "field is immutable"))
}

fn is_empty(selector: &Value) -> bool {
    let without = |key: &str| {
        selector.get(key).is_none_or(|part| part.is_null() || *part == json!({}) || *part == json!([]))
    };
    !selector.is_null() && without("matchLabels") && without("matchExpressions")
}
