//! Data files about the resources of builtin kinds. Entries are looked up by name and parsed on demand.
//!
//! The first line of each file names its origin and describes its entries.

use std::sync::LazyLock;

use kube_apimachinery::data_file::{self, Table};

/// Table columns by kind: `[[name, type, priority, description], …]`, without the column of the name. They come from recorded tables.
/// Kinds without a recording, and some others, define their columns in code.
static COLUMNS: LazyLock<Table> = LazyLock::new(|| Table::new(include_str!("../../../data/columns.txt")));
/// Descriptions of ObjectMeta and the other schemas of metadata, by field, as kube-apiserver v1.36.3 publishes them. The empty name holds
/// the description of the schema itself. Other fields have no descriptions.
static DESCRIPTIONS: LazyLock<Table> =
    LazyLock::new(|| Table::new(include_str!("../../../data/descriptions.txt")));

/// Returns the recorded columns of a kind as JSON.
pub(crate) fn columns(kind: &str) -> Option<&'static str> {
    COLUMNS.get(kind)
}

/// Returns all recorded columns as (kind, JSON).
#[cfg(test)]
pub(crate) fn all_columns() -> &'static [(&'static str, &'static str)] {
    COLUMNS.entries()
}

/// Returns the descriptions of the schema `name` and its fields, as a JSON object of texts.
pub(crate) fn descriptions(name: &str) -> Option<&'static str> {
    DESCRIPTIONS.get(name)
}

/// Returns all resources as (group version, JSON) in discovery order.
pub(crate) fn resources() -> impl Iterator<Item = (&'static str, &'static str)> {
    data_file::entries(include_str!("../../../data/resources.txt"))
}

#[cfg(test)]
mod tests {
    use kube_apimachinery::schema;

    use super::*;

    #[test]
    fn every_file_is_sorted_by_name_so_that_lookups_find_all_entries() {
        assert!(COLUMNS.entries().is_sorted_by_key(|(name, _)| *name));
        assert!(DESCRIPTIONS.entries().is_sorted_by_key(|(name, _)| *name));
    }

    #[test]
    fn descriptions_are_those_of_fields_that_exist() {
        for (name, texts) in DESCRIPTIONS.entries() {
            let schema: serde_json::Value = serde_json::from_str(schema::definition(name).unwrap()).unwrap();
            let texts: serde_json::Map<String, serde_json::Value> = serde_json::from_str(texts).unwrap();
            for field in texts.keys().filter(|field| !field.is_empty()) {
                assert!(schema["properties"].get(field).is_some(), "{name} has no {field}");
            }
        }
    }
}
