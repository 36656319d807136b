//! Validation of CustomResourceDefinitions, compared with a kube-apiserver v1.36.3.
//!
//! Each line of `data/definition-rules.jsonl` is a definition and the answer of kube-apiserver to its creation: code, warnings, and
//! causes sorted as text. Go reports the errors of a map in random order, therefore only the sorted causes are compared.

use kube_apiserver_embedded::{ApiServer, ApiService, Options};
use serde_json::{Value, json};

use super::{add_refusal, send};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All";
const RECORDED: &str = include_str!("../../data/definition-rules.jsonl");

/// Recorded answers that this server gives differently on purpose, and why.
const DIFFERENT: [(&str, &str); 4] = [
    ("int-or-string anyOf empty required", EMPTY),
    ("metadata empty required", EMPTY),
    ("dependencies={}", EMPTY),
    ("status root anyOf empty", EMPTY),
];
const EMPTY: &str = "empty lists and maps are dropped before validation, as they are from the stored object";

/// Creates a definition without storing it; returns the answer as it is recorded.
async fn answer(service: &ApiService, recorded: &Value) -> Value {
    let mut definition = recorded["definition"].clone();
    definition["apiVersion"] = json!("apiextensions.k8s.io/v1");
    definition["kind"] = json!("CustomResourceDefinition");
    let (code, mut warnings, body) = send(service, DEFINITIONS, &definition).await;
    warnings.retain(|warning| !warning.contains("kube-apiserver-embedded: "));
    let mut answer = json!({"code": code});
    if !warnings.is_empty() {
        answer["warnings"] = json!(warnings);
    }
    if code == 201 {
        return answer;
    }
    add_refusal(&mut answer, &body);
    answer
}

#[tokio::test]
async fn definitions_are_validated_as_by_kube_apiserver() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let mut differences = Vec::new();
    for line in RECORDED.lines() {
        let mut recorded: Value = serde_json::from_str(line).unwrap();
        let got = answer(&service, &recorded).await;
        let fields = recorded.as_object_mut().unwrap();
        let name = fields.remove("name").unwrap().as_str().unwrap().to_owned();
        fields.remove("definition");
        let expected_to_differ = DIFFERENT.iter().any(|(known, _)| *known == name);
        if (got == recorded) == expected_to_differ {
            differences.push(format!("{name}\n  expected {recorded}\n  got      {got}"));
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}
