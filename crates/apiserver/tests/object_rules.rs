//! Validation of custom objects, compared with a kube-apiserver v1.36.3.
//!
//! The first line of `data/object-rules.jsonl` is a definition. Each further line is the `spec` of an object and the answer of
//! kube-apiserver to its creation: code, warnings, stored `spec`, or causes sorted as text.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, ApiService, Options};
use serde_json::{Value, json};
use tower_service::Service;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const PROBES: &str = "/apis/example.com/v1/namespaces/default/probes?dryRun=All";
const RECORDED: &str = include_str!("data/object-rules.jsonl");

async fn send(service: &ApiService, path: &str, body: &Value) -> (u16, Vec<String>, Value) {
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap();
    let response = service.clone().call(request).await.unwrap();
    let code = response.status().as_u16();
    let warnings = response.headers().get_all("warning");
    let mut warnings: Vec<String> =
        warnings.iter().map(|warning| warning.to_str().unwrap().to_owned()).collect();
    warnings.sort();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, warnings, serde_json::from_slice(&body).unwrap())
}

/// Creates an object without storing it; returns the answer as it is recorded.
async fn answer(service: &ApiService, recorded: &Value) -> Value {
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Probe", "metadata": {"name": "p"}, "spec": recorded["spec"],
    });
    let validation = recorded["validation"].as_str().unwrap_or("Warn");
    let (code, warnings, body) =
        send(service, &format!("{PROBES}&fieldValidation={validation}"), &object).await;
    let mut answer = json!({"spec": recorded["spec"], "code": code});
    if let Some(validation) = recorded.get("validation") {
        answer["validation"] = validation.clone();
    }
    if !warnings.is_empty() {
        answer["warnings"] = json!(warnings);
    }
    if code == 201 {
        answer["stored"] = body["spec"].clone();
        return answer;
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let causes = body["details"]["causes"].as_array().into_iter().flatten();
    let mut causes: Vec<String> = causes
        .map(|cause| {
            format!("{} {}: {}", text(&cause["reason"]), text(&cause["field"]), text(&cause["message"]))
        })
        .collect();
    causes.sort();
    if causes.is_empty() {
        answer["message"] = body["message"].clone();
    } else {
        answer["causes"] = json!(causes);
    }
    answer
}

#[tokio::test]
async fn objects_are_validated_as_by_kube_apiserver() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let mut lines = RECORDED.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let (code, _, body) = send(&service, DEFINITIONS, &lines.next().unwrap()["definition"]).await;
    assert_eq!(code, 201, "{body}");
    let mut differences = Vec::new();
    for recorded in lines {
        let got = answer(&service, &recorded).await;
        if got != recorded {
            differences.push(format!("expected {recorded}\ngot      {got}"));
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}
