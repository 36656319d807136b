//! IngressClasses.

use kube_apimachinery::go::quote;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{set_pointer, within};
use super::shared::immutable_fields::IMMUTABLE;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct IngressClass;

impl BuiltinKind for IngressClass {
    fn default(&self, class: &mut Value) {
        within(class, "spec", |spec| {
            within(spec, "parameters", |parameters| set_pointer(parameters, "scope", json!("Cluster")));
        });
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let controller = |class: &Value| class["spec"]["controller"].as_str().unwrap_or_default().to_owned();
        let new = controller(new);
        let mut errors = Vec::new();
        if old.is_some_and(|old| controller(old) != new) {
            errors.push(FieldError::invalid("spec.controller", &quote(&new), IMMUTABLE));
        }
        if new.is_empty() {
            errors.push(FieldError::required("spec.controller", ""));
        } else if !new.contains('/') {
            let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.push(FieldError::invalid("spec.controller", &quote(&new), why));
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::check_update;

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
