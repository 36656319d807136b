//! The scale of an object, with each way of writing.

use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, ApiService, Options};
use serde_json::{Value, json};
use tower_service::Service;

const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const SCALE: &str = "/apis/apps/v1/namespaces/default/replicasets/a/scale";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

async fn send(
    service: &mut ApiService,
    method: &str,
    path: &str,
    kind: &str,
    body: &str,
) -> (u16, HeaderMap, Value) {
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let response = service.call(request.body(Full::from(body.to_owned())).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status.as_u16(), head.headers, serde_json::from_slice(&body).unwrap())
}

/// Starts a server with a ReplicaSet of two replicas, created by `creator`.
async fn service() -> ApiService {
    let mut service = ApiServer::start(Options::default()).service();
    let set = json!({"metadata": {"name": "a"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template(&json!({"a": "b"})),
    }});
    let path = format!("{SETS}?fieldManager=creator");
    assert_eq!(send(&mut service, "POST", &path, JSON, &set.to_string()).await.0, 201);
    service
}

fn template(labels: &Value) -> Value {
    json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// A scale of nine replicas with these fields replaced.
fn scale(fields: &Value) -> String {
    let mut scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 9},
    });
    scale.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    scale.to_string()
}

async fn read(service: &mut ApiService, path: &str) -> Value {
    send(service, "GET", path, JSON, "").await.2
}

async fn apply(service: &mut ApiService, query: &str, body: &str) -> (u16, HeaderMap, Value) {
    let path = format!("{SCALE}?fieldManager=scaler&force=true{query}");
    send(service, "PATCH", &path, APPLY, body).await
}

/// Returns the owners of the replicas.
async fn owners(service: &mut ApiService) -> Vec<String> {
    let set = read(service, &format!("{SETS}/a")).await;
    let entries = set["metadata"]["managedFields"].as_array().unwrap().clone();
    let owns = |entry: &&Value| entry["fieldsV1"].pointer("/f:spec/f:replicas").is_some();
    let shown =
        |entry: &Value| format!("{} {} {}", entry["manager"], entry["operation"], entry["subresource"]);
    entries.iter().filter(owns).map(|entry| shown(entry).replace('"', "")).collect()
}

