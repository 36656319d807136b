//! Plugin `StorageObjectInUseProtection`: new volumes, claims and volume attributes classes get a finalizer. A controller removes it from a
//! deleted object that is no longer in use.

use kube_apimachinery::metadata;
use kube_apimachinery::status::ApiError;
use serde_json::{Value, json};

use super::rules::WriteRule;
use super::{Attributes, Operation};
use crate::kinds::builtin::{CLAIM_PROTECTION, VOLUME_PROTECTION};

/// Finalizer of volume attributes classes.
const CLASS_PROTECTION: &str = "kubernetes.io/vac-protection";

pub(super) struct StorageObjectInUseProtection;

impl WriteRule for StorageObjectInUseProtection {
    fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        if attributes.operation != Operation::Create || !attributes.subresource.is_empty() {
            return Ok(());
        }
        let resource = &attributes.served.resource;
        let finalizer = match (resource.group.as_str(), resource.plural.as_str()) {
            ("", "persistentvolumes") => VOLUME_PROTECTION,
            ("", "persistentvolumeclaims") => CLAIM_PROTECTION,
            ("storage.k8s.io", "volumeattributesclasses") => CLASS_PROTECTION,
            _ => return Ok(()),
        };
        protect(object, finalizer);
        Ok(())
    }
}

/// Adds a finalizer, unless the object has it.
fn protect(object: &mut Value, finalizer: &str) {
    let fields = metadata::of(object);
    let list = fields.entry("finalizers").or_insert_with(|| json!([]));
    if list.is_null() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut()
        && !list.iter().any(|known| known == finalizer)
    {
        list.push(json!(finalizer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_finalizer_is_added_once() {
        let mut object = json!({"metadata": {"finalizers": ["a/b"]}});
        protect(&mut object, CLAIM_PROTECTION);
        protect(&mut object, CLAIM_PROTECTION);
        assert_eq!(object["metadata"]["finalizers"], json!(["a/b", CLAIM_PROTECTION]));
    }
}
