//! Peace with `kubectl apply` of old: the annotation with what was applied last.
//!
//! Only the manager `kubectl` gets this treatment, so that others are not surprised by it.

use serde_json::Value;

use super::compare::compare;
use super::extract::fields_of;
use super::set::FieldSet;
use super::typed::Ty;
use super::update::remove_entries;

/// The manager under which `kubectl apply --server-side` writes.
pub(super) const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The annotation is left out where it would be larger than all annotations of an object may be.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// Fields that the annotation of `live` gives and that still are as it says: `kubectl` may take them without force.
pub(super) fn agreed_fields(ty: Ty<'_>, live: &Value, api_version: &str) -> FieldSet {
    let recorded = live["metadata"]["annotations"][ANNOTATION].as_str();
    let recorded = recorded.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(recorded) = recorded.filter(|recorded| recorded["apiVersion"] == api_version) else {
        return FieldSet::default();
    };
    let mut agreed = fields_of(ty, &recorded);
    let comparison = compare(ty, &recorded, live);
    agreed.subtract(&comparison.modified);
    agreed.subtract(&comparison.added);
    agreed.subtract(&comparison.removed);
    agreed
}

/// Keeps an annotation that is there in step with `applied`.
pub(super) fn renew(object: &mut Value, applied: &Value) {
    let Some(annotation) =
        object.pointer_mut("/metadata/annotations").and_then(|all| all.get_mut(ANNOTATION))
    else {
        return;
    };
    let mut recorded = applied.clone();
    remove_entries(&mut recorded);
    if let Some(annotations) = recorded.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    let text = format!("{recorded}\n");
    *annotation = Value::String(if text.len() > MAX_ANNOTATIONS { String::new() } else { text });
}
