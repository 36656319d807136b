//! Namespaces: their finalizers, their phase and their deletion.

use kube_apimachinery::go::quote;
use kube_apimachinery::metadata;
use kube_apimachinery::names;
use kube_apimachinery::status::{ApiError, FieldError};
use serde_json::{Value, json};

use super::builtin::Plain;
use crate::kind::registry::ServedKind;
use crate::kind::resource::StorageKey;
use crate::kind::{Strategy, WriteContext};

/// Finalizer in `spec.finalizers` that keeps a namespace until it is empty.
pub(crate) const FINALIZER: &str = "kubernetes";
/// Label with the name of the namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// Finalizers without a domain.
const STANDARD: [&str; 3] = [FINALIZER, "orphan", "foregroundDeletion"];
/// Namespaces that cannot be deleted.
const PROTECTED: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Storage key of namespaces.
pub(crate) fn table() -> StorageKey {
    StorageKey::core("namespaces")
}

/// Strategy of namespaces.
#[derive(Debug)]
pub(crate) struct Namespace;

impl Strategy for Namespace {
    fn default(&self, served: &ServedKind, namespace: &mut Value) {
        Plain.default(served, namespace);
        default(namespace);
    }

    fn prepare_create(&self, served: &ServedKind, context: &WriteContext<'_>, namespace: &mut Value) {
        Plain.prepare_create(served, context, namespace);
        prepare_create(namespace);
    }

    fn prepare_storage(&self, served: &ServedKind, namespace: &mut Value) {
        Plain.prepare_storage(served, namespace);
    }

    fn prepare_update(
        &self,
        served: &ServedKind,
        context: &WriteContext<'_>,
        old: &Value,
        new: &mut Value,
        subresource: &str,
    ) {
        Plain.prepare_update(served, context, old, new, subresource);
        prepare_update(old, new, subresource);
    }

    fn validate_create(&self, served: &ServedKind, namespace: &Value) -> Vec<FieldError> {
        let mut errors = Plain.validate_create(served, namespace);
        // In kube-apiserver, only the errors of `/finalize` have the index in their path.
        errors.extend(validate_finalizers(namespace, |_| "spec.finalizers".to_owned()));
        errors
    }

    fn validate_update(
        &self,
        served: &ServedKind,
        old: &Value,
        new: &Value,
        subresource: &str,
    ) -> Vec<FieldError> {
        match subresource {
            "finalize" => validate_finalizers(new, |index| format!("spec.finalizers[{index}]")),
            "status" => validate_phase(new).into_iter().collect(),
            _ => Plain.validate_update(served, old, new, subresource),
        }
    }

    fn warnings(
        &self,
        served: &ServedKind,
        namespace: &Value,
        old: Option<&Value>,
        subresource: &str,
    ) -> Vec<String> {
        Plain.warnings(served, namespace, old, subresource)
    }

    fn admit_delete(&self, name: &str) -> Result<(), ApiError> {
        admit_delete(name)
    }

    fn pins_deleted_uid(&self) -> bool {
        true
    }

    fn deletable(&self, namespace: &Value) -> bool {
        is_finalized(namespace)
    }

    fn is_finalizing(&self, namespace: &Value) -> bool {
        metadata::is_terminating(namespace) && !is_finalized(namespace)
    }

    fn held(&self, namespace: &Value) -> bool {
        stays(namespace)
    }

    fn marks_itself(&self) -> bool {
        true
    }

    fn mark_deleted(&self, now: &str, namespace: &mut Value, first: bool) {
        // A repeated DELETE keeps the time of the first one.
        if first {
            mark_deleted(now, namespace);
        }
    }
}

/// Sets the phase, and the label with the namespace's name. A namespace with `generateName` only has no name yet.
pub(crate) fn default(namespace: &mut Value) {
    let status = &mut namespace["status"];
    if !status.is_object() {
        *status = json!({});
    }
    if status["phase"].as_str().unwrap_or_default().is_empty() {
        status["phase"] = json!("Active");
    }
    let name = metadata::text(namespace, "name").to_owned();
    if name.is_empty() {
        return;
    }
    let labels = metadata::of(namespace).entry("labels").or_insert_with(|| json!({}));
    if !labels.is_object() {
        *labels = json!({});
    }
    labels[NAME_LABEL] = json!(name);
}

