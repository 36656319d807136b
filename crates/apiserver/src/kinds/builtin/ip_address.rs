//! IPAddresses. An object's name is the address itself; the general name rule checks it.

use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::builtin_kind::BuiltinKind;
use super::shared::domain_checks::subdomain;
use super::shared::field_checks::path_segment;
use super::shared::fields::text;
use super::shared::immutable_fields::immutable_struct;
use crate::kind::resource::Resource;

const PARENT: &str = "spec.parentRef";

#[derive(Debug)]
pub(super) struct IPAddress;

impl BuiltinKind for IPAddress {
    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let parent = &new["spec"]["parentRef"];
        let mut errors = validate_parent(parent);
        errors.extend(old.and_then(|old| {
            immutable_struct(PARENT, "*networking.ParentReference", &old["spec"]["parentRef"], parent)
        }));
        errors
    }
}

/// Validates the reference to the object that uses the address. The group is empty for Services, which are in the core group.
fn validate_parent(parent: &Value) -> Vec<FieldError> {
    if parent.is_null() {
        return vec![FieldError::required(PARENT, "")];
    }
    let mut errors = match text(parent, "group") {
        "" => Vec::new(),
        group => subdomain(group, &format!("{PARENT}.group")),
    };
    // A cluster-scoped parent has no namespace.
    let is_set = |field: &&str| *field != "namespace" || !text(parent, field).is_empty();
    for field in ["resource", "name", "namespace"].iter().filter(|field| is_set(field)) {
        errors.extend(path_segment(parent, field, PARENT));
    }
    errors
}
