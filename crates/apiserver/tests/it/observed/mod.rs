//! Responses of kube-apiserver 1.36.3 that no recorded scenario contains, where clients rely on them.

mod custom_kinds;
mod methods;
mod pods;
mod reads;
mod versions;
mod writes;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, ApiService, Options, UserInfo};
use serde_json::{Value, json};
use tower_service::Service;

const NAMESPACE: &str = "/api/v1/namespaces/default";

const TABLE: (&str, &str) = ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");

const JSON: (&str, &str) = ("content-type", "application/json");

struct Answer {
    code: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn message(&self) -> String {
        self.value()["message"].as_str().unwrap_or_default().to_owned()
    }

    fn warnings(&self) -> Vec<String> {
        let all = self.headers.get_all("warning").iter().map(|line| line.to_str().unwrap());
        let text = |line: &str| line.strip_prefix("299 - \"")?.strip_suffix('"').map(str::to_owned);
        all.map(|line| text(line).unwrap().replace("\\\"", "\"").replace(r"\\", r"\")).collect()
    }
}

async fn send(
    service: &ApiService,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap();
    let response = service.clone().call(request).await.unwrap();
    let (head, body) = response.into_parts();
    Answer {
        code: head.status.as_u16(),
        headers: head.headers,
        body: body.collect().await.unwrap().to_bytes(),
    }
}

async fn get(service: &ApiService, path: &str) -> Answer {
    send(service, "GET", path, &[], "").await
}

async fn post(service: &ApiService, path: &str, body: &Value) -> Answer {
    send(service, "POST", path, &[JSON], &body.to_string()).await
}

async fn patch(service: &ApiService, path: &str, body: &str) -> Answer {
    send(service, "PATCH", path, &[("content-type", "application/merge-patch+json")], body).await
}

fn pod(name: &str, node: Option<&str>, containers: &[&str]) -> Value {
    let containers: Vec<Value> = containers.iter().map(|name| json!({"name": name, "image": "i"})).collect();
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": containers}});
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
    }
    pod
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Defines a kind with versions and their schemas, the first of which is stored.
async fn define(service: &ApiService, plural: &str, kind: &str, scope: &str, versions: &[(&str, Value)]) {
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(index, (name, properties))| {
            json!({
                "name": name, "served": true, "storage": index == 0, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
            })
        })
        .collect();
    let definition = json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": scope, "names": {"plural": plural, "kind": kind}, "versions": versions,
        },
    });
    let answer = post(service, DEFINITIONS, &definition).await;
    assert_eq!(answer.code, 201, "{}", answer.message());
}
