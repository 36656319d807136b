//! IngressClasses.

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{set, within};
use super::shared::immutable_fields::immutable;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct IngressClass;

impl BuiltinKind for IngressClass {
    fn default(&self, class: &mut Value) {
        within(class, "spec", |spec| {
            within(spec, "parameters", |parameters| set(parameters, "scope", json!("Cluster")));
        });
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        old.map(|old| immutable("spec", &old["spec"], &new["spec"], &["controller"])).unwrap_or_default()
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
            &json!({"spec": {"controller": "a"}}),
            &json!({"spec": {"controller": "b"}}),
            &["spec.controller: Invalid value: \"b\": field is immutable"],
        );
    }
}
