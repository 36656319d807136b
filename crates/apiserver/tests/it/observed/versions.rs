//! Bodies in other versions than that of the endpoint, and bodies with repeated fields.

use super::*;

#[tokio::test(start_paused = true)]
async fn earlier_versions_of_a_kind_do_not_match_the_endpoint() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    for (group, plural, version, kind) in [
        ("apps/v1", "deployments", "extensions/v1beta1", "Deployment"),
        ("apps/v1", "daemonsets", "apps/v1beta2", "DaemonSet"),
        ("networking.k8s.io/v1", "ingresses", "extensions/v1beta1", "Ingress"),
        ("policy/v1", "poddisruptionbudgets", "policy/v1beta1", "PodDisruptionBudget"),
        ("autoscaling/v2", "horizontalpodautoscalers", "autoscaling/v1", "HorizontalPodAutoscaler"),
        ("events.k8s.io/v1", "events", "v1", "Event"),
    ] {
        let path = format!("/apis/{group}/namespaces/default/{plural}");
        let body = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}});
        let refused = post(&service, &path, &body).await;
        let why = format!(
            "the API version in the data ({version}) does not match the expected API version ({group})"
        );
        assert_eq!((refused.code, refused.message()), (400, why));
    }
    let body = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}});
    let refused = post(&service, "/apis/apps/v1/namespaces/default/deployments", &body).await;
    assert_eq!(
        refused.message(),
        "Job in version \"v1\" cannot be handled as a Deployment: converting (v1.Job) to (apps.Deployment): unknown \
         conversion"
    );
}

#[tokio::test(start_paused = true)]
async fn a_patch_to_an_earlier_version_of_the_kind_is_converted() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }});
    post(&service, deployments, &deployment).await;
    let patched =
        patch(&service, &format!("{deployments}/d"), r#"{"apiVersion":"extensions/v1beta1"}"#).await;
    assert_eq!((patched.code, &patched.value()["apiVersion"]), (200, &json!("apps/v1")));
}

#[tokio::test(start_paused = true)]
async fn repeated_fields_of_a_builtin_kind_are_merged() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let path = format!("{NAMESPACE}/configmaps");
    let body = r#"{"metadata":{"name":"a"},"data":{"x":"2"},"data":{"y":"1"}}"#;
    let created = send(&service, "POST", &path, &[JSON], body).await;
    assert_eq!(created.value()["data"], json!({"x": "2", "y": "1"}));
    assert_eq!(created.warnings(), [r#"duplicate field "data""#]);
}

#[tokio::test(start_paused = true)]
async fn custom_objects_in_an_unknown_version_have_no_declared_fields() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let properties = json!({"spec": {"type": "object", "properties": {"n": {"type": "number"}}}});
    define(&service, "things", "Thing", "Namespaced", &[("v1", properties)]).await;
    let path = "/apis/example.com/v1/namespaces/default/things";
    let body =
        json!({"apiVersion": "example.com/v2", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"n": 1}});
    let refused = post(&service, path, &body).await;
    assert_eq!(
        refused.message(),
        "the API version in the data (example.com/v2) does not match the expected API version (example.com/v1)"
    );
    assert_eq!(refused.warnings(), [r#"unknown field "spec""#]);
    let strict = post(&service, &format!("{path}?fieldValidation=Strict"), &body).await;
    let why =
        r#"Thing in version "v2" cannot be handled as a Thing: strict decoding error: unknown field "spec""#;
    assert_eq!(strict.message(), why);
}

#[tokio::test(start_paused = true)]
async fn a_number_beyond_the_range_of_floats_is_an_error_of_a_custom_kind() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let properties = json!({"spec": {"type": "object", "properties": {"n": {"type": "number"}}}});
    define(&service, "things", "Thing", "Namespaced", &[("v1", properties)]).await;
    let body = r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"n":1E400}}"#;
    let refused =
        send(&service, "POST", "/apis/example.com/v1/namespaces/default/things", &[JSON], body).await;
    assert_eq!(
        refused.message(),
        "Thing in version \"v1\" cannot be handled as a Thing: json: cannot unmarshal number 1E400 into Go value of type \
         float64"
    );
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_path_below_a_subresource_of_a_custom_kind_is_ignored() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    define(&service, "things", "Thing", "Namespaced", &[("v1", json!({}))]).await;
    let path = "/apis/example.com/v1/namespaces/default/things";
    let body = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}});
    assert_eq!(post(&service, path, &body).await.code, 201);
    assert_eq!(get(&service, &format!("{path}/a/status/x")).await.value()["kind"], "Thing");
    assert_eq!(get(&service, &format!("{path}/a/nope/x")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn keys_of_yaml_bodies_have_the_types_of_yaml_1_1() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let yaml = ("content-type", "application/yaml");
    let body = "metadata: {name: a}\ndata:\n  y: \"1\"\n  0x10: \"2\"\n";
    let created = send(&service, "POST", &format!("{NAMESPACE}/configmaps"), &[yaml], body).await;
    assert_eq!(created.value()["data"], json!({"true": "1", "16": "2"}));
    let broken = send(&service, "POST", &format!("{NAMESPACE}/configmaps"), &[yaml], "a: [b").await;
    assert_eq!(
        broken.message(),
        "the object provided is unrecognized (must be of type ConfigMap): yaml: line 1: did not find expected ',' or ']' \
         (613a205b62)"
    );
}

#[tokio::test(start_paused = true)]
async fn the_table_of_a_custom_scale_has_no_number_if_no_replicas_are_desired() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    assert_eq!(post(&service, DEFINITIONS, &definition).await.code, 201);
    let path = "/apis/example.com/v1/namespaces/default/things";
    for (name, spec, desired) in [("none", json!({}), Value::Null), ("two", json!({"size": 2}), json!(2))] {
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec});
        assert_eq!(post(&service, path, &thing).await.code, 201);
        let table = send(&service, "GET", &format!("{path}/{name}/scale"), &[TABLE], "").await.value();
        assert_eq!(table["rows"][0]["cells"][1], desired, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_replication_controller_always_has_labels() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let controllers = format!("{NAMESPACE}/replicationcontrollers");
    let controller = json!({"metadata": {"name": "r"}, "spec": {
        "selector": {"a": "b"},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }});
    assert_eq!(post(&service, &controllers, &controller).await.code, 201);
    let status = json!({"metadata": {"name": "r"}, "status": {"replicas": 1}}).to_string();
    let changed = send(&service, "PUT", &format!("{controllers}/r/status"), &[JSON], &status).await;
    assert_eq!((changed.code, &changed.value()["metadata"]["labels"]), (200, &json!({"a": "b"})));
    let scale = json!({"apiVersion": "apps/v1beta1", "kind": "Scale", "metadata": {"name": "r"}, "spec": {"replicas": 1}});
    let refused = send(&service, "PUT", &format!("{controllers}/r/scale"), &[JSON], &scale.to_string()).await;
    assert_eq!(
        refused.message(),
        "the API version in the data (apps/v1beta1) does not match the expected API version (autoscaling/v1)"
    );
}
