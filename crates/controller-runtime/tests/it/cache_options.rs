//! Options of a manager's caches: selection and storage of objects.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_runtime::{
    Builder, Cached, Client, DynamicKind, Kind, Manager, ManagerOptions, MapMeta, ObjectKey,
    cache::{self, CacheOptions, InNamespace, Meta, Namespaces, Resync, Retain},
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube_envtest::Environment;
use serde_json::json;
use tokio::time::sleep;

use crate::{
    faults::{Fault, faulty},
    support::{NoteAll, Notes, Running, Widget, config_map, environment, key, settle, widget},
};

const HOUR: Duration = Duration::from_secs(3600);

fn manager(env: &Environment, cache: CacheOptions) -> Manager {
    Manager::new(env.client(), ManagerOptions::new("test").seed(1).cache(cache))
}

async fn namespace(client: &Client, name: &str) {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    client.create(&namespace).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn resyncs_are_opt_in_and_send_no_requests() {
    for (resync, runs) in [(Resync::Never, 300..301), (Resync::Every(Duration::from_secs(600)), 1500..2101)] {
        let env = environment().await;
        let client = Client::new(env.client(), "test");
        for number in 0..300 {
            client.create(&widget(&format!("w{number}"), 1)).await.unwrap();
        }
        let lists = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&lists);
        let faulty = faulty(env.client(), move |seen| {
            *counted.lock().unwrap() += i32::from(seen.is_stream());
            Fault::Pass
        });
        let cache = CacheOptions::default().resync_kind::<Widget>(resync);
        let manager = Manager::new(faulty, ManagerOptions::new("test").seed(1).cache(cache));
        let notes = Notes::done();
        Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
        let _running = Running::start(manager).await;
        sleep(HOUR).await;
        let seen = notes.names().len();
        assert!(runs.contains(&seen), "{seen} reconciles of 300 objects in an hour with {resync:?}");
        assert_eq!(*lists.lock().unwrap(), 1, "{resync:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn fields_that_a_transform_removes_are_cached_neither_from_watches_nor_from_writes() {
    let env = environment().await;
    let other = Client::new(env.client(), "other-client");
    let mut map = config_map("a");
    map.data = Some([("secret".to_owned(), "x".to_owned())].into());
    map.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    other.create(&map).await.unwrap();
    let without_data = |object: &mut serde_json::Value| {
        object.as_object_mut().unwrap().remove("data");
        object["metadata"].as_object_mut().unwrap().remove("labels");
    };
    let cache = CacheOptions::default()
        .transform(without_data)
        .transform_kind::<Widget>(|widget| widget["spec"]["size"] = json!(7))
        .labels("app=web".parse().unwrap());
    let manager = manager(&env, cache);
    let (maps, client) = (manager.cached::<ConfigMap>(), manager.client());
    let widgets = manager.cache().of::<Widget>().labels("").build().unwrap();
    let metadata = manager.cache().of::<PartialObjectMeta<ConfigMap>>().build().unwrap();
    let _running = Running::start(manager).await;
    other.create(&widget("a", 1)).await.unwrap();
    map.metadata.name = Some("b".to_owned());
    client.create(&map).await.unwrap();
    let shown = || -> Vec<_> {
        maps.list().unwrap().iter().map(|map| (map.metadata.name.clone(), map.data.clone())).collect()
    };
    let both = [(Some("a".to_owned()), None), (Some("b".to_owned()), None)];
    assert_eq!(shown(), both, "our own write is selected by the labels that the server has");
    settle().await;
    assert_eq!(shown(), both);
    assert!(maps.list_lazy().unwrap()[0].meta().labels().is_empty());
    assert_eq!(metadata.stats().shared, 2, "a transform of all kinds is the same one");
    assert_eq!(widgets.get(&key("a")).unwrap().unwrap().spec.size, 7);
}

#[tokio::test(start_paused = true)]
async fn options_of_all_caches_apply_to_controllers_unless_a_cache_overrides_them() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    namespace(&client, "red").await;
    for (name, namespace, app) in [("a", "red", "web"), ("b", "red", "db"), ("c", "default", "web")] {
        let mut widget = widget(name, 1);
        widget.metadata.namespace = Some(namespace.to_owned());
        widget.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
        client.create(&widget).await.unwrap();
    }
    let cache = CacheOptions::default()
        .namespaces(&Namespaces::new(["red"]))
        .labels("app=web".parse().unwrap())
        .fields("metadata.name!=z".parse().unwrap());
    let manager = manager(&env, cache);
    let notes = Notes::done();
    Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
    let default = manager.cached::<Widget>();
    let dynamic = manager.cache().of_dynamic(&DynamicKind::of::<Widget>()).build().unwrap();
    let all = manager.cache().of::<Widget>().all_namespaces().labels("").fields("").build().unwrap();
    let _running = Running::start(manager).await;
    settle().await;
    assert_eq!(notes.names(), ["a"]);
    assert_eq!((default.len().unwrap(), dynamic.len().unwrap(), all.len().unwrap()), (1, 1, 3),);
}

#[tokio::test(start_paused = true)]
async fn controllers_of_dynamic_kinds_respect_the_namespaces_of_all_caches() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    for name in ["red", "blue"] {
        namespace(&client, name).await;
        widgets_in(&client, name, &["db", "web"]).await;
    }
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    let faulty = faulty(env.client(), move |seen| {
        noted.lock().unwrap().push(seen.path.split('?').next().unwrap_or_default().to_owned());
        Fault::Pass
    });
    let cache = CacheOptions::default()
        .namespaces(&Namespaces::new(["red"]))
        .in_namespace("red", InNamespace::default().labels("app=web".parse().unwrap()));
    let manager = Manager::new(faulty, ManagerOptions::new("test").seed(1).cache(cache));
    let notes = NoteAll::<ObjectKey<DynamicObject>>::new();
    Builder::managed_by(&manager)
        .for_dynamic(&DynamicKind::of::<Widget>())
        .owns_dynamic(&DynamicKind::of::<ConfigMap>())
        .watches(Kind::<DynamicObject, _>::dynamic(&DynamicKind::of::<Namespace>(), MapMeta(|_: &Meta| None)))
        .complete(notes.clone())
        .unwrap();
    let _running = Running::start(manager).await;
    settle().await;
    assert_eq!(notes.take(), ["object red/web"]);
    let mut asked = asked.lock().unwrap().clone();
    asked.sort();
    asked.dedup();
    let expected = [
        "/api/v1/namespaces",
        "/api/v1/namespaces/red/configmaps",
        "/apis/example.com/v1/namespaces/red/widgets",
    ];
    assert_eq!(asked, expected);
}

