//! Rules that the workloads of group `apps` share: selector, numbers, and update strategy.

use kube_apimachinery::selector::LabelSelector;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::fields::{set, within};
use super::immutable_fields::immutable;
use super::label_selector;

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

/// Error that kube-apiserver adds to those about the parts of an invalid selector. It depends on the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kinds::builtin) enum UnusableSelector {
    /// `invalid label selector`.
    Named,
    /// The selector without a reason.
    Bare,
    /// None.
    Silent,
}

/// Validates the number of replicas, and that the selector of a workload matches its own pods. `kind` names the workload in a message.
pub(in crate::kinds::builtin) fn validate_selector(
    kind: &str,
    unusable: UnusableSelector,
    spec: &Value,
) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = not_negative(spec, "replicas").into_iter().collect();
    let selector = &spec["selector"];
    let labels = &spec["template"]["metadata"]["labels"];
    if selector.is_null() {
        errors.push(FieldError::required("spec.selector", ""));
        // A missing selector matches nothing.
        errors.push(unmatched(labels));
        return errors;
    }
    if is_empty(selector) {
        let why = format!("empty selector is invalid for {kind}");
        errors.push(FieldError::invalid("spec.selector", "{}", &why));
        return errors;
    }
    let wrong = label_selector::validate(selector, "spec.selector");
    let parsed = LabelSelector::from_object(selector).filter(|_| wrong.is_empty());
    errors.extend(wrong);
    match parsed {
        None => errors.extend(match unusable {
            UnusableSelector::Named => {
                let why = "invalid label selector";
                Some(FieldError::invalid("spec.selector", &selector.to_string(), why))
            }
            UnusableSelector::Bare => Some(FieldError {
                reason: "FieldValueInvalid",
                field: "spec.selector".to_owned(),
                message: format!("Invalid value: {selector}"),
            }),
            UnusableSelector::Silent => None,
        }),
        Some(parsed) if parsed.is_empty() || !parsed.matches_labels(Some(labels)) => {
            errors.push(unmatched(labels));
        }
        Some(_) => {}
    }
    errors
}

/// Validates a ReplicationController, whose selector is a map of labels.
pub(in crate::kinds::builtin) fn validate_label_map(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let selector = spec["selector"].as_object().filter(|labels| !labels.is_empty());
    if selector.is_none() {
        errors.push(FieldError::required("spec.selector", ""));
    }
    errors.extend(not_negative(spec, "minReadySeconds"));
    errors.extend(not_negative(spec, "replicas"));
    let template = &spec["template"];
    if template.is_null() {
        errors.push(FieldError::required("spec.template", ""));
        return errors;
    }
    let labels = &template["metadata"]["labels"];
    let matches = |(name, value): (&String, &Value)| labels.get(name) == Some(value);
    if selector.is_some_and(|selector| !selector.iter().all(matches)) {
        errors.push(unmatched(labels));
    }
    errors
}

fn unmatched(labels: &Value) -> FieldError {
    let why = "`selector` does not match template `labels`";
    FieldError::invalid("spec.template.metadata.labels", &labels.to_string(), why)
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
