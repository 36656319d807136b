//! Validation of custom objects, compared with a kube-apiserver v1.36.3.
//!
//! The first line of `data/object-rules.jsonl` is a definition. Each other line is the `spec` of an object and the answer of
//! kube-apiserver to its creation: code, warnings, stored `spec`, or causes sorted as text.

use kube_apiserver_embedded::{ApiServer, ApiService, Options};
use serde_json::{Value, json};

use super::{add_refusal, send};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const PROBES: &str = "/apis/example.com/v1/namespaces/default/probes?dryRun=All";
const RECORDED: &str = include_str!("../../data/object-rules.jsonl");

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
    add_refusal(&mut answer, &body);
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
