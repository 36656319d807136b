//! The server as a library: `kube::Client` with the in-process service.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent,
    WatchParams,
};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use kube_apiserver_embedded::{ApiServer, Epoch, Options};
use serde_json::json;
use tokio::task::JoinSet;

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
    let created = api.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    assert!(created.uid().is_some());
    let mut read = api.get("a").await.unwrap();
    assert_eq!(read.resource_version(), created.resource_version());
    read.data.as_mut().unwrap().insert("more".into(), "2".into());
    let updated = api.replace("a", &PostParams::default(), &read).await.unwrap();
    assert_ne!(updated.resource_version(), created.resource_version());
    let stale = api.replace("a", &PostParams::default(), &created).await.unwrap_err();
    assert!(matches!(stale, kube::Error::Api(status) if status.code == 409));
    let patch = json!({"data": {"k": null}});
    let patched = api.patch("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    assert_eq!(patched.data.unwrap().keys().collect::<Vec<_>>(), ["more"]);
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(api.get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_served_when_its_write_is_answered() {
    let server = ApiServer::start(Options::default());
    let client = client(&server);
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &widgets()).await.unwrap();
    let api = widget_api(client);
    let created = api.create(&PostParams::default(), &widget("w", &json!({}))).await.unwrap();
    assert_eq!(created.data["spec"]["size"], 3);
    assert_eq!(created.metadata.generation, Some(1));
    let status = json!({"status": {"ready": true}, "spec": {"size": 9}});
    let patched = api.patch_status("w", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    assert_eq!(patched.data["status"]["ready"], true);
    assert_eq!(patched.data["spec"]["size"], 3);
    assert_eq!(patched.metadata.generation, Some(1));
    definitions.delete("widgets.example.com", &DeleteParams::default()).await.unwrap();
    assert!(definitions.get_opt("widgets.example.com").await.unwrap().is_none());
    // The path does not exist any more, which kube-apiserver answers in plain text.
    let error = api.get("w").await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 404));
}

#[tokio::test(start_paused = true)]
async fn a_watch_follows_writes() {
    let server = ApiServer::start(Options::default());
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    api.create(&PostParams::default(), &config_map("before", "1")).await.unwrap();
    let version = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut events = api.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    api.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
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
    let error = api.create(&PostParams::default(), &config_map("a", "1")).await.unwrap_err();
    let kube::Error::Api(status) = error else { panic!("{error}") };
    assert_eq!((status.code, status.message.as_str()), (404, "namespaces \"nowhere\" not found"));
    let namespaces: Api<Namespace> = Api::all(client(&server));
    let names: Vec<String> =
        namespaces.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
}

#[tokio::test(start_paused = true)]
async fn an_apply_creates_shares_and_conflicts() {
    let server = ApiServer::start(Options::default());
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let apply = |manager: &str| PatchParams::apply(manager);
    let map = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": value}});
    let created = api.patch("a", &apply("one"), &Patch::Apply(map("1"))).await.unwrap();
    let again = api.patch("a", &apply("one"), &Patch::Apply(map("1"))).await.unwrap();
    assert_eq!(again.resource_version(), created.resource_version());
    api.patch("a", &apply("two"), &Patch::Apply(map("1"))).await.unwrap();
    let error = api.patch("a", &apply("two"), &Patch::Apply(map("2"))).await.unwrap_err();
    let kube::Error::Api(status) = error else { panic!("{error}") };
    assert_eq!(
        (status.code, status.message.as_str()),
        (409, "Apply failed with 1 conflict: conflict with \"one\": .data.k")
    );
    let forced = api.patch("a", &apply("two").force(), &Patch::Apply(map("2"))).await.unwrap();
    assert_eq!(forced.data.unwrap()["k"], "2");
}

