//! Rules of validation, compared with the answers of a kube-apiserver v1.36.3.

mod builtin_rules;
mod definitions;
mod objects;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::ApiService;
use serde_json::{Value, json};
use tower_service::Service;

/// Posts an object; returns the code, the sorted warnings and the body of the answer.
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

/// Adds the sorted causes of a refusal to `answer`, or its message if there are none.
fn add_refusal(answer: &mut Value, body: &Value) {
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
}
