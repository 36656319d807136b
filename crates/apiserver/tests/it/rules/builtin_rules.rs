//! Validation of builtin kinds, compared with a kube-apiserver v1.36.3.
//!
//! Each line of `data/builtin-rules.jsonl` has an object and the path of its collection, and the answer of kube-apiserver to the creation:
//! the code, and the message of a refusal. With `patch`, the object was created, and the answer is that to this merge patch of the
//! object, or of its `subresource`. Each line starts from a state without the object. Lines with `deferred` are answered in another way as
//! yet: remove the field when the rule is there.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, ApiService, Options};
use serde_json::{Value, json};
use tower_service::Service;

const NAMESPACES: &str = "/api/v1/namespaces";
const RECORDED: &str = include_str!("../../data/builtin-rules.jsonl");

async fn call(service: &ApiService, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let media_type =
        if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media_type)
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap();
    let response = service.clone().call(request).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap())
}

/// Repeats the recorded request; returns code and message.
async fn answer(service: &ApiService, recorded: &Value) -> (u16, String) {
    let path = recorded["path"].as_str().unwrap();
    let object = &recorded["object"];
    let (code, body) = match recorded.get("patch") {
        None => call(service, Method::POST, &format!("{path}?dryRun=All"), object).await,
        Some(patch) => {
            let (code, body) = call(service, Method::POST, path, object).await;
            assert_eq!(code, 201, "{recorded}: {body}");
            let one = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
            let target = match recorded["subresource"].as_str() {
                Some(subresource) => format!("{one}/{subresource}"),
                None => one.clone(),
            };
            let answer = call(service, Method::PATCH, &target, patch).await;
            let background = json!({"propagationPolicy": "Background"});
            let (code, body) = call(service, Method::DELETE, &one, &background).await;
            assert_eq!(code, 200, "{recorded}: {body}");
            // Claims keep a finalizer.
            call(service, Method::PATCH, &one, &json!({"metadata": {"finalizers": null}})).await;
            answer
        }
    };
    let message = if code < 400 { "" } else { body["message"].as_str().unwrap() };
    (code, message.to_owned())
}

#[tokio::test]
async fn builtin_kinds_are_validated_as_by_kube_apiserver() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let (code, body) =
        call(&service, Method::POST, NAMESPACES, &json!({"metadata": {"name": "rules"}})).await;
    assert_eq!(code, 201, "{body}");
    let (mut differences, mut mended) = (Vec::new(), Vec::new());
    for line in RECORDED.lines() {
        let recorded: Value = serde_json::from_str(line).unwrap();
        let (code, message) = answer(&service, &recorded).await;
        let expected = recorded["message"].as_str().unwrap_or_default();
        let is_equal = recorded["code"] == code && message == expected;
        if recorded.get("deferred").is_some() {
            mended.extend(is_equal.then_some(line));
        } else if !is_equal {
            differences.push(format!("{line}\nexpected {expected}\ngot      {code} {message}"));
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    assert!(mended.is_empty(), "these are not deferred any more:\n{}", mended.join("\n"));
}
