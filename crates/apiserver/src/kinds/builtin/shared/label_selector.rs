//! Validation of label selectors.

use kube_apimachinery::go::quote;
use kube_apimachinery::go_struct::internal_text;
use kube_apimachinery::names;
use kube_apimachinery::selector::LabelSelector;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::fields::{list, text};
use super::immutable_fields::IMMUTABLE;

/// Validates the labels and expressions of the selector at the path `field`.
pub(in crate::kinds::builtin) fn validate(selector: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        let place = format!("{field}.matchLabels");
        errors.extend(invalid(&place, key, &names::qualified(key)));
        let value = value.as_str().unwrap_or_default();
        errors.extend(invalid(&place, value, &names::label_value(value)));
    }
    for (index, expression) in list(selector, "matchExpressions").iter().enumerate() {
        let place = format!("{field}.matchExpressions[{index}]");
        let values = list(expression, "values");
        match (text(expression, "operator"), values.is_empty()) {
            ("In" | "NotIn", true) => errors.push(FieldError::required(
                format!("{place}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            ("Exists" | "DoesNotExist", false) => errors.push(FieldError::forbidden(
                format!("{place}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
            (operator, _) => errors.push(FieldError::invalid(
                format!("{place}.operator"),
                &quote(operator),
                "not a valid selector operator",
            )),
        }
        let key = text(expression, "key");
        errors.extend(invalid(&format!("{place}.key"), key, &names::qualified(key)));
        for (index, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            errors.extend(invalid(&format!("{place}.values[{index}]"), value, &names::label_value(value)));
        }
    }
    errors
}

/// Parses a selector. `None` if it is missing or invalid; invalid names and values of labels count, too.
pub(in crate::kinds::builtin) fn parse(selector: &Value) -> Option<LabelSelector> {
    let is_valid = !selector.is_null() && validate(selector, "").is_empty();
    LabelSelector::from_object(selector).filter(|_| is_valid)
}

/// Returns a selector as messages show it, with its fields in the order of Go's struct.
pub(in crate::kinds::builtin) fn shown(selector: &Value) -> String {
    internal_text("*metav1.LabelSelector", selector)
}

/// Returns an error if a selector differs from the old one.
pub(in crate::kinds::builtin) fn immutable(field: &str, old: &Value, new: &Value) -> Option<FieldError> {
    (old != new).then(|| FieldError::invalid(field, &shown(new), IMMUTABLE))
}

/// Returns an error for each reason why a value is invalid.
pub(in crate::kinds::builtin) fn invalid(field: &str, value: &str, why: &[String]) -> Vec<FieldError> {
    why.iter().map(|why| FieldError::invalid(field, &quote(value), why)).collect()
}
