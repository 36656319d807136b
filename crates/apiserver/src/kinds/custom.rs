//! Strategy of the kinds that definitions define: their schema has all rules.

use std::collections::BTreeSet;

use kube_apimachinery::go::quote;
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

    /// Warns of added finalizers without a domain.
    fn warnings(
        &self,
        _served: &ServedKind,
        object: &Value,
        old: Option<&Value>,
        subresource: &str,
    ) -> Vec<String> {
        let known = old.map(metadata::finalizers).unwrap_or_default();
        let added: BTreeSet<&str> = metadata::finalizers(object).into_iter().collect();
        let is_plain = |name: &&str| {
            !known.contains(name) && !name.contains('/') && !["orphan", "foregroundDeletion"].contains(name)
        };
        let warning = |name: &str| {
            format!(
                "metadata.finalizers: {}: prefer a domain-qualified finalizer name to avoid accidental conflicts with other \
                 finalizer writers",
                quote(name)
            )
        };
        let added = added.into_iter().filter(|_| subresource.is_empty()).filter(is_plain);
        added.map(warning).collect()
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
