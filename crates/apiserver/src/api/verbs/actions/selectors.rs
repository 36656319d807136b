//! Selectors in access reviews. They are validated and then ignored, because roles do not restrict actions by selector.

use kube_apimachinery::go::quote;
use kube_apimachinery::names;
use kube_apimachinery::selector::LabelSelector;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

const FIELD: &str = "fieldSelector";
const LABEL: &str = "labelSelector";

/// Validates the selectors of `resourceAttributes`.
pub(super) fn validate(attributes: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for name in [FIELD, LABEL] {
        let selector = &attributes[name];
        if selector.is_null() {
            continue;
        }
        let path = format!("spec.resourceAttributes.{name}");
        let (raw, requirements) = (raw(selector), requirements(selector));
        if !raw.is_empty() && !requirements.is_empty() {
            let why = "may not specified at the same time as requirements";
            errors.push(FieldError::invalid(format!("{path}.rawSelector"), &quote(raw), why));
        }
        if raw.is_empty() && requirements.is_empty() {
            let why = format!("when {path} is specified, requirements or rawSelector is required");
            errors.push(FieldError::required(format!("{path}.requirements"), &why));
        }
        for (index, requirement) in requirements.iter().enumerate() {
            let place = format!("{path}.requirements[{index}]");
            if name == FIELD {
                if key(requirement).is_empty() {
                    errors.push(FieldError::required(format!("{place}.key"), "must be specified"));
                }
                errors.extend(validate_values(requirement, &place));
            } else {
                errors.extend(validate_values(requirement, &place));
                errors.extend(validate_label(requirement, &place));
            }
        }
    }
    errors
}

/// Checks that a requirement has values if and only if its operator needs them.
fn validate_values(requirement: &Value, place: &str) -> Option<FieldError> {
    let has_values = !values(requirement).is_empty();
    let field = format!("{place}.values");
    match requirement["operator"].as_str().unwrap_or_default() {
        "In" | "NotIn" if !has_values => {
            Some(FieldError::required(field, "must be specified when `operator` is 'In' or 'NotIn'"))
        }
        "Exists" | "DoesNotExist" if has_values => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            Some(FieldError::forbidden(field, why))
        }
        _ => None,
    }
}

/// Checks the syntax of a label and its values.
fn validate_label(requirement: &Value, place: &str) -> Vec<FieldError> {
    let key = key(requirement);
    let of_key = names::qualified(key);
    let mut errors: Vec<FieldError> =
        of_key.iter().map(|why| FieldError::invalid(format!("{place}.key"), &quote(key), why)).collect();
    for (index, value) in values(requirement).iter().filter_map(Value::as_str).enumerate() {
        let field = format!("{place}.values[{index}]");
        errors.extend(
            names::label_value(value)
                .iter()
                .map(|why| FieldError::invalid(field.clone(), &quote(value), why)),
        );
    }
    errors
}

/// Returns the evaluation error for selectors that cannot be parsed; empty if all can.
pub(super) fn unread(attributes: &Value) -> String {
    let mut errors = Vec::new();
    for name in [FIELD, LABEL] {
        let selector = &attributes[name];
        let (raw, requirements) = (raw(selector), requirements(selector));
        let readable = requirements.iter().filter(|requirement| is_readable(name, requirement)).count();
        let fails = if requirements.is_empty() {
            !raw.is_empty() && !is_readable_text(name, raw)
        } else {
            readable < requirements.len()
        };
        if fails {
            let partially = if readable > 0 { "partially " } else { "" };
            errors.push(format!("spec.resourceAttributes.{name} {partially}ignored due to parse error"));
        }
    }
    errors.join("; ")
}

fn is_readable(name: &str, requirement: &Value) -> bool {
    match requirement["operator"].as_str().unwrap_or_default() {
        "In" | "NotIn" => name == LABEL || values(requirement).len() == 1,
        "Exists" | "DoesNotExist" => name == LABEL,
        _ => false,
    }
}

fn is_readable_text(name: &str, text: &str) -> bool {
    match name {
        LABEL => LabelSelector::parse(text).is_ok(),
        _ => text.split(',').all(|term| term.is_empty() || term.contains('=')),
    }
}

fn raw(selector: &Value) -> &str {
    selector["rawSelector"].as_str().unwrap_or_default()
}

fn requirements(selector: &Value) -> &[Value] {
    selector["requirements"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn key(requirement: &Value) -> &str {
    requirement["key"].as_str().unwrap_or_default()
}

fn values(requirement: &Value) -> &[Value] {
    requirement["values"].as_array().map(Vec::as_slice).unwrap_or_default()
}
