//! Plugin `PersistentVolumeClaimResize`: only a bound claim can grow, and only if its storage class allows that.

use kube_apimachinery::quantity::Quantity;
use kube_apimachinery::status::ApiError;
use serde_json::Value;

use super::rules::WriteRule;
use super::{Attributes, Operation};
use crate::kinds::builtin::resource_quota::storage_class;
use crate::store::Key;

pub(super) struct PersistentVolumeClaimResize;

impl WriteRule for PersistentVolumeClaimResize {
    fn validate(&self, attributes: &Attributes<'_>, object: &Value) -> Result<(), ApiError> {
        let (Operation::Update, Some(old)) = (attributes.operation, attributes.old) else {
            return Ok(());
        };
        if !attributes.is_of("", "persistentvolumeclaims") || size(object) <= size(old) {
            return Ok(());
        }
        if old["status"]["phase"] != "Bound" {
            return Err(attributes.forbidden(object, "Only bound persistent volume claims can be expanded"));
        }
        let class = storage_class(object);
        let can_grow = !class.is_empty()
            && class == storage_class(old)
            && attributes
                .get("storage.k8s.io", "storageclasses", &Key::new("", class))
                .is_some_and(|class| class["allowVolumeExpansion"] == true);
        if can_grow {
            return Ok(());
        }
        let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
                   support resize";
        Err(attributes.forbidden(object, why))
    }
}

/// Returns the requested storage of a claim.
fn size(claim: &Value) -> Quantity {
    let asked = claim["spec"]["resources"]["requests"]["storage"].as_str();
    asked.and_then(Quantity::read).unwrap_or(Quantity::ZERO)
}
