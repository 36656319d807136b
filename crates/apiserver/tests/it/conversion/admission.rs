//! Admission webhooks for another version than the request has: the object is converted to it, and the webhook's changes back.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use kube_apiserver_embedded::{ApiServer, Options, WebhookTransport};
use serde_json::{Value, json};

use super::hook::Hook;
use super::{Cluster, DEFINITIONS, V1, definition, thing};

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

/// Answers conversions, and reviews: it adds 10 to the amount of a Thing of v2.
#[derive(Debug, Default)]
struct Hooks {
    conversions: Arc<Hook>,
    /// `spec` of the reviewed objects, new and old.
    reviewed: Mutex<Vec<(Value, Value)>>,
}

impl WebhookTransport for Hooks {
    fn call(&self, request: &Request<Bytes>) -> Option<BoxFuture<'static, Result<Response<Bytes>, String>>> {
        if request.uri().path() == "/convert" {
            return self.conversions.call(request);
        }
        let review: Value = serde_json::from_slice(request.body()).unwrap();
        let request_of_review = &review["request"];
        let object = &request_of_review["object"];
        assert_eq!(object["apiVersion"], "example.com/v2", "{review}");
        let old = request_of_review["oldObject"]["spec"].clone();
        self.reviewed.lock().unwrap().push((object["spec"].clone(), old));
        let mut response = json!({ "uid": request_of_review["uid"], "allowed": true });
        if request.uri().path() == "/mutate" {
            let amount = object["spec"]["amount"].as_u64().unwrap();
            let patch = json!([{ "op": "replace", "path": "/spec/amount", "value": amount + 10 }]);
            response["patchType"] = "JSONPatch".into();
            response["patch"] = BASE64_STANDARD.encode(patch.to_string()).into();
        }
        let answer =
            json!({ "apiVersion": review["apiVersion"], "kind": review["kind"], "response": response });
        Some(async move { Ok(Response::new(Bytes::from(answer.to_string()))) }.boxed())
    }
}

async fn start() -> (Cluster, Arc<Hooks>) {
    let hooks = Arc::new(Hooks::default());
    let server = ApiServer::start(Options::default().webhook_transport(Arc::clone(&hooks) as _));
    let hook = Arc::clone(&hooks.conversions);
    let cluster = Cluster { service: server.service(), _server: server, hook };
    assert_eq!(cluster.send("POST", DEFINITIONS, &definition()).await.0, 201);
    for (kind, path) in
        [("MutatingWebhookConfiguration", "mutate"), ("ValidatingWebhookConfiguration", "validate")]
    {
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": { "name": "things" },
            "webhooks": [{
                "name": format!("{path}.example.com"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": { "url": format!("https://hooks.example.com/{path}") },
                "rules": [{
                    "apiGroups": ["example.com"], "apiVersions": ["v2"], "operations": ["CREATE", "UPDATE"], "resources": ["things"],
                }],
            }],
        });
        let table = format!("{CONFIGURATIONS}/{}s", kind.to_lowercase());
        let (code, body) = cluster.send("POST", &table, &configuration).await;
        assert_eq!(code, 201, "{body}");
    }
    (cluster, hooks)
}

#[tokio::test]
async fn admission_webhooks_of_another_version_see_converted_objects() {
    let (cluster, hooks) = start().await;
    let (code, created) = cluster.send("POST", V1, &thing("v1", "a", &json!({"size": 1}))).await;
    assert_eq!((code, &created["spec"]), (201, &json!({"size": 11})), "{created}");
    let amount = |amount: u64| json!({ "amount": amount });
    let expected = [(amount(1), Value::Null), (amount(11), Value::Null)];
    assert_eq!(std::mem::take(&mut *hooks.reviewed.lock().unwrap()), expected);

    let (code, patched) = cluster.send("PATCH", &format!("{V1}/a"), &json!({"spec": {"size": 2}})).await;
    assert_eq!((code, &patched["spec"]), (200, &json!({"size": 12})), "{patched}");
    let expected = [(amount(2), amount(11)), (amount(12), amount(11))];
    assert_eq!(std::mem::take(&mut *hooks.reviewed.lock().unwrap()), expected);
}

#[tokio::test]
async fn a_failed_conversion_for_an_admission_webhook_refuses_the_write() {
    let (cluster, hooks) = start().await;
    cluster.hook.fail("no luck");
    let (code, refused) = cluster.send("POST", V1, &thing("v1", "a", &json!({"size": 1}))).await;
    assert_eq!(code, 500);
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.starts_with(
            "Internal error occurred: Internal error occurred: conversion webhook for example.com/v1"
        ),
        "{message}"
    );
    assert!(message.ends_with("no luck"), "{message}");
    assert!(hooks.reviewed.lock().unwrap().is_empty());
    cluster.hook.mend();
    assert_eq!(cluster.send("POST", V1, &thing("v1", "a", &json!({"size": 1}))).await.0, 201);
}

/// As in kube-apiserver, an object keeps the version of a webhook until another one is needed.
#[tokio::test]
async fn an_object_is_converted_once_for_webhooks_of_one_version() {
    let (cluster, hooks) = start().await;
    let path = format!("{CONFIGURATIONS}/mutatingwebhookconfigurations/things");
    let mut configuration = cluster.get(&path).await.1;
    let mut second = configuration["webhooks"][0].clone();
    second["name"] = "second.example.com".into();
    configuration["webhooks"].as_array_mut().unwrap().push(second);
    assert_eq!(cluster.send("PUT", &path, &configuration).await.0, 200);
    cluster.hook.calls();
    let (code, created) = cluster.send("POST", V1, &thing("v1", "a", &json!({"size": 1}))).await;
    assert_eq!((code, &created["spec"]), (201, &json!({"size": 21})), "{created}");
    // To the version of the webhooks, back, and to that of the validating webhook.
    assert_eq!(cluster.hook.calls(), [1, 1, 1]);
    assert_eq!(hooks.reviewed.lock().unwrap().len(), 3);
}
