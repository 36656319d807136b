//! StorageClasses.

use std::collections::{BTreeMap, BTreeSet};

use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::discouraged;
use super::shared::field_checks::{duplicate, invalid_text, too_long};
use super::shared::fields::{list, set_pointer, text};
use super::shared::immutable_fields::immutable;
use super::shared::label_selector::invalid;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct StorageClass;

impl BuiltinKind for StorageClass {
    fn default(&self, class: &mut Value) {
        set_pointer(class, "reclaimPolicy", json!("Delete"));
        set_pointer(class, "volumeBindingMode", json!("Immediate"));
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = validate(new);
        errors.extend(old.into_iter().flat_map(|old| validate_update(old, new)));
        errors
    }

    fn warnings(&self, _resource: &Resource, class: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (index, topology) in list(class, "allowedTopologies").iter().enumerate() {
            for (number, expression) in list(topology, "matchLabelExpressions").iter().enumerate() {
                let path = format!("allowedTopologies[{index}].matchLabelExpressions[{number}].key");
                let why = discouraged::node_label(text(expression, "key"));
                warnings.extend(why.map(|why| format!("{path}: {why}")));
            }
        }
        warnings
    }
}

fn validate(class: &Value) -> Vec<FieldError> {
    let mut errors = provisioner(text(class, "provisioner"), "provisioner");
    errors.extend(parameters(&class["parameters"]));
    for (field, values) in [
        ("reclaimPolicy", ["Delete", "Retain"]),
        ("volumeBindingMode", ["Immediate", "WaitForFirstConsumer"]),
    ] {
        let Some(given) = class[field].as_str() else { continue };
        // kube-apiserver tolerates an empty reclaim policy, but not an empty binding mode.
        let is_absent = given.is_empty() && field == "reclaimPolicy";
        if !is_absent && !values.contains(&given) {
            errors.push(FieldError::not_supported(field, given, &values));
        }
    }
    errors.extend(allowed_topologies(list(class, "allowedTopologies")));
    errors
}

/// Validates the name of a provisioner. Like kube-apiserver, this checks and shows it in lower case.
pub(super) fn provisioner(name: &str, field: &str) -> Vec<FieldError> {
    if name.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let name = name.to_lowercase();
    invalid(field, &name, &names::qualified(&name))
}

/// Validates the topologies in which volumes may be provisioned. No two of them may be equal.
fn allowed_topologies(topologies: &[Value]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut terms: Vec<BTreeMap<&str, BTreeSet<&str>>> = Vec::new();
    for (index, topology) in topologies.iter().enumerate() {
        let path = format!("allowedTopologies[{index}].matchLabelExpressions");
        let mut term = BTreeMap::new();
        for (number, expression) in list(topology, "matchLabelExpressions").iter().enumerate() {
            let path = format!("{path}[{number}]");
            let (values, wrong) = topology_values(expression, &format!("{path}.values"));
            errors.extend(wrong);
            let (key, field) = (text(expression, "key"), format!("{path}.key"));
            errors.extend(invalid(&field, key, &names::qualified(key)));
            if term.insert(key, values).is_some() {
                errors.push(duplicate(field, key));
            }
        }
        let earlier = terms.iter().filter(|earlier| **earlier == term).count();
        // kube-apiserver makes its list of terms with one nil map per topology, and then appends to it. An empty term equals each of them.
        let empty = if term.is_empty() { topologies.len() } else { 0 };
        errors.extend((0..earlier + empty).map(|_| duplicate(&*path, "")));
        terms.push(term);
    }
    errors
}

/// Returns the distinct values of a requirement, and the errors about them.
fn topology_values<'a>(expression: &'a Value, field: &str) -> (BTreeSet<&'a str>, Vec<FieldError>) {
    let values = list(expression, "values");
    let mut errors = Vec::new();
    if values.is_empty() {
        errors.push(FieldError::required(field, ""));
    }
    let mut seen = BTreeSet::new();
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        if !seen.insert(value) {
            errors.push(duplicate(format!("{field}[{index}]"), value));
        }
    }
    (seen, errors)
}

/// Validates the parameters of a storage class or of a volume attributes class.
pub(super) fn parameters(parameters: &Value) -> Vec<FieldError> {
    const MAX_COUNT: usize = 512;
    const MAX_SIZE: usize = 256 << 10;
    let entries = || parameters.as_object().into_iter().flatten();
    if entries().count() > MAX_COUNT {
        // kube-apiserver reports too many parameters as a value that is too long.
        return vec![too_long("parameters", MAX_COUNT)];
    }
    let mut errors = Vec::new();
    if entries().any(|(key, _)| key.is_empty()) {
        errors.push(invalid_text("parameters", "", "field can not be empty."));
    }
    let size: usize =
        entries().map(|(key, value)| key.len() + value.as_str().unwrap_or_default().len()).sum();
    if size > MAX_SIZE {
        errors.push(too_long("parameters", MAX_SIZE));
    }
    errors
}

fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    immutable("", old, new, &["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::{check, check_update};

    /// Texts of kube-apiserver v1.36.3, observed or read in its source.
    #[test]
    fn a_class_has_a_provisioner() {
        check("StorageClass", &json!({}), None, &["provisioner: Required value"]);
        check(
            "StorageClass",
            &json!({
                "provisioner": "p.x/y", "reclaimPolicy": "X", "volumeBindingMode": "Y", "parameters": {"": "x"},
                "allowedTopologies": [{"matchLabelExpressions": [{"key": "a", "values": []}]}],
            }),
            None,
            &[
                "parameters: Invalid value: \"\": field can not be empty.",
                "reclaimPolicy: Unsupported value: \"X\": supported values: \"Delete\", \"Retain\"",
                "volumeBindingMode: Unsupported value: \"Y\": supported values: \"Immediate\", \"WaitForFirstConsumer\"",
                "allowedTopologies[0].matchLabelExpressions[0].values: Required value",
            ],
        );
    }

    #[test]
    fn the_provisioner_stays() {
        check_update(
            "StorageClass",
            &json!({"provisioner": "a"}),
            &json!({"provisioner": "b"}),
            &["provisioner: Invalid value: \"b\": field is immutable"],
        );
    }
}
