//! The server as a library sees it: `kube::Client` over the in-process service.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent,
    WatchParams,
};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use kube_apiserver_embedded::{ApiServer, Options};
use serde_json::json;

fn client(server: &ApiServer) -> Client {
    Client::new(server.service(), "default")
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"k": value}})).unwrap()
}

fn widgets() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}},
                    "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
                }}},
            }],
        },
    }))
    .unwrap()
}

fn widget_api(client: Client) -> Api<DynamicObject> {
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.com", "v1", "Widget"), "widgets");
    Api::namespaced_with(client, "default", &resource)
}

fn widget(name: &str, spec: &serde_json::Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec,
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_object_goes_through_its_life() {
    let server = ApiServer::start(Options::default());
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let created = api
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    assert!(created.uid().is_some());
    let mut read = api.get("a").await.unwrap();
    assert_eq!(read.resource_version(), created.resource_version());
    read.data.as_mut().unwrap().insert("more".into(), "2".into());
    let updated = api.replace("a", &PostParams::default(), &read).await.unwrap();
    assert_ne!(updated.resource_version(), created.resource_version());
    let stale = api
        .replace("a", &PostParams::default(), &created)
        .await
        .unwrap_err();
    assert!(matches!(stale, kube::Error::Api(status) if status.code == 409));
    let patch = json!({"data": {"k": null}});
    let patched = api
        .patch("a", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    assert_eq!(patched.data.unwrap().keys().collect::<Vec<_>>(), ["more"]);
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(api.get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_definition_serves_its_resource_when_it_is_answered() {
    let server = ApiServer::start(Options::default());
    let client = client(&server);
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions
        .create(&PostParams::default(), &widgets())
        .await
        .unwrap();
    let api = widget_api(client);
    let created = api
        .create(&PostParams::default(), &widget("w", &json!({})))
        .await
        .unwrap();
    assert_eq!(created.data["spec"]["size"], 3);
    assert_eq!(created.metadata.generation, Some(1));
    let status = json!({"status": {"ready": true}, "spec": {"size": 9}});
    let patched = api
        .patch_status("w", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    assert_eq!(patched.data["status"]["ready"], true);
    assert_eq!(patched.data["spec"]["size"], 3);
    assert_eq!(patched.metadata.generation, Some(1));
    definitions
        .delete("widgets.example.com", &DeleteParams::default())
        .await
        .unwrap();
    assert!(
        definitions
            .get_opt("widgets.example.com")
            .await
            .unwrap()
            .is_none()
    );
    // The path is gone, not only the object: kube-apiserver answers this in plain text.
    let error = api.get("w").await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 404));
}

#[tokio::test(start_paused = true)]
async fn a_watch_follows_writes() {
    let server = ApiServer::start(Options::default());
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    api.create(&PostParams::default(), &config_map("before", "1"))
        .await
        .unwrap();
    let version = api
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    let mut events = api
        .watch(&WatchParams::default(), &version)
        .await
        .unwrap()
        .boxed();
    api.create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    api.delete("before", &DeleteParams::default()).await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..2 {
        seen.push(match events.next().await.unwrap().unwrap() {
            WatchEvent::Added(object) => format!("+{}", object.name_any()),
            WatchEvent::Deleted(object) => format!("-{}", object.name_any()),
            other => format!("{other:?}"),
        });
    }
    assert_eq!(seen, ["+a", "-before"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_in_a_namespace_that_does_not_exist() {
    let server = ApiServer::start(Options::default());
    let api: Api<ConfigMap> = Api::namespaced(client(&server), "nowhere");
    let error = api
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap_err();
    let kube::Error::Api(status) = error else {
        panic!("{error}")
    };
    assert_eq!(
        (status.code, status.message.as_str()),
        (404, "namespaces \"nowhere\" not found")
    );
    let namespaces: Api<Namespace> = Api::all(client(&server));
    let names: Vec<String> = namespaces
        .list(&ListParams::default())
        .await
        .unwrap()
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    assert_eq!(
        names,
        ["default", "kube-node-lease", "kube-public", "kube-system"]
    );
}
