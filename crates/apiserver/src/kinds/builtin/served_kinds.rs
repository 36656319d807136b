//! Builds the resources of builtin kinds from the data files and the table in `kind_table`.

use std::sync::Arc;

use kube_apimachinery::schema::{self, Schema};
use serde::Deserialize;

use super::kind_table::{KINDS, KindAttributes, action, path};
use super::{columns, data};
use crate::kind::builtin_versions::BuiltinVersions;
use crate::kind::registry::{Registry, ServedKind};
use crate::kind::resource::{Resource, ScalePaths, StorageKey, Subresource};

/// A row of `resources.txt`, with the fields of discovery.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceRow {
    name: String,
    singular_name: String,
    kind: String,
    namespaced: bool,
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    #[serde(default)]
    storage_version_hash: String,
    #[serde(default)]
    subresources: Vec<SubresourceRow>,
    #[serde(default)]
    definition: String,
}

#[derive(Deserialize)]
struct SubresourceRow {
    name: String,
    kind: String,
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    verbs: Vec<String>,
}

/// Returns a registry of the builtin resources.
pub(crate) fn registry() -> Registry {
    let rows: Vec<_> = rows().collect();
    let served = |(kind, resource, schema): &(&'static KindAttributes, Arc<Resource>, Arc<Schema>)| {
        ServedKind::new(Arc::clone(resource), Arc::clone(schema), kind.strategy, None)
    };
    let all = rows.iter().map(|row| {
        let (_, resource, _) = row;
        let versions = rows.iter().filter(|(_, other, _)| other.storage == resource.storage);
        let is_converted = versions.clone().any(|(kind, ..)| kind.is_converted);
        // Stored objects are converted only between versions of one group. The two groups of Events share a storage, but not this.
        let versions = versions.filter(|(_, other, _)| other.group == resource.group);
        let versions = is_converted.then(|| Arc::new(BuiltinVersions(versions.map(served).collect())));
        served(row).with_builtin_versions(versions)
    });
    Registry::builtin(all.collect())
}

/// Returns the builtin resources in discovery order.
#[cfg(test)]
pub(crate) fn served() -> Vec<(Arc<Resource>, Arc<Schema>)> {
    rows().map(|(_, resource, schema)| (resource, schema)).collect()
}

/// Iterates over the builtin resources in discovery order. Schemas are parsed on first use.
fn rows() -> impl Iterator<Item = (&'static KindAttributes, Arc<Resource>, Arc<Schema>)> {
    data::resources().filter_map(|(group_version, row)| {
        // Comparing the text first saves parsing the rows of kinds that are not in the table.
        let kind = KINDS
            .iter()
            .find(|kind| kind.group_version == group_version && row.contains(&kind.quoted_name()))?;
        let row: ResourceRow = serde_json::from_str(row).ok()?;
        let schema = schema::builtin(&row.definition)?;
        Some((kind, Arc::new(kind.resource(row)), schema))
    })
}

/// Returns the schema of the body of a DELETE.
pub(crate) fn delete_options() -> Option<Arc<Schema>> {
    schema::builtin("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")
}

/// Returns the position of a group in discovery. The core group is first; unknown groups come after all builtin ones.
pub(crate) fn group_rank(group: &str) -> usize {
    let mut groups: Vec<&str> = data::resources()
        .map(|(group_version, _)| group_version.split_once('/').map_or("", |(group, _)| group))
        .collect();
    groups.dedup();
    groups.iter().position(|known| *known == group).unwrap_or(groups.len())
}

impl KindAttributes {
    fn quoted_name(&self) -> String {
        format!("\"name\":\"{}\",\"namespaced\"", self.plural)
    }

    fn resource(&self, row: ResourceRow) -> Resource {
        let (group, version) = self.group_version.split_once('/').unwrap_or(("", self.group_version));
        let other_subresources = row
            .subresources
            .iter()
            .filter(|sub| self.subresources.contains(&sub.name.as_str()))
            .map(|sub| Subresource {
                name: sub.name.clone(),
                kind: sub.kind.clone(),
                group_version: (!sub.version.is_empty()).then(|| (sub.group.clone(), sub.version.clone())),
                verbs: sub.verbs.clone(),
                action: action(self.plural, &sub.name),
                // Only connections have such kinds: `PodExecOptions`, `ServiceProxyOptions` and others.
                connects: sub.kind.ends_with("Options"),
            })
            .collect();
        Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            singular: row.singular_name,
            list_kind: format!("{}List", row.kind),
            namespaced: row.namespaced,
            short_names: row.short_names,
            categories: row.categories,
            verbs: row.verbs,
            storage: StorageKey {
                group: self.storage_group.unwrap_or(group).to_owned(),
                plural: row.name.clone(),
            },
            storage_version_hash: row.storage_version_hash,
            status: row.subresources.iter().any(|sub| sub.name == "status"),
            // All builtin kinds with `/scale` use the same fields for their replicas.
            scale: row.subresources.iter().any(|sub| sub.name == "scale").then(|| ScalePaths {
                spec_replicas: path("spec.replicas"),
                status_replicas: path("status.replicas"),
                selector: Some(path("spec.selector")),
                selector_form: self.scale_selector,
            }),
            other_subresources,
            columns: columns::of(&row.kind),
            selectable: (self.selectable)(),
            rules: self.rules,
            action: action(self.plural, ""),
            is_converted: self.is_converted,
            kind: row.kind,
            plural: row.name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_kind_is_found_in_the_data() {
        let served = served();
        assert_eq!(served.len(), KINDS.len());
        for kind in KINDS {
            assert!(
                served.iter().any(|(resource, _)| resource.plural == kind.plural
                    && resource.api_version() == kind.group_version),
                "{} {}",
                kind.group_version,
                kind.plural
            );
        }
    }

    #[test]
    fn events_of_both_groups_share_a_table() {
        let tables: Vec<StorageKey> = served()
            .into_iter()
            .filter(|(resource, _)| resource.kind == "Event")
            .map(|(resource, _)| resource.storage.clone())
            .collect();
        assert_eq!(tables.len(), 2);
        assert_eq!(tables[0], tables[1]);
    }

    #[test]
    fn subresources_are_those_of_the_kind() {
        let shown = |plural: &str| {
            let served = served();
            let (resource, _) = served.iter().find(|(resource, _)| resource.plural == plural).unwrap();
            let other: Vec<&str> = resource.other_subresources.iter().map(|sub| sub.name.as_str()).collect();
            format!("status={} scale={} {}", resource.status, resource.scale.is_some(), other.join(","))
        };
        assert_eq!(shown("configmaps"), "status=false scale=false ");
        assert_eq!(shown("namespaces"), "status=true scale=false finalize");
        assert_eq!(shown("daemonsets"), "status=true scale=false ");
        for scaled in ["deployments", "replicasets", "statefulsets", "replicationcontrollers"] {
            assert_eq!(shown(scaled), "status=true scale=true ");
        }
    }
}
