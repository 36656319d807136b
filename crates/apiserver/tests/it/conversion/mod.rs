//! Conversion webhooks of CustomResourceDefinitions, answered within the process.

mod admission;
mod failures;
mod hook;
mod reads;
mod storage;
mod watches;
mod writes;

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, ApiService, Options, Profile, ResponseBody};
use serde_json::{Value, json};
use tower_service::Service;

use hook::Hook;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com";
const V1: &str = "/apis/example.com/v1/namespaces/default/things";
const V2: &str = "/apis/example.com/v2/namespaces/default/things";

/// A server with a definition in two versions and a webhook that converts them: `spec.size` of the storage version v1 is `spec.amount` in
/// v2.
struct Cluster {
    _server: ApiServer,
    service: ApiService,
    hook: Arc<Hook>,
}

impl Cluster {
    async fn start() -> Self {
        Self::with(Options::default()).await
    }

    async fn with_controllers() -> Self {
        Self::with(Options::default().profile(Profile::Dev)).await
    }

    async fn with(options: Options) -> Self {
        let hook = Arc::new(Hook::default());
        let server = ApiServer::start(options.webhook_transport(Arc::clone(&hook) as _));
        let cluster = Self { service: server.service(), _server: server, hook };
        assert_eq!(cluster.send("POST", DEFINITIONS, &definition()).await.0, 201);
        cluster
    }

    /// Returns the code and the body of a response.
    async fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let content_type =
            if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        self.send_as(method, path, content_type, body).await
    }

    async fn send_as(&self, method: &str, path: &str, content_type: &str, body: &Value) -> (u16, Value) {
        let response = self.response(method, path, content_type, body).await;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        // A group or version that is not served is answered in plain text.
        let text = || Value::from(String::from_utf8_lossy(&body));
        (code, serde_json::from_slice(&body).unwrap_or_else(|_| text()))
    }

    async fn response(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> http::Response<ResponseBody> {
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        self.service.clone().call(request.body(Full::new(body)).unwrap()).await.unwrap()
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, &Value::Null).await
    }

    async fn apply(&self, path: &str, manager: &str, object: &Value) -> (u16, Value) {
        let path = format!("{path}?fieldManager={manager}");
        self.send_as("PATCH", &path, "application/apply-patch+yaml", object).await
    }

    /// Creates an object in the storage version.
    async fn create(&self, name: &str, size: u64) {
        let (code, body) = self.send("POST", V1, &thing("v1", name, &json!({"size": size}))).await;
        assert_eq!(code, 201, "{body}");
    }

    /// Waits until a path leads to nothing.
    async fn gone(&self, path: &str) {
        for _ in 0..10_000 {
            if self.get(path).await.0 == 404 {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{path} is still there");
    }
}

fn definition() -> Value {
    let version = |name: &str, storage: bool, field: &str| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": {field: {"type": "integer"}}}},
        }}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [version("v1", true, "size"), version("v2", false, "amount")],
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": {"url": "https://hooks.example.com/convert"}, "conversionReviewVersions": ["v1"],
            }},
        },
    })
}

fn thing(version: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Thing", "metadata": {"name": name}, "spec": spec,
    })
}

/// Returns the entries of `managedFields` as `manager version {fields}`.
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let show = |entry: &Value| {
        let version = text(&entry["apiVersion"]).replace("example.com/", "");
        format!("{} {version} {}", text(&entry["manager"]), entry["fieldsV1"]["f:spec"])
    };
    entries.map(show).collect()
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}
