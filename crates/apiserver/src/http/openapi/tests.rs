use std::sync::Arc;

use super::*;
use crate::kinds::builtin;

fn builtin_resources() -> Vec<Arc<Resource>> {
    builtin::served().into_iter().map(|(resource, _)| resource).collect()
}

fn builtin_document(path: &str) -> Value {
    let resources = builtin_resources();
    let published: Vec<Published<'_>> =
        resources.iter().map(|resource| Published { resource, schema: None }).collect();
    document(&published, path).unwrap()
}

/// Lists the operations, one line each: method, path, id, action.
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

/// Recorded with v1.36.3.
#[test]
fn connections_have_the_recorded_operations() {
    let document = builtin_document("api/v1");
    let all = operations(&document);
    let of = |path: &str| -> Vec<String> {
        let methods = all.iter().filter(|line| line.split(' ').nth(1) == Some(path));
        methods.map(|line| line.replacen(path, "…", 1)).collect()
    };
    assert_eq!(
        of("/api/v1/namespaces/{namespace}/pods/{name}/exec"),
        [
            "get … connectCoreV1GetNamespacedPodExec connect",
            "post … connectCoreV1PostNamespacedPodExec connect"
        ]
    );
    let proxy = "/api/v1/nodes/{name}/proxy/{path}";
    assert_eq!(
        of(proxy),
        [
            "delete … connectCoreV1DeleteNodeProxyWithPath connect",
            "get … connectCoreV1GetNodeProxyWithPath connect",
            "head … connectCoreV1HeadNodeProxyWithPath connect",
            "options … connectCoreV1OptionsNodeProxyWithPath connect",
            "patch … connectCoreV1PatchNodeProxyWithPath connect",
            "post … connectCoreV1PostNodeProxyWithPath connect",
            "put … connectCoreV1PutNodeProxyWithPath connect",
        ]
    );
    let parameters = |path: &str| -> Vec<String> {
        let parameters = document["paths"][path]["parameters"].as_array().unwrap().iter();
        parameters
            .map(|one| format!("{} {} {}", one["in"], one["name"], one["schema"]["type"]).replace('"', ""))
            .collect()
    };
    assert_eq!(parameters(proxy), ["path name string", "path path string", "query path string"]);
    assert_eq!(
        parameters("/api/v1/namespaces/{namespace}/pods/{name}/portforward"),
        ["path name string", "path namespace string", "query ports integer"]
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
fn the_patch_of_a_kind_has_the_parts_that_kubectl_reads() {
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

#[test]
fn paths_without_resources_have_documents_too() {
    let resources = builtin_resources();
    let published: Vec<Published<'_>> =
        resources.iter().map(|resource| Published { resource, schema: None }).collect();
    let paths = paths(&published);
    for path in ["api", "apis", "version", "apis/apps", "apis/flowcontrol.apiserver.k8s.io"] {
        assert!(paths.contains(&path.to_owned()), "{path}");
        assert!(hash(&published, path).is_some(), "{path}");
    }
    // One document for each of 22 group versions (21 groups, of which autoscaling has two), one for each of 20 named groups,
    // and three more.
    assert_eq!(paths.len(), 22 + 20 + 3);
    let document = document(&published, "apis/flowcontrol.apiserver.k8s.io").unwrap();
    assert_eq!(
        operations(&document),
        ["get /apis/flowcontrol.apiserver.k8s.io/ getFlowcontrolApiserverAPIGroup -"]
    );
    let custom = widgets();
    let published = [Published { resource: &custom, schema: Some(&json!({"type": "object"})) }];
    assert_eq!(super::paths(&published), ["api", "apis", "version", "apis/example.com/v1"]);
}

fn widgets_with(spec: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": spec}})
}

/// Returns the schemas of `spec` in versions 3 and 2.
fn shown(spec: &Value) -> (Value, Value) {
    let resource = widgets();
    let schema = widgets_with(spec);
    let published = [Published { resource: &resource, schema: Some(&schema) }];
    let document = document(&published, "apis/example.com/v1").unwrap();
    let mut swagger = Swagger::default();
    swagger.add(&published, "apis/example.com/v1");
    let spec = |schema: &Value| schema["properties"]["spec"].clone();
    (
        spec(&document["components"]["schemas"]["com.example.v1.Widget"]),
        spec(&swagger.finish()["definitions"]["com.example.v1.Widget"]),
    )
}

#[test]
fn version_2_omits_parts_of_a_custom_kind() {
    let integer_or_string = json!([{"type": "integer"}, {"type": "string"}]);
    for (spec, v3, v2) in [
        (
            json!({"type": "string", "default": "a", "enum": ["a"], "oneOf": [{"pattern": "a"}]}),
            json!({"type": "string", "default": "a", "enum": ["a"], "oneOf": [{"pattern": "a"}]}),
            json!({"type": "string", "default": "a", "enum": ["a"]}),
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!({"x-kubernetes-int-or-string": true, "anyOf": integer_or_string}),
            json!({"x-kubernetes-int-or-string": true}),
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"pattern": "a"}]}),
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"pattern": "a"}],
                   "allOf": [{"anyOf": integer_or_string}]}),
            json!({"x-kubernetes-int-or-string": true}),
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "nullable": true}),
            json!({"type": "array", "items": {"type": "string"}, "nullable": true}),
            json!({}),
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                   "properties": {"a": {"type": "string"}}}),
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                   "properties": {"a": {"type": "string"}}}),
            json!({"x-kubernetes-preserve-unknown-fields": true}),
        ),
        (
            json!({"type": "object", "required": ["a", "b"],
                   "properties": {"a": {"type": "string", "nullable": true}, "b": {"type": "string"}}}),
            json!({"type": "object", "required": ["a", "b"],
                   "properties": {"a": {"type": "string", "nullable": true}, "b": {"type": "string"}}}),
            json!({"type": "object", "required": ["b"], "properties": {"a": {}, "b": {"type": "string"}}}),
        ),
    ] {
        assert_eq!(shown(&spec), (v3, v2), "{spec}");
    }
}

