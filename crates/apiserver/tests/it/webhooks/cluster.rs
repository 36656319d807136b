//! A server, requests to it, and webhooks in its process.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, Options, WebhookTransport};
use serde_json::{Value, json};
use tower_service::Service;

pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Sends a request; returns the code and the body of the response.
pub(crate) async fn send(server: &ApiServer, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let response = server.service().call(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status.as_u16(), serde_json::from_slice(&body).unwrap_or_default())
}

/// Creates a ConfigMap; returns the code, and the message or the data.
pub(crate) async fn create(server: &ApiServer, name: &str) -> (u16, Value) {
    let map = json!({"metadata": {"name": name}, "data": {"k": "v"}});
    let (code, body) = send(server, Method::POST, MAPS, &map).await;
    (code, if code < 300 { body["data"].clone() } else { body["message"].clone() })
}

/// Kind of a configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Mutating,
    Validating,
}

/// Creates or replaces a configuration of one webhook for ConfigMaps; `change` has other fields of the webhook.
pub(crate) async fn configure(server: &ApiServer, kind: Kind, client: &Value, change: &Value) {
    let mut hook = json!({
        "name": "hook.example.com", "clientConfig": client, "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "rules": [{
            "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
        }],
    });
    for (field, value) in change.as_object().into_iter().flatten() {
        hook[field] = value.clone();
    }
    let plural = match kind {
        Kind::Mutating => "mutatingwebhookconfigurations",
        Kind::Validating => "validatingwebhookconfigurations",
    };
    let collection = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
    let one = format!("{collection}/hooks");
    send(server, Method::DELETE, &one, &Value::Null).await;
    let configuration = json!({"metadata": {"name": "hooks"}, "webhooks": [hook]});
    let (code, body) = send(server, Method::POST, &collection, &configuration).await;
    assert_eq!(code, 201, "{body}");
}

type Answer = dyn Fn(Value) -> BoxFuture<'static, Result<Response<Bytes>, String>> + Send + Sync;

/// Webhooks in the process, which answer a review by a function.
#[derive(Clone)]
pub(crate) struct Hooks(Arc<Answer>);

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

impl WebhookTransport for Hooks {
    fn call(&self, request: &Request<Bytes>) -> Option<BoxFuture<'static, Result<Response<Bytes>, String>>> {
        Some((self.0)(serde_json::from_slice(request.body()).unwrap()))
    }
}

/// Address of webhooks in the process.
pub(crate) fn client() -> Value {
    json!({"url": "https://hooks.example.com/"})
}

/// Starts a server with webhooks that answer by `answer`.
pub(crate) fn start<F>(answer: impl Fn(Value) -> F + Send + Sync + 'static) -> ApiServer
where
    F: Future<Output = Result<Response<Bytes>, String>> + Send + 'static,
{
    let hooks = Hooks(Arc::new(move |review| answer(review).boxed()));
    ApiServer::start(Options::default().webhook_transport(Arc::new(hooks)))
}

/// Returns the answer to a review with this response.
pub(crate) fn respond(review: &Value, response: &Value) -> Response<Bytes> {
    let mut response = response.clone();
    response["uid"] = review["request"]["uid"].clone();
    let answer = json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response});
    Response::new(answer.to_string().into())
}
