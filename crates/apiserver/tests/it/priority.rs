//! Priorities of pods, compared with the answers of a kube-apiserver v1.36.3.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, ApiService, Options};
use serde_json::{Value, json};
use tower_service::Service;

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

async fn send(service: &ApiService, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let response = service.clone().call(request.body(Full::new(body)).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

/// Creates a pod; returns its class, priority and policy, or the error.
async fn pod(service: &ApiService, name: &str, fields: Value) -> (u16, String) {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    spec.as_object_mut().unwrap().append(&mut fields.as_object().unwrap().clone());
    let (code, answer) =
        send(service, "POST", PODS, &json!({"metadata": {"name": name}, "spec": spec})).await;
    if code != 201 {
        return (code, answer["message"].as_str().unwrap().to_owned());
    }
    let owned = answer["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"].clone();
    assert!(fields.get("priority").is_some() || owned.get("f:priority").is_none(), "{owned}");
    let spec = &answer["spec"];
    (
        code,
        format!(
            "{} {} {}",
            spec["priorityClassName"].as_str().unwrap_or("-"),
            spec["priority"],
            spec["preemptionPolicy"].as_str().unwrap()
        ),
    )
}

async fn class(service: &ApiService, name: &str, fields: Value) -> (u16, Value) {
    let mut class = json!({"metadata": {"name": name}});
    class.as_object_mut().unwrap().append(&mut fields.as_object().unwrap().clone());
    send(service, "POST", CLASSES, &class).await
}

#[tokio::test]
async fn a_pod_has_the_priority_of_its_class() {
    let server = ApiServer::start(Options::default());
    let service = &server.service();
    let accepted = |text: &str| (201, text.to_owned());
    let refused = |name: &str, why: &str| (403, format!("pods \"{name}\" is forbidden: {why}"));
    assert_eq!(class(service, "high", json!({"value": 7})).await.0, 201);
    assert_eq!(class(service, "calm", json!({"value": 9, "preemptionPolicy": "Never"})).await.0, 201);
    assert_eq!(pod(service, "plain", json!({})).await, accepted("- 0 PreemptLowerPriority"));
    assert_eq!(pod(service, "zero", json!({"priority": 0})).await, accepted("- 0 PreemptLowerPriority"));
    for (name, expected) in [
        ("system-node-critical", "system-node-critical 2000001000 PreemptLowerPriority"),
        ("system-cluster-critical", "system-cluster-critical 2000000000 PreemptLowerPriority"),
        ("high", "high 7 PreemptLowerPriority"),
        ("calm", "calm 9 Never"),
    ] {
        assert_eq!(pod(service, name, json!({"priorityClassName": name})).await, accepted(expected));
    }
    assert_eq!(
        pod(service, "p", json!({"priorityClassName": "nope"})).await,
        refused("p", "no PriorityClass with name nope was found")
    );
    let priority = |given: i64, computed: i64| {
        format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {computed} from the given PriorityClass name"
        )
    };
    assert_eq!(pod(service, "p", json!({"priority": 5})).await, refused("p", &priority(5, 0)));
    let both = json!({"priority": 8, "priorityClassName": "high"});
    assert_eq!(pod(service, "p", both).await, refused("p", &priority(8, 7)));
    let both = json!({"priority": 7, "priorityClassName": "high"});
    assert_eq!(pod(service, "same", both).await, accepted("high 7 PreemptLowerPriority"));
    assert_eq!(
        pod(service, "p", json!({"preemptionPolicy": "Never"})).await,
        refused(
            "p",
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission \
             controller computed PreemptLowerPriority from the given PriorityClass name"
        )
    );
}

#[tokio::test]
async fn one_class_is_that_of_pods_without_one() {
    let server = ApiServer::start(Options::default());
    let service = &server.service();
    let fields = json!({"value": 11, "globalDefault": true, "preemptionPolicy": "Never"});
    assert_eq!(class(service, "usual", fields).await.0, 201);
    assert_eq!(pod(service, "plain", json!({})).await, (201, "usual 11 Never".to_owned()));
    let (code, answer) = class(service, "other", json!({"value": 10, "globalDefault": true})).await;
    assert_eq!(
        (code, answer["message"].as_str().unwrap()),
        (
            403,
            "priorityclasses.scheduling.k8s.io \"other\" is forbidden: PriorityClass usual is already marked as default. \
             Only one default can exist"
        )
    );
    assert_eq!(class(service, "other", json!({"value": 10})).await.0, 201);
    let other = json!({"metadata": {"name": "other"}, "value": 10, "globalDefault": true});
    assert_eq!(send(service, "PUT", &format!("{CLASSES}/other"), &other).await.0, 403);
    let usual = json!({"metadata": {"name": "usual"}, "value": 11, "globalDefault": true, "preemptionPolicy": "Never"});
    assert_eq!(send(service, "PUT", &format!("{CLASSES}/usual"), &usual).await.0, 200);
    assert_eq!(send(service, "DELETE", &format!("{CLASSES}/usual"), &Value::Null).await.0, 200);
    assert_eq!(pod(service, "later", json!({})).await, (201, "- 0 PreemptLowerPriority".to_owned()));
}

#[tokio::test]
async fn classes_are_validated() {
    let server = ApiServer::start(Options::default());
    let service = &server.service();
    for (name, fields, expected) in [
        (
            "system-x",
            json!({"value": 1}),
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: \
             system-x is not a known system priority class",
        ),
        (
            "big",
            json!({"value": 1_000_000_001}),
            "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
        ),
        (
            "policy",
            json!({"value": 1, "preemptionPolicy": "X"}),
            "preemptionPolicy: Unsupported value: \"X\": supported values: \"PreemptLowerPriority\", \"Never\"",
        ),
    ] {
        let (code, answer) = class(service, name, fields).await;
        let expected = format!("PriorityClass.scheduling.k8s.io \"{name}\" is invalid: {expected}");
        assert_eq!((code, answer["message"].as_str().unwrap()), (422, expected.as_str()));
    }
}

#[tokio::test]
async fn a_set_that_go_omits_if_it_is_empty_is_owned_as_a_whole() {
    let server = ApiServer::start(Options::default());
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "x", "validationActions": ["Deny", "Audit"]}});
    let (code, answer) = send(&server.service(), "POST", path, &binding).await;
    assert_eq!(code, 201);
    assert_eq!(
        answer["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"],
        json!({"f:policyName": {}, "f:validationActions": {".": {}, "v:\"Audit\"": {}, "v:\"Deny\"": {}}})
    );
}