#[tokio::test]
async fn a_body_that_is_no_scale_is_refused() {
    let mut service = service().await;
    for (query, fields, why) in [
        (
            "",
            json!({"apiVersion": "apps/v1", "kind": "Deployment"}),
            "Deployment in version \"v1\" cannot be handled as a Scale: converting (v1.Deployment) to (autoscaling.Scale): \
             unknown conversion",
        ),
        (
            "",
            json!({"metadata": {"name": "a", "namespace": "other"}}),
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            "",
            json!({"spec": {"replicas": 9_999_999_999_i64}}),
            "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal number 9999999999 into Go struct \
             field ScaleSpec.spec.replicas of type int32",
        ),
        (
            "?fieldValidation=Strict",
            json!({"spec": {"replicas": 9, "size": 1}}),
            "Scale in version \"v1\" cannot be handled as a Scale: strict decoding error: unknown field \"spec.size\"",
        ),
    ] {
        let path = format!("{SCALE}{query}");
        let (code, _, status) = send(&mut service, "PUT", &path, JSON, &scale(&fields)).await;
        assert_eq!((code, status["message"].as_str()), (400, Some(why)));
    }
    let (code, _, status) = send(&mut service, "PATCH", SCALE, MERGE, r#"{"spec":{"replicas":"9"}}"#).await;
    assert_eq!(code, 422);
    let why = status["message"].as_str().unwrap();
    assert!(why.contains("ScaleSpec.spec.replicas of type int32"), "{why}");
    assert_eq!(read(&mut service, SCALE).await["spec"], json!({"replicas": 2}));
    let (code, ..) = send(&mut service, "PUT", SCALE, JSON, &scale(&json!({"spec": {}}))).await;
    assert_eq!((code, &read(&mut service, SCALE).await["spec"]), (200, &json!({})));
}

#[tokio::test]
async fn an_applied_scale_scales_and_its_applier_owns_the_replicas() {
    let mut service = service().await;
    let path = format!("{SCALE}?fieldManager=scaler");
    let (code, _, status) = send(&mut service, "PATCH", &path, APPLY, &scale(&json!({}))).await;
    let why = "Apply failed with 1 conflict: conflict with \"creator\" using autoscaling/v1: .spec.replicas";
    assert_eq!((code, status["message"].as_str()), (409, Some(why)));
    assert_eq!(owners(&mut service).await, ["creator Update null"]);
    let (code, _, scaled) = apply(&mut service, "", &scale(&json!({}))).await;
    assert_eq!((code, &scaled["kind"], &scaled["spec"]), (200, &json!("Scale"), &json!({"replicas": 9})));
    assert_eq!(scaled, read(&mut service, SCALE).await);
    assert_eq!(owners(&mut service).await, ["scaler Apply scale"]);
    // Fields that are no longer applied lose their owner: the scale then has no replicas, as in Go.
    let (code, _, scaled) = apply(&mut service, "", &scale(&json!({"spec": {}}))).await;
    assert_eq!((code, &scaled["spec"]), (200, &json!({})));
    assert_eq!(read(&mut service, &format!("{SETS}/a")).await["spec"]["replicas"], 0);
}

#[tokio::test]
async fn no_way_of_writing_scales_below_zero() {
    let mut service = service().await;
    let less = scale(&json!({"spec": {"replicas": -1}}));
    let json_patch = r#"[{"op":"replace","path":"/spec/replicas","value":-1}]"#;
    for (method, kind, body) in [
        ("PUT", JSON, less.as_str()),
        ("PATCH", MERGE, less.as_str()),
        ("PATCH", "application/strategic-merge-patch+json", less.as_str()),
        ("PATCH", "application/json-patch+json", json_patch),
        ("PATCH", APPLY, less.as_str()),
    ] {
        let query = if kind == APPLY { "?fieldManager=scaler&force=true" } else { "" };
        let (code, _, status) = send(&mut service, method, &format!("{SCALE}{query}"), kind, body).await;
        let why = "Scale.autoscaling \"a\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0";
        assert_eq!((code, status["message"].as_str()), (422, Some(why)), "{kind}");
    }
    assert_eq!(read(&mut service, SCALE).await["spec"], json!({"replicas": 2}));
}

#[tokio::test]
async fn an_applied_scale_is_the_one_of_the_url() {
    let mut service = service().await;
    let uid = read(&mut service, SCALE).await["metadata"]["uid"].as_str().unwrap().to_owned();
    let uid_conflict = format!(
        "Operation cannot be fulfilled on replicasets/scale.apps \"a\": Precondition failed: UID in precondition: x, UID in \
         object meta: {uid}"
    );
    let modified = "Operation cannot be fulfilled on replicasets.apps \"a\": the object has been modified; please apply your \
                    changes to the latest version and try again";
    for (query, fields, code, why) in [
        (
            "",
            json!({"metadata": {"name": "a", "namespace": "other"}}),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        ("", json!({"metadata": {"name": "a", "uid": "x"}}), 409, &uid_conflict),
        ("", json!({"metadata": {"name": "a", "resourceVersion": "1"}}), 409, modified),
        ("", json!({"kind": "Deployment"}), 400, "invalid object type: autoscaling/v1, Kind=Deployment"),
        (
            "",
            json!({"spec": {"replicas": 9, "size": 1}}),
            500,
            "failed to create typed patch object (/a; autoscaling/v1, Kind=Scale): .spec.size: field not declared in schema",
        ),
        (
            "",
            json!({"spec": {"replicas": "9"}}),
            500,
            "failed to create typed patch object (/a; autoscaling/v1, Kind=Scale): .spec.replicas: expected numeric (int or \
             float), got string",
        ),
    ] {
        let (answered, _, status) = apply(&mut service, query, &scale(&fields)).await;
        assert_eq!((answered, status["message"].as_str()), (code, Some(why)));
    }
    assert_eq!(read(&mut service, SCALE).await["spec"], json!({"replicas": 2}));
    let metadata = json!({"name": "a", "namespace": "default", "uid": uid});
    assert_eq!(apply(&mut service, "", &scale(&json!({ "metadata": metadata }))).await.0, 200);
}

#[tokio::test]
async fn repeated_keys_of_an_applied_scale_are_reported_or_refused() {
    const TWICE: &str =
        "apiVersion: autoscaling/v1\nkind: Scale\nmetadata: {name: a}\nspec:\n  replicas: 3\n  replicas: 4\n";
    let mut service = service().await;
    let why = "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 6: key \"replicas\" \
               already set in map";
    let (code, _, status) = apply(&mut service, "&fieldValidation=Strict", TWICE).await;
    assert_eq!((code, status["message"].as_str()), (400, Some(why)));
    let (code, headers, scaled) = apply(&mut service, "&fieldValidation=Warn", TWICE).await;
    assert_eq!((code, &scaled["spec"]), (200, &json!({"replicas": 4})));
    assert!(headers["warning"].to_str().unwrap().contains("already set in map"), "{headers:?}");
    let (code, headers, _) = apply(&mut service, "&fieldValidation=Ignore", TWICE).await;
    assert_eq!((code, headers.get("warning")), (200, None));
}

#[tokio::test]
async fn the_scale_of_a_replication_controller_has_its_selector() {
    const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
    let mut service = service().await;
    let labels = json!({"tier": "y", "app": "x"});
    let controller = json!({"metadata": {"name": "a"}, "spec": {"replicas": 1, "selector": labels, "template": template(&labels)}});
    assert_eq!(send(&mut service, "POST", CONTROLLERS, JSON, &controller.to_string()).await.0, 201);
    let path = format!("{CONTROLLERS}/a/scale");
    assert_eq!(read(&mut service, &path).await["status"], json!({"replicas": 0, "selector": "app=x,tier=y"}));
    let (code, _, scaled) = send(&mut service, "PUT", &path, JSON, &scale(&json!({}))).await;
    assert_eq!(
        (code, &scaled["spec"], &scaled["status"]["selector"]),
        (200, &json!({"replicas": 9}), &json!("app=x,tier=y"))
    );
}

#[tokio::test]
async fn the_metadata_of_a_scale_are_checked() {
    let mut service = service().await;
    let metadata = json!({"name": "a", "generation": -1, "finalizers": ["mine"]});
    let why = "Scale.autoscaling \"a\" is invalid: [metadata.generation: Invalid value: -1: must be greater than or equal to \
               0, metadata.finalizers[0]: Invalid value: \"mine\": name is neither a standard finalizer name nor is it fully \
               qualified, spec.replicas: Invalid value: -1: must be greater than or equal to 0]";
    let body = scale(&json!({"metadata": metadata, "spec": {"replicas": -1}}));
    for (method, kind) in [("PUT", JSON), ("PATCH", MERGE), ("PATCH", APPLY)] {
        let query = if kind == APPLY { "?fieldManager=scaler&force=true" } else { "" };
        let (code, _, status) = send(&mut service, method, &format!("{SCALE}{query}"), kind, &body).await;
        assert_eq!((code, status["message"].as_str()), (422, Some(why)), "{kind}");
    }
}

/// Zero replicas are omitted from a scale, and fields without an owner are not tracked until the next apply.
#[tokio::test]
async fn a_scale_without_replicas_owns_none() {
    let mut service = service().await;
    let put = async |service: &mut ApiService, spec: Value| {
        let body = scale(&json!({ "spec": spec }));
        send(service, "PUT", &format!("{SCALE}?fieldManager=writer"), JSON, &body).await.0
    };
    assert_eq!(put(&mut service, json!({"replicas": 3})).await, 200);
    assert_eq!(owners(&mut service).await, ["writer Update scale"]);
    assert_eq!(put(&mut service, json!({"replicas": 0})).await, 200);
    assert_eq!(put(&mut service, json!({"replicas": 7})).await, 200);
    assert_eq!(owners(&mut service).await, [""; 0]);
    assert_eq!(put(&mut service, json!({})).await, 200);
    let path = format!("{SCALE}?fieldManager=scaler");
    assert_eq!(send(&mut service, "PATCH", &path, APPLY, &scale(&json!({}))).await.0, 200);
    assert_eq!(owners(&mut service).await, ["scaler Apply scale"]);
}

/// The replicas move from the entry of the manager that created the object to one of their own, without a time.
#[tokio::test]
async fn replicas_that_a_scale_does_not_change_keep_their_owner() {
    let mut service = service().await;
    let path = format!("{SCALE}?fieldManager=scaler");
    let body = scale(&json!({"spec": {"replicas": 2}}));
    assert_eq!(send(&mut service, "PATCH", &path, APPLY, &body).await.0, 200);
    assert_eq!(owners(&mut service).await, ["scaler Apply scale", "creator Update null"]);
    let set = read(&mut service, &format!("{SETS}/a")).await;
    let entries: Vec<_> = set["metadata"]["managedFields"].as_array().unwrap().iter().collect();
    let fields = json!({"f:spec": {"f:replicas": {}}});
    assert_eq!((entries.len(), &entries[1]["fieldsV1"], entries[1].get("time")), (3, &fields, None));
    assert!(entries[2]["fieldsV1"].pointer("/f:spec/f:selector").is_some(), "{entries:?}");
}

#[tokio::test]
async fn an_applied_scale_need_not_be_named() {
    let mut service = service().await;
    let body = scale(&json!({"metadata": {}}));
    let (code, _, scaled) = apply(&mut service, "", &body).await;
    assert_eq!(
        (code, &scaled["metadata"]["name"], &scaled["spec"]),
        (200, &json!("a"), &json!({"replicas": 9}))
    );
    let (code, _, status) = apply(&mut service, "", &scale(&json!({"metadata": {"name": "b"}}))).await;
    let why = "the name of the object (b) does not match the name on the URL (a)";
    assert_eq!((code, status["message"].as_str()), (400, Some(why)));
}

/// Go's conversion truncates to 32 bits, while a JSON body with such a number is refused.
#[tokio::test]
async fn replicas_of_more_than_32_bits_are_truncated() {
    let mut service = service().await;
    let body = scale(&json!({"spec": {"replicas": 9_999_999_999_i64}}));
    assert_eq!(apply(&mut service, "", &body).await.2["spec"], json!({"replicas": 1_410_065_407}));
    let patch = r#"{"spec": {"replicas": 4294967300}}"#;
    let path = format!("{SETS}/a");
    let kind = "application/strategic-merge-patch+json";
    assert_eq!(send(&mut service, "PATCH", &path, kind, patch).await.2["spec"]["replicas"], 4);
    assert_eq!(send(&mut service, "PATCH", &path, MERGE, patch).await.0, 422);
}

#[tokio::test]
async fn a_scale_of_a_custom_object_is_applied_only_where_that_changes_nothing() {
    const CONVERT: &str = "proper version: request to convert CR to an invalid group/version: autoscaling/v1";
    let mut service = service().await;
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let paths = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"scale": paths}}],
    }});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(send(&mut service, "POST", definitions, JSON, &definition.to_string()).await.0, 201);
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"replicas": 2}});
    assert_eq!(send(&mut service, "POST", widgets, JSON, &widget.to_string()).await.0, 201);
    let path = format!("{widgets}/a/scale?fieldManager=scaler&force=true");

    let (code, _, scaled) =
        send(&mut service, "PATCH", &path, APPLY, &scale(&json!({"spec": {"replicas": 2}}))).await;
    assert_eq!((code, &scaled["spec"]), (200, &json!({"replicas": 2})));
    let (code, _, status) = send(&mut service, "PATCH", &path, APPLY, &scale(&json!({}))).await;
    let why = format!("failed to convert new object (/a; autoscaling/v1, Kind=Scale) to {CONVERT}");
    assert_eq!((code, status["message"].as_str()), (500, Some(why.as_str())));

    let put = format!("{widgets}/a/scale");
    for replicas in [0, 7] {
        let body = scale(&json!({"spec": {"replicas": replicas}}));
        assert_eq!(send(&mut service, "PUT", &put, JSON, &body).await.0, 200);
    }
    let path = path.replace("&force=true", "");
    let (code, _, status) = send(&mut service, "PATCH", &path, APPLY, &scale(&json!({}))).await;
    let why = format!(
        "failed to create manager for existing fields: failed to convert live object (/; autoscaling/v1, Kind=Scale) to {CONVERT}"
    );
    assert_eq!((code, status["message"].as_str()), (500, Some(why.as_str())));
    let (code, _, status) =
        send(&mut service, "PUT", &put, JSON, &scale(&json!({"spec": {"replicas": 1.5}}))).await;
    let why = "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"";
    assert_eq!((code, status["message"].as_str()), (400, Some(why)));
}
