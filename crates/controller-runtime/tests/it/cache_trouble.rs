//! What goes wrong with lists and watches, and who learns of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{Client, Manager, cache::Namespaces, manager::Options};
use k8s_openapi::api::core::v1::Namespace;
use kube_envtest::{Environment, eventually};
use serde_json::json;
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

use crate::{
    faults::{Fault, faulty, line},
    support::{Running, Widget, environment, settle, widget},
};

const HOUR: Duration = Duration::from_secs(3600);

/// What a test turns on and off while requests are judged.
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

/// An aggregated API, or a builtin kind of an API server that is upgraded beside an older one.
#[tokio::test(start_paused = true)]
async fn a_kind_that_no_definition_makes_is_read_when_it_is_served() {
    let env = environment().await;
    // A watch of definitions that stays open, and one that ends at once.
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
        let manager = Manager::new(client, Options::new("test").seed(1).cache_sync_timeout(HOUR));
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
async fn what_was_removed_between_two_runs_of_a_manager_is_gone_in_the_second() {
    let env = environment().await;
    namespaces(&env, &["red", "blue"]).await;
    let manager = Manager::new(env.client(), Options::new("test").seed(1));
    let tenants = Namespaces::new(["red", "blue"]);
    let widgets = manager.cache().of::<Widget>().namespace_set(&tenants).build().unwrap();
    let running = Running::start(manager.clone()).await;
    assert_eq!(widgets.len(), 2);
    running.stop().await.unwrap();
    tenants.remove("red");
    let _running = Running::start(manager).await;
    settle().await;
    let names: Vec<_> = widgets.select().keys().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["blue/w"]);
}

/// A chunk of a watch is read without a pause, by a thread of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_comes_back_of_a_namespace_that_was_removed_while_its_objects_arrived() {
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
    let manager = Manager::new(client, Options::new("test").seed(1));
    let widgets = manager.cache().of::<Widget>().namespace_set(&tenants).build().unwrap();
    let (told, first) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counted, came) = (Arc::clone(&told), Arc::clone(&first));
    let _index = widgets.index_by_meta(move |_| {
        if counted.fetch_add(1, SeqCst) == 0 {
            came.notify_one();
        }
        std::thread::yield_now(); // others have something to do meanwhile
        None::<()>
    });
    let _running = Running::begin(manager);
    first.notified().await;
    tenants.remove("red");
    let withdrawn = eventually(Duration::from_secs(20), async || {
        let (told, left) = (told.load(SeqCst), widgets.len());
        // Each object is looked at when it comes, and again when it goes.
        if told >= OBJECTS && left == 0 { Ok(()) } else { Err(format!("{told} looks, {left} are left")) }
    });
    withdrawn.await.unwrap();
}
