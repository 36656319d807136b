//! Start and end of lists and watches, and the events that handlers receive.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{
    Builder, Cached, Client, Event, Lazy, Manager, ManagerOptions, Object, ObjectKey,
    cache::{InNamespace, Namespaces, ResourceVersion},
};
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Namespace;
use kube::{CustomResourceExt, core::PartialObjectMeta};
use kube_envtest::{Environment, install_crds};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    faults::{Fault, Seen, faulty},
    support::{Notes, Running, Widget, config_map, environment, key, manager, settle, widget},
};

/// Formats an event: its type, its object, and how much is known about it.
fn described<K: Object>(event: &Event<K>) -> String {
    let label = |state: &Lazy<K>| state.meta().labels().get("app").unwrap_or("-").to_owned();
    match event {
        Event::Create { object, in_initial_list: true } => format!("present {}", object.key()),
        Event::Create { object, .. } => format!("create {}", object.key()),
        Event::Update { old, new } => format!("update {} {}->{}", new.key(), label(old), label(new)),
        Event::Delete { object, state_unknown: false } => {
            format!("delete {} {}", object.key(), label(object))
        }
        Event::Delete { object, .. } => format!("vanished {} {}", object.key(), label(object)),
        other => format!("{other:?}"),
    }
}

/// Returns all events that a stream has by now.
async fn drained<K: Object>(events: &mut controller_runtime::cache::EventStream<K>) -> Vec<String> {
    settle().await;
    let mut all = Vec::new();
    while let Some(Some(event)) = events.next().now_or_never() {
        all.push(described(&event));
    }
    all
}

fn labelled(name: &str, app: &str) -> Widget {
    let mut widget = widget(name, 1);
    widget.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
    widget
}

fn names(widgets: &Cached<Widget>) -> Vec<String> {
    widgets.list_lazy().unwrap().iter().map(|widget| widget.key().to_string()).collect()
}

/// Returns a manager, and its requests about Widgets.
fn watched(env: &Environment, options: ManagerOptions) -> (Manager, Arc<Mutex<Vec<Seen>>>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&requests);
    let client = faulty(env.client(), move |seen| {
        if seen.is_about("widgets") {
            noted.lock().unwrap().push(seen.clone());
        }
        Fault::Pass
    });
    (Manager::new(client, options.seed(1)), requests)
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_a_selector_is_deleted_and_may_return() {
    let env = environment().await;
    let other = Client::new(env.client(), "other-client");
    other.create(&labelled("a", "web")).await.unwrap();
    other.create(&labelled("b", "db")).await.unwrap();
    let manager = manager(&env);
    let widgets = manager.cache().of::<Widget>().labels("app=web").build().unwrap();
    let (mut events, client) = (widgets.events(), manager.client());
    let _running = Running::start(manager).await;
    assert_eq!(drained(&mut events).await, ["present default/a"]);

    let app = |app: &str| json!({ "metadata": { "labels": { "app": app } } });
    other.merge_patch(&key("a"), &app("db")).await.unwrap();
    other.merge_patch(&key("b"), &app("web")).await.unwrap();
    let mut seen = drained(&mut events).await;
    assert_eq!(seen.pop().as_deref(), Some("create default/b"));
    assert!(seen[0].starts_with("delete default/a"), "{seen:?}");
    assert_eq!(names(&widgets), ["default/b"]);

    client.merge_patch(&key("b"), &app("db")).await.unwrap();
    assert!(widgets.is_empty().unwrap(), "our own write is known to have made it leave");
    client.merge_patch(&key("b"), &app("web")).await.unwrap();
    assert_eq!(names(&widgets), ["default/b"]);
}

#[tokio::test(start_paused = true)]
async fn namespaces_are_added_and_removed_while_the_manager_runs() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    for (namespace, name) in [("red", "r"), ("blue", "b"), ("green", "g")] {
        let mut object = Namespace::default();
        object.metadata.name = Some(namespace.to_owned());
        client.create(&object).await.unwrap();
        let mut widget = widget(name, 1);
        widget.metadata.namespace = Some(namespace.to_owned());
        client.create(&widget).await.unwrap();
    }
    let (manager, requests) = watched(&env, ManagerOptions::new("test"));
    let tenants = Namespaces::new(["red", "blue"]);
    let widgets = manager.cache().of::<Widget>().namespace_set(&tenants).build().unwrap();
    let mut events = widgets.events();
    let _running = Running::start(manager).await;
    assert_eq!(drained(&mut events).await, ["present blue/b", "present red/r"]);
    assert!(requests.lock().unwrap().iter().all(|seen| seen.path.contains("/namespaces/")));

    tenants.add("green");
    assert_eq!(drained(&mut events).await, ["present green/g"]);
    tenants.remove("red");
    assert_eq!(drained(&mut events).await, ["vanished red/r -"]);
    assert_eq!(names(&widgets), ["blue/b", "green/g"]);
    let asked = requests.lock().unwrap().len();
    sleep(Duration::from_secs(3600)).await;
    let requests = requests.lock().unwrap();
    let of_red = requests[asked..].iter().filter(|seen| seen.path.contains("/red/")).count();
    assert_eq!((of_red, requests.len() > asked), (0, true), "what is not wanted is not watched");
}

