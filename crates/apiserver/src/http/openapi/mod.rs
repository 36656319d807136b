//! OpenAPI documents: the objects that clients may send, and the requests that they may make. Version 3 has one document for each group
//! version. Version 2 is a single document, converted from the documents of version 3.
//!
//! Paths are generated from the served resources; schemas come from the data files or from CustomResourceDefinitions. kubectl reads two
//! parts: the PATCH operation of a kind (its patch types, and whether it supports `fieldValidation`), and the schema with the kind's
//! `x-kubernetes-group-version-kind`, for `explain`. Documents are generated on request. Clients cache them by a hash of the inputs, so
//! that the index does not need the documents.

mod custom_schemas;
mod general;
pub(crate) mod gnostic;
mod paths;
mod schemas;
mod swagger;

use serde_json::{Map, Value, json};

use crate::http::discovery;
use crate::kind::resource::Resource;
use general::General;
pub(crate) use swagger::Swagger;

/// A resource to describe.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Published<'a> {
    pub(crate) resource: &'a Resource,
    /// `openAPIV3Schema` of a custom kind.
    pub(crate) schema: Option<&'a Value>,
}

impl Published<'_> {
    /// Returns the path of the document that contains the resource, such as `api/v1` or `apis/apps/v1`.
    fn path(&self) -> String {
        let prefix = if self.resource.group.is_empty() { "api" } else { "apis" };
        format!("{prefix}/{}", self.resource.api_version())
    }

    /// Returns the name of the resource's schema, such as `io.k8s.api.core.v1.Pod`. Custom groups are reversed: `com.example.v1.Widget`.
    fn schema_name(&self) -> String {
        let resource = self.resource;
        match schemas::builtin_name(&resource.api_version(), &resource.kind) {
            Some(name) if self.schema.is_none() => name,
            _ => {
                let reversed: Vec<&str> = resource.group.rsplit('.').collect();
                format!("{}.{}.{}", reversed.join("."), resource.version, resource.kind)
            }
        }
    }
}

/// Returns the paths of all documents.
pub(crate) fn paths(published: &[Published<'_>]) -> Vec<String> {
    let mut paths: Vec<String> = generals(published).into_iter().map(|general| general.path).collect();
    for resource in published {
        let path = resource.path();
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

fn generals(published: &[Published<'_>]) -> Vec<General> {
    General::all(published.iter().map(|described| described.resource))
}

/// Builds the index at `/openapi/v3`, with the URL of each document.
pub(crate) fn index(published: &[Published<'_>]) -> Value {
    let url =
        |path: &str, hash: &str| json!({ "serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}") });
    let paths = paths(published).into_iter();
    let entries =
        paths.filter_map(|path| hash(published, &path).map(|hash| (path.clone(), url(&path, &hash))));
    json!({ "paths": Value::Object(entries.collect()) })
}

/// Returns the cache key of the document at `path`; `None` if there is none.
pub(crate) fn hash(published: &[Published<'_>], path: &str) -> Option<String> {
    let mut input = String::new();
    for described in published.iter().filter(|resource| resource.path() == path) {
        let resource = described.resource;
        for part in [&resource.plural, &resource.singular, &resource.kind, &resource.list_kind] {
            input.push_str(part);
            input.push('\n');
        }
        for subresource in discovery::subresources(resource) {
            input.push_str(&subresource.name);
            input.push('\n');
        }
        input.push(if resource.namespaced { 'n' } else { 'c' });
        for field in &resource.selectable {
            input.push_str(&field.label);
            input.push('\n');
        }
        if let Some(schema) = described.schema {
            input.push_str(&schema.to_string());
        }
    }
    if input.is_empty() && generals(published).iter().any(|general| general.path == path) {
        input.push_str(path);
    }
    if input.is_empty() {
        return None;
    }
    // Another version of this server may describe resources differently.
    input.push_str(env!("CARGO_PKG_VERSION"));
    Some(discovery::etag(input.as_bytes()))
}

/// Returns the cache key of `/openapi/v2`.
pub(crate) fn hash_of_all(published: &[Published<'_>]) -> String {
    discovery::etag(index(published).to_string().as_bytes())
}

/// Builds the document at `path`, such as `apis/apps/v1`; `None` if there is none.
pub(crate) fn document(published: &[Published<'_>], path: &str) -> Option<Value> {
    let described = described_at(published, path);
    let paths = paths_at(published, &described, path)?;
    let schemas = schemas::referred(&described, &paths);
    let mut document = wrapped(paths, schemas);
    if described.first().is_some_and(|first| first.schema.is_some()) {
        // The document of kube-apiserver's controller of definitions.
        document["info"] = json!({ "title": "Kubernetes CRD Swagger", "version": "v0.1.0" });
        if let Some(components) = document["components"].as_object_mut() {
            components.remove("securitySchemes");
        }
    }
    Some(document)
}

/// Returns the resources that the document at `path` describes.
fn described_at<'a>(published: &[Published<'a>], path: &str) -> Vec<Published<'a>> {
    published.iter().filter(|resource| resource.path() == path).copied().collect()
}

/// Builds the `paths` of the document at `path`, which describes `described`.
fn paths_at(
    published: &[Published<'_>],
    described: &[Published<'_>],
    path: &str,
) -> Option<Map<String, Value>> {
    let Some(first) = described.first() else {
        return generals(published).into_iter().find(|general| general.path == path).map(General::into_paths);
    };
    let mut all = Map::new();
    // kube-apiserver's controller of definitions publishes no discovery document.
    if first.schema.is_none() {
        all.insert(format!("/{path}/"), paths::of_group_version(first.resource));
    }
    for described in described {
        paths::of_resource(described.resource, &described.schema_name(), &mut all);
    }
    Some(all)
}

fn wrapped(paths: Map<String, Value>, schemas: Map<String, Value>) -> Value {
    let bearer = json!({ "in": "header", "name": "authorization", "type": "apiKey" });
    let mut document = json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": "1.36" },
        "components": { "securitySchemes": { "BearerToken": bearer } },
    });
    // Assigned separately, because `json!` would copy the values.
    document["paths"] = Value::Object(paths);
    document["components"]["schemas"] = Value::Object(schemas);
    document
}

/// Returns the schema name of a type in `k8s.io/apimachinery/pkg/apis/meta/v1`.
fn meta(kind: &str) -> String {
    format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}")
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

#[cfg(test)]
mod tests;