#[tokio::test(start_paused = true)]
async fn pages_of_a_list_are_one_snapshot() {
    let server = ApiServer::start(Options::default());
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    for name in ["a", "b", "c"] {
        api.create(&PostParams::default(), &config_map(name, "1")).await.unwrap();
    }
    let first = api.list(&ListParams::default().limit(2)).await.unwrap();
    let token = first.metadata.continue_.clone().unwrap();
    assert_eq!(first.metadata.remaining_item_count, Some(1));
    api.delete("c", &DeleteParams::default()).await.unwrap();
    api.create(&PostParams::default(), &config_map("d", "1")).await.unwrap();
    let second = api.list(&ListParams::default().limit(2).continue_token(&token)).await.unwrap();
    assert_eq!(second.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["c"]);
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_keeps_a_deleted_object_until_it_is_removed() {
    let server = ApiServer::start(Options::default());
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let mut map = config_map("a", "1");
    map.metadata.finalizers = Some(vec!["example.com/hold".into()]);
    api.create(&PostParams::default(), &map).await.unwrap();
    let marked = api.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(marked.metadata.deletion_timestamp.is_some());
    let release = json!({"metadata": {"finalizers": null}});
    let last = api.patch("a", &PatchParams::default(), &Patch::Merge(release)).await.unwrap();
    assert_eq!(last.resource_version(), marked.resource_version());
    assert!(api.get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_identities() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let server = ApiServer::start(
            Options::default().seed(7).epoch(Epoch::starting_now("2026-01-01T00:00:00Z".parse().unwrap())),
        );
        let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
        let mut map = config_map("ignored", "1");
        map.metadata.name = None;
        map.metadata.generate_name = Some("x-".into());
        runs.push(api.create(&PostParams::default(), &map).await.unwrap());
    }
    assert_eq!(runs[0], runs[1]);
    assert!(runs[0].name_any().starts_with("x-"));
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_of_a_quiet_kind_follows_the_revision_that_others_move() {
    let server = ApiServer::start(Options::default());
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let namespaces: Api<Namespace> = Api::all(client(&server));
    let listed = namespaces.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut events = namespaces.watch(&WatchParams::default(), &listed).await.unwrap().boxed();
    let busy = maps.create(&PostParams::default(), &config_map("busy", "1")).await.unwrap();
    let WatchEvent::Bookmark(bookmark) = events.next().await.unwrap().unwrap() else {
        panic!("something else than a bookmark");
    };
    assert_eq!(Some(bookmark.metadata.resource_version), busy.resource_version());
    // A watch can resume from the bookmark, but not from an earlier revision.
    server.faults().compact();
    let next = maps.create(&PostParams::default(), &config_map("later", "1")).await.unwrap();
    let mut resumed =
        namespaces.watch(&WatchParams::default(), &busy.resource_version().unwrap()).await.unwrap().boxed();
    let WatchEvent::Bookmark(bookmark) = resumed.next().await.unwrap().unwrap() else {
        panic!("something else than a bookmark");
    };
    assert_eq!(Some(bookmark.metadata.resource_version), next.resource_version());
    let mut late = namespaces.watch(&WatchParams::default(), &listed).await.unwrap().boxed();
    assert!(matches!(late.next().await.unwrap().unwrap(), WatchEvent::Error(status) if status.code == 410));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_waits_ends_at_its_deadline_after_bookmarks() {
    let server = ApiServer::start(Options::default());
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let elsewhere: Api<ConfigMap> = Api::namespaced(client(&server), "kube-system");
    let started = tokio::time::Instant::now();
    let mut events = api.watch(&WatchParams::default().timeout(90), "5").await.unwrap().boxed();
    elsewhere.create(&PostParams::default(), &config_map("moves-the-revision", "1")).await.unwrap();
    assert!(matches!(events.next().await.unwrap().unwrap(), WatchEvent::Bookmark(_)));
    assert_eq!(started.elapsed().as_secs(), 60);
    // The last bookmark is sent even if the client has received its revision.
    assert!(matches!(events.next().await.unwrap().unwrap(), WatchEvent::Bookmark(_)));
    assert_eq!(started.elapsed().as_secs(), 88);
    assert!(events.next().await.is_none());
    assert_eq!(started.elapsed().as_secs(), 90);
}

/// A kube-apiserver sends an event before the answer to its write, and client-go's caches rely on it.
#[tokio::test(start_paused = true)]
async fn a_watch_receives_a_write_before_its_writer_has_the_response() {
    let server = ApiServer::start(Options::default());
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let received = Arc::new(Mutex::new(Vec::new()));
    let mut events = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let watched = Arc::clone(&received);
    let mut watchers = JoinSet::new();
    watchers.spawn(async move {
        while let Some(Ok(event)) = events.next().await {
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) =
                event
            {
                watched.lock().unwrap().push(object.resource_version().unwrap());
            }
        }
    });
    let has = |version: Option<String>| received.lock().unwrap().contains(&version.unwrap());
    for number in 0..10 {
        let name = format!("m{number}");
        let created = api.create(&PostParams::default(), &config_map(&name, "1")).await.unwrap();
        assert!(has(created.resource_version()), "{name} was created");
        let patch = Patch::Merge(json!({ "data": { "value": "2" } }));
        let patched = api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
        assert!(has(patched.resource_version()), "{name} was patched");
        let before = received.lock().unwrap().len();
        api.delete(&name, &DeleteParams::default()).await.unwrap();
        assert!(received.lock().unwrap().len() > before, "{name} was deleted");
    }
}
