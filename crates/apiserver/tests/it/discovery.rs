//! All builtin resources are listed like those of a genuine kube-apiserver.

use std::collections::BTreeMap;

use http::Request;
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, Options};
use serde_json::{Value, json};
use tower_service::Service;

/// Responses to `/api` and `/apis`, recorded with v1.36.3.
const RECORDED: &str = include_str!("../data/discovery-aggregated.json");

async fn discover(path: &str) -> Value {
    discover_as(path, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").await
}

async fn discover_as(path: &str, accept: &str) -> Value {
    let server = ApiServer::start(Options::default());
    let request = Request::get(path).header("accept", accept).body(Full::default()).unwrap();
    let request: Request<Full<bytes::Bytes>> = request;
    let response = server.service().call(request).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

/// Returns the entries of resources and subresources, by group, version and name.
fn resources(list: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for group in list["items"].as_array().unwrap() {
        let name = group["metadata"]["name"].as_str().unwrap_or_default();
        for version in group["versions"].as_array().unwrap() {
            let version_name = version["version"].as_str().unwrap();
            for resource in version["resources"].as_array().unwrap() {
                let mut resource = resource.clone();
                let of = format!("{name}/{version_name} {}", resource["resource"].as_str().unwrap());
                let subresources = resource.as_object_mut().unwrap().remove("subresources");
                for subresource in subresources.iter().filter_map(Value::as_array).flatten() {
                    let subname = subresource["subresource"].as_str().unwrap();
                    found.insert(format!("{of}/{subname}"), subresource.clone());
                }
                found.insert(of, resource);
            }
        }
    }
    found
}

/// Returns the groups with their versions, in the order of preference.
fn groups(list: &Value) -> Vec<String> {
    let version = |version: &Value| version["version"].as_str().unwrap().to_owned();
    let group = |group: &Value| {
        let versions: Vec<String> = group["versions"].as_array().unwrap().iter().map(version).collect();
        format!("{} {}", group["metadata"]["name"].as_str().unwrap_or_default(), versions.join(","))
    };
    list["items"].as_array().unwrap().iter().map(group).collect()
}

#[tokio::test]
async fn only_the_current_aggregated_version_of_both_roots_is_served() {
    let aggregated = |version: &str| {
        format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList")
    };
    for (path, accept, kind) in [
        ("/api", aggregated("v2beta1"), "Status"),
        ("/apis", aggregated("v2beta1"), "Status"),
        ("/apis", format!("{},application/json", aggregated("v2beta1")), "APIGroupList"),
        ("/apis", format!("{},{}", aggregated("v2beta1"), aggregated("v2")), "APIGroupDiscoveryList"),
        ("/apis/apps", aggregated("v2"), "Status"),
        ("/apis/apps/v1", aggregated("v2"), "Status"),
        ("/apis/apps/v1", format!("{},application/json", aggregated("v2")), "APIResourceList"),
        ("/apis", aggregated("v3"), "Status"),
    ] {
        assert_eq!(discover_as(path, &accept).await["kind"], kind, "{path} {accept}");
    }
}

#[tokio::test]
async fn every_builtin_resource_is_listed_as_recorded() {
    let recorded: Value = serde_json::from_str(RECORDED).unwrap();
    for path in ["/api", "/apis"] {
        let ours = discover(path).await;
        assert_eq!(groups(&ours), groups(&recorded[path]), "{path}");
        let (ours, recorded) = (resources(&ours), resources(&recorded[path]));
        for (name, expected) in &recorded {
            assert_eq!(ours.get(name), Some(expected), "{name}");
        }
        let more: Vec<&String> = ours.keys().filter(|name| !recorded.contains_key(*name)).collect();
        assert_eq!(more, [""; 0]);
    }
}

/// Recorded from kube-apiserver v1.36.3.
#[tokio::test]
async fn the_group_of_another_server_is_listed_and_unavailable() {
    let server = ApiServer::start(Options::default());
    let send = async |method: &str, path: &str, accept: &str, body: &Value| {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/json").header("accept", accept);
        let request = request.body(Full::new(bytes::Bytes::from(body.to_string()))).unwrap();
        let response = server.service().call(request).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    };
    let json = "application/json";
    let api = json!({
        "metadata": {"name": "v1.b.example.com"},
        "spec": {
            "group": "b.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
            "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "s"},
        },
    });
    let apis = "/apis/apiregistration.k8s.io/v1/apiservices";
    assert_eq!(send("POST", apis, json, &api).await.0, 201);
    let (code, group) = send("GET", "/apis/b.example.com", json, &Value::Null).await;
    assert_eq!(code, 200);
    let version = json!({"groupVersion": "b.example.com/v1", "version": "v1"});
    assert_eq!(
        serde_json::from_str::<Value>(&group).unwrap(),
        json!({
            "kind": "APIGroup", "apiVersion": "v1", "name": "b.example.com", "versions": [version],
            "preferredVersion": version,
        })
    );
    for (method, path) in [("GET", "/apis/b.example.com/v1"), ("POST", "/apis/b.example.com/v1/foos")] {
        let answer = send(method, path, json, &json!({})).await;
        assert_eq!(answer, (503, "service unavailable\n".to_owned()), "{method} {path}");
    }
    assert_eq!(send("GET", "/apis/b.example.com/v2", json, &Value::Null).await.0, 404);
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let list: Value = serde_json::from_str(&send("GET", "/apis", aggregated, &Value::Null).await.1).unwrap();
    let groups = list["items"].as_array().unwrap();
    let group = groups.iter().find(|group| group["metadata"]["name"] == "b.example.com").unwrap();
    assert_eq!(group["versions"], json!([{"version": "v1", "freshness": "Stale"}]));
    assert_eq!(send("DELETE", &format!("{apis}/v1.b.example.com"), json, &json!({})).await.0, 200);
    assert_eq!(send("GET", "/apis/b.example.com", json, &Value::Null).await.0, 404);
}
