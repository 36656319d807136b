//! CustomResourceDefinitions as objects: their defaults, validation and deletion.

mod conditions;
mod object;
mod validate_definition;

use kube_apimachinery::metadata;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::builtin::Plain;
use crate::kind::registry::ServedKind;
use crate::kind::resource::StorageKey;
use crate::kind::{Strategy, WriteContext};
pub(crate) use conditions::{condition, set_condition};
pub(crate) use validate_definition::approval_condition;

pub(crate) const GROUP: &str = "apiextensions.k8s.io";
pub(crate) const PLURAL: &str = "customresourcedefinitions";
/// Finalizer that keeps a definition until its objects are deleted.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Storage key of definitions.
pub(crate) fn table() -> StorageKey {
    StorageKey { group: GROUP.to_owned(), plural: PLURAL.to_owned() }
}

pub(crate) fn is_table(storage: &StorageKey) -> bool {
    storage.group == GROUP && storage.plural == PLURAL
}

/// Strategy of definitions.
#[derive(Debug)]
pub(crate) struct Definition;

impl Strategy for Definition {
    /// The first DELETE only marks the definition, so it has no propagation policy. Later ones have one.
    fn propagates(&self, _served: &ServedKind, definition: &Value) -> bool {
        metadata::is_terminating(definition)
    }

    fn default(&self, served: &ServedKind, definition: &mut Value) {
        Plain.default(served, definition);
        object::default(definition);
    }

    fn converted_form(&self, definition: &Value) -> Option<Value> {
        object::with_shared_lists(definition)
    }

    fn prepare_create(&self, served: &ServedKind, context: &WriteContext<'_>, definition: &mut Value) {
        Plain.prepare_create(served, context, definition);
        object::prepare_create(definition);
    }

    fn prepare_update(
        &self,
        _served: &ServedKind,
        _context: &WriteContext<'_>,
        _old: &Value,
        new: &mut Value,
        subresource: &str,
    ) {
        // Definitions are stored as JSON, so empty lists stay, unlike those of other builtin kinds.
        object::prepare_update(new, subresource);
    }

    fn validate_create(&self, _served: &ServedKind, definition: &Value) -> Vec<FieldError> {
        validate_definition::create(definition)
    }

    fn validate_update(
        &self,
        _served: &ServedKind,
        old: &Value,
        new: &Value,
        subresource: &str,
    ) -> Vec<FieldError> {
        if subresource.is_empty() {
            validate_definition::update(old, new)
        } else {
            validate_definition::update_status(new)
        }
    }

    fn warnings(
        &self,
        _served: &ServedKind,
        definition: &Value,
        old: Option<&Value>,
        subresource: &str,
    ) -> Vec<String> {
        if subresource.is_empty() { validate_definition::warnings(definition, old) } else { Vec::new() }
    }

    fn pins_deleted_uid(&self) -> bool {
        true
    }

    fn held(&self, _definition: &Value) -> bool {
        true
    }

    fn marks_itself(&self) -> bool {
        true
    }

    fn mark_deleted(&self, now: &str, definition: &mut Value, first: bool) {
        if first {
            object::mark_deleted(now, definition);
        }
    }
}
