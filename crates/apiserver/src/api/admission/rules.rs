//! Rules: plugins that decide without waiting, and only about creates and updates.

use kube_apimachinery::metadata;
use kube_apimachinery::status::ApiError;
use serde_json::Value;

use super::{Attributes, Operation};
use crate::kind::resource::StorageKey;
use crate::store::Key;

/// A plugin that decides without waiting. Both methods are called for creates and updates.
pub(super) trait WriteRule: Send + Sync {
    /// Changes or refuses the object of a write.
    ///
    /// # Errors
    /// The reason why the write is refused.
    fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        let _ = (attributes, object);
        Ok(())
    }

    /// Checks the object of a write in its final form.
    ///
    /// # Errors
    /// The reason why the write is refused.
    fn validate(&self, attributes: &Attributes<'_>, object: &Value) -> Result<(), ApiError> {
        let _ = (attributes, object);
        Ok(())
    }
}

impl Attributes<'_> {
    /// Whether the operation is a create or an update, so that rules apply.
    pub(super) fn is_write(&self) -> bool {
        matches!(self.operation, Operation::Create | Operation::Update)
    }

    /// Whether the operation is about objects of a resource, not one of its subresources.
    pub(super) fn is_of(&self, group: &str, plural: &str) -> bool {
        self.subresource.is_empty() && self.is_below(group, plural)
    }

    /// Whether the operation is about objects of a resource or its subresources.
    pub(super) fn is_below(&self, group: &str, plural: &str) -> bool {
        self.served.resource.group == group && self.served.resource.plural == plural
    }

    /// Builds the 403 of a plugin. `object` provides the name of a new object, or `generateName` if the name is not generated yet.
    pub(super) fn forbidden(&self, object: &Value, why: &str) -> ApiError {
        let names = [self.name, metadata::text(object, "name"), metadata::text(object, "generateName")];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        ApiError::forbidden(&self.served.resource.group, &self.served.resource.plural, name, why)
    }

    /// Returns the objects of a builtin resource (version `v1`) in a namespace, or in all if it is empty, by name.
    pub(super) fn list(&self, group: &str, plural: &str, namespace: &str) -> Vec<Value> {
        let Some(served) = self.cluster.registry().get(group, "v1", plural).cloned() else {
            return Vec::new();
        };
        let storage = StorageKey { group: group.to_owned(), plural: plural.to_owned() };
        let snapshot = self.cluster.read(|store| store.snapshot(&storage));
        snapshot.range(namespace, None).map(|(_, stored)| served.value(stored)).collect()
    }

    /// Returns an object of a builtin resource (version `v1`).
    pub(super) fn get(&self, group: &str, plural: &str, key: &Key) -> Option<Value> {
        let served = self.cluster.registry().get(group, "v1", plural).cloned()?;
        let stored = self.cluster.read(|store| store.get(served.storage(), key).cloned())?;
        Some(served.value(&stored))
    }
}
