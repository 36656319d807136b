//! The builtin kinds that are served, and by hand what the data files do not say about them.
//!
//! A kind is here when answering generically is honest: no address to allocate, no node to ask. Everything else about it
//! comes from the data files, so that adding a kind is adding an entry.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use super::{columns, data};
use crate::resource::{
    Generation, NameRule, Resource, Rules, ScalePaths, SelectableField, StorageKey, Subresource,
};
use crate::schema::{Definitions, Schema};

/// What is known by hand about one kind.
struct Kind {
    group_version: &'static str,
    plural: &'static str,
    rules: Rules,
    /// Subresources that are served besides `status` and `scale`.
    subresources: &'static [&'static str],
    /// Group of the table that holds the objects, where it is not the kind's own.
    storage_group: Option<&'static str>,
    selectable: fn() -> Vec<SelectableField>,
    /// Where `/scale` finds its numbers; all builtin kinds that scale have them in the same places.
    scale: bool,
}

const RULES: Rules = Rules {
    generation: Generation::Never,
    unconditional_update: true,
    create_on_update: false,
    returns_deleted_object: false,
    name: NameRule::Subdomain,
    custom: false,
};

const WORKLOAD: Rules = Rules { generation: Generation::Spec, ..RULES };

const fn kind(group_version: &'static str, plural: &'static str, rules: Rules) -> Kind {
    Kind {
        group_version,
        plural,
        rules,
        subresources: &[],
        storage_group: None,
        selectable: Vec::new,
        scale: false,
    }
}

/// In no particular order: discovery has its own.
static KINDS: &[Kind] = &[
    kind("v1", "configmaps", RULES),
    kind("v1", "serviceaccounts", Rules { returns_deleted_object: true, ..RULES }),
    Kind { selectable: || vec![field("type", &["type"])], ..kind("v1", "secrets", RULES) },
    Kind {
        subresources: &["finalize"],
        selectable: || vec![field("status.phase", &["status.phase"])],
        ..kind("v1", "namespaces", Rules { name: NameRule::Label, ..RULES })
    },
    Kind {
        selectable: || event_fields("involvedObject", "reportingComponent"),
        ..kind("v1", "events", EVENT)
    },
    Kind {
        storage_group: Some(""),
        selectable: || event_fields("regarding", "reportingController"),
        ..kind("events.k8s.io/v1", "events", EVENT)
    },
    kind(
        "coordination.k8s.io/v1",
        "leases",
        Rules { unconditional_update: false, create_on_update: true, ..RULES },
    ),
    Kind {
        scale: true,
        ..kind("apps/v1", "deployments", Rules { generation: Generation::SpecOrAnnotations, ..RULES })
    },
    Kind { scale: true, ..kind("apps/v1", "replicasets", WORKLOAD) },
    Kind { scale: true, ..kind("apps/v1", "statefulsets", WORKLOAD) },
    kind("apps/v1", "daemonsets", WORKLOAD),
    kind("apps/v1", "controllerrevisions", RULES),
    kind(
        "apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        Rules { unconditional_update: false, ..WORKLOAD },
    ),
];

const EVENT: Rules = Rules { create_on_update: true, ..RULES };

/// A row of `resources.txt`, as discovery has it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
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

/// The schemas of all builtin kinds.
pub(crate) fn schemas() -> &'static Arc<Definitions> {
    static SCHEMAS: LazyLock<Arc<Definitions>> =
        LazyLock::new(|| Arc::new(Definitions::new(data::definitions())));
    &SCHEMAS
}

/// The builtin resources that are served, in the order of discovery. Nothing of a schema is parsed until it is used.
pub(crate) fn served() -> Vec<(Arc<Resource>, Arc<Schema>)> {
    data::resources()
        .filter_map(|(group_version, row)| {
            // Rows of other kinds are skipped by their names alone.
            let kind = KINDS
                .iter()
                .find(|kind| kind.group_version == group_version && row.contains(&kind.quoted_name()))?;
            let row: Row = serde_json::from_str(row).ok()?;
            let schema = Schema::builtin(schemas(), &row.definition)?;
            Some((Arc::new(kind.resource(row)), schema))
        })
        .collect()
}

/// The place of a group in discovery, after all builtin ones if it is none of them. The core group comes first.
pub(crate) fn group_rank(group: &str) -> usize {
    let mut groups: Vec<&str> = data::resources()
        .map(|(group_version, _)| group_version.split_once('/').map_or("", |(group, _)| group))
        .collect();
    groups.dedup();
    groups.iter().position(|known| *known == group).unwrap_or(groups.len())
}

impl Kind {
    fn quoted_name(&self) -> String {
        format!("\"name\":\"{}\",\"namespaced\"", self.plural)
    }

    fn resource(&self, row: Row) -> Resource {
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
            scale: self.scale.then(|| ScalePaths {
                spec_replicas: path("spec.replicas"),
                status_replicas: path("status.replicas"),
                selector: Some(path("spec.selector")),
            }),
            other_subresources,
            columns: columns::of(&row.kind),
            selectable: (self.selectable)(),
            rules: self.rules,
            kind: row.kind,
            plural: row.name,
        }
    }
}

fn path(dotted: &str) -> Vec<String> {
    dotted.split('.').map(str::to_owned).collect()
}

fn field(label: &str, paths: &[&str]) -> SelectableField {
    SelectableField {
        label: label.to_owned(),
        paths: paths.iter().map(|dotted| path(dotted)).collect(),
        absent: "",
    }
}

/// Both versions of Event select the same fields under different names.
fn event_fields(regarding: &str, reporter: &str) -> Vec<SelectableField> {
    let mut fields: Vec<SelectableField> =
        ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"]
            .iter()
            .map(|name| format!("{regarding}.{name}"))
            .map(|label| field(&label, &[&label]))
            .collect();
    fields.extend([field("reason", &["reason"]), field("type", &["type"]), field(reporter, &[reporter])]);
    if regarding == "involvedObject" {
        fields.push(field("source", &["source.component", reporter]));
    }
    fields
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
        let shown: Vec<String> = served()
            .into_iter()
            .filter(|(resource, _)| {
                resource.status || resource.scale.is_some() || !resource.other_subresources.is_empty()
            })
            .map(|(resource, _)| {
                let other: Vec<&str> =
                    resource.other_subresources.iter().map(|sub| sub.name.as_str()).collect();
                format!(
                    "{} status={} scale={} {}",
                    resource.plural,
                    resource.status,
                    resource.scale.is_some(),
                    other.join(",")
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                "namespaces status=true scale=false finalize",
                "daemonsets status=true scale=false ",
                "deployments status=true scale=true ",
                "replicasets status=true scale=true ",
                "statefulsets status=true scale=true ",
                "customresourcedefinitions status=true scale=false ",
            ]
        );
    }
}
