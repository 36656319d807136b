//! Numbers beyond the range of Go's integers, which webhooks see in Go's notation.

use http::Method;
use serde_json::{Value, json};

use super::cluster::{Kind, client, configure, respond, send, start};

/// Observed with kube-apiserver v1.36.3, which writes an exponent only from 1e21 on.
#[tokio::test(start_paused = true)]
async fn a_large_number_has_no_exponent() {
    let server = start(move |review| {
        let size = &review["request"]["object"]["size"];
        assert_eq!(*size, json!(9_223_372_036_854_776_000_u64), "{review}");
        let response = respond(&review, &json!({"allowed": true}));
        async { Ok(response) }
    });
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, body) = send(&server, Method::POST, definitions, &definition).await;
    assert_eq!(code, 201, "{body}");
    let rules = json!([{
        "operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["*"], "resources": ["things"],
    }]);
    configure(&server, Kind::Validating, &client(), &json!({ "rules": rules })).await;
    let thing: Value = json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "size": 9_223_372_036_854_775_808_u64,
    });
    let (code, body) = send(&server, Method::POST, "/apis/example.com/v1/things", &thing).await;
    assert_eq!(code, 201, "{body}");
}
