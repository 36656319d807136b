//! VolumeAttributesClasses.

use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::builtin_kind::BuiltinKind;
use super::shared::fields::text;
use super::storage_class;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct VolumeAttributesClass;

impl BuiltinKind for VolumeAttributesClass {
    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for field in ["driverName", "parameters"] {
            if old.is_some_and(|old| old[field] != new[field]) {
                errors.push(FieldError::forbidden(field, &format!("updates to {field} are forbidden.")));
            }
        }
        // kube-apiserver checks the name of the driver like that of a provisioner.
        errors.extend(storage_class::provisioner(text(new, "driverName"), "driverName"));
        errors.extend(storage_class::parameters(&new["parameters"]));
        if new["parameters"].as_object().is_none_or(serde_json::Map::is_empty) {
            errors.push(FieldError::required("parameters", "must contain at least one key/value pair"));
        }
        errors
    }

    fn compares_empty(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::kinds::builtin::test_helpers::check;

    /// Texts of kube-apiserver v1.36.3, observed or read in its source.
    #[test]
    fn a_class_has_a_driver_and_parameters() {
        check(
            "VolumeAttributesClass",
            &json!({}),
            None,
            &[
                "driverName: Required value",
                "parameters: Required value: must contain at least one key/value pair",
            ],
        );
    }
}