/// Prepares a new namespace: phase, finalizer, and the label with its name, which may have been generated after defaulting.
pub(crate) fn prepare_create(namespace: &mut Value) {
    // kube-apiserver sets the label after validation, so a generated name that is not a valid label value is an error of the name only.
    let is_label = names::label_value(metadata::text(namespace, "name")).is_empty();
    let is_set = namespace["metadata"]["labels"].get(NAME_LABEL).is_some();
    if is_label || is_set {
        default(namespace);
    }
    // A client cannot create a namespace that is being deleted.
    namespace["status"] = json!({"phase": "Active"});
    let mut finalizers = namespace["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.contains(&json!(FINALIZER)) {
        finalizers.push(json!(FINALIZER));
    }
    namespace["spec"] = json!({"finalizers": finalizers});
}

/// Restores the part that the endpoint cannot write. Only `/finalize` changes `spec.finalizers`; it cannot change the status.
fn prepare_update(old: &Value, new: &mut Value, subresource: &str) {
    let kept = if subresource == "finalize" { "status" } else { "spec" };
    new[kept] = old[kept].clone();
}

/// Validates `spec.finalizers`: each is a qualified name or a standard finalizer. `field` returns the path of a finalizer by its index.
fn validate_finalizers(namespace: &Value, field: impl Fn(usize) -> String) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let finalizers = namespace["spec"]["finalizers"].as_array().into_iter().flatten();
    for (index, finalizer) in finalizers.filter_map(Value::as_str).enumerate() {
        let mut refuse = |why: &str| {
            errors.push(FieldError::invalid(field(index), &quote(finalizer), why));
        };
        names::qualified(finalizer).iter().for_each(|why| refuse(why));
        if !finalizer.contains('/') && !STANDARD.contains(&finalizer) {
            refuse("name is neither a standard finalizer name nor is it fully qualified");
        }
    }
    errors
}

/// Validates the phase in a write of `/status`. The deletion timestamp decides which phase is valid.
fn validate_phase(namespace: &Value) -> Option<FieldError> {
    let (expected, why) = if metadata::is_terminating(namespace) {
        ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty")
    } else {
        ("Active", "may only be 'Active' if `deletionTimestamp` is empty")
    };
    let phase = namespace["status"]["phase"].as_str().unwrap_or_default();
    // The path has the name of Go's field.
    (phase != expected).then(|| FieldError::invalid("status.Phase", &quote(phase), why))
}

/// Whether `spec.finalizers` is empty.
pub(crate) fn is_finalized(namespace: &Value) -> bool {
    namespace["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty)
}

/// Whether a DELETE leaves the namespace stored. The first DELETE always does, later ones until `spec.finalizers` is empty.
fn stays(namespace: &Value) -> bool {
    !metadata::is_terminating(namespace) || !is_finalized(namespace)
}

/// Returns the 403 for protected namespaces.
fn admit_delete(name: &str) -> Result<(), ApiError> {
    if PROTECTED.contains(&name) {
        return Err(ApiError::forbidden("", "namespaces", name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// Sets the deletion timestamp and the phase when a deletion starts. As in kube-apiserver, generation and grace period do not change.
fn mark_deleted(now: &str, namespace: &mut Value) {
    metadata::of(namespace).insert("deletionTimestamp".to_owned(), json!(now));
    namespace["status"]["phase"] = json!("Terminating");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of kube-apiserver v1.36.3, observed or read in its source.
    #[test]
    fn finalizers_of_a_new_namespace_are_validated() {
        let namespace = json!({"spec": {"finalizers": ["kubernetes", "example.com/a", "x", ""]}});
        let errors = validate_finalizers(&namespace, |_| "spec.finalizers".to_owned());
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let why = "name is neither a standard finalizer name nor is it fully qualified";
        assert_eq!(errors[0], format!("spec.finalizers: Invalid value: \"x\": {why}"));
        assert_eq!(errors.last(), Some(&format!("spec.finalizers: Invalid value: \"\": {why}")));
        assert!(errors[1].contains("name part must be non-empty"), "{errors:?}");
    }

    /// Texts of kube-apiserver v1.36.3, observed or read in its source.
    #[test]
    fn the_phase_follows_from_the_deletion() {
        let message = |deleted: Value, phase: &str| {
            let namespace = json!({"metadata": {"deletionTimestamp": deleted}, "status": {"phase": phase}});
            validate_phase(&namespace).map(|error| error.to_string())
        };
        assert_eq!(message(Value::Null, "Active"), None);
        assert_eq!(message(json!("2026-01-01T00:00:00Z"), "Terminating"), None);
        assert_eq!(
            message(Value::Null, "Terminating").as_deref(),
            Some(
                "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"
            )
        );
        assert_eq!(
            message(json!("2026-01-01T00:00:00Z"), "Active").as_deref(),
            Some(
                "status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty"
            )
        );
    }
}
