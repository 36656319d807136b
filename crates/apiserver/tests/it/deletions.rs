//! Options of a DELETE, and deletion of collections.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, ApiService, Options};
use serde_json::{Value, json};
use tower_service::Service;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn send(service: &mut ApiService, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let response = service.call(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap_or_default())
}

fn service() -> ApiService {
    ApiServer::start(Options::default()).service()
}

async fn create_maps(service: &mut ApiService, names: &[&str]) {
    for name in names {
        assert_eq!(send(service, "POST", MAPS, &json!({"metadata": {"name": name}})).await.0, 201);
    }
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn options_of_the_wrong_type_delete_nothing() {
    let mut service = service();
    let says = |status: &Value, why: &str| status["message"].as_str().unwrap().starts_with(why);
    create_maps(&mut service, &["a"]).await;
    let no_type = "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct { \
                   APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
    for (options, why) in [
        (
            json!({"dryRun": "All"}),
            "json: cannot unmarshal string into Go struct field DeleteOptions.dryRun of type []string",
        ),
        (
            json!({"preconditions": {"uid": 5}}),
            "json: cannot unmarshal number into Go struct field Preconditions.preconditions.uid of type",
        ),
        (
            json!({"gracePeriodSeconds": "1"}),
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
        (
            json!({"orphanDependents": "true"}),
            "json: cannot unmarshal string into Go struct field DeleteOptions.orphanDependents of type bool",
        ),
        (
            json!({"propagationPolicy": ["Orphan"]}),
            "json: cannot unmarshal array into Go struct field DeleteOptions.propagationPolicy of type",
        ),
        (json!({"apiVersion": "a/b/c"}), "unexpected GroupVersion string: a/b/c"),
        (
            json!({"apiVersion": "foo/v1", "kind": "Foo"}),
            "no kind \"Foo\" is registered for version \"foo/v1\" in scheme",
        ),
        (
            json!({"apiVersion": "v1", "kind": "CreateOptions"}),
            "converting (v1.CreateOptions) to (v1.DeleteOptions): unknown conversion",
        ),
        (json!("x"), no_type),
        (json!([]), &no_type.replace("string into", "array into")),
    ] {
        let (code, status) = send(&mut service, "DELETE", &format!("{MAPS}/a"), &options).await;
        assert_eq!((code, says(&status, why)), (400, true), "{options} {status}");
        let (code, status) = send(&mut service, "DELETE", MAPS, &options).await;
        assert_eq!((code, says(&status, why)), (400, true), "{options} {status}");
    }
    assert_eq!(send(&mut service, "GET", &format!("{MAPS}/a"), &Value::Null).await.0, 200);
    // DeleteOptions are accepted in any group and version, known or not.
    let options = json!({"apiVersion": "foo/v9", "kind": "DeleteOptions", "dryRun": ["All"]});
    assert_eq!(send(&mut service, "DELETE", &format!("{MAPS}/a"), &options).await.0, 200);
    assert_eq!(send(&mut service, "DELETE", &format!("{MAPS}/a"), &json!({})).await.0, 200);
}

#[tokio::test]
async fn a_collection_is_deleted_page_by_page() {
    let mut service = service();
    create_maps(&mut service, &["a", "b", "c", "d", "e"]).await;
    let (code, first) = send(&mut service, "DELETE", &format!("{MAPS}?limit=2"), &Value::Null).await;
    assert_eq!((code, names(&first)), (200, vec!["a", "b"]));
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    let token = first["metadata"]["continue"].as_str().unwrap();
    // A dry run of the next page deletes nothing.
    let next = format!("{MAPS}?limit=2&continue={token}");
    let (_, second) = send(&mut service, "DELETE", &next, &json!({"dryRun": ["All"]})).await;
    assert_eq!(names(&second), ["c", "d"]);
    let (_, left) = send(&mut service, "GET", MAPS, &Value::Null).await;
    assert_eq!(names(&left), ["c", "d", "e"]);
    let (_, rest) = send(&mut service, "DELETE", MAPS, &Value::Null).await;
    assert_eq!((names(&rest), rest["metadata"].get("continue")), (vec!["c", "d", "e"], None));
    let (_, left) = send(&mut service, "GET", MAPS, &Value::Null).await;
    assert_eq!(names(&left), [""; 0]);
}

#[tokio::test]
async fn a_negative_grace_period_is_one_second() {
    let mut service = service();
    let pod = json!({
        "metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    });
    assert_eq!(send(&mut service, "POST", PODS, &pod).await.0, 201);
    let path = format!("{PODS}/p");
    for (asked, granted) in [(Value::Null, 30), (json!({"gracePeriodSeconds": -5}), 1)] {
        let (code, pod) = send(&mut service, "DELETE", &path, &asked).await;
        assert_eq!((code, &pod["metadata"]["deletionGracePeriodSeconds"]), (200, &json!(granted)));
    }
    assert_eq!(send(&mut service, "GET", &path, &Value::Null).await.0, 200, "it still has its second");
    let (_, gone) = send(&mut service, "DELETE", &path, &json!({"gracePeriodSeconds": 0})).await;
    assert_eq!(gone["metadata"]["name"], "p");
    assert_eq!(send(&mut service, "GET", &path, &Value::Null).await.0, 404);
}

#[tokio::test]
async fn nothing_is_deleted_below_the_watch_prefix() {
    let mut service = service();
    create_maps(&mut service, &["a"]).await;
    for path in
        ["/api/v1/watch/namespaces/default/configmaps", "/api/v1/watch/namespaces/default/configmaps/a"]
    {
        for method in ["DELETE", "POST", "PUT", "PATCH"] {
            let (code, status) = send(&mut service, method, path, &Value::Null).await;
            assert_eq!((code, &status["reason"]), (405, &json!("MethodNotAllowed")), "{method} {path}");
            let why = "the server does not allow this method on the requested resource";
            assert_eq!((&status["message"], &status["details"]), (&json!(why), &json!({})));
        }
    }
    assert_eq!(names(&send(&mut service, "GET", MAPS, &Value::Null).await.1), ["a"]);
}
