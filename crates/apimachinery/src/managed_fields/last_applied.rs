//! Compatibility with client-side `kubectl apply`: the last-applied-configuration annotation.
//!
//! Only the manager `kubectl` is treated this way. Other managers neither gain nor lose fields because of the annotation.

use serde_json::Value;

use super::compare::compare;
use super::extract::fields_of;
use super::set::FieldSet;
use super::typed::Ty;
use super::update::remove_entries;

/// Manager name of `kubectl apply --server-side`.
pub(super) const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Maximum size of all annotations of an object, in bytes. If the new annotation would exceed it, it becomes empty.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// Returns the fields with equal values in `live` and in its annotation. `kubectl` may take them without force.
pub(super) fn agreed_fields(ty: Ty<'_>, live: &Value, api_version: &str) -> FieldSet {
    let recorded = live["metadata"]["annotations"][ANNOTATION].as_str();
    let recorded = recorded.and_then(|text| serde_json::from_str::<Value>(text).ok());
    // An annotation in another version has other fields, so it allows nothing.
    let Some(recorded) = recorded.filter(|recorded| recorded["apiVersion"] == api_version) else {
        return FieldSet::default();
    };
    let mut agreed = fields_of(ty, &recorded);
    let comparison = compare(ty, &recorded, live);
    // A field of the annotation that has another value in the live object was changed by another writer and stays in conflict.
    agreed.subtract(&comparison.modified);
    agreed.subtract(&comparison.added);
    agreed.subtract(&comparison.removed);
    agreed
}

/// Updates the annotation, if there is one, to `applied`.
pub(super) fn renew(object: &mut Value, applied: &Value) {
    let Some(annotation) =
        object.pointer_mut("/metadata/annotations").and_then(|all| all.get_mut(ANNOTATION))
    else {
        // kube-apiserver updates the annotation only where a client-side apply created it.
        return;
    };
    let mut recorded = applied.clone();
    remove_entries(&mut recorded);
    // The annotation does not contain itself.
    if let Some(annotations) = recorded.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    // Go's JSON encoder ends the text with a line feed.
    let text = format!("{recorded}\n");
    *annotation = Value::String(if text.len() > MAX_ANNOTATIONS { String::new() } else { text });
}
