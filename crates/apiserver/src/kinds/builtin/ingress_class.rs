//! IngressClasses.

use kube_apimachinery::go::quote;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::domain_checks::domain_path;
use super::shared::field_checks::{path_segment, supported, too_long};
use super::shared::fields::{set_pointer, text, within};
use super::shared::immutable_fields::IMMUTABLE;
use super::shared::label_selector::invalid;
use crate::kind::resource::Resource;

/// Maximum length of a controller's name in bytes.
const MAX_CONTROLLER: usize = 250;

#[derive(Debug)]
pub(super) struct IngressClass;

impl BuiltinKind for IngressClass {
    fn default(&self, class: &mut Value) {
        within(class, "spec", |spec| {
            // The scope is newer than the reference, which at first could name cluster-scoped objects only.
            within(spec, "parameters", |parameters| set_pointer(parameters, "scope", json!("Cluster")));
        });
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let controller = |class: &Value| class["spec"]["controller"].as_str().unwrap_or_default().to_owned();
        let parameters = &new["spec"]["parameters"];
        let new = controller(new);
        let mut errors = Vec::new();
        if old.is_some_and(|old| controller(old) != new) {
            errors.push(FieldError::invalid("spec.controller", &quote(&new), IMMUTABLE));
        }
        if new.len() > MAX_CONTROLLER {
            errors.push(too_long("spec.controller", MAX_CONTROLLER));
        }
        errors.extend(domain_path(&new, "spec.controller"));
        errors.extend(validate_parameters(parameters, "spec.parameters"));
        errors
    }
}

/// Validates the reference to the object that holds the parameters of the class.
fn validate_parameters(parameters: &Value, path: &str) -> Vec<FieldError> {
    const SCOPES: [&str; 2] = ["Cluster", "Namespace"];
    let mut errors = Vec::new();
    if parameters.is_null() {
        return errors;
    }
    if let Some(group) = parameters["apiGroup"].as_str() {
        errors.extend(invalid(&format!("{path}.apiGroup"), group, &names::subdomain(group)));
    }
    errors.extend(path_segment(parameters, "kind", path));
    errors.extend(path_segment(parameters, "name", path));
    let namespace = parameters["namespace"].as_str();
    let field = format!("{path}.namespace");
    match (text(parameters, "scope"), namespace) {
        ("Namespace", None) => {
            errors.push(FieldError::required(field, "`parameters.scope` is set to 'Namespace'"));
        }
        ("Namespace", Some(name)) => errors.extend(invalid(&field, name, &names::label(name))),
        ("Cluster", Some(_)) => {
            errors.push(FieldError::forbidden(field, "`parameters.scope` is set to 'Cluster'"));
        }
        _ => errors.extend(supported(parameters, "scope", path, &SCOPES)),
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::{check, check_update};

    /// Texts of kube-apiserver v1.36.3, observed or read in its source.
    #[test]
    fn parameters_are_in_the_cluster_or_in_a_namespace() {
        let check = |parameters: Value, expected: &[&str]| {
            let class = json!({"spec": {"controller": "a.b/c", "parameters": parameters}});
            check("IngressClass", &class, None, expected);
        };
        check(
            json!({"kind": "", "name": "", "scope": "Cluster"}),
            &["spec.parameters.kind: Required value", "spec.parameters.name: Required value"],
        );
        check(
            json!({"kind": "K", "name": "n", "scope": "Namespace"}),
            &["spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"],
        );
        check(
            json!({"kind": "K", "name": "n", "scope": "X", "namespace": "n"}),
            &[
                "spec.parameters.scope: Unsupported value: \"X\": supported values: \"Cluster\", \"Namespace\"",
            ],
        );
    }

    #[test]
    fn the_controller_is_immutable() {
        check_update(
            "IngressClass",
            &json!({"spec": {"controller": "a.b/a"}}),
            &json!({"spec": {"controller": "a.b/b"}}),
            &["spec.controller: Invalid value: \"a.b/b\": field is immutable"],
        );
    }
}
