//! OpenAPI v3: what clients may send, and what they may ask, one document per group version.
//!
//! Paths are made from the resources that are served, schemas come from the data files or from definitions. kubectl
//! reads two things: the PATCH operation of a kind (whether it knows `fieldValidation`, which patches it takes), and the
//! schema that says it is the kind's, for `explain`. Documents are made when asked for; what clients keep them by is a
//! hash of what goes into them, so that the index costs no document.

mod paths;
mod schemas;

use serde_json::{Map, Value, json};

use crate::discovery;
use crate::resource::Resource;

/// A resource to be described.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Published<'a> {
    pub(crate) resource: &'a Resource,
    /// `openAPIV3Schema` of a custom kind.
    pub(crate) schema: Option<&'a Value>,
}

impl Published<'_> {
    /// The document that describes it: `api/v1`, `apis/apps/v1`.
    fn path(&self) -> String {
        let prefix = if self.resource.group.is_empty() { "api" } else { "apis" };
        format!("{prefix}/{}", self.resource.api_version())
    }

    /// The name of its schema: `io.k8s.api.core.v1.Pod`, or the group in reverse, as in `com.example.v1.Widget`.
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

/// `/openapi/v3`: where the documents are.
pub(crate) fn index(published: &[Published<'_>]) -> Value {
    let mut paths = Map::new();
    for resource in published {
        let path = resource.path();
        if !paths.contains_key(&path)
            && let Some(hash) = hash(published, &path)
        {
            let url = format!("/openapi/v3/{path}?hash={hash}");
            paths.insert(path, json!({ "serverRelativeURL": url }));
        }
    }
    json!({ "paths": paths })
}

/// By what a client knows the document at `path` again; `None` if there is none.
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
        if let Some(schema) = described.schema {
            input.push_str(&schema.to_string());
        }
    }
    if input.is_empty() {
        return None;
    }
    // Another version of this server may describe the same resources otherwise.
    input.push_str(env!("CARGO_PKG_VERSION"));
    Some(discovery::etag(input.as_bytes()))
}

/// The document at `path`, such as `apis/apps/v1`; `None` if there is none.
pub(crate) fn document(published: &[Published<'_>], path: &str) -> Option<Value> {
    let described: Vec<Published<'_>> =
        published.iter().filter(|resource| resource.path() == path).copied().collect();
    let first = described.first()?;
    let mut all = Map::new();
    all.insert(format!("/{path}/"), paths::of_group_version(first.resource));
    for described in &described {
        paths::of_resource(described.resource, &described.schema_name(), &mut all);
    }
    let schemas = schemas::referred(&described, &all);
    Some(json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": "1.36" },
        "paths": all,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "BearerToken": { "in": "header", "name": "authorization", "type": "apiKey" } },
        },
    }))
}

/// The name of a type in `k8s.io/apimachinery/pkg/apis/meta/v1`.
fn meta(kind: &str) -> String {
    format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}")
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

#[cfg(test)]
mod tests;
