use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::ready;
use http::Method;
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Duration, Instant};
use tower_service::Service;

use super::*;
use crate::ApiServer;
use crate::Options;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A plugin that records its calls, changes labels, and refuses objects with a certain label.
#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Vec<String>>>);

impl Witness {
    fn note(&self, stage: &str, request: &Attributes<'_>, object: Option<&Value>) {
        let labels = object.map_or("-".to_owned(), |object| object["metadata"]["labels"].to_string());
        let uid = object.is_some_and(|object| object["metadata"].get("uid").is_some());
        let uid = if uid { ", uid" } else { "" };
        self.0.lock().push(format!("{stage} {:?} {labels}{uid}", request.operation));
    }
}

impl MutatingPlugin for Witness {
    fn mutate<'a>(&'a self, request: &'a Attributes<'a>, object: Option<&'a mut Value>) -> Verdict<'a> {
        self.note("mutate", request, object.as_deref());
        if let Some(object) = object
            && object["metadata"]["labels"].is_object()
        {
            object["metadata"]["labels"]["mutated"] = json!("yes");
        }
        ready(Ok(vec!["mind the label".to_owned()])).boxed()
    }
}

impl ValidatingPlugin for Witness {
    fn validate<'a>(&'a self, request: &'a Attributes<'a>, object: Option<&'a Value>) -> Verdict<'a> {
        self.note("validate", request, object);
        let refused = object.is_some_and(|object| object["metadata"]["labels"]["refuse"] == "yes");
        let verdict = if refused { Err(ApiError::bad_request("not so")) } else { Ok(Vec::new()) };
        ready(verdict).boxed()
    }
}

/// A plugin that never completes.
#[derive(Clone)]
struct Silent;

impl MutatingPlugin for Silent {
    fn mutate<'a>(&'a self, _: &'a Attributes<'a>, _: Option<&'a mut Value>) -> Verdict<'a> {
        ready(Ok(Vec::new())).boxed()
    }
}

impl ValidatingPlugin for Silent {
    fn validate<'a>(&'a self, _: &'a Attributes<'a>, _: Option<&'a Value>) -> Verdict<'a> {
        std::future::pending().boxed()
    }
}

/// Returns the code and the body of the response, and the number of warnings.
async fn send(server: &ApiServer, method: Method, path: &str, body: &Value) -> (u16, Value, usize) {
    let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let response = server.service().call(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    let body = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
    (head.status.as_u16(), body, head.headers.get_all("warning").iter().count())
}

fn map(name: &str, labels: &Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels}})
}

#[tokio::test]
async fn a_write_goes_through_its_stages_in_order() {
    let witness = Witness::default();
    let admission = Admission::standard().with(witness.clone());
    let server = ApiServer::start_with(Options::default(), admission);
    let said = |expected: &[&str]| assert_eq!(std::mem::take(&mut *witness.0.lock()), expected);

    let (code, created, warnings) = send(&server, Method::POST, MAPS, &map("a", &json!({"k": "v"}))).await;
    assert_eq!((code, warnings), (201, 1));
    assert_eq!(created["metadata"]["labels"], json!({"k": "v", "mutated": "yes"}));
    let owned = created["metadata"]["managedFields"][0]["fieldsV1"].to_string();
    assert!(owned.contains("f:mutated"), "what is changed on the way belongs to the writer: {owned}");
    said(&[r#"mutate Create {"k":"v"}"#, r#"validate Create {"k":"v","mutated":"yes"}, uid"#]);

    // Validating plugins do not see objects that fail validation.
    let (code, _, _) = send(&server, Method::POST, MAPS, &map("b", &json!({"k": "!"}))).await;
    assert_eq!(code, 422);
    said(&[r#"mutate Create {"k":"!"}"#]);
    let (code, _, _) = send(&server, Method::POST, MAPS, &map("b", &json!({"refuse": "yes"}))).await;
    assert_eq!(code, 400);
    let one = format!("{MAPS}/b");
    assert_eq!(send(&server, Method::GET, &one, &Value::Null).await.0, 404);
    witness.0.lock().clear();

    let one = format!("{MAPS}/a");
    let patch = json!({"metadata": {"labels": {"k": "w"}}});
    assert_eq!(send(&server, Method::PATCH, &one, &patch).await.0, 200);
    said(&[
        r#"mutate Update {"k":"w","mutated":"yes"}, uid"#,
        r#"validate Update {"k":"w","mutated":"yes"}, uid"#,
    ]);
    let patch = json!({"metadata": {"labels": {"refuse": "yes"}}});
    assert_eq!(send(&server, Method::PATCH, &one, &patch).await.0, 400);
    witness.0.lock().clear();
    assert_eq!(send(&server, Method::DELETE, &one, &Value::Null).await.0, 200);
    said(&["mutate Delete -", "validate Delete -"]);

    // The first plugin that refuses ends the request.
    let elsewhere = "/api/v1/namespaces/nowhere/configmaps";
    assert_eq!(send(&server, Method::POST, elsewhere, &map("a", &Value::Null)).await.0, 404);
    said(&[]);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_too_long_ends() {
    let server = ApiServer::start_with(Options::default(), Admission::standard().with(Silent));
    for (query, seconds, why) in [
        ("", 34, "within requested timeout - context deadline exceeded"),
        ("?timeout=5s", 5, "within the allotted timeout"),
    ] {
        let started = Instant::now();
        let (code, status, _) =
            send(&server, Method::POST, &format!("{MAPS}{query}"), &map("a", &Value::Null)).await;
        assert_eq!((code, started.elapsed()), (504, Duration::from_secs(seconds)));
        assert_eq!(status["message"], format!("Timeout: request did not complete {why}"));
    }
    assert_eq!(send(&server, Method::GET, &format!("{MAPS}/a"), &Value::Null).await.0, 404);
}