#[tokio::test(start_paused = true)]
async fn requests_end_with_the_last_reader() {
    let env = environment().await;
    let (manager, requests) = watched(&env, ManagerOptions::new("test"));
    let widgets = manager.cached::<Widget>();
    let (other, index) = (widgets.clone(), widgets.index(|widget| Some(widget.spec.size)));
    let _running = Running::start(manager.clone()).await;
    drop((widgets, other));
    sleep(Duration::from_secs(3600)).await;
    let (asked, tasks) =
        (requests.lock().unwrap().len(), tokio::runtime::Handle::current().metrics().num_alive_tasks());
    assert!(asked > 6, "the index still reads");
    drop(index);
    sleep(Duration::from_secs(24 * 3600)).await;
    assert_eq!(requests.lock().unwrap().len(), asked);
    assert!(tokio::runtime::Handle::current().metrics().num_alive_tasks() < tasks);

    let again = manager.cached::<Widget>();
    again.synced().await;
    assert_eq!(requests.lock().unwrap().len(), asked + 1);
}

#[tokio::test(start_paused = true)]
async fn a_late_subscriber_receives_the_initial_list_first() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    for name in ["b", "a", "c"] {
        client.create(&labelled(name, "web")).await.unwrap();
    }
    let manager = manager(&env);
    let early = manager.cached::<Widget>();
    let _running = Running::start(manager.clone()).await;
    let mut late = early.events();
    client.merge_patch(&key("a"), &json!({ "metadata": { "labels": { "app": "db" } } })).await.unwrap();
    client.delete_key(&key("c")).await.unwrap();
    assert_eq!(
        drained(&mut late).await,
        ["present default/a", "present default/b"],
        "as of when it is asked"
    );
    client.delete_key(&key("a")).await.unwrap();
    assert_eq!(drained(&mut late).await, ["delete default/a db"]);

    let notes = Notes::done();
    let told_first = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&told_first);
    let note = move |event: &Event<Widget>| {
        noted.lock().unwrap().push(described(event));
        true
    };
    Builder::managed_by(&manager).for_kind::<Widget>().with_predicate(note).complete(notes.clone()).unwrap();
    settle().await;
    assert_eq!(
        (notes.names(), told_first.lock().unwrap().clone()),
        (vec!["b".to_owned()], vec!["present default/b".to_owned()])
    );

    let maps = manager.cached::<k8s_openapi::api::core::v1::ConfigMap>(); // a kind that is not read yet
    client.create(&config_map("m")).await.unwrap();
    maps.synced().await;
    settle().await;
    assert!(maps.list_lazy().unwrap().iter().any(|map| map.meta().name() == "m"));
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_ends_the_start_at_once_and_names_the_rule_to_add() {
    for (namespace, role) in
        [(None, "a ClusterRole bound by a ClusterRoleBinding"), (Some("red"), "a Role in namespace red")]
    {
        let env = environment().await;
        let client = faulty(env.client(), |seen| match seen.is_about("widgets") {
            true => Fault::Refuse(403, "Forbidden"),
            false => Fault::Pass,
        });
        let manager = Manager::new(client, ManagerOptions::new("test").seed(1));
        let builder = manager.cache().of::<Widget>();
        let _widgets = match namespace {
            Some(namespace) => builder.namespaces([namespace]),
            None => builder,
        }
        .build()
        .unwrap();
        let started = Instant::now();
        let error = Running::begin(manager).end().await.expect_err("it may not list widgets").to_string();
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
        let rule = "{apiGroups: [\"example.com\"], resources: [\"widgets\"], verbs: [\"list\", \"watch\"]}";
        assert!(
            error.contains("widgets.example.com") && error.contains(rule) && error.contains(role),
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_read_as_soon_as_it_is_defined() {
    let env = Environment::builder().start().await.unwrap();
    let options = ManagerOptions::new("test").cache_sync_timeout(Duration::from_secs(3600));
    let (manager, requests) = watched(&env, options);
    let widgets = manager.cached::<Widget>();
    let _running = Running::begin(manager);
    sleep(Duration::from_secs(1000)).await;
    assert!(!widgets.has_synced());
    assert!(widgets.trouble().unwrap().contains("is its CustomResourceDefinition installed?"));
    let asked = requests
        .lock()
        .unwrap()
        .iter()
        .filter(|seen| !seen.path.contains("customresourcedefinitions"))
        .count();
    assert!(asked <= 60, "{asked} lists of a kind that is not there in 1000 s");

    let defined = Instant::now();
    install_crds(&env.client(), &[Widget::crd()]).await.unwrap();
    widgets.synced().await;
    assert!(defined.elapsed() < Duration::from_secs(1), "{:?}", defined.elapsed());
}

#[tokio::test(start_paused = true)]
async fn only_metadata_are_requested_until_a_reader_needs_whole_objects() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    client.create(&widget("a", 7)).await.unwrap();
    let (manager, requests) = watched(&env, ManagerOptions::new("test"));
    let metadata = manager.cached::<PartialObjectMeta<Widget>>();
    let mut events = metadata.events();
    let _running = Running::start(manager.clone()).await;
    let last =
        || requests.lock().unwrap().last().map(|seen| seen.accept.contains("as=PartialObjectMetadata"));
    assert_eq!((last(), drained(&mut events).await.len()), (Some(true), 1));

    let widgets = manager.cached::<Widget>();
    widgets.synced().await;
    assert_eq!((last(), widgets.get(&key("a")).unwrap().unwrap().spec.size), (Some(false), 7));
    client.merge_patch(&key("a"), &json!({ "spec": { "size": 8 } })).await.unwrap();
    assert_eq!(drained(&mut events).await, ["update default/a -->-"]);
    assert_eq!(metadata.stats().shared, 1, "the metadata are in the text that is there");
    drop(widgets);
    settle().await;
    assert_eq!(last(), Some(true));
    assert_eq!(metadata.stats().shared, 0, "the rest of it has gone");
    assert!(drained(&mut events).await.is_empty(), "nothing happened to the objects");
    client.create(&widget("b", 1)).await.unwrap();
    assert_eq!(drained(&mut events).await, ["create default/b"]);
}

#[tokio::test(start_paused = true)]
async fn metadata_of_a_dynamic_kind_share_the_watch_of_whole_objects() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    client.create(&labelled("a", "web")).await.unwrap();
    client.create(&labelled("b", "db")).await.unwrap();
    let kind = client.discover("example.com", "v1", "Widget").await.unwrap();
    let (manager, requests) = watched(&env, ManagerOptions::new("test"));
    let metadata =
        manager.cache().of_dynamic(kind.metadata()).namespaces(["default"]).labels("app=web").build();
    let metadata = metadata.unwrap();
    let _running = Running::start(manager.clone()).await;
    let asked = || {
        let all: Vec<_> = requests.lock().unwrap().drain(..).collect();
        let form = |seen: &Seen| seen.accept.contains("as=PartialObjectMetadata");
        all.iter().map(|seen| (form(seen), seen.path.contains("labelSelector=app%3Dweb"))).collect::<Vec<_>>()
    };
    let names =
        || metadata.list_lazy().unwrap().iter().map(|widget| widget.key().to_string()).collect::<Vec<_>>();
    assert_eq!((asked(), names()), (vec![(true, true)], vec!["default/a".to_owned()]));
    assert!(metadata.get(&ObjectKey::new("default", "a")).unwrap().is_some());

    // Whole objects are read as another type: one watch of whole objects remains.
    let whole = manager.cache().of::<Widget>().namespaces(["default"]).labels("app=web").build().unwrap();
    whole.synced().await;
    settle().await;
    assert_eq!((asked(), whole.len().unwrap(), names().len()), (vec![(false, true)], 1, 1));
    client.create(&labelled("c", "web")).await.unwrap();
    settle().await;
    assert_eq!((names(), metadata.stats().shared), (vec!["default/a".to_owned(), "default/c".to_owned()], 1));
    drop(whole);
    settle().await;
    assert_eq!((asked(), metadata.stats().shared), (vec![(true, true)], 0));
}

#[tokio::test(start_paused = true)]
async fn an_initial_list_older_than_the_last_version_seen_is_rejected() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let stored = client.create(&widget("a", 1)).await.unwrap();
    let seen_before: ResourceVersion = stored.metadata.resource_version.as_deref().unwrap().into();
    // The first answers come from an API server that is behind.
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let old = json!({ "metadata": { "resourceVersion": "1" }, "items": [] }).to_string();
    let client = faulty(env.client(), move |seen| match (seen.is_about("widgets"), seen.is_stream()) {
        (true, true) => Fault::Refuse(422, "Invalid"),
        (true, false) if !seen.is_watch() && counted.fetch_add(1, SeqCst) < 2 => Fault::Answer(old.clone()),
        _ => Fault::Pass,
    });
    let manager = Manager::new(client, ManagerOptions::new("test").seed(1));
    let widgets = manager.cache().of::<Widget>().not_older_than(&seen_before).build().unwrap();
    let _running = Running::start(manager).await;
    assert_eq!((names(&widgets), asked.load(SeqCst)), (vec!["default/a".to_owned()], 3));
    assert!(widgets.resource_version() >= Some(seen_before), "{:?}", widgets.resource_version());
}

