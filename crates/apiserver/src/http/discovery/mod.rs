//! Discovery: the served groups, versions and resources.
//!
//! There are two forms: one document for each group and version (legacy), and an aggregated document for all groups, which clients request
//! by `Accept`. Both are pure functions of the served resources and do not depend on their order.

mod aggregated;

use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest, Sha512};

use crate::kind::resource::{Resource, Subresource};
use crate::kind::storage_version::version_order;
use crate::kinds::builtin;

use crate::controllers::api_availability::RegisteredApi;
pub(crate) use aggregated::{AGGREGATED_JSON, AGGREGATED_YAML, DiscoveryRoot, aggregated, wants_aggregated};

/// A group and its served versions, in order of preference.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) versions: Vec<VersionResources>,
}

/// A version and its resources, in listing order.
#[derive(Debug)]
pub(crate) struct VersionResources {
    pub(crate) name: String,
    pub(crate) resources: Vec<Arc<Resource>>,
}

/// Sorts resources for discovery: builtin groups in the order of kube-apiserver, then others by name; versions by
/// stability and age; resources by name.
pub(crate) fn groups(resources: &[Arc<Resource>]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for resource in resources {
        let group = position_or_insert(
            &mut groups,
            |group| group.name == resource.group,
            || Group { name: resource.group.clone(), versions: Vec::new() },
        );
        let version = position_or_insert(
            &mut group.versions,
            |version| version.name == resource.version,
            || VersionResources { name: resource.version.clone(), resources: Vec::new() },
        );
        version.resources.push(Arc::clone(resource));
    }
    groups.sort_by_cached_key(|group| (builtin::group_rank(&group.name), group.name.clone()));
    for group in &mut groups {
        group.versions.sort_by(|a, b| version_order(&a.name, &b.name));
        for version in &mut group.versions {
            version.resources.sort_by(|a, b| a.plural.cmp(&b.plural));
        }
    }
    groups
}

fn position_or_insert<T>(list: &mut Vec<T>, found: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> &mut T {
    let at = list.iter().position(found).unwrap_or_else(|| {
        list.push(new());
        list.len() - 1
    });
    &mut list[at]
}

/// Builds `/api`. `address` is the listening address of this server, `host:port`.
pub(crate) fn core_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// Builds `/apis`. `beyond` are registered groups and versions without served resources.
pub(crate) fn group_list(resources: &[Arc<Resource>], beyond: &[RegisteredApi]) -> Value {
    let groups = groups_with(resources, beyond);
    let groups: Vec<Value> = groups.iter().filter(|group| !group.name.is_empty()).map(group_entry).collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// Returns the served groups, followed by the groups and versions without served resources.
fn groups_with(resources: &[Arc<Resource>], beyond: &[RegisteredApi]) -> Vec<Group> {
    let mut groups = groups(resources);
    for api in beyond {
        let group = position_or_insert(
            &mut groups,
            |group| group.name == api.group,
            || Group { name: api.group.clone(), versions: Vec::new() },
        );
        group.versions.push(VersionResources { name: api.version.clone(), resources: Vec::new() });
    }
    groups
}

/// Builds `/apis/<group>`; `None` if no version of the group is registered.
pub(crate) fn group(resources: &[Arc<Resource>], beyond: &[RegisteredApi], name: &str) -> Option<Value> {
    let groups = groups_with(resources, beyond);
    let group = groups.iter().find(|group| group.name == name && !name.is_empty())?;
    let mut document = group_entry(group);
    document["kind"] = json!("APIGroup");
    document["apiVersion"] = json!("v1");
    Some(document)
}

fn group_entry(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            let group_version = format!("{}/{}", group.name, version.name);
            json!({ "groupVersion": group_version, "version": version.name })
        })
        .collect();
    let preferred = versions.first().cloned();
    json!({ "name": group.name, "versions": versions, "preferredVersion": preferred })
}

/// Builds `/api/v1` (the group is empty) or `/apis/<group>/<version>`; `None` if no resource of it is served.
pub(crate) fn resource_list(resources: &[Arc<Resource>], group: &str, version: &str) -> Option<Value> {
    let groups = groups(resources);
    let group = groups.iter().find(|known| known.name == group)?;
    let version = group.versions.iter().find(|known| known.name == version)?;
    let group_version = version.resources.first()?.api_version();
    let entries: Vec<Value> = version
        .resources
        .iter()
        .flat_map(|resource| {
            std::iter::once(main_entry(resource))
                .chain(subresources(resource).into_iter().map(|sub| sub_entry(resource, &sub)))
        })
        .collect();
    let mut list = json!({ "kind": "APIResourceList", "groupVersion": group_version, "resources": entries });
    // The document of the core group has no `apiVersion`, for historical reasons.
    if !group.name.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    Some(list)
}

fn main_entry(resource: &Resource) -> Value {
    let mut entry = json!({
        "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": resource.verbs,
    });
    for (key, list) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !list.is_empty() {
            entry[key] = json!(list);
        }
    }
    if !resource.storage_version_hash.is_empty() {
        entry["storageVersionHash"] = json!(resource.storage_version_hash);
    }
    entry
}

fn sub_entry(resource: &Resource, sub: &Subresource) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", resource.plural, sub.name), "singularName": "",
        "namespaced": resource.namespaced, "kind": sub.kind, "verbs": sub.verbs,
    });
    if let Some((group, version)) = &sub.group_version {
        entry["group"] = json!(group);
        entry["version"] = json!(version);
    }
    entry
}

/// Returns all subresources in discovery order: by name for builtin kinds, `status` first for custom ones.
pub(crate) fn subresources(resource: &Resource) -> Vec<Subresource> {
    let verbs: Vec<String> = ["get", "patch", "update"].map(str::to_owned).to_vec();
    let status = resource.status.then(|| Subresource {
        name: "status".to_owned(),
        kind: resource.kind.clone(),
        group_version: None,
        verbs: verbs.clone(),
        action: None,
        connects: false,
    });
    let scale = resource.scale.is_some().then(|| Subresource {
        name: "scale".to_owned(),
        kind: "Scale".to_owned(),
        group_version: Some(("autoscaling".to_owned(), "v1".to_owned())),
        verbs,
        action: None,
        connects: false,
    });
    let mut all: Vec<Subresource> = status.into_iter().chain(scale).collect();
    all.extend(resource.other_subresources.iter().cloned());
    if !resource.rules.custom {
        all.sort_by(|a, b| a.name.cmp(&b.name));
    }
    all
}

/// Returns the entity tag of a document, without the quotes of the `ETag` header.
pub(crate) fn etag(document: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha512::digest(document).iter().fold(String::with_capacity(128), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}

#[cfg(test)]
mod tests;
