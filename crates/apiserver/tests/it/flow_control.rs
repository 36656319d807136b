//! Response headers with the flow of a request.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, ApiService, Options, ResponseBody};
use serde_json::{Value, json};
use tower_service::Service;

const GROUP: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

async fn send(service: &ApiService, method: &str, path: &str, body: &Value) -> Response<ResponseBody> {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    service.clone().call(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap()
}

async fn uid(service: &ApiService, plural: &str, name: &str) -> String {
    let response = send(service, "GET", &format!("{GROUP}/{plural}/{name}"), &Value::Null).await;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let object: Value = serde_json::from_slice(&body).unwrap();
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// Returns the UIDs of flow schema and priority level in the headers of a response.
fn told(response: &Response<ResponseBody>) -> Option<(String, String)> {
    let header = |name: &str| Some(response.headers().get(name)?.to_str().unwrap().to_owned());
    Some((header("X-Kubernetes-PF-FlowSchema-UID")?, header("X-Kubernetes-PF-PriorityLevel-UID")?))
}

#[tokio::test(start_paused = true)]
async fn every_response_names_its_flow() {
    let service = ApiServer::start(Options::default()).service();
    let exempt = Some((
        uid(&service, "flowschemas", "exempt").await,
        uid(&service, "prioritylevelconfigurations", "exempt").await,
    ));
    let map = json!({"metadata": {"name": "a"}});
    let maps = "/api/v1/namespaces/default/configmaps";
    for (method, path, body, code) in [
        ("POST", maps, &map, 201),
        ("POST", maps, &map, 409),
        ("GET", &format!("{maps}/a"), &Value::Null, 200),
        ("GET", &format!("{maps}?watch=true"), &Value::Null, 200),
        ("GET", &format!("{maps}/b"), &Value::Null, 404),
        ("GET", "/livez/ping", &Value::Null, 200),
        ("HEAD", "/livez/ping", &Value::Null, 200),
        ("GET", "/nowhere", &Value::Null, 404),
    ] {
        let response = send(&service, method, path, body).await;
        assert_eq!(response.status(), StatusCode::from_u16(code).unwrap(), "{method} {path}");
        assert_eq!(told(&response), exempt, "{method} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_flow_schema_takes_effect_from_its_creation_to_its_deletion() {
    let service = ApiServer::start(Options::default()).service();
    // Requests of administrators are exempt.
    let get = async || {
        let request = Request::get("/version").header("impersonate-user", "alice");
        told(&service.clone().call(request.body(Full::default()).unwrap()).await.unwrap())
    };
    let before = get().await.unwrap();
    let schema = json!({"metadata": {"name": "a-version"}, "spec": {
        "priorityLevelConfiguration": {"name": "mine"}, "matchingPrecedence": 2,
        "rules": [{
            "subjects": [{"kind": "User", "user": {"name": "alice"}}],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/version"]}],
        }],
    }});
    send(&service, "POST", &format!("{GROUP}/flowschemas"), &schema).await;
    assert_eq!(get().await.unwrap(), before, "its level does not exist");
    let level = json!({"metadata": {"name": "mine"}, "spec": {
        "type": "Limited", "limited": {"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}},
    }});
    send(&service, "POST", &format!("{GROUP}/prioritylevelconfigurations"), &level).await;
    let mine = (
        uid(&service, "flowschemas", "a-version").await,
        uid(&service, "prioritylevelconfigurations", "mine").await,
    );
    assert_eq!(get().await.unwrap(), mine);
    send(&service, "DELETE", &format!("{GROUP}/flowschemas/a-version"), &Value::Null).await;
    assert_eq!(get().await.unwrap(), before);
}

/// Fields of kube-apiserver v1.36.3.
#[tokio::test(start_paused = true)]
async fn a_flow_schema_has_a_condition_about_its_level() {
    let service = ApiServer::start(Options::default()).service();
    let schema = json!({"metadata": {"name": "mine"}, "spec": {
        "priorityLevelConfiguration": {"name": "nope"}, "matchingPrecedence": 500,
    }});
    send(&service, "POST", &format!("{GROUP}/flowschemas"), &schema).await;
    let condition = async || {
        // Virtual time: the controller runs before it passes.
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        let response = send(&service, "GET", &format!("{GROUP}/flowschemas/mine"), &Value::Null).await;
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let object: Value = serde_json::from_slice(&body).unwrap();
        let condition = &object["status"]["conditions"][0];
        let shown = format!("{} {}", condition["status"], condition["reason"]);
        let entries = object["metadata"]["managedFields"].as_array().unwrap().clone();
        let manager = "api-priority-and-fairness-config-consumer-v1";
        let owned = entries.iter().find(|entry| entry["manager"] == manager).unwrap();
        assert_eq!((&owned["operation"], &owned["subresource"]), (&json!("Apply"), &json!("status")));
        (shown, condition["message"].as_str().unwrap().to_owned())
    };
    let named = "This FlowSchema references the PriorityLevelConfiguration object named \"nope\"";
    let dangling = (r#""True" "NotFound""#.to_owned(), format!("{named} but there is no such object"));
    assert_eq!(condition().await, dangling);
    let level = json!({"metadata": {"name": "nope"}, "spec": {
        "type": "Limited", "limited": {"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}},
    }});
    send(&service, "POST", &format!("{GROUP}/prioritylevelconfigurations"), &level).await;
    assert_eq!(condition().await, (r#""False" "Found""#.to_owned(), format!("{named} and it exists")));
    send(&service, "DELETE", &format!("{GROUP}/prioritylevelconfigurations/nope"), &Value::Null).await;
    assert_eq!(condition().await, dangling);
}
