//! StorageClasses.

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::set;
use super::shared::immutable_fields::immutable;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct StorageClass;

impl BuiltinKind for StorageClass {
    fn default(&self, class: &mut Value) {
        set(class, "reclaimPolicy", json!("Delete"));
        set(class, "volumeBindingMode", json!("Immediate"));
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        old.map(|old| validate_update(old, new)).unwrap_or_default()
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
