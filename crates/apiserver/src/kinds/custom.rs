//! Strategy of the kinds that definitions define: their schema has all rules.

use kube_apimachinery::metadata;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use crate::kind::Strategy;
use crate::kind::registry::ServedKind;

/// Strategy of custom kinds.
#[derive(Debug)]
pub(crate) struct Custom;

impl Strategy for Custom {
    /// Removes unknown fields that an admission webhook has added.
    fn prepare_storage(&self, served: &ServedKind, object: &mut Value) {
        served.schema.prune(object);
    }

    fn validate_create(&self, served: &ServedKind, object: &Value) -> Vec<FieldError> {
        with_embedded(served, object, served.schema.validate(object))
    }

    fn validate_update(
        &self,
        served: &ServedKind,
        old: &Value,
        new: &Value,
        subresource: &str,
    ) -> Vec<FieldError> {
        if subresource == "status" {
            served.schema.validate_status_update(old, new)
        } else {
            with_embedded(served, new, served.schema.validate_update(old, new))
        }
    }
}

/// Adds the errors of the embedded objects of a custom object.
fn with_embedded(served: &ServedKind, object: &Value, mut errors: Vec<FieldError>) -> Vec<FieldError> {
    for (place, embedded) in served.schema.embedded(object) {
        errors.extend(metadata::validate_embedded(&place, embedded));
    }
    errors
}
