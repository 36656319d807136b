use std::sync::Arc;

use super::*;
use crate::builtin;

fn builtin_resources() -> Vec<Arc<Resource>> {
    builtin::served().into_iter().map(|(resource, _)| resource).collect()
}

fn builtin_document(path: &str) -> Value {
    let resources = builtin_resources();
    let published: Vec<Published<'_>> =
        resources.iter().map(|resource| Published { resource, schema: None }).collect();
    document(&published, path).unwrap()
}

/// A line per operation: method, path, id, action.
fn operations(document: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if let Some(id) = operation["operationId"].as_str() {
                let action = operation["x-kubernetes-action"].as_str().unwrap_or("-");
                lines.push(format!("{method} {path} {id} {action}"));
            }
        }
    }
    lines
}

#[test]
fn a_builtin_group_has_the_recorded_operations() {
    assert_eq!(
        operations(&builtin_document("apis/coordination.k8s.io/v1")),
        [
            "get /apis/coordination.k8s.io/v1/ getCoordinationV1APIResources -",
            "get /apis/coordination.k8s.io/v1/leases listCoordinationV1LeaseForAllNamespaces list",
            "delete /apis/coordination.k8s.io/v1/namespaces/{namespace}/leases deleteCoordinationV1CollectionNamespacedLease deletecollection",
            "get /apis/coordination.k8s.io/v1/namespaces/{namespace}/leases listCoordinationV1NamespacedLease list",
            "post /apis/coordination.k8s.io/v1/namespaces/{namespace}/leases createCoordinationV1NamespacedLease post",
            "delete /apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name} deleteCoordinationV1NamespacedLease delete",
            "get /apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name} readCoordinationV1NamespacedLease get",
            "patch /apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name} patchCoordinationV1NamespacedLease patch",
            "put /apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name} replaceCoordinationV1NamespacedLease put",
            "get /apis/coordination.k8s.io/v1/watch/leases watchCoordinationV1LeaseListForAllNamespaces watchlist",
            "get /apis/coordination.k8s.io/v1/watch/namespaces/{namespace}/leases watchCoordinationV1NamespacedLeaseList watchlist",
            "get /apis/coordination.k8s.io/v1/watch/namespaces/{namespace}/leases/{name} watchCoordinationV1NamespacedLease watch",
        ]
    );
}

#[test]
fn a_document_holds_every_schema_it_refers_to() {
    for path in ["api/v1", "apis/apps/v1", "apis/apiextensions.k8s.io/v1", "apis/events.k8s.io/v1"] {
        let document = builtin_document(path);
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{path}: {name}");
        }
        assert!(schemas.len() > 15, "{path}");
    }
}

#[test]
fn kubectl_finds_what_it_asks_for_in_the_patch_of_a_kind() {
    let document = builtin_document("apis/apps/v1");
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "version": "v1", "kind": "Deployment"})
    );
    let parameters = patch["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|parameter| parameter["name"] == "fieldValidation"));
    assert!(patch["requestBody"]["content"]["application/strategic-merge-patch+json"].is_object());
    let scale = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]["patch"];
    assert_eq!(scale["x-kubernetes-group-version-kind"]["kind"], "Scale");
}

fn widgets() -> Resource {
    let leases = builtin_resources().into_iter().find(|resource| resource.plural == "leases");
    let mut resource = (*leases.unwrap()).clone();
    resource.group = "example.com".to_owned();
    resource.version = "v1".to_owned();
    resource.plural = "widgets".to_owned();
    resource.kind = "Widget".to_owned();
    resource.list_kind = "WidgetList".to_owned();
    resource.namespaced = true;
    resource.status = true;
    resource.rules.custom = true;
    resource
}

#[test]
fn a_custom_kind_is_published_with_the_fields_of_every_object() {
    let resource = widgets();
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
    let published = [Published { resource: &resource, schema: Some(&schema) }];
    let document = document(&published, "apis/example.com/v1").unwrap();
    let widget = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(
        widget["properties"].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["apiVersion", "kind", "metadata", "spec"]
    );
    assert_eq!(
        widget["x-kubernetes-group-version-kind"],
        json!([{"group": "example.com", "kind": "Widget", "version": "v1"}])
    );
    assert!(document["components"]["schemas"]["com.example.v1.WidgetList"].is_object());
    assert!(document["components"]["schemas"]["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"].is_object());
    let path = "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}";
    let patch = &document["paths"][path]["patch"];
    assert_eq!(patch["operationId"], "patchExampleComV1NamespacedWidget");
    assert_eq!(
        patch["requestBody"]["content"].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"]
    );
    assert!(document["paths"][format!("{path}/status")]["put"].is_object());
}

#[test]
fn the_hash_changes_with_the_schema_and_only_then() {
    let resource = widgets();
    let hash_of = |schema: &Value| {
        let published = [Published { resource: &resource, schema: Some(schema) }];
        let found = hash(&published, "apis/example.com/v1").unwrap();
        let index = index(&published);
        assert_eq!(
            index["paths"]["apis/example.com/v1"]["serverRelativeURL"],
            format!("/openapi/v3/apis/example.com/v1?hash={found}")
        );
        found
    };
    let one = json!({"type": "object"});
    let other = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    assert_eq!(hash_of(&one), hash_of(&one));
    assert_ne!(hash_of(&one), hash_of(&other));
    assert_eq!(hash(&[], "apis/example.com/v1"), None);
}
