//! Aggregated discovery: `APIGroupDiscoveryList` of `apidiscovery.k8s.io/v2`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{VersionResources, groups_with, subresources};
use crate::controllers::api_availability::RegisteredApi;
use crate::kind::resource::{Resource, Subresource};
use crate::request::accept::{Encoding, ranges};

/// Content types of an aggregated document, by which clients choose their decoder.
pub(crate) const AGGREGATED_JSON: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
pub(crate) const AGGREGATED_YAML: &str =
    "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Returns the encoding of the first range of an `Accept` header that asks for the aggregated form; `None` if no range does. Ranges without
/// it do not matter, even if they are preferred. `v2beta1` is no longer served.
pub(crate) fn wants_aggregated(accept: &str) -> Option<Encoding> {
    ranges(accept).iter().find_map(|range| {
        let wanted = [("g", "apidiscovery.k8s.io"), ("v", "v2"), ("as", "APIGroupDiscoveryList")];
        let is_aggregated = wanted.iter().all(|(name, value)| range.parameter(name) == Some(*value));
        Encoding::of(range).filter(|_| is_aggregated)
    })
}

/// Path of an aggregated discovery document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiscoveryRoot {
    /// `/api`: the core group.
    Api,
    /// `/apis`: all other groups.
    Apis,
}

/// Builds the document for a path. Versions in `beyond` that belong to other servers are listed as stale, because their resources are
/// unknown.
pub(crate) fn aggregated(
    resources: &[Arc<Resource>],
    beyond: &[RegisteredApi],
    root: DiscoveryRoot,
) -> Value {
    let is_core = root == DiscoveryRoot::Api;
    let remote: Vec<RegisteredApi> = beyond.iter().filter(|api| api.is_remote()).cloned().collect();
    let items: Vec<Value> = groups_with(resources, &remote)
        .into_iter()
        .filter(|group| group.name.is_empty() == is_core)
        .map(|group| {
            let metadata = if is_core { json!({}) } else { json!({ "name": group.name }) };
            let versions: Vec<Value> = group.versions.iter().map(version_entry).collect();
            json!({ "metadata": metadata, "versions": versions })
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    })
}

fn version_entry(version: &VersionResources) -> Value {
    if version.resources.is_empty() {
        return json!({ "version": version.name, "freshness": "Stale" });
    }
    let resources: Vec<Value> = version.resources.iter().map(|resource| resource_entry(resource)).collect();
    json!({ "version": version.name, "resources": resources, "freshness": "Current" })
}

fn resource_entry(resource: &Resource) -> Value {
    let mut entry = json!({
        "resource": resource.plural, "responseKind": response_kind(resource, &resource.kind, None),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular, "verbs": resource.verbs,
    });
    let subresources: Vec<Value> =
        subresources(resource).iter().map(|sub| sub_entry(resource, sub)).collect();
    for (key, list) in [
        ("shortNames", json!(resource.short_names)),
        ("categories", json!(resource.categories)),
        ("subresources", json!(subresources)),
    ] {
        if list.as_array().is_some_and(|list| !list.is_empty()) {
            entry[key] = list;
        }
    }
    entry
}

fn sub_entry(resource: &Resource, sub: &Subresource) -> Value {
    json!({
        "subresource": sub.name,
        "responseKind": response_kind(resource, &sub.kind, sub.group_version.as_ref()),
        "verbs": sub.verbs,
    })
}

/// Builds the response kind. Builtin kinds omit their own group and version, custom kinds do not.
fn response_kind(resource: &Resource, kind: &str, other: Option<&(String, String)>) -> Value {
    let (group, version) = match other {
        Some((group, version)) => (group.as_str(), version.as_str()),
        None if resource.rules.custom => (resource.group.as_str(), resource.version.as_str()),
        None => ("", ""),
    };
    json!({ "group": group, "version": version, "kind": kind })
}
