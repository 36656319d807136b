//! Requests of watches, and watches that start and end while the manager runs.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_runtime::{
    Builder, Cached, Client, DynamicKind, ForOwner, Kind, Manager, ManagerOptions, MapMeta, MetaEvent,
    ObjectKey, Owns,
    cache::{LabelSelector, Meta},
    predicate, set_controller_reference,
    source::from_fn,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube_envtest::{Environment, eventually};
use serde_json::json;

use crate::{
    faults::{Fault, faulty},
    support::{NoteAll, Notes, Running, Widget, config_map, environment, key, manager, settle, widget},
};

pub(crate) fn client(env: &Environment) -> Client {
    Client::new(env.client(), "test")
}

/// Returns a manager, and its lists and watches of a resource: each as `metadata` or `whole`, and the selector.
pub(crate) fn watched(env: &Environment, resource: &'static str) -> (Manager, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = Arc::clone(&asked);
    let client = faulty(env.client(), move |seen| {
        if seen.is_about(resource) && !seen.path.contains('?') {
            return Fault::Pass; // a request about one object
        }
        if seen.is_about(resource) && seen.method == "GET" {
            let selector = seen.path.split(['?', '&']).find_map(|part| part.strip_prefix("labelSelector="));
            let form = if seen.accept.contains("PartialObjectMetadata") { "metadata" } else { "whole" };
            let text = format!("{form} {}", selector.unwrap_or("all"));
            let mut notes = notes.lock().unwrap();
            if !notes.contains(&text) {
                notes.push(text);
            }
        }
        Fault::Pass
    });
    (Manager::new(client, ManagerOptions::new("test").seed(1)), asked)
}

fn labelled(name: &str, app: &str) -> ConfigMap {
    let mut map = config_map(name);
    map.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
    map
}

fn same_name() -> MapMeta<impl Fn(&Meta) -> Option<ObjectKey<Widget>> + Send + Sync + 'static> {
    MapMeta(|meta: &Meta| Some(key(meta.name())))
}

