//! Types and places of fields in Go's structs, as far as OpenAPI documents do not show them: names of text types such as `v1.RestartPolicy`, and
//! embedded structs.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::data_file::Table;

static FIELDS: LazyLock<Table> = LazyLock::new(|| Table::new(include_str!("../../data/go-types.txt")));

/// A field of a struct, and a place in its value.
#[derive(Debug, Clone, Copy)]
pub(super) struct GoPlace<'a> {
    /// Name of the struct's definition; `None` for an object without one.
    pub(super) definition: Option<&'a str>,
    pub(super) field: &'a str,
    /// Number of lists and maps around the place.
    pub(super) depth: usize,
}

impl GoPlace<'_> {
    /// Returns the name of the type at the place; `None` if it is that of the OpenAPI document.
    pub(super) fn type_name(&self) -> Option<&'static str> {
        let (name, _) = self.entry()?;
        let element = (0..self.depth).try_fold(name, |name, _| {
            name.strip_prefix("[]").or_else(|| Some(name.strip_prefix("map[")?.split_once(']')?.1))
        })?;
        Some(element.trim_start_matches('*')).filter(|name| !name.is_empty())
    }

    /// Returns the embedded struct that has the field, such as `VolumeSource`; several are separated by dots.
    pub(super) fn embedded(&self) -> Option<&'static str> {
        self.entry().map(|(_, embedded)| embedded).filter(|embedded| !embedded.is_empty())
    }

    fn entry(&self) -> Option<(&'static str, &'static str)> {
        let entries = FIELDS.get(last_names(self.definition?))?;
        let fields: BTreeMap<&str, (&'static str, &'static str)> = serde_json::from_str(entries).ok()?;
        fields.get(self.field).copied()
    }
}

/// Returns `core.v1.PodSpec` for `io.k8s.api.core.v1.PodSpec`.
pub(super) fn last_names(definition: &str) -> &str {
    let dot = definition.rmatch_indices('.').nth(2);
    dot.map_or(definition, |(at, _)| &definition[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_the_type_of_its_field_or_of_an_element() {
        let place = |definition: &'static str, field: &'static str, depth: usize| GoPlace {
            definition: Some(definition),
            field,
            depth,
        };
        let policy = place("io.k8s.api.core.v1.PodSpec", "restartPolicy", 0);
        assert_eq!((policy.type_name(), policy.embedded()), (Some("v1.RestartPolicy"), None));
        let modes =
            |depth| place("io.k8s.api.core.v1.PersistentVolumeClaimSpec", "accessModes", depth).type_name();
        assert_eq!(modes(0), Some("[]v1.PersistentVolumeAccessMode"));
        assert_eq!(modes(1), Some("v1.PersistentVolumeAccessMode"));
        let source = place("io.k8s.api.core.v1.Volume", "emptyDir", 0);
        assert_eq!((source.type_name(), source.embedded()), (None, Some("VolumeSource")));
        // The values of a resource list are quantities.
        let limits = |depth| place("io.k8s.api.core.v1.ResourceRequirements", "limits", depth).type_name();
        assert_eq!((limits(0), limits(1)), (Some("v1.ResourceList"), None));
        assert_eq!(place("io.k8s.api.core.v1.PodSpec", "nodeName", 0).type_name(), None);
    }

    #[test]
    fn every_entry_parses() {
        for (name, source) in FIELDS.entries() {
            let fields: BTreeMap<&str, (&str, &str)> = serde_json::from_str(source).unwrap();
            assert!(!fields.is_empty(), "{name}");
        }
        assert!(FIELDS.entries().is_sorted_by_key(|(name, _)| *name));
    }
}
