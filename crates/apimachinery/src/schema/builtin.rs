//! Schemas of builtin kinds, from the OpenAPI definitions that a kube-apiserver v1.36.3 publishes.

use std::sync::{Arc, LazyLock};

use super::{Definitions, Schema};
use crate::data_file::Table;
use crate::go_struct;

static DEFINITIONS: LazyLock<Table> =
    LazyLock::new(|| Table::new(include_str!("../../data/definitions.txt")));

/// Returns the text of the OpenAPI schema `name`, such as `io.k8s.api.apps.v1.Deployment`.
#[must_use]
pub fn definition(name: &str) -> Option<&'static str> {
    DEFINITIONS.get(name)
}

/// Returns all OpenAPI schemas as (name, JSON), sorted by name.
#[must_use]
pub fn definitions() -> &'static [(&'static str, &'static str)] {
    DEFINITIONS.entries()
}

/// Returns the schema `name`, such as `io.k8s.api.apps.v1.Deployment`, which is parsed on first use. `None` if there is no such
/// definition.
#[must_use]
pub fn builtin(name: &str) -> Option<Arc<Schema>> {
    static SCHEMAS: LazyLock<Arc<Definitions>> = LazyLock::new(|| Arc::new(Definitions::new(definitions())));
    Schema::builtin(&SCHEMAS, name)
}

/// Returns the schema of a kind that need not be a resource, such as `policy/v1` and `Eviction`.
#[must_use]
pub fn schema_of_kind(api_version: &str, kind: &str) -> Option<Arc<Schema>> {
    let message = go_struct::message_of_kind(api_version, kind)?;
    builtin(&format!("io.k8s.api.{}", message.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_sorted_by_name_so_that_lookups_find_all_of_them() {
        assert!(definitions().is_sorted_by_key(|(name, _)| *name));
    }
}
