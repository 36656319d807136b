//! Many definitions: names are accepted correctly, at a cost that allows for hundreds of definitions.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, ApiService, Options};
use serde_json::{Value, json};
use tower_service::Service;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

async fn send(service: &ApiService, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(Full::new(body))
        .unwrap();
    let response = service.clone().call(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

fn definition(plural: &str, kind: &str) -> Value {
    let properties: serde_json::Map<String, Value> =
        (0..20).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": properties}},
            }}}],
        },
    })
}

async fn condition(service: &ApiService, plural: &str, kind: &str) -> Value {
    let (_, read) = send(service, "GET", &format!("{DEFINITIONS}/{plural}.example.com"), &Value::Null).await;
    let conditions = read["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap()["status"].clone()
}

#[tokio::test]
async fn a_hundred_definitions_are_established_one_after_the_other() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    for n in 0..100 {
        let (plural, kind) = (format!("r{n}"), format!("R{n}"));
        assert_eq!(send(&service, "POST", DEFINITIONS, &definition(&plural, &kind)).await.0, 201);
        assert_eq!(condition(&service, &plural, "Established").await, "True");
    }
}

#[tokio::test]
async fn a_name_that_is_freed_goes_to_the_first_that_waits_for_it() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    for plural in ["holders", "firsts", "seconds"] {
        assert_eq!(send(&service, "POST", DEFINITIONS, &definition(plural, "Same")).await.0, 201);
    }
    for (plural, accepted) in [("holders", "True"), ("firsts", "False"), ("seconds", "False")] {
        assert_eq!(condition(&service, plural, "NamesAccepted").await, accepted, "{plural}");
        assert_eq!(condition(&service, plural, "Established").await, accepted, "{plural}");
    }
    let holder = format!("{DEFINITIONS}/holders.example.com");
    assert_eq!(send(&service, "DELETE", &holder, &Value::Null).await.0, 200);
    let mut reads = 0;
    while send(&service, "GET", &holder, &Value::Null).await.0 != 404 {
        reads += 1;
        assert!(reads < 1000, "a task deletes it");
        tokio::task::yield_now().await;
    }
    for (plural, accepted) in [("firsts", "True"), ("seconds", "False")] {
        assert_eq!(condition(&service, plural, "NamesAccepted").await, accepted, "{plural}");
        assert_eq!(condition(&service, plural, "Established").await, accepted, "{plural}");
    }
    let firsts = "/apis/example.com/v1/namespaces/default/firsts";
    assert_eq!(send(&service, "GET", firsts, &Value::Null).await.0, 200);
}

#[tokio::test]
async fn an_established_definition_needs_a_valid_ca_bundle() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    assert_eq!(send(&service, "POST", DEFINITIONS, &definition("things", "Thing")).await.0, 201);
    let path = format!("{DEFINITIONS}/things.example.com");
    let with = async |bundle: &str| {
        let (_, mut definition) = send(&service, "GET", &path, &Value::Null).await;
        definition["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://example.com", "caBundle": bundle},
        }});
        send(&service, "PUT", &path, &definition).await
    };
    let (code, answer) = with("YWJj").await;
    assert_eq!(
        (code, answer["message"].as_str().unwrap()),
        (
            422,
            "CustomResourceDefinition.apiextensions.k8s.io \"things.example.com\" is invalid: \
             spec.conversion.webhookClientConfig.caBundle: Invalid value: \"YWJj\": unable to load root certificates: unable \
             to parse bytes as PEM block"
        )
    );
    let certificate = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";
    assert_eq!(with(certificate).await.0, 200);
}
