//! Failures of lists and watches, and where they are reported.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{Builder, Client, Manager, ManagerOptions, ObjectKey, cache::Namespaces};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace, Node},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    CustomResourceExt,
    api::{Patch, PatchParams},
    core::PartialObjectMeta,
};
use kube_envtest::{Environment, eventually, install_crds};
use serde_json::json;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};

use crate::{
    faults::{Fault, faulty, line},
    support::{Notes, Running, Widget, environment, settle, widget},
};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns two handles of a flag that a test sets while requests are intercepted.
fn switch() -> (Arc<AtomicBool>, Arc<AtomicBool>) {
    let switch = Arc::new(AtomicBool::new(false));
    (Arc::clone(&switch), switch)
}

async fn namespaces(env: &Environment, names: &[&str]) -> Client {
    let client = Client::new(env.client(), "test");
    for name in names {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some((*name).to_owned());
        client.create(&namespace).await.unwrap();
        let mut widget = widget("w", 1);
        widget.metadata.namespace = Some((*name).to_owned());
        client.create(&widget).await.unwrap();
    }
    client
}

/// An aggregated API, or a builtin kind while API servers of two versions run.
#[tokio::test(start_paused = true)]
async fn a_kind_without_a_definition_is_read_when_it_is_served() {
    let env = environment().await;
    // Once with a watch of definitions that stays open, and once with one that ends immediately.
    for stays in [true, false] {
        let (served, on) = switch();
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let none = json!({ "metadata": { "resourceVersion": "1" }, "items": [] }).to_string();
        let client = faulty(env.client(), move |seen| {
            counted.fetch_add(1, SeqCst);
            assert!(counted.load(SeqCst) < 10_000, "in a tight circle");
            if seen.is_about("customresourcedefinitions") {
                return match (seen.is_watch(), stays) {
                    (true, true) => Fault::Open(Vec::new()),
                    (true, false) => Fault::Answer(String::new()),
                    (false, _) => Fault::Answer(none.clone()),
                };
            }
            match seen.is_about("widgets") && !served.load(SeqCst) {
                true => Fault::Refuse(404, "NotFound"),
                false => Fault::Pass,
            }
        });
        let manager = Manager::new(client, ManagerOptions::new("test").seed(1).cache_sync_timeout(HOUR));
        let widgets = manager.cached::<Widget>();
        let _running = Running::begin(manager);
        sleep(Duration::from_secs(1000)).await;
        assert!(!widgets.has_synced());
        let all = asked.load(SeqCst);
        assert!(all <= 120, "{all} requests in 1000 s");
        on.store(true, SeqCst);
        let read = timeout(Duration::from_secs(61), widgets.synced()).await;
        assert!(read.is_ok(), "it is served and not asked for: {:?}", widgets.trouble());
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_its_definition_gains_later_is_read_as_soon_as_it_does() {
    let env = Environment::builder().start().await.unwrap();
    let mut definition = Widget::crd();
    definition.spec.versions[0].name = "v2".to_owned();
    install_crds(&env.client(), &[definition.clone()]).await.unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let client = faulty(env.client(), move |_| {
        counted.fetch_add(1, SeqCst);
        Fault::Pass
    });
    let manager = Manager::new(client, ManagerOptions::new("test").seed(1).cache_sync_timeout(HOUR));
    let widgets = manager.cached::<Widget>();
    let _running = Running::begin(manager);
    sleep(Duration::from_secs(1000)).await;
    let all = asked.load(SeqCst);
    assert!(!widgets.has_synced() && all <= 80, "{all} requests in 1000 s: its definition is watched");
    let mut version = Widget::crd().spec.versions.remove(0);
    version.storage = false;
    definition.spec.versions.push(version);
    let patch = Patch::Merge(json!({ "spec": { "versions": definition.spec.versions } }));
    let definitions = kube::Api::<CustomResourceDefinition>::all(env.client());
    definitions.patch("widgets.example.com", &PatchParams::default(), &patch).await.unwrap();
    let defined = Instant::now();
    widgets.synced().await;
    assert!(defined.elapsed() < Duration::from_secs(1), "{:?}", defined.elapsed());
}

#[tokio::test(start_paused = true)]
async fn all_missing_permissions_are_reported_together() {
    let env = Environment::builder().start().await.unwrap(); // without Widgets
    let client = faulty(env.client(), |seen| match seen.is_about("configmaps") || seen.is_about("nodes") {
        true => Fault::Refuse(403, "Forbidden"),
        false => Fault::Pass,
    });
    let manager = Manager::new(client, ManagerOptions::new("test").seed(1));
    let _widgets = manager.cached::<Widget>();
    let _maps = manager.cache().of::<ConfigMap>().namespaces(["red", "blue"]).build().unwrap();
    let (_nodes, _metadata) = (manager.cached::<Node>(), manager.cached::<PartialObjectMeta<Node>>());
    let started = Instant::now();
    let error = Running::begin(manager).end().await.expect_err("it may not").to_string();
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    for missing in ["resources: [\"nodes\"]", "a Role in namespace red", "a Role in namespace blue"] {
        assert_eq!(error.matches(missing).count(), 1, "{missing} in: {error}");
    }
    assert!(!error.contains("widgets"), "that is not what ended the start: {error}");
}

/// An operator that may list but not watch has the initial list and never receives a change.
#[tokio::test(start_paused = true)]
async fn a_refused_watch_fails_the_start_even_if_lists_are_allowed() {
    let env = environment().await;
    let client = faulty(env.client(), |seen| match seen.is_about("widgets") && seen.is_watch() {
        true => Fault::Refuse(403, "Forbidden"),
        false => Fault::Pass,
    });
    let manager = Manager::new(client, ManagerOptions::new("test").seed(1));
    let widgets = manager.cached::<Widget>();
    let _maps = manager.cached::<ConfigMap>();
    let started = Instant::now();
    let error = Running::begin(manager).end().await.expect_err("it may not watch").to_string();
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    let rule = "{apiGroups: [\"example.com\"], resources: [\"widgets\"], verbs: [\"list\", \"watch\"]}";
    assert!(error.contains(rule) && !error.contains("configmaps"), "{error}");
    assert!(widgets.has_synced(), "the list was granted before the start ended");
    assert!(widgets.trouble().is_some_and(|trouble| trouble.contains(rule)), "{:?}", widgets.trouble());
}

#[tokio::test(start_paused = true)]
async fn a_refused_watch_fails_a_controller_that_is_added_later() {
    let env = environment().await;
    let client = faulty(env.client(), |seen| match seen.is_about("widgets") && seen.is_watch() {
        true => Fault::Refuse(403, "Forbidden"),
        false => Fault::Pass,
    });
    let manager = Manager::new(client, ManagerOptions::new("test").seed(1));
    let running = Running::start(manager.clone()).await;
    let widgets = manager.cached::<Widget>();
    sleep(Duration::from_secs(100)).await;
    assert!(widgets.has_synced());
    Builder::managed_by(&manager).for_kind::<Widget>().complete(Notes::done()).unwrap();
    let end = timeout(HOUR, running.end()).await.expect("it ends");
    let error = end.expect_err("it may not watch widgets").to_string();
    assert!(error.contains("resources: [\"widgets\"]"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_right_that_was_granted_since_does_not_end_the_next_run_of_a_manager() {
    let env = environment().await;
    let (granted, on) = switch();
    let client = faulty(env.client(), move |seen| match seen.is_about("widgets") && !granted.load(SeqCst) {
        true => Fault::Refuse(403, "Forbidden"),
        false => Fault::Pass,
    });
    let manager = Manager::new(client, ManagerOptions::new("test").seed(1));
    let widgets = manager.cached::<Widget>();
    Running::begin(manager.clone()).end().await.expect_err("it may not");
    assert!(widgets.trouble().is_some());
    on.store(true, SeqCst);
    let running = Running::begin(manager);
    sleep(Duration::from_secs(1)).await;
    assert!(widgets.has_synced() && widgets.trouble().is_none(), "{:?}", widgets.trouble());
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn at_most_ten_missing_permissions_are_named() {
    let env = environment().await;
    let client = faulty(env.client(), |seen| match seen.is_about("configmaps") {
        true => Fault::Refuse(403, "Forbidden"),
        false => Fault::Pass,
    });
    let manager = Manager::new(client, ManagerOptions::new("test").seed(1));
    let many = (0..500).map(|number| format!("tenant-{number}"));
    let _maps = manager.cache().of::<ConfigMap>().namespaces(many).build().unwrap();
    let error = Running::begin(manager).end().await.expect_err("it may not").to_string();
    assert!(error.ends_with("; and 490 more") && error.len() < 4096, "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_endless_initial_list_is_reported_as_trouble() {
    let env = environment().await;
    let broken = line(
        "ADDED",
        &json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "spec": { "size": 1 },
            "metadata": { "namespace": "default", "name": "w", "uid": "u", "resourceVersion": "5" },
        }),
    );
    let client = faulty(env.client(), move |seen| match (seen.is_about("widgets"), seen.is_stream()) {
        (false, _) => Fault::Pass,
        (true, true) => Fault::Answer(broken.clone() + "\n"),
        (true, false) => Fault::Hang,
    });
    let manager = Manager::new(client, ManagerOptions::new("test").seed(1).cache_sync_timeout(HOUR));
    let widgets = manager.cached::<Widget>();
    let _running = Running::begin(manager);
    settle().await;
    for _ in 0..600 {
        assert!(widgets.trouble().is_some());
        sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn success_in_one_namespace_does_not_hide_failures_in_another() {
    let env = environment().await;
    let other = namespaces(&env, &["red", "blue"]).await;
    let (forbidden, on) = switch();
    let client =
        faulty(env.client(), move |seen| match forbidden.load(SeqCst) && seen.is_about("/red/widgets") {
            true => Fault::Refuse(403, "Forbidden"),
            false => Fault::Pass,
        });
    let manager = Manager::new(client, ManagerOptions::new("test").seed(1));
    let widgets = manager.cache().of::<Widget>().namespaces(["red", "blue"]).build().unwrap();
    let _running = Running::start(manager).await;
    assert_eq!(widgets.trouble(), None);
    on.store(true, SeqCst);
    sleep(Duration::from_secs(1200)).await; // by then the watches have been renewed
    let blue = ObjectKey::<Widget>::new("blue", "w");
    other.merge_patch(&blue, &json!({ "spec": { "size": 2 } })).await.unwrap();
    settle().await;
    assert_eq!(widgets.get(&blue).unwrap().unwrap().spec.size, 2, "blue is watched");
    let trouble = widgets.trouble().expect("red is not");
    assert!(trouble.contains("a Role in namespace red"), "{trouble}");
    on.store(false, SeqCst);
    sleep(Duration::from_secs(61)).await;
    assert_eq!(widgets.trouble(), None);
}

#[tokio::test(start_paused = true)]
async fn trouble_ends_with_the_first_successful_answer() {
    let env = environment().await;
    let (down, on) = switch();
    // Lists work, and watches deliver nothing.
    let client = faulty(env.client(), move |seen| {
        match (seen.is_about("widgets"), down.load(SeqCst), seen.is_stream(), seen.is_watch()) {
            (false, ..) | (true, false, false, false) => Fault::Pass,
            (true, true, ..) => Fault::Refuse(503, "ServiceUnavailable"),
            (true, false, true, _) => Fault::Refuse(422, "Invalid"),
            (true, false, false, true) => Fault::Open(Vec::new()),
        }
    });
    let manager = Manager::new(client, ManagerOptions::new("test").seed(1));
    let widgets = manager.cached::<Widget>();
    on.store(true, SeqCst);
    let _running = Running::begin(manager);
    sleep(Duration::from_secs(10)).await;
    assert!(widgets.trouble().unwrap().contains("503"), "{:?}", widgets.trouble());
    on.store(false, SeqCst);
    widgets.synced().await;
    assert_eq!(widgets.trouble(), None, "a list is a good answer");

    on.store(true, SeqCst);
    sleep(Duration::from_secs(700)).await; // by then the watch is dead
    assert!(widgets.trouble().is_some());
    on.store(false, SeqCst);
    sleep(Duration::from_secs(61)).await;
    assert_eq!(widgets.trouble(), None, "so is the beginning of a watch");
}

#[tokio::test(start_paused = true)]
async fn a_cache_is_incomplete_until_an_added_namespace_is_listed() {
    let env = environment().await;
    namespaces(&env, &["red", "green"]).await;
    let manager = Manager::new(env.client(), ManagerOptions::new("test").seed(1));
    let tenants = Namespaces::new(["red"]);
    let widgets = manager.cache().of::<Widget>().namespace_set(&tenants).build().unwrap();
    assert!(!widgets.has_synced());
    let _running = Running::start(manager).await;
    assert!(widgets.has_synced());
    assert!(widgets.resource_version().is_some());
    tenants.add("green");
    assert!(!widgets.has_synced());
    assert_eq!(widgets.resource_version(), None, "no list of green has succeeded");
    widgets.synced().await;
    assert_eq!((widgets.has_synced(), widgets.len().unwrap()), (true, 2));
    tenants.add("blue");
    tenants.remove("blue");
    widgets.synced().await;
    assert!(widgets.has_synced());
}

#[tokio::test(start_paused = true)]
async fn objects_removed_between_two_runs_are_gone_in_the_second() {
    let env = environment().await;
    namespaces(&env, &["red", "blue"]).await;
    let manager = Manager::new(env.client(), ManagerOptions::new("test").seed(1));
    let tenants = Namespaces::new(["red", "blue"]);
    let widgets = manager.cache().of::<Widget>().namespace_set(&tenants).build().unwrap();
    let running = Running::start(manager.clone()).await;
    assert_eq!(widgets.len().unwrap(), 2);
    running.stop().await.unwrap();
    tenants.remove("red");
    let _running = Running::start(manager).await;
    settle().await;
    let names: Vec<_> = widgets.select().keys().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["blue/w"]);
}

#[tokio::test(start_paused = true)]
async fn a_cache_keeps_its_metrics_label_when_its_namespaces_change() {
    let env = environment().await;
    let manager = Manager::new(env.client(), ManagerOptions::new("test").seed(1));
    let tenants = Namespaces::new(["red", "blue"]);
    let _live = manager.cache().of::<Widget>().namespace_set(&tenants).build().unwrap();
    let many = |from: usize| (from..from + 500).map(|number| format!("tenant-{number}"));
    let _many = manager.cache().of::<Widget>().namespaces(many(0)).build().unwrap();
    let _others = manager.cache().of::<Widget>().namespaces(many(0).chain(["z".to_owned()])).build().unwrap();
    let _some = manager.cache().of::<Widget>().namespaces(["a", "b"]).labels("app=web").build().unwrap();
    let names = || -> Vec<String> {
        let metrics = manager.metrics().encode();
        let names = metrics.lines().filter_map(|line| line.strip_prefix("controller_runtime_cache_objects{"));
        names.map(|name| name.split('}').next().unwrap_or_default().to_owned()).collect()
    };
    let before = names();
    assert_eq!(before.len(), 4, "{before:?}");
    assert!(before.iter().all(|name| name.len() < 128), "{before:?}");
    assert!(
        before.contains(&r#"resource="widgets.example.com in a, b with app=web""#.to_owned()),
        "{before:?}"
    );
    tenants.add("green");
    assert_eq!(names(), before);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_behind_is_named_when_the_start_times_out() {
    let env = environment().await;
    for streams in [true, false] {
        let old = json!({ "metadata": { "resourceVersion": "1" }, "items": [] }).to_string();
        let end = json!({ "kind": "Widget", "metadata": {
            "resourceVersion": "1", "annotations": { "k8s.io/initial-events-end": "true" },
        } });
        let client =
            faulty(env.client(), move |seen| match (seen.is_about("widgets"), seen.is_stream(), streams) {
                (true, true, true) => Fault::Open(vec![line("BOOKMARK", &end)]),
                (true, true, false) => Fault::Refuse(422, "Invalid"),
                (true, false, _) if !seen.is_watch() => Fault::Answer(old.clone()),
                _ => Fault::Pass,
            });
        let options = ManagerOptions::new("test").seed(1).cache_sync_timeout(Duration::from_secs(2));
        let manager = Manager::new(client, options);
        let _widgets = manager.cache().of::<Widget>().not_older_than(&"1000000".into()).build().unwrap();
        let error = Running::begin(manager).end().await.expect_err("it is behind").to_string();
        assert!(
            error.contains("its resource version 1 is older than one that this cache has read"),
            "streams {streams}: {error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_reason_of_a_refused_list_is_named_when_the_start_times_out() {
    let env = environment().await;
    // A field without a selector; and "too old" although no version was requested.
    for (code, reason) in [(400, "BadRequest"), (410, "Expired")] {
        let client = faulty(env.client(), move |seen| match seen.is_about("widgets") {
            true => Fault::Refuse(code, reason),
            false => Fault::Pass,
        });
        let options = ManagerOptions::new("test").seed(1).cache_sync_timeout(Duration::from_secs(60));
        let manager = Manager::new(client, options);
        let _widgets = manager.cache().of::<Widget>().fields("spec.size=1").build().unwrap();
        let error = Running::begin(manager).end().await.expect_err("it is refused").to_string();
        assert!(error.contains(&format!("a fault of the test ({code})")), "{error}");
    }
}

/// The objects of a chunk are processed without a pause, on another thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_removed_while_its_list_arrives_leaves_no_objects() {
    const OBJECTS: usize = 5000;
    let env = environment().await;
    let object = |number: usize| {
        line(
            "ADDED",
            &json!({
                "apiVersion": "example.com/v1", "kind": "Widget", "spec": { "size": 1 },
                "metadata": {
                    "namespace": "red", "name": format!("w{number:04}"), "uid": format!("uid-{number}"),
                    "resourceVersion": (number + 10).to_string(),
                },
            }),
        )
    };
    let end = json!({ "kind": "Widget", "metadata": {
        "resourceVersion": "9", "annotations": { "k8s.io/initial-events-end": "true" },
    } });
    let lines: Vec<_> = [line("BOOKMARK", &end)].into_iter().chain((0..OBJECTS).map(object)).collect();
    let client = faulty(env.client(), move |seen| match seen.is_about("/red/widgets") {
        true => Fault::Open(lines.clone()),
        false => Fault::Pass,
    });
    let tenants = Namespaces::new(["red", "default"]);
    let manager = Manager::new(client, ManagerOptions::new("test").seed(1));
    let widgets = manager.cache().of::<Widget>().namespace_set(&tenants).build().unwrap();
    let first = Arc::new(Notify::new());
    let came = Arc::clone(&first);
    let _index = widgets.index_by_meta(move |_| {
        came.notify_one();
        std::thread::yield_now(); // lets other threads run meanwhile
        None::<()>
    });
    let _running = Running::begin(manager);
    first.notified().await;
    tenants.remove("red");
    // When this object is visible, all earlier changes are.
    Client::new(env.client(), "test").create(&widget("last", 1)).await.unwrap();
    let withdrawn = eventually(Duration::from_secs(20), async || {
        let keys = widgets.select().keys().map_err(|error| error.to_string())?;
        let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
        if keys == ["default/last"] { Ok(()) } else { Err(format!("{} are there", keys.len())) }
    });
    withdrawn.await.unwrap();
    for _ in 0..1000 {
        tokio::task::yield_now().await;
        assert_eq!(widgets.len().unwrap(), 1);
    }
}