#[tokio::test(start_paused = true)]
async fn a_cache_reports_the_version_up_to_which_it_is_complete() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let manager = Manager::new(env.client(), ManagerOptions::new("test").seed(1));
    let widgets = manager.cache().of::<Widget>().namespaces(["default", "empty"]).build().unwrap();
    assert_eq!(widgets.resource_version(), None);
    let _running = Running::start(manager).await;
    let listed = widgets.resource_version().unwrap();
    let stored = client.create(&widget("a", 1)).await.unwrap();
    let created: ResourceVersion = stored.metadata.resource_version.as_deref().unwrap().into();
    settle().await;
    assert_eq!(
        (widgets.len().unwrap(), widgets.resource_version()),
        (1, Some(listed)),
        "nothing was heard of the other namespace"
    );
    sleep(Duration::from_secs(1200)).await;
    assert!(widgets.resource_version() >= Some(created), "a bookmark has described, or a new watch");
}

#[tokio::test(start_paused = true)]
async fn a_cache_reports_the_version_of_each_namespace() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let mut red = Namespace::default();
    red.metadata.name = Some("red".to_owned());
    client.create(&red).await.unwrap();
    let manager = Manager::new(env.client(), ManagerOptions::new("test").seed(1));
    let names = Namespaces::new(["default", "red"]);
    let some = manager.cache().of::<Widget>().namespace_set(&names).build().unwrap();
    let ours = InNamespace::default().fields("metadata.name!=nobody".parse().unwrap());
    let apart = manager.cache().of::<Widget>().in_namespace("red", ours).build().unwrap();
    let all = manager.cached::<PartialObjectMeta<Widget>>();
    let of = |versions: BTreeMap<Option<Arc<str>>, ResourceVersion>, namespace: Option<&str>| {
        versions.get(&namespace.map(Arc::from)).and_then(ResourceVersion::number)
    };
    let namespaces = |versions: BTreeMap<Option<Arc<str>>, ResourceVersion>| -> Vec<_> {
        versions.into_keys().map(|namespace| namespace.as_deref().unwrap_or("*").to_owned()).collect()
    };
    assert!(some.resource_versions().is_empty(), "nothing is known");
    let _running = Running::start(manager).await;
    assert_eq!(namespaces(some.resource_versions()), ["default", "red"]);
    assert_eq!(namespaces(apart.resource_versions()), ["*", "red"]);
    assert_eq!(namespaces(all.resource_versions()), ["*"]);

    let before = (some.resource_versions(), apart.resource_versions());
    let mut widget = widget("a", 1);
    widget.metadata.namespace = Some("red".to_owned());
    let stored = client.create(&widget).await.unwrap();
    let created = stored.metadata.resource_version.and_then(|version| version.parse().ok());
    settle().await;
    let after = (some.resource_versions(), apart.resource_versions());
    assert_eq!((of(after.0.clone(), Some("red")), of(after.1.clone(), Some("red"))), (created, created));
    assert_eq!(of(all.resource_versions(), None), created);
    assert_eq!(
        of(after.0.clone(), Some("default")),
        of(before.0, Some("default")),
        "nothing was heard of it"
    );
    assert_eq!(of(after.1, None), of(before.1, None), "nor of all the others");
    assert_eq!(some.resource_version(), after.0.into_values().min_by_key(ResourceVersion::number));

    names.remove("red");
    settle().await;
    assert_eq!(namespaces(some.resource_versions()), ["default"]);
}