#[tokio::test]
async fn a_cluster_scoped_kind_cannot_be_restricted_to_namespaces() {
    let env = environment().await;
    let manager = manager(&env, CacheOptions::default().namespaces(&Namespaces::new(["red"])));
    let nodes = DynamicKind::cluster("", "v1", "Node", "nodes");
    let refused = manager.cache().of_dynamic(&nodes).namespaces(["red"]).build().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "nodes are cluster-scoped: remove the options of this cache that name namespaces"
    );
    let here = InNamespace::default().labels("a=b".parse().unwrap());
    assert!(manager.cache().of_dynamic(&nodes).in_namespace("red", here).build().is_err());
    assert!(manager.cache().of_dynamic(&nodes).all_namespaces().build().is_ok());
}

/// Creates Widgets with these names. Names that start with `web` get the label `app=web`.
async fn widgets_in(client: &Client, namespace: &str, names: &[&str]) {
    for name in names {
        let mut widget = widget(name, 1);
        widget.metadata.namespace = Some(namespace.to_owned());
        let app = if name.starts_with("web") { "web" } else { "db" };
        widget.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
        client.create(&widget).await.unwrap();
    }
}

fn keys(widgets: &Cached<Widget>) -> Vec<String> {
    widgets.select().keys().unwrap().iter().map(ToString::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn a_namespace_may_have_selectors_and_a_transform_of_its_own() {
    let env = environment().await;
    let other = Client::new(env.client(), "other-client");
    for name in ["red", "blue", "green"] {
        namespace(&other, name).await;
        widgets_in(&other, name, &["db", "web"]).await;
    }
    let tenants = Namespaces::new(["red", "blue"]);
    let web = || InNamespace::default().labels("app=web".parse().unwrap());
    let cache = CacheOptions::default()
        .namespaces(&tenants)
        .in_namespace("red", web())
        .in_namespace("green", web().transform(|widget| widget["spec"]["size"] = json!(7)));
    let manager = manager(&env, cache);
    let notes = Notes::done();
    Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
    let default = manager.cached::<Widget>();
    let own = manager
        .cache()
        .of::<Widget>()
        .namespaces(["red", "blue"])
        .in_namespace("blue", web())
        .build()
        .unwrap();
    let client = manager.client();
    let _running = Running::start(manager).await;
    assert_eq!(keys(&default), ["blue/db", "blue/web", "red/web"]);
    assert_eq!(keys(&own), ["blue/web", "red/web"], "what is said of all holds where the cache says nothing");

    tenants.add("green");
    settle().await;
    assert_eq!(keys(&default), ["blue/db", "blue/web", "green/web", "red/web"]);
    assert_eq!(notes.names(), ["db", "web", "web", "web"]);
    let size = |name: &str| default.get(&ObjectKey::new(name, "web")).unwrap().unwrap().spec.size;
    assert_eq!((size("red"), size("green")), (1, 7));

    // Own writes are selected by the selectors of their namespace.
    for name in ["red", "blue", "green"] {
        widgets_in(&client, name, &["db2", "web2"]).await;
    }
    let written =
        ["blue/db", "blue/db2", "blue/web", "blue/web2", "green/web", "green/web2", "red/web", "red/web2"];
    assert_eq!(keys(&default), written);
    assert_eq!(default.get(&ObjectKey::new("green", "web2")).unwrap().unwrap().spec.size, 7);
    settle().await;
    assert_eq!(keys(&default), written);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_with_own_selectors_has_a_watch_that_equal_caches_share() {
    let env = environment().await;
    let other = Client::new(env.client(), "other-client");
    for name in ["red", "blue"] {
        namespace(&other, name).await;
        widgets_in(&other, name, &["db", "web"]).await;
    }
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    let client = faulty(env.client(), move |seen| {
        let query =
            seen.path.split("elector=").skip(1).map(|rest| rest.split('&').next().unwrap_or_default());
        if seen.is_about("widgets") && seen.is_watch() {
            let path = seen.path.split('?').next().unwrap_or_default();
            noted.lock().unwrap().push(format!("{path} {}", query.collect::<Vec<_>>().join(" ")));
        }
        Fault::Pass
    });
    let web = || InNamespace::default().labels("app=web".parse().unwrap());
    let cache = CacheOptions::default().in_namespace("red", web());
    let manager = Manager::new(client, ManagerOptions::new("test").seed(1).cache(cache));
    let (all, metadata) = (manager.cached::<Widget>(), manager.cached::<PartialObjectMeta<Widget>>());
    let same = manager.cache().of::<Widget>().labels("").in_namespace("red", web()).build().unwrap();
    let _running = Running::start(manager).await;
    settle().await;
    assert_eq!(keys(&all), ["blue/db", "blue/web", "red/web"]);
    assert_eq!((metadata.len().unwrap(), same.len().unwrap()), (3, 3));
    let mut watches = asked.lock().unwrap().clone();
    watches.sort();
    assert_eq!(
        watches,
        [
            "/apis/example.com/v1/namespaces/red/widgets app%3Dweb",
            "/apis/example.com/v1/widgets metadata.namespace%21%3Dred",
        ]
    );

    // Neither watch treats the objects of the other as deleted.
    for compacted in 0..3 {
        env.server().faults().compact();
        sleep(HOUR).await;
        widgets_in(&other, "red", &[&format!("web-{compacted}"), &format!("db-{compacted}")]).await;
        other
            .merge_patch(&ObjectKey::<Widget>::new("blue", "db"), &json!({ "spec": { "size": compacted } }))
            .await
            .unwrap();
    }
    settle().await;
    assert_eq!(keys(&all), ["blue/db", "blue/web", "red/web", "red/web-0", "red/web-1", "red/web-2"]);
}

#[tokio::test(start_paused = true)]
async fn the_default_selection_of_a_resource_applies_to_all_readers() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    client.create(&widget("a", 1)).await.unwrap();
    client.create(&widget("b", 1)).await.unwrap();
    let manager = manager(&env, CacheOptions::default());
    manager.cache().of::<Widget>().fields("metadata.name=a").as_default().build().unwrap();
    let refused = manager.cache().of::<Widget>().labels("x=y").as_default().build().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "widgets.example.com already has another default selection: call CacheBuilder::as_default for only one cache of the \
         resource"
    );
    let notes = Notes::done();
    Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
    let _running = Running::start(manager).await;
    settle().await;
    assert_eq!(notes.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_read_does_not_start_a_watch_of_an_undeclared_kind() {
    let env = environment().await;
    let manager = manager(&env, CacheOptions::default());
    let refused = manager.cache().declared::<Widget>().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "widgets.example.com is not cached: call Manager::cached for it before the manager runs"
    );
    let widgets = manager.cached::<PartialObjectMeta<Widget>>();
    let _running = Running::start(manager.clone()).await;
    let declared = manager.cache().declared::<Widget>().expect("its metadata are read");
    declared.synced().await;
    drop((widgets, declared));
    assert!(manager.cache().declared::<Widget>().is_err(), "the last handle has gone");
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_stored_in_the_chosen_form() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    client.create(&widget("a", 1)).await.unwrap();
    client.create(&config_map("a")).await.unwrap();
    let held = async |options: CacheOptions| {
        let manager = manager(&env, options);
        let (widgets, maps) = (manager.cached::<Widget>(), manager.cached::<ConfigMap>());
        let _running = Running::start(manager).await;
        let (widget, map) = (key("a"), ObjectKey::new("default", "a"));
        for _ in 0..3 {
            widgets.get(&widget).unwrap().unwrap();
            maps.get(&map).unwrap().unwrap();
        }
        let kept = |stats: cache::Stats| (stats.decoded, stats.text_bytes > 0, stats.decodes);
        (kept(widgets.stats()), kept(maps.stats()))
    };
    let decoded = (1, false, 1);
    let (compact, lately) = ((0, true, 3), (1, true, 2));
    let default = CacheOptions::default();
    assert_eq!(held(default.clone()).await, (lately, lately));
    assert_eq!(held(default.clone().retain(Retain::Decoded)).await, (decoded, decoded));
    assert_eq!(held(default.clone().retain_kind::<Widget>(Retain::Compact)).await, (compact, lately));
    let mixed = default.retain(Retain::Budget(0)).retain_kind::<Widget>(Retain::Decoded);
    assert_eq!(held(mixed).await, (decoded, compact));
}

#[tokio::test(start_paused = true)]
async fn the_selections_of_a_kind_share_its_budget() {
    let env = environment().await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let hot = async |bytes| {
        let options = CacheOptions::default().retain_kind::<Widget>(Retain::Budget(bytes));
        let manager = manager(&env, options);
        let (all, some) =
            (manager.cached(), manager.cache().of::<Widget>().fields("metadata.name=a").build().unwrap());
        let _running = Running::start(manager).await;
        for _ in 0..3 {
            all.get(&key("a")).unwrap().unwrap();
            some.get(&key("a")).unwrap().unwrap();
        }
        (all.stats().decoded + some.stats().decoded, all.stats().decoded_bytes + some.stats().decoded_bytes)
    };
    let (both, bytes) = hot(1 << 20).await;
    assert_eq!(both, 2);
    assert_eq!(hot(bytes / 2).await, (1, bytes / 2), "there is room for one of them");
}