#[test]
fn an_embedded_object_is_published_with_the_fields_of_every_object() {
    let (v3, v2) = shown(&json!({"type": "object", "x-kubernetes-embedded-resource": true}));
    for spec in [&v3, &v2] {
        assert_eq!(spec["required"], json!(["kind", "apiVersion"]));
        assert_eq!(spec["properties"]["kind"]["type"], "string");
    }
    let meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_eq!(v2["properties"]["metadata"]["$ref"], format!("#/definitions/{meta}"));
    let open = json!({"type": "object", "x-kubernetes-embedded-resource": true,
                      "x-kubernetes-preserve-unknown-fields": true});
    let (v3, v2) = shown(&open);
    assert_eq!(v3["properties"].as_object().unwrap().len(), 3);
    assert_eq!(v2.get("properties"), None, "kubectl would refuse all other fields");
}

#[test]
fn version_2_is_a_single_document() {
    let resources = builtin_resources();
    let published: Vec<Published<'_>> =
        resources.iter().map(|resource| Published { resource, schema: None }).collect();
    let mut swagger = Swagger::default();
    let mut expected = Vec::new();
    for path in paths(&published) {
        let document = document(&published, &path).unwrap();
        expected.extend(operations(&document));
        swagger.add(&published, &path);
    }
    let swagger = swagger.finish();
    let mut found = operations(&swagger);
    found.sort();
    expected.sort();
    assert_eq!(found, expected);

    let text = swagger.to_string();
    assert!(!text.contains("#/components/"));
    for (section, start) in
        [("definitions", "\"$ref\":\"#/definitions/"), ("parameters", "\"$ref\":\"#/parameters/")]
    {
        let known = swagger[section].as_object().unwrap();
        assert!(text.contains(start));
        for reference in text.split(start).skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(known.contains_key(name), "{section}: {name}");
        }
    }
    let definition = |name: &str| &swagger["definitions"][format!("io.k8s.{name}")];
    assert_eq!(
        definition("apimachinery.pkg.util.intstr.IntOrString"),
        &json!({"format": "int-or-string", "type": "string"})
    );
    assert_eq!(definition("apimachinery.pkg.api.resource.Quantity"), &json!({"type": "string"}));
    let port = &definition("api.core.v1.ContainerPort")["properties"]["protocol"];
    assert_eq!(port.get("default"), None);
    let schemas =
        &definition("apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")["properties"];
    assert!(schemas.get("default").is_some(), "a property of that name is none");
    let options =
        &definition("apimachinery.pkg.apis.meta.v1.DeleteOptions")["x-kubernetes-group-version-kind"];
    assert!(options.as_array().unwrap().len() > 15, "{options}");
}

#[test]
fn version_2_shares_parameters_except_those_that_kubectl_looks_up() {
    let resources = builtin_resources();
    let published: Vec<Published<'_>> =
        resources.iter().map(|resource| Published { resource, schema: None }).collect();
    let path = "apis/apps/v1";
    let mut swagger = Swagger::default();
    swagger.add(&published, path);
    let swagger = swagger.finish();
    let item = &swagger["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
    let patch = &item["patch"];
    assert_eq!(
        patch["consumes"],
        json!([
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
            "application/apply-patch+yaml"
        ])
    );
    let names: Vec<&Value> =
        patch["parameters"].as_array().unwrap().iter().map(|parameter| &parameter["name"]).collect();
    assert_eq!(
        names,
        [&Value::Null, &json!("dryRun"), &Value::Null, &json!("fieldValidation"), &Value::Null]
    );
    let put = &item["put"]["parameters"][0];
    assert_eq!(put["schema"]["$ref"], "#/definitions/io.k8s.api.apps.v1.Deployment");
    assert_eq!(item["get"]["consumes"], json!(["*/*"]));
    assert_eq!(item["get"]["produces"].as_array().unwrap().len(), 3);
}
