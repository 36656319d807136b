//! Webhooks that misbehave.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{Method, Response};
use kube_apiserver_embedded::ApiServer;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use super::cluster::{Kind, MAPS, client, configure, create, respond, send, start};

const FAILED: &str = "Internal error occurred: failed calling webhook \"hook.example.com\": ";

/// Checks the answer to a create if its webhook gives a literal answer; with failure policy `Ignore` the object is created.
async fn check_literal(kind: Kind, body: &'static str, message: &str) {
    let server = start(move |_| async move { Ok(Response::new(Bytes::from_static(body.as_bytes()))) });
    configure(&server, kind, &client(), &json!({})).await;
    assert_eq!(create(&server, "a").await, (500, json!(format!("{FAILED}{message}"))), "{body}");
    configure(&server, kind, &client(), &json!({"failurePolicy": "Ignore"})).await;
    assert_eq!(create(&server, "a").await, (201, json!({"k": "v"})), "{body}");
}

#[tokio::test(start_paused = true)]
async fn garbage_counts_as_a_failed_call() {
    for kind in [Kind::Mutating, Kind::Validating] {
        check_literal(
            kind,
            "{\"kind\":",
            "failed to call webhook: couldn't get version/kind; json parse error: unexpected end of JSON input",
        )
        .await;
        check_literal(
            kind,
            r#"{"apiVersion":"admission.k8s.io/v2","kind":"AdmissionReview"}"#,
            "failed to call webhook: no kind \"AdmissionReview\" is registered for version \"admission.k8s.io/v2\" in scheme \
             \"pkg/runtime/scheme.go:111\"",
        )
        .await;
        check_literal(
            kind,
            r#"{"response":{"uid":5}}"#,
            "failed to call webhook: json: cannot unmarshal number into Go struct field AdmissionResponse.response.uid of \
             type types.UID",
        )
        .await;
        check_literal(
            kind,
            r#"{"response":"yes"}"#,
            "failed to call webhook: json: cannot unmarshal string into Go struct field AdmissionReview.response of type \
             v1.AdmissionResponse",
        )
        .await;
        check_literal(kind, "null", "received invalid webhook response: webhook response was absent").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_with_its_timeout_and_the_request_with_its_own() {
    let server = start(|_| std::future::pending());
    configure(&server, Kind::Validating, &client(), &json!({"timeoutSeconds": 7})).await;
    let started = Instant::now();
    let (code, message) = create(&server, "a").await;
    assert_eq!((code, started.elapsed()), (500, Duration::from_secs(7)));
    let why =
        "failed to call webhook: Post \"https://hooks.example.com/?timeout=7s\": context deadline exceeded";
    assert_eq!(message, format!("{FAILED}{why}"));
    // The request ends first, even if failures are ignored.
    configure(&server, Kind::Mutating, &client(), &json!({"failurePolicy": "Ignore", "timeoutSeconds": 30}))
        .await;
    let started = Instant::now();
    let path = format!("{MAPS}?timeout=3s");
    let (code, _) = send(&server, Method::POST, &path, &json!({"metadata": {"name": "a"}})).await;
    assert_eq!((code, started.elapsed()), (504, Duration::from_secs(3)));
}

#[tokio::test(start_paused = true)]
async fn other_requests_do_not_wait_for_a_webhook_that_hangs() {
    let server = start(|_| std::future::pending());
    configure(&server, Kind::Validating, &client(), &json!({"timeoutSeconds": 9})).await;
    let started = Instant::now();
    let hanging = (0..50).map(|n| {
        let server = server.clone();
        async move { create(&server, &format!("m{n}")).await.0 }
    });
    let others = async {
        let secrets = "/api/v1/namespaces/default/secrets";
        for n in 0..50 {
            let secret = json!({"metadata": {"name": format!("s{n}")}});
            assert_eq!(send(&server, Method::POST, secrets, &secret).await.0, 201);
            assert_eq!(send(&server, Method::GET, MAPS, &Value::Null).await.0, 200);
        }
        started.elapsed()
    };
    let (codes, took) = futures::join!(futures::future::join_all(hanging), others);
    assert_eq!((codes, took), (vec![500; 50], Duration::ZERO));
    assert_eq!(started.elapsed(), Duration::from_secs(9));
}

/// Returns the answer to a create if its webhook sends this patch.
async fn patched(patch: Value) -> (u16, Value) {
    let patch = BASE64_STANDARD.encode(patch.to_string());
    let server = start(move |review| {
        let response = json!({"allowed": true, "patch": patch, "patchType": "JSONPatch"});
        async move { Ok(respond(&review, &response)) }
    });
    configure(&server, Kind::Mutating, &client(), &json!({})).await;
    let map = json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v"}});
    let (code, body) = send(&server, Method::POST, MAPS, &map).await;
    (code, if code < 300 { body } else { body["message"].clone() })
}

#[tokio::test(start_paused = true)]
async fn a_patch_cannot_change_the_identity_of_an_object() {
    let (code, map) = patched(json!([
        {"op": "add", "path": "/metadata/uid", "value": "forged"},
        {"op": "add", "path": "/metadata/creationTimestamp", "value": "2000-01-01T00:00:00Z"},
        {"op": "add", "path": "/metadata/deletionTimestamp", "value": "2000-01-01T00:00:00Z"},
    ]))
    .await;
    assert_eq!(code, 201, "{map}");
    let metadata = &map["metadata"];
    assert_ne!(metadata["uid"], "forged");
    assert_ne!(metadata["creationTimestamp"], "2000-01-01T00:00:00Z");
    assert_eq!(metadata["deletionTimestamp"], Value::Null);
    let (code, message) =
        patched(json!([{"op": "replace", "path": "/metadata/namespace", "value": "kube-system"}])).await;
    assert_eq!(code, 400, "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_breaks_the_object_is_500() {
    for (patch, message) in [
        (
            json!([{"op": "replace", "path": "", "value": {"kind": "Nothing", "apiVersion": "v1"}}]),
            "no kind \"Nothing\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"",
        ),
        (
            json!([{"op": "replace", "path": "/metadata", "value": 5}]),
            "json: cannot unmarshal number into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
        ),
        (
            json!([{"op": "replace", "path": "/data", "value": [1]}]),
            "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
        ),
    ] {
        let expected = format!("Internal error occurred: {message}");
        assert_eq!(patched(patch.clone()).await, (500, json!(expected)), "{patch}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_cannot_be_applied_refuses_the_request_whatever_the_failure_policy() {
    let patch = BASE64_STANDARD.encode(json!([{"op": "remove", "path": "/nope"}]).to_string());
    let server = start(move |review| {
        let response = json!({"allowed": true, "patch": patch, "patchType": "JSONPatch"});
        async move { Ok(respond(&review, &response)) }
    });
    configure(&server, Kind::Mutating, &client(), &json!({"failurePolicy": "Ignore"})).await;
    assert_eq!(create(&server, "a").await.0, 500, "the failure policy is about calls");
}

#[tokio::test(start_paused = true)]
async fn a_webhook_may_use_the_server_that_calls_it() {
    let handle: Arc<OnceLock<ApiServer>> = Arc::default();
    let calls = Arc::new(AtomicUsize::new(0));
    let server = {
        let (handle, calls) = (Arc::clone(&handle), Arc::clone(&calls));
        start(move |review| {
            let (handle, calls) = (Arc::clone(&handle), Arc::clone(&calls));
            async move {
                calls.fetch_add(1, Ordering::Relaxed);
                let server = handle.get().unwrap();
                let secret = json!({"metadata": {"name": "made-by-a-webhook"}});
                let path = "/api/v1/namespaces/default/secrets";
                assert_eq!(send(server, Method::POST, path, &secret).await.0, 201);
                Ok(respond(&review, &json!({"allowed": true})))
            }
        })
    };
    assert!(handle.set(server.clone()).is_ok());
    configure(&server, Kind::Validating, &client(), &json!({})).await;
    assert_eq!(create(&server, "a").await.0, 201);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn validating_webhooks_are_called_at_the_same_time() {
    let server = start(|review| async move {
        sleep(Duration::from_secs(2)).await;
        Ok(respond(&review, &json!({"allowed": true})))
    });
    let hooks: Vec<Value> = (0..20)
        .map(|n| {
            json!({
                "name": format!("hook{n}.example.com"), "clientConfig": client(), "admissionReviewVersions": ["v1"],
                "sideEffects": "None", "rules": [{
                    "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                }],
            })
        })
        .collect();
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let configuration = json!({"metadata": {"name": "many"}, "webhooks": hooks});
    assert_eq!(send(&server, Method::POST, path, &configuration).await.0, 201);
    let started = Instant::now();
    assert_eq!(create(&server, "a").await.0, 201);
    assert_eq!(started.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_configuration_takes_effect_with_its_commit_until_its_deletion() {
    let server = start(|_| async { Err("EOF".to_owned()) });
    assert_eq!(create(&server, "a").await.0, 201);
    configure(&server, Kind::Validating, &client(), &json!({})).await;
    let why = "failed to call webhook: Post \"https://hooks.example.com/?timeout=10s\": EOF";
    assert_eq!(create(&server, "b").await, (500, json!(format!("{FAILED}{why}"))));
    let one = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hooks";
    let patch = json!({"webhooks": []});
    assert_eq!(send(&server, Method::PATCH, one, &patch).await.0, 200);
    assert_eq!(create(&server, "b").await.0, 201);
    configure(&server, Kind::Validating, &client(), &json!({})).await;
    assert_eq!(create(&server, "c").await.0, 500);
    assert_eq!(send(&server, Method::DELETE, one, &Value::Null).await.0, 200);
    assert_eq!(create(&server, "c").await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn a_long_message_of_a_denial_reaches_the_client() {
    let big = "x".repeat(4 << 20);
    let server = start(move |review| {
        let response = json!({"allowed": false, "status": {"message": big}});
        async move { Ok(respond(&review, &response)) }
    });
    configure(&server, Kind::Validating, &client(), &json!({})).await;
    let (code, message) = create(&server, "a").await;
    assert_eq!(code, 400);
    assert!(message.as_str().unwrap().len() > 4 << 20);
}
