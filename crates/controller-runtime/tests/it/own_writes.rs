//! Own writes are visible immediately, before the watch delivers them.

use std::time::Duration;

use controller_runtime::{
    Cached, Client, DynamicKind, Manager, ObjectKey, StaticObject, Verb,
    client::{Call, Deletion, Next, Patch},
    has_finalizer,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use kube::core::PartialObjectMeta;
use kube_apiserver_embedded::faults::{Action, Rule, WatchFault};
use kube_envtest::Environment;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::support::{Running, Widget, WidgetStatus, config_map, environment, key, manager, settle, widget};

/// Returns a manager that has received the widgets so far; its watch delivers nothing from now on.
async fn stalled(env: &Environment) -> (Client, Cached<Widget>, Running) {
    stalled_as(env, "example.com", "widgets").await
}

/// Like [`stalled`], for another type.
async fn stalled_as<K: StaticObject>(
    env: &Environment,
    group: &str,
    resource: &str,
) -> (Client, Cached<K>, Running) {
    stalled_in(env, group, resource, Manager::cached).await
}

/// Like [`stalled`], for a given cache.
async fn stalled_in<K: StaticObject>(
    env: &Environment,
    group: &str,
    resource: &str,
    cached: impl Fn(&Manager) -> Cached<K>,
) -> (Client, Cached<K>, Running) {
    let faults = env.server().faults();
    let watches = |fault| Rule::new(Action::Watch(fault)).resource(group, resource);
    faults.add(watches(WatchFault::CloseAfter(Duration::from_secs(1))).once());
    faults.add(watches(WatchFault::StallAfterEvents(0)));
    let manager = manager(env);
    let (client, objects) = (manager.client(), cached(&manager));
    let running = Running::start(manager).await;
    sleep(Duration::from_secs(5)).await; // the first watch has ended, the second one is silent
    (client, objects, running)
}

/// Formats the cached objects as name, size and status.
fn shown(widgets: &Cached<Widget>) -> String {
    let lines: Vec<String> = widgets
        .list()
        .unwrap()
        .iter()
        .map(|widget| {
            let seen = widget.status.as_ref().map_or("-".to_owned(), |status| status.seen.to_string());
            format!("{}:{}/{seen}", widget.metadata.name.as_deref().unwrap(), widget.spec.size)
        })
        .collect();
    lines.join(" ")
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_write_is_read_at_once_while_the_watch_is_silent() {
    let env = environment().await;
    Client::new(env.client(), "other-client").create(&widget("old", 0)).await.unwrap();
    let (client, widgets, _running) = stalled(&env).await;
    assert_eq!(shown(&widgets), "old:0/-");

    let mut written = client.create(&widget("a", 1)).await.unwrap();
    assert_eq!(shown(&widgets), "a:1/- old:0/-");
    written.spec.size = 2;
    written = client.update(&written).await.unwrap();
    assert_eq!(shown(&widgets), "a:2/- old:0/-");
    written.status = Some(WidgetStatus { seen: 2 });
    client.update_status(&written).await.unwrap();
    assert_eq!(shown(&widgets), "a:2/2 old:0/-");
    client.merge_patch(&key("a"), &json!({ "spec": { "size": 3 } })).await.unwrap();
    assert_eq!(shown(&widgets), "a:3/2 old:0/-");
    let operations = json!([{ "op": "replace", "path": "/spec/size", "value": 4 }]);
    client.patch(&key("a"), Patch::json(&operations)).await.unwrap();
    assert_eq!(shown(&widgets), "a:4/2 old:0/-");
    client.apply(&widget("b", 5)).await.unwrap();
    client.apply_status(&key("b"), &WidgetStatus { seen: 5 }).await.unwrap();
    assert_eq!(shown(&widgets), "a:4/2 b:5/5 old:0/-");
    assert_eq!(widgets.get(&key("b")).unwrap().unwrap().spec.size, 5);

    let scaled = client.subresource(&key("b"), "status");
    scaled.patch::<Widget>(Patch::merge(&json!({ "status": { "seen": 6 } }))).await.unwrap();
    assert_eq!(shown(&widgets), "a:4/2 b:5/6 old:0/-");
    assert_eq!(client.delete_key(&key("a")).await.unwrap(), Deletion::Done);
    assert_eq!(client.delete_key(&key("old")).await.unwrap(), Deletion::Done);
    assert_eq!(shown(&widgets), "b:5/6");
    assert!(widgets.get(&key("a")).unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_metadata_patch_is_visible_at_once_in_caches_of_whole_objects() {
    let env = environment().await;
    let (client, widgets, _running) = stalled(&env).await;
    client.create(&widget("a", 1)).await.unwrap();
    let key = ObjectKey::<PartialObjectMeta<Widget>>::new("default", "a");
    let label = json!({ "metadata": { "labels": { "tier": "front" } } });
    let changed = client.merge_patch(&key, &label).await.unwrap();
    let selected = || widgets.select().labels(&"tier=front".parse().unwrap()).list().unwrap();
    assert_eq!(selected().first().expect("the change is seen").spec.size, 1, "and the rest of it");
    assert_eq!(changed.metadata.labels, selected()[0].metadata.labels);
    client.add_finalizer(&changed, "example.com/a").await.unwrap();
    assert!(has_finalizer(&*selected()[0], "example.com/a"));
    let held = client.get(&key).await.unwrap().unwrap();
    client.delete(&held).await.unwrap();
    let going = client.get(&key).await.unwrap().unwrap();
    client.remove_finalizer(&going, "example.com/a").await.unwrap();
    assert!(selected().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_metadata_patch_returns_only_metadata_without_caches_of_whole_objects() {
    let env = environment().await;
    let (client, metadata, _running) =
        stalled_as::<PartialObjectMeta<Widget>>(&env, "example.com", "widgets").await;
    client.create(&widget("a", 1)).await.unwrap();
    let key = ObjectKey::of(&*metadata.list().unwrap()[0]).unwrap();
    let label = json!({ "metadata": { "labels": { "tier": "front" } } });
    let changed = client.merge_patch(&key, &label).await.unwrap();
    assert_eq!(changed.types.unwrap().kind, "PartialObjectMetadata");
    assert_eq!(metadata.get(&key).unwrap().unwrap().metadata.labels, changed.metadata.labels);
}

/// For the API server a missing `spec.unschedulable` of a node equals `false`, which its JSON does not show.
#[tokio::test(start_paused = true)]
async fn a_write_of_unknown_selection_is_visible_where_the_object_was() {
    let env = environment().await;
    let mut node = Node::default();
    node.metadata.name = Some("a".to_owned());
    Client::new(env.client(), "other-client").create(&node).await.unwrap();
    let open =
        |manager: &Manager| manager.cache().of::<Node>().fields("spec.unschedulable=false").build().unwrap();
    let (client, nodes, _running) = stalled_in(&env, "", "nodes", open).await;
    let key = |name: &str| ObjectKey::<Node>::new((), name);
    let zone = |name: &str| {
        let node = nodes.get(&key(name)).unwrap()?;
        Some(node.metadata.labels.clone()?["zone"].clone())
    };
    let in_zone = |zone: &str| json!({ "metadata": { "labels": { "zone": zone } } });
    client.merge_patch(&key("a"), &in_zone("1")).await.unwrap();
    assert_eq!(zone("a").as_deref(), Some("1"), "the selection held it before");
    client.merge_patch(&key("a"), &in_zone("2")).await.unwrap();
    assert_eq!(zone("a").as_deref(), Some("2"));
    client.merge_patch(&key("a"), &json!({ "spec": { "unschedulable": true } })).await.unwrap();
    assert!(nodes.get(&key("a")).unwrap().is_none(), "that is clear");
    client.merge_patch(&key("a"), &json!({ "spec": { "unschedulable": null } })).await.unwrap();
    node.metadata.name = Some("b".to_owned());
    client.create(&node).await.unwrap();
    assert!(nodes.is_empty().unwrap(), "what was not there is left to the watch");

    env.server().faults().clear();
    for name in ["a", "b"] {
        let key = key(name);
        nodes.until(&key, |node| node.is_some(), Duration::from_secs(3600)).await.unwrap();
    }
    assert_eq!(zone("a").as_deref(), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn a_subresource_that_answers_with_the_object_is_read_at_once() {
    let env = environment().await;
    let (client, pods, _running) = stalled_as::<Pod>(&env, "", "pods").await;
    let pod = json!({
        "metadata": { "name": "p", "namespace": "default" },
        "spec": { "containers": [{ "name": "c", "image": "busybox" }] },
    });
    let key =
        ObjectKey::of(&client.create::<Pod>(&serde_json::from_value(pod).unwrap()).await.unwrap()).unwrap();
    let debug = json!({ "spec": { "ephemeralContainers": [{ "name": "debug", "image": "tools" }] } });
    let below = client.subresource(&key, "ephemeralcontainers");
    below.patch::<Pod>(Patch::strategic(&debug)).await.unwrap();
    let seen = pods.get(&key).unwrap().unwrap();
    assert_eq!(seen.spec.as_ref().unwrap().ephemeral_containers.as_ref().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_kind_known_at_run_time_is_written_to_the_same_cache() {
    let env = environment().await;
    let (client, widgets, _running) = stalled(&env).await;
    let dynamic = client.of(client.discover("example.com", "v1", "Widget").await.unwrap());
    let object = kube::core::DynamicObject::new("a", dynamic.kind().resource()).within("default");
    dynamic.create(&object.data(json!({ "spec": { "size": 1 } }))).await.unwrap();
    assert_eq!(shown(&widgets), "a:1/-");
}

#[tokio::test(start_paused = true)]
async fn dry_runs_and_failed_writes_are_not_visible() {
    let env = environment().await;
    let (client, widgets, _running) = stalled(&env).await;
    client.create(&widget("a", 1)).await.unwrap();
    client.create(&widget("b", 1)).dry_run().await.unwrap();
    client.merge_patch(&key("a"), &json!({ "spec": { "size": 2 } })).dry_run().await.unwrap();
    client.merge_patch(&key("a"), &json!({ "spec": { "size": "no number" } })).await.unwrap_err();
    client.delete_key(&key("a")).dry_run().await.unwrap();
    client.delete_key(&key("a")).not_to_cache().await.unwrap();
    client.create(&widget("c", 1)).not_to_cache().await.unwrap();
    assert_eq!(shown(&widgets), "a:1/-", "the caller leaves the rest to the watch");
}

#[tokio::test(start_paused = true)]
async fn a_bulk_delete_hides_objects_without_finalizers() {
    let env = environment().await;
    let other = Client::new(env.client(), "other-client");
    for name in ["a", "b", "c", "held"] {
        other.create(&widget(name, 1)).await.unwrap();
    }
    let held = other.get(&key("held")).await.unwrap().unwrap();
    other.add_finalizer(&held, "example.com/held").await.unwrap();
    let (client, widgets, _running) = stalled(&env).await;
    let all = || client.delete_all::<Widget>().in_namespace("default");
    all().dry_run().await.unwrap();
    all().fields("metadata.name=a").not_to_cache().await.unwrap();
    assert_eq!(shown(&widgets), "a:1/- b:1/- c:1/- held:1/-");
    all().fields("metadata.name=b").await.unwrap();
    assert_eq!(shown(&widgets), "a:1/- c:1/- held:1/-");
    all().await.unwrap();
    assert_eq!(
        shown(&widgets),
        "a:1/- held:1/-",
        "the watch is to tell of a, and the finalizer holds the other"
    );

    env.server().faults().clear();
    let key = key("held");
    let deleting =
        |widget: Option<&Widget>| widget.is_some_and(|widget| widget.metadata.deletion_timestamp.is_some());
    widgets.until(&key, deleting, Duration::from_secs(3600)).await.unwrap();
    assert_eq!(shown(&widgets), "held:1/-");
}

#[tokio::test(start_paused = true)]
async fn an_own_deletion_of_an_unseen_object_stays_hidden() {
    let env = environment().await;
    let other = Client::new(env.client(), "other-client");
    let (client, widgets, _running) = stalled(&env).await;
    for name in ["by-name", "by-version"] {
        other.create(&widget(name, 1)).await.unwrap();
    }
    let read = client.get(&key("by-version")).await.unwrap().unwrap();
    assert_eq!(client.delete(&read).await.unwrap(), Deletion::Done);
    assert_eq!(client.delete_key(&key("by-name")).await.unwrap(), Deletion::Done);
    client.create(&widget("ours", 1)).await.unwrap(); // the silent watch is replaced half a minute after this write
    other.create(&widget("last", 1)).await.unwrap();
    assert_eq!(shown(&widgets), "ours:1/-", "the watch tells nothing");

    // From now on each watch delivers two changes before it falls silent: the two creates, then the deletions.
    let faults = env.server().faults();
    faults.clear();
    faults.add(Rule::new(Action::Watch(WatchFault::StallAfterEvents(2))).resource("example.com", "widgets"));
    for _ in 0..3600 {
        if shown(&widgets) != "ours:1/-" {
            break;
        }
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(shown(&widgets), "last:1/- ours:1/-", "nothing else is ever read");
}

#[tokio::test(start_paused = true)]
async fn an_object_disappears_with_its_last_finalizer() {
    let env = environment().await;
    let (client, widgets, _running) = stalled(&env).await;
    let created = client.create(&widget("a", 1)).await.unwrap();
    client.add_finalizer(&created, "example.com/a").await.unwrap();
    let held = widgets.get(&key("a")).unwrap().unwrap();
    assert_eq!(client.delete(&*held).await.unwrap(), Deletion::Begun);
    let going = widgets.get(&key("a")).unwrap().expect("the finalizer holds it");
    assert!(going.metadata.deletion_timestamp.is_some());
    client.remove_finalizer(&*going, "example.com/a").await.unwrap();
    assert!(widgets.get(&key("a")).unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_stays_visible_until_it_is_empty() {
    let env = environment().await;
    let manager = manager(&env);
    let (client, namespaces) = (manager.client(), manager.cached::<Namespace>());
    let _running = Running::start(manager).await;
    let mut team = Namespace::default();
    team.metadata.name = Some("team".to_owned());
    let team = client.create(&team).await.unwrap();
    let key = ObjectKey::of(&team).unwrap();
    let mut content = config_map("content");
    content.metadata.namespace = team.metadata.name.clone();
    content.metadata.finalizers = Some(vec!["example.com/held".to_owned()]);
    let content = client.create(&content).await.unwrap();

    assert_eq!(client.delete(&team).await.unwrap(), Deletion::Begun, "spec.finalizers hold it");
    let going = || namespaces.get(&key).unwrap().expect("it waits for its content to go");
    assert!(going().metadata.deletion_timestamp.is_some());
    client.merge_patch(&key, &json!({ "metadata": { "labels": { "a": "b" } } })).await.unwrap();
    assert_eq!(going().metadata.labels.as_ref().and_then(|labels| labels.get("a")).unwrap(), "b");

    let content = client.get(&ObjectKey::of(&content).unwrap()).await.unwrap().expect("it is held");
    client.remove_finalizer(&content, "example.com/held").await.unwrap();
    namespaces.until(&key, |namespace| namespace.is_none(), Duration::from_secs(3600)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_metadata_cache_stores_only_metadata_of_own_writes() {
    let env = environment().await;
    let mut large = config_map("large");
    let mut rng = fastrand::Rng::with_seed(1);
    let text: String = std::iter::repeat_with(|| rng.alphanumeric()).take(100_000).collect(); // hardly compressible
    large.data = Some([("text".to_owned(), text)].into());

    let manager = manager(&env);
    let (client, metadata) = (manager.client(), manager.cached::<PartialObjectMeta<ConfigMap>>());
    let _running = Running::start(manager.clone()).await;
    client.create(&large).await.unwrap();
    let key = ObjectKey::new("default", "large");
    assert!(metadata.get(&key).unwrap().is_some());
    let held = || metadata.stats().text_bytes;
    assert!(held() < 10_000, "{} bytes before the watch has delivered the write", held());
    settle().await;
    assert!(held() < 10_000, "{} bytes after the watch has delivered the write", held());

    // The whole object is read as well: the text is stored once.
    let whole = manager.cached::<ConfigMap>();
    whole.synced().await;
    settle().await;
    large.metadata.name = Some("second".to_owned());
    client.create(&large).await.unwrap();
    assert!(metadata.stats().shared > 0 && held() < 10_000, "{:?}", metadata.stats());
}

#[tokio::test(start_paused = true)]
async fn a_recreated_object_stays_visible_until_the_watch_delivers_it() {
    let env = environment().await;
    let client = Client::new(env.client(), "other-client");
    let first = client.create(&widget("a", 1)).await.unwrap();
    let (client, widgets, _running) = stalled(&env).await;
    let uid =
        |widgets: &Cached<Widget>| widgets.get(&key("a")).unwrap().map(|widget| widget.metadata.uid.clone());
    assert_eq!(uid(&widgets), Some(first.metadata.uid.clone()));

    client.delete(&first).await.unwrap();
    assert_eq!(uid(&widgets), None);
    let second = client.create(&widget("a", 2)).await.unwrap();
    assert_ne!(first.metadata.uid, second.metadata.uid);
    assert_eq!(uid(&widgets), Some(second.metadata.uid.clone()));

    // The watch works again, some time after the silent one was found dead.
    env.server().faults().clear();
    let other = Client::new(env.client(), "other-client");
    other.merge_patch(&key("a"), &json!({ "spec": { "size": 3 } })).await.unwrap();
    let shown_in_between = async {
        loop {
            assert_eq!(uid(&widgets), Some(second.metadata.uid.clone()), "never the old one, never none");
            sleep(Duration::from_secs(1)).await;
        }
    };
    let name = key("a");
    let caught_up = widgets.until(
        &name,
        |widget| widget.is_some_and(|widget| widget.spec.size == 3),
        Duration::from_secs(3600),
    );
    tokio::select! {
        () = shown_in_between => unreachable!("it looks forever"),
        caught_up = caught_up => assert!(caught_up.unwrap().is_some()),
    }
    other.delete_key(&key("a")).await.unwrap();
    widgets.until(&key("a"), |widget| widget.is_none(), Duration::from_secs(3600)).await.unwrap();
}

/// The kind of the tests in another version.
mod beta {
    use controller_runtime::ObjectKey;
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use crate::support::WidgetStatus;

    #[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "example.com", version = "v1beta1", kind = "Widget", namespaced, status = "WidgetStatus")]
    pub(super) struct WidgetSpec {
        #[serde(default)]
        pub(super) size: i32,
    }

    pub(super) fn widget(name: &str, size: i32) -> Widget {
        let mut widget = Widget::new(name, WidgetSpec { size });
        widget.metadata.namespace = Some("default".to_owned());
        widget
    }

    pub(super) fn key(name: &str) -> ObjectKey<Widget> {
        ObjectKey::new("default", name)
    }
}

/// An API server that serves two versions of widgets.
async fn with_two_versions() -> Environment {
    use kube::{CustomResourceExt as _, core::crd::merge_crds};
    let definition = merge_crds(vec![Widget::crd(), beta::Widget::crd()], "v1").unwrap();
    Environment::builder().crds([definition]).start().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_write_in_another_api_version_is_visible_at_once() {
    let env = with_two_versions().await;
    for name in ["old", "other"] {
        Client::new(env.client(), "other-client").create(&widget(name, 0)).await.unwrap();
    }
    let v1 = DynamicKind::namespaced("example.com", "v1", "Widget", "widgets");
    let dynamic = |manager: &Manager| manager.cache().of_dynamic(&v1).build().unwrap();
    let faults = env.server().faults();
    let watches = |fault| Rule::new(Action::Watch(fault)).resource("example.com", "widgets");
    faults.add(watches(WatchFault::CloseAfter(Duration::from_secs(1))).once());
    faults.add(watches(WatchFault::StallAfterEvents(0)));
    let manager = manager(&env);
    let (client, widgets, objects) = (manager.client(), manager.cached::<Widget>(), dynamic(&manager));
    let _running = Running::start(manager).await;
    sleep(Duration::from_secs(5)).await;

    let stored = client.create(&beta::widget("a", 1)).await.unwrap();
    assert_eq!(shown(&widgets), "a:1/- old:0/- other:0/-");
    let object = objects.get(&ObjectKey::new("default", "a")).unwrap().unwrap();
    assert_eq!(object.types.as_ref().unwrap().api_version, "example.com/v1");
    assert_eq!(object.metadata.resource_version, stored.metadata.resource_version);
    client.merge_patch(&beta::key("a"), &json!({ "spec": { "size": 2 } })).await.unwrap();
    assert_eq!(shown(&widgets), "a:2/- old:0/- other:0/-");
    client.apply_status(&beta::key("a"), &WidgetStatus { seen: 2 }).await.unwrap();
    assert_eq!(shown(&widgets), "a:2/2 old:0/- other:0/-");
    client.delete_key(&beta::key("old")).await.unwrap();
    assert_eq!(shown(&widgets), "a:2/2 other:0/-");
    client.delete_all::<beta::Widget>().in_namespace("default").fields("metadata.name=other").await.unwrap();
    assert_eq!(shown(&widgets), "a:2/2");
    let metadata = ObjectKey::<PartialObjectMeta<beta::Widget>>::new("default", "a");
    client.merge_patch(&metadata, &json!({ "metadata": { "labels": { "tier": "front" } } })).await.unwrap();
    let selected = widgets.select().labels(&"tier=front".parse().unwrap()).list().unwrap();
    assert_eq!(selected.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_write_in_another_api_version_that_cannot_be_read_back_waits_for_the_watch() {
    let env = with_two_versions().await;
    let (client, widgets, _running) = stalled(&env).await;
    let client = client.intercepted(async |call: Call, next: Next| match call.verb() {
        Verb::Get => std::future::pending().await,
        _ => next.run(call).await,
    });
    let began = Instant::now();
    client.create(&beta::widget("a", 1)).await.unwrap();
    assert_eq!((shown(&widgets), began.elapsed()), (String::new(), Duration::from_secs(5)));
    env.server().faults().clear();
    widgets.until(&key("a"), |widget| widget.is_some(), Duration::from_secs(3600)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_metadata_cache_shows_writes_in_another_api_version_at_once() {
    let env = with_two_versions().await;
    let (client, metadata, _running) =
        stalled_as::<PartialObjectMeta<Widget>>(&env, "example.com", "widgets").await;
    client.create(&beta::widget("a", 1)).await.unwrap();
    let label = json!({ "metadata": { "labels": { "tier": "front" } } });
    client.merge_patch(&beta::key("a"), &label).await.unwrap();
    let seen = metadata.list().unwrap();
    assert_eq!(seen[0].metadata.labels.as_ref().unwrap()["tier"], "front");
    let fields = json!({ "spec": { "size": 2 } });
    client.merge_patch(&beta::key("a"), &fields).await.unwrap();
    assert_eq!(metadata.list().unwrap()[0].metadata.generation, Some(2));
}
