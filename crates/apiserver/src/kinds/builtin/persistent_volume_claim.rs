//! PersistentVolumeClaims.

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{set, within};
use crate::kind::resource::Resource;

/// Finalizer that protects claims in use.
pub(crate) const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";

#[derive(Debug)]
pub(super) struct PersistentVolumeClaim;

impl BuiltinKind for PersistentVolumeClaim {
    fn default(&self, claim: &mut Value) {
        within(claim, "spec", |spec| set(spec, "volumeMode", json!("Filesystem")));
        within(claim, "status", |status| set(status, "phase", json!("Pending")));
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        old.and_then(|old| validate_update(old, new)).into_iter().collect()
    }
}

/// Checks changes of the spec. Once the claim is bound, only the storage request and the attributes class may change.
fn validate_update(old: &Value, new: &Value) -> Option<FieldError> {
    let kept = |object: &Value| {
        let mut spec = object["spec"].clone();
        if let Some(fields) = spec.as_object_mut() {
            // A claim is bound by setting its volume name.
            if old["spec"]["volumeName"].as_str().is_none_or(str::is_empty) {
                fields.remove("volumeName");
            }
            if old["status"]["phase"] == "Bound" {
                fields.remove("volumeAttributesClassName");
                if let Some(requests) = fields["resources"]["requests"].as_object_mut() {
                    requests.remove("storage");
                }
            }
        }
        spec
    };
    (kept(old) != kept(new)).then(|| {
        let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        FieldError::forbidden("spec", why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::check_update;

    #[test]
    fn a_bound_claim_may_grow() {
        let claim = |phase: &str, size: &str, volume: Option<&str>| {
            json!({
                "spec": {"resources": {"requests": {"storage": size}}, "volumeName": volume},
                "status": {"phase": phase},
            })
        };
        let why = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName \
                   for bound claims";
        let check = |old: Value, new: Value, expected: &[&str]| {
            check_update("PersistentVolumeClaim", &old, &new, expected);
        };
        check(claim("Pending", "1Gi", None), claim("Pending", "2Gi", None), &[why]);
        check(claim("Bound", "1Gi", Some("v")), claim("Bound", "2Gi", Some("v")), &[]);
        check(claim("Pending", "1Gi", None), claim("Pending", "1Gi", Some("v")), &[]);
        check(claim("Bound", "1Gi", Some("v")), claim("Bound", "1Gi", Some("w")), &[why]);
    }
}
