//! StorageClasses.

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::discouraged;
use super::shared::fields::{list, set_pointer, text};
use super::shared::immutable_fields::immutable;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct StorageClass;

impl BuiltinKind for StorageClass {
    fn default(&self, class: &mut Value) {
        set_pointer(class, "reclaimPolicy", json!("Delete"));
        set_pointer(class, "volumeBindingMode", json!("Immediate"));
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        old.map(|old| validate_update(old, new)).unwrap_or_default()
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

fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    immutable("", old, new, &["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::check_update;

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
