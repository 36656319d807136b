//! Rules that the workloads of group `apps` share: selector, numbers, and update strategy.

use kube_apimachinery::selector::LabelSelector;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::fields::{set, within};
use super::immutable_fields::immutable;

/// Sets the rolling update strategy and its limits, unless another strategy is set.
pub(in crate::kinds::builtin) fn default_rolling_update(strategy: &mut Value, limits: &[(&str, Value)]) {
    set(strategy, "type", json!("RollingUpdate"));
    if strategy.get("type").is_some_and(|kind| kind == "RollingUpdate") {
        set(strategy, "rollingUpdate", json!({}));
        within(strategy, "rollingUpdate", |rolling| {
            for (key, limit) in limits {
                set(rolling, key, limit.clone());
            }
        });
    }
}

/// Validates the number of replicas, and that the selector of a workload matches its own pods. `kind` names the workload in a message.
pub(in crate::kinds::builtin) fn validate_selector(kind: &str, spec: &Value) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = not_negative(spec, "replicas").into_iter().collect();
    let selector = &spec["selector"];
    let labels = &spec["template"]["metadata"]["labels"];
    if selector.is_null() {
        errors.push(FieldError::required("spec.selector", ""));
    } else if is_empty(selector) {
        let why = format!("empty selector is invalid for {kind}");
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
    errors
}

/// Validates `minReadySeconds` and `revisionHistoryLimit`.
pub(in crate::kinds::builtin) fn validate_numbers(spec: &Value) -> Vec<FieldError> {
    ["minReadySeconds", "revisionHistoryLimit"]
        .into_iter()
        .filter_map(|field| not_negative(spec, field))
        .collect()
}

/// Checks that the selector of `old` stays.
pub(in crate::kinds::builtin) fn keep_selector(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    old.map(|old| immutable("spec", &old["spec"], &new["spec"], &["selector"])).unwrap_or_default()
}

fn not_negative(spec: &Value, field: &str) -> Option<FieldError> {
    let number = spec[field].as_i64().filter(|number| *number < 0)?;
    Some(FieldError::invalid(
        format!("spec.{field}"),
        &number.to_string(),
        "must be greater than or equal to 0",
    ))
}

fn is_empty(selector: &Value) -> bool {
    let without = |key: &str| {
        selector.get(key).is_none_or(|part| part.is_null() || *part == json!({}) || *part == json!([]))
    };
    !selector.is_null() && without("matchLabels") && without("matchExpressions")
}