fn web() -> LabelSelector {
    "app=web".parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn only_metadata_of_owned_objects_are_watched_unless_whole_ones_are_read() {
    for read in [false, true] {
        let env = environment().await;
        let (manager, asked) = watched(&env, "configmaps");
        let reader: Option<Cached<ConfigMap>> = read.then(|| manager.cached());
        let notes = Notes::done();
        Builder::managed_by(&manager)
            .for_kind::<Widget>()
            .owns::<ConfigMap>()
            .complete(notes.clone())
            .unwrap();
        let _running = Running::start(manager.clone()).await;
        let owner = client(&env).create(&widget("a", 1)).await.unwrap();
        settle().await;
        notes.clear();
        let mut child = config_map("child");
        set_controller_reference(&owner, &mut child).unwrap();
        client(&env).create(&child).await.unwrap();
        settle().await;
        assert_eq!(notes.names(), ["a"]);
        assert_eq!(*asked.lock().unwrap(), [if read { "whole all" } else { "metadata all" }]);
        drop(reader);
    }
}

/// Creates ConfigMap `name` with label `app`, controlled by Widget `owner`.
async fn create_owned(env: &Environment, owner: &Widget, name: &str, app: &str) -> ConfigMap {
    let mut child = labelled(name, app);
    set_controller_reference(owner, &mut child).unwrap();
    client(env).create(&child).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn predicates_on_metadata_apply_to_owned_objects_in_any_form() {
    for read in [false, true] {
        let env = environment().await;
        let (manager, asked) = watched(&env, "configmaps");
        let reader: Option<Cached<ConfigMap>> = read.then(|| manager.cached());
        let notes = Notes::done();
        let owned = Owns::<ConfigMap>::new()
            .with_predicate(|event: &MetaEvent<'_>| event.latest().name() != "ignored")
            .with_predicate(predicate::LabelChanged);
        let builder = Builder::managed_by(&manager).for_kind::<Widget>();
        builder.owns_with(owned).complete(notes.clone()).unwrap();
        let _running = Running::start(manager.clone()).await;
        let owner = client(&env).create(&widget("a", 1)).await.unwrap();
        settle().await;
        notes.clear();
        create_owned(&env, &owner, "ignored", "web").await;
        settle().await;
        assert_eq!(notes.names(), [""; 0], "the first predicate refuses it");
        let mut child = create_owned(&env, &owner, "child", "web").await;
        settle().await;
        child.data = Some([("a".to_owned(), "b".to_owned())].into());
        let mut child = client(&env).update(&child).await.unwrap();
        settle().await;
        assert_eq!(notes.names(), ["a"], "created; the second predicate refuses the change of the data");
        child.metadata.labels = None;
        client(&env).update(&child).await.unwrap();
        settle().await;
        assert_eq!(notes.names(), ["a", "a"]);
        assert_eq!(*asked.lock().unwrap(), [if read { "whole all" } else { "metadata all" }]);
        drop(reader);
    }
}

#[tokio::test(start_paused = true)]
async fn the_api_server_selects_owned_objects_by_the_labels_of_their_predicate() {
    let env = environment().await;
    let (manager, asked) = watched(&env, "configmaps");
    let notes = Notes::done();
    let owned = Owns::<DynamicObject>::dynamic(&DynamicKind::of::<ConfigMap>()).with_predicate(web());
    Builder::managed_by(&manager).for_kind::<Widget>().owns_with(owned).complete(notes.clone()).unwrap();
    let _running = Running::start(manager).await;
    let owner = client(&env).create(&widget("a", 1)).await.unwrap();
    settle().await;
    notes.clear();
    create_owned(&env, &owner, "db", "db").await;
    settle().await;
    assert_eq!(notes.names(), [""; 0]);
    create_owned(&env, &owner, "web", "web").await;
    settle().await;
    assert_eq!(notes.names(), ["a"]);
    assert_eq!(*asked.lock().unwrap(), ["metadata app%3Dweb"]);
}

#[tokio::test(start_paused = true)]
async fn predicates_on_whole_owned_objects_see_their_contents() {
    let env = environment().await;
    let (manager, asked) = watched(&env, "configmaps");
    let notes = Notes::done();
    let owned = Owns::<ConfigMap>::new()
        .with_predicate(|event: &MetaEvent<'_>| event.latest().name() != "ignored")
        .whole()
        .with_predicate(predicate::Changed::of(|map: &ConfigMap| &map.data));
    Builder::managed_by(&manager).for_kind::<Widget>().owns_with(owned).complete(notes.clone()).unwrap();
    let _running = Running::start(manager).await;
    let owner = client(&env).create(&widget("a", 1)).await.unwrap();
    settle().await;
    notes.clear();
    create_owned(&env, &owner, "ignored", "web").await;
    let mut child = create_owned(&env, &owner, "child", "web").await;
    settle().await;
    child.metadata.labels = None;
    let mut child = client(&env).update(&child).await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["a"], "created; labels are not the data");
    child.data = Some([("a".to_owned(), "b".to_owned())].into());
    client(&env).update(&child).await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["a", "a"]);
    assert_eq!(*asked.lock().unwrap(), ["whole all"]);
}

#[tokio::test(start_paused = true)]
async fn every_owner_is_reconciled_with_the_option() {
    let env = environment().await;
    let (manager, notes) = (manager(&env), Notes::done());
    Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .watches(Kind::<ConfigMap, _>::new(ForOwner::every()))
        .complete(notes.clone())
        .unwrap();
    let with_option = Notes::done();
    Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .named("with-option")
        .owns_with(Owns::<ConfigMap>::new().every_owner())
        .complete(with_option.clone())
        .unwrap();
    let _running = Running::start(manager).await;
    let mut child = config_map("child");
    let reference = |name: &str, controller: bool| json!({ "apiVersion": "example.com/v2", "kind": "Widget", "name": name, "uid": name, "controller": controller });
    child.metadata.owner_references =
        Some(serde_json::from_value(json!([reference("a", true), reference("b", false)])).unwrap());
    client(&env).create(&child).await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["a", "b"]);
    assert_eq!(with_option.names(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_metadata_watch_requests_only_metadata() {
    let env = environment().await;
    let (manager, asked) = watched(&env, "configmaps");
    let notes = Notes::done();
    Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .watches_metadata::<ConfigMap>(same_name())
        .complete(notes.clone())
        .unwrap();
    let _running = Running::start(manager).await;
    client(&env).create(&config_map("x")).await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["x"]);
    assert_eq!(*asked.lock().unwrap(), ["metadata all"]);
}

#[tokio::test(start_paused = true)]
async fn a_controller_of_metadata_reconciles_its_kind() {
    let env = environment().await;
    let (manager, asked) = watched(&env, "configmaps");
    let notes = NoteAll::<ObjectKey<PartialObjectMeta<ConfigMap>>>::new();
    Builder::managed_by(&manager).for_kind::<PartialObjectMeta<ConfigMap>>().complete(notes.clone()).unwrap();
    let _running = Running::start(manager).await;
    client(&env).create(&config_map("x")).await.unwrap();
    settle().await;
    assert_eq!(notes.take(), ["ConfigMap default/x"]);
    assert_eq!(*asked.lock().unwrap(), ["metadata all"]);
}

/// Returns the reconciled requests for ConfigMaps that a predicate selects, and the requests to the API server.
async fn selected(read: bool) -> (Vec<String>, Vec<String>) {
    let env = environment().await;
    let (manager, asked) = watched(&env, "configmaps");
    let _reader: Option<Cached<ConfigMap>> = read.then(|| manager.cached());
    let notes = Notes::done();
    Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .watches(Kind::<ConfigMap, _>::new(same_name()).with_predicate(web()))
        .complete(notes.clone())
        .unwrap();
    for (name, app) in [("leaves", "web"), ("never", "db"), ("goes", "web")] {
        client(&env).create(&labelled(name, app)).await.unwrap();
    }
    let _running = Running::start(manager).await;
    settle().await;
    let relabel = json!({ "metadata": { "labels": { "app": "db" } } });
    for (name, patch) in
        [("leaves", &relabel), ("leaves", &json!({ "data": { "a": "b" } })), ("never", &relabel)]
    {
        client(&env).merge_patch(&ObjectKey::<ConfigMap>::new("default", name), patch).await.unwrap();
        settle().await;
    }
    for name in ["never", "goes"] {
        let map = client(&env).get(&ObjectKey::<ConfigMap>::new("default", name)).await.unwrap().unwrap();
        client(&env).delete(&map).any_version().await.unwrap();
        settle().await;
    }
    let asked = asked.lock().unwrap().clone();
    (notes.names(), asked)
}

#[tokio::test(start_paused = true)]
async fn the_api_server_applies_a_selector_unless_other_objects_are_read() {
    let expected = ["goes", "leaves", "leaves", "goes"];
    let (names, asked) = selected(false).await;
    assert_eq!((names, asked), (expected.map(str::to_owned).to_vec(), vec!["whole app%3Dweb".to_owned()]));
    let (names, asked) = selected(true).await;
    assert_eq!((names, asked), (expected.map(str::to_owned).to_vec(), vec!["whole all".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn the_api_server_applies_a_selector_that_filters_all_sources() {
    let env = environment().await;
    let (manager, asked) = watched(&env, "configmaps");
    let widgets = manager.cached::<Widget>(); // all of these are read elsewhere
    let notes = Notes::done();
    let handle = Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .with_event_filter(predicate::And(predicate::ResourceVersionChanged, web()))
        .watches(Kind::<ConfigMap, _>::new(same_name()))
        .complete(notes.clone())
        .unwrap();
    let _running = Running::start(manager.clone()).await;
    for (name, app) in [("x", "web"), ("y", "db")] {
        client(&env).create(&labelled(name, app)).await.unwrap();
        let mut widget = widget(&format!("{name}-widget"), 1);
        widget.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
        client(&env).create(&widget).await.unwrap();
    }
    settle().await;
    assert_eq!(notes.names(), ["x", "x-widget"]);
    assert_eq!(*asked.lock().unwrap(), ["whole app%3Dweb"]);
    assert_eq!(widgets.len().unwrap(), 2);

    // A source that is added later needs no other watch.
    let later = handle.watch(Kind::<PartialObjectMeta<ConfigMap>, _>::new(same_name()));
    later.synced().await.unwrap();
    assert_eq!(*asked.lock().unwrap(), ["whole app%3Dweb"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_may_be_of_some_namespaces_and_the_controllers_own_kind_too() {
    let env = environment().await;
    let mut other = Namespace::default();
    other.metadata.name = Some("other".to_owned());
    client(&env).create(&other).await.unwrap();
    let (manager, notes) = (manager(&env), NoteAll::<ObjectKey<Widget>>::new());
    let maps = manager.cache().of::<ConfigMap>().namespaces(["other"]).labels("app=web").build().unwrap();
    let widgets = manager.cache().of::<Widget>().fields("metadata.name=a").build().unwrap();
    Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .through(&widgets)
        .watches(Kind::of(&maps, same_name()))
        .complete(notes.clone())
        .unwrap();
    let _running = Running::start(manager).await;
    for name in ["a", "b"] {
        client(&env).create(&widget(name, 1)).await.unwrap();
    }
    for (name, namespace, app) in [("x", "other", "web"), ("y", "other", "db"), ("z", "default", "web")] {
        let mut map = labelled(name, app);
        map.metadata.namespace = Some(namespace.to_owned());
        client(&env).create(&map).await.unwrap();
    }
    settle().await;
    assert_eq!(notes.take(), ["Widget default/a", "Widget default/x"]);
}

/// Whether the manager has a cache of the resource.
fn is_cached(manager: &Manager, resource: &str) -> bool {
    manager.metrics().encode().contains(&format!("cache_objects{{resource=\"{resource}\""))
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_added_and_removed_while_the_controller_runs() {
    let env = environment().await;
    client(&env).create(&config_map("before")).await.unwrap();
    let (manager, notes) = (manager(&env), Notes::done());
    let controller = Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
    let _running = Running::start(manager.clone()).await;

    let watch = controller.watch(Kind::<ConfigMap, _>::new(same_name()));
    watch.synced().await.unwrap();
    client(&env).create(&config_map("while")).await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["before", "while"]);
    assert!(is_cached(&manager, "configmaps"));

    let other = controller.watch(Kind::<ConfigMap, _>::new(MapMeta(|_: &Meta| [key("other")])));
    other.synced().await.unwrap();
    settle().await;
    notes.clear();
    watch.remove().await;
    client(&env).create(&config_map("one")).await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["other"], "the other watch of the kind goes on");

    other.remove().await;
    settle().await;
    assert!(!is_cached(&manager, "configmaps"), "no handle of the cache is left");
    client(&env).create(&config_map("after")).await.unwrap();
    client(&env).create(&widget("a", 1)).await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["other", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_its_controller_even_if_a_handle_exists() {
    let env = environment().await;
    let manager = manager(&env);
    let controller = Builder::managed_by(&manager).for_kind::<Widget>().complete(Notes::done()).unwrap();
    let _running = Running::start(manager.clone()).await;
    let watch = controller.watch(Kind::<ConfigMap, _>::new(same_name()));
    watch.synced().await.unwrap();
    controller.clone().remove().await;
    settle().await;
    assert!(!is_cached(&manager, "configmaps") && !is_cached(&manager, "widgets.example.com"));
    watch.remove().await;
    drop(controller);
}

#[tokio::test(start_paused = true)]
async fn an_unserved_kind_delays_nothing_and_is_watched_once_it_is_served() {
    let env = Environment::builder().start().await.unwrap();
    let (manager, notes) = (manager(&env), NoteAll::<&'static str>::new());
    let options = controller_runtime::controller::ControllerOptions::default();
    let controller = Builder::managed_by(&manager)
        .for_requests("names")
        .watches_raw_source(from_fn(
            "clock",
            |sink: controller_runtime::source::Sink<&'static str>| async move {
                loop {
                    tokio::time::sleep(Duration::from_secs(100)).await;
                    sink.add("tick");
                }
            },
        ))
        .with_options(options.cache_sync_timeout(Duration::from_secs(30)))
        .complete(notes.clone())
        .unwrap();
    let _running = Running::start(manager).await;
    let watch = controller.watch(Kind::<Widget, _>::new(MapMeta(|_: &Meta| ["widget"])));
    let error = watch.synced().await.expect_err("there is no such kind").to_string();
    assert!(
        error.contains("source widgets.example.com of controller names is not synced after 30 s"),
        "{error}"
    );
    assert!(error.contains("is its CustomResourceDefinition installed"), "{error}");
    tokio::time::sleep(Duration::from_secs(80)).await;
    assert_eq!(notes.take(), [r#""tick""#]);

    let definition = <Widget as kube::CustomResourceExt>::crd();
    kube_envtest::install_crds(&env.client(), &[definition]).await.unwrap();
    client(&env).create(&widget("a", 1)).await.unwrap();
    eventually(Duration::from_secs(60), async || watch.synced().await.map_err(|error| error.to_string()))
        .await
        .unwrap();
    settle().await;
    assert!(notes.take().contains(&r#""widget""#.to_owned()));
}
