//! Custom kinds: published metadata, fields of other versions, embedded objects, types of fields.

use super::*;

#[tokio::test]
async fn the_metadata_of_custom_kinds_is_explained() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object"}},
            }}}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(post(&service, definitions, &definition).await.code, 201);
    let document = get(&service, "/openapi/v3/apis/example.com/v1").await.value();
    let meta = &document["components"]["schemas"]["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"];
    let about = "ObjectMeta is metadata that all persisted resources must have, which includes all objects users must \
                 create.";
    assert_eq!(meta["description"], about);
    let generation = "A sequence number representing a specific generation of the desired state. Populated by the \
                      system. Read-only.";
    assert_eq!(meta["properties"]["generation"]["description"], generation);
}

#[tokio::test]
async fn fields_that_the_storage_version_lacks_are_lost_at_once() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let fields = |own: &str| {
        let default = format!("d{own}");
        json!({"spec": {"type": "object", "properties": {
            own: {"type": "string"}, "both": {"type": "string"}, default: {"type": "string", "default": own},
        }}})
    };
    define(&service, "multis", "Multi", "Namespaced", &[("v1", fields("a")), ("v2", fields("b"))]).await;
    let path = |version: &str| format!("/apis/example.com/{version}/namespaces/default/multis");
    let object = |spec: Value| json!({"apiVersion": "example.com/v2", "kind": "Multi", "metadata": {"name": "m"}, "spec": spec});
    let created = post(&service, &path("v2"), &object(json!({"b": "x", "both": "y"}))).await.value();
    assert_eq!(created["spec"], json!({"both": "y"}));
    assert!(created["metadata"]["managedFields"].to_string().contains("f:b"), "it is owned all the same");
    let spec =
        async |version: &str| get(&service, &format!("{}/m", path(version))).await.value()["spec"].clone();
    assert_eq!(spec("v1").await, json!({"both": "y", "da": "a"}));
    assert_eq!(spec("v2").await, json!({"both": "y"}));
    let changed = patch(&service, &format!("{}/m", path("v1")), r#"{"spec":{"a":"z"}}"#).await.value();
    assert_eq!(changed["spec"], json!({"a": "z", "both": "y", "da": "a"}));
    assert_eq!(spec("v2").await, json!({"both": "y"}));
}

#[tokio::test]
async fn a_strict_error_names_the_kind_of_the_body_twice() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    define(&service, "shells", "Shell", "Cluster", &[("v1", json!({"e": {"type": "string"}}))]).await;
    let body = r#"{"apiVersion":"example.com/v1","kind":"X","kind":"X","metadata":{"name":"a"}}"#;
    let answer =
        send(&service, "POST", "/apis/example.com/v1/shells?fieldValidation=Strict", &[JSON], body).await;
    assert_eq!(
        answer.message(),
        r#"X in version "v1" cannot be handled as a X: strict decoding error: duplicate field "kind""#
    );
}

#[tokio::test]
async fn an_error_of_the_status_names_the_kind_of_the_patch() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let properties = json!({"status": {"type": "object", "properties": {"used": {"type": "integer"}}}});
    define(&service, "shells", "Shell", "Cluster", &[("v1", properties)]).await;
    let shells = "/apis/example.com/v1/shells";
    let shell = json!({"apiVersion": "example.com/v1", "kind": "Shell", "metadata": {"name": "a"}});
    assert_eq!(post(&service, shells, &shell).await.code, 201);
    let status = format!("{shells}/a/status");
    let answer = patch(&service, &status, r#"{"kind": "X", "status": {"used": "a"}}"#).await;
    assert!(answer.message().starts_with("X.example.com \"a\" is invalid: "), "{}", answer.message());
    // Without an error, the object keeps its kind.
    let answer = patch(&service, &status, r#"{"kind": "X", "status": {"used": 1}}"#).await.value();
    assert_eq!((&answer["kind"], &answer["status"]["used"]), (&json!("Shell"), &json!(1)));
}

#[tokio::test]
async fn an_embedded_object_must_have_its_type() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let embedded = json!({
        "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
    });
    define(&service, "shells", "Shell", "Cluster", &[("v1", json!({"e": embedded}))]).await;
    for (embedded, wrong) in [
        (json!({}), "[e.apiVersion: Required value, e.kind: Required value]"),
        (json!({"apiVersion": "v1"}), "e.kind: Required value"),
        (json!({"apiVersion": "v1", "kind": "Pod"}), ""),
        (json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "A_b"}}), ""),
        (json!({"apiVersion": "", "kind": "pod"}), "e.apiVersion: Invalid value: \"\": must not be empty"),
        (
            json!({"apiVersion": "a/b/c", "kind": "Pod"}),
            "e.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a b": "c"}}}),
            "e.metadata.labels: Invalid value: \"a b\": name part must consist of",
        ),
    ] {
        let shell = json!({
            "apiVersion": "example.com/v1", "kind": "Shell", "metadata": {"generateName": "s"}, "e": embedded,
        });
        let answer = post(&service, "/apis/example.com/v1/shells", &shell).await;
        assert_eq!(answer.code, if wrong.is_empty() { 201 } else { 422 }, "{embedded}");
        assert!(answer.message().contains(wrong), "{}", answer.message());
    }
}

#[tokio::test]
async fn any_type_may_be_an_integer_or_a_string() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    for (n, kind) in ["integer", "string", "number", "object"].into_iter().enumerate() {
        let field = json!({"port": {"type": kind, "x-kubernetes-int-or-string": true}});
        define(&service, &format!("ports{n}"), &format!("Port{n}"), "Cluster", &[("v1", field)]).await;
    }
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "default": 1}, "b": {"type": "integer", "minimum": 3, "default": 1},
    }});
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let refused = post(&service, DEFINITIONS, &definition).await;
    assert_eq!(
        refused.message(),
        "CustomResourceDefinition.apiextensions.k8s.io \"things.example.com\" is invalid: \
         [spec.validation.openAPIV3Schema.properties[a].default: Invalid value: \"integer\":  in body must be of type string: \
         \"integer\", spec.validation.openAPIV3Schema.properties[b].default: Invalid value: 1:  in body should be greater \
         than or equal to 3]"
    );
}
