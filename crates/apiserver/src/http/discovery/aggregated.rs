//! Aggregated discovery: `APIGroupDiscoveryList` of `apidiscovery.k8s.io/v2`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{VersionResources, groups, subresources};
use crate::kind::resource::{Resource, Subresource};

/// Content type of an aggregated document, by which clients choose their decoder.
pub(crate) const AGGREGATED_CONTENT_TYPE: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Whether an `Accept` header asks for the aggregated form before any other JSON form. `v2beta1` is no longer served and is
/// skipped.
pub(crate) fn wants_aggregated(accept: &str) -> bool {
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let parameters: Vec<&str> = parts.collect();
        let json = matches!(media_type, "application/json" | "application/*" | "*/*");
        if !json {
            continue;
        }
        if !parameters.iter().any(|parameter| parameter.starts_with("as=")) {
            // Plain JSON, which the client prefers to later ranges, is the legacy form.
            return false;
        }
        let wanted = ["g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"];
        if wanted.iter().all(|parameter| parameters.contains(parameter)) {
            return true;
        }
    }
    false
}

/// Returns the `Accept` header for a response that is not aggregated: ranges that request a known aggregated version lose their parameters.
pub(crate) fn without_aggregation(accept: &str) -> String {
    let ranges = accept.split(',').map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let parameters: Vec<&str> = parts.collect();
        let is_known = parameters.contains(&"v=v2") || parameters.contains(&"v=v2beta1");
        let wanted = ["g=apidiscovery.k8s.io", "as=APIGroupDiscoveryList"];
        if is_known && wanted.iter().all(|parameter| parameters.contains(parameter)) {
            media_type
        } else {
            range
        }
    });
    ranges.collect::<Vec<_>>().join(",")
}

/// Path of an aggregated discovery document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiscoveryRoot {
    /// `/api`: the core group.
    Api,
    /// `/apis`: all other groups.
    Apis,
}

/// Builds the document for a path.
pub(crate) fn aggregated(resources: &[Arc<Resource>], root: DiscoveryRoot) -> Value {
    let is_core = root == DiscoveryRoot::Api;
    let items: Vec<Value> = groups(resources)
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
