//! The cache with an unreliable connection.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{Builder, Client, DynamicKind, Event, Manager, ManagerOptions};
use kube::core::PartialObjectMeta;
use kube_envtest::Environment;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    faults::{Fault, expired, faulty, line},
    support::{Notes, Running, Widget, environment, key, settle, widget},
};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn manager(client: kube::Client) -> Manager {
    Manager::new(client, ManagerOptions::new("test").seed(1))
}

/// Returns Widget `a` at a version, with a size that may not match its type.
fn raw(version: &str, size: &Value) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "spec": { "size": size },
        "metadata": { "name": "a", "namespace": "default", "uid": "u", "resourceVersion": version },
    })
}

fn list(version: &str, items: &[Value]) -> String {
    json!({ "metadata": { "resourceVersion": version }, "items": items }).to_string()
}

#[tokio::test(start_paused = true)]
async fn a_failed_list_is_retried_until_it_succeeds() {
    let env = environment().await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let mut failures = 3;
    let client = faulty(env.client(), move |_| {
        failures -= 1;
        if failures >= 0 { Fault::Refuse(503, "ServiceUnavailable") } else { Fault::Pass }
    });
    let manager = manager(client);
    let widgets = manager.cached::<Widget>();
    let _running = Running::start(manager).await;
    assert_eq!(widgets.len().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_listed_and_watched_once_for_all_readers() {
    let env = environment().await;
    let requests = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&requests);
    let client = faulty(env.client(), move |seen| {
        if seen.is_about("widgets") {
            noted.lock().unwrap().push(if seen.is_watch() { "watch" } else { "list" });
        }
        Fault::Pass
    });
    let manager = manager(client);
    for name in ["one", "two", "three"] {
        Builder::managed_by(&manager).for_kind::<Widget>().named(name).complete(Notes::done()).unwrap();
    }
    let _handle = manager.cached::<Widget>();
    let _running = Running::start(manager).await;
    settle().await;
    assert_eq!(*requests.lock().unwrap(), ["watch"], "it begins with the present");
}

#[tokio::test(start_paused = true)]
async fn several_types_of_one_kind_share_one_watch_and_one_text_and_are_one_in_the_metrics() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    client.create(&widget("a", 1)).await.unwrap();
    let manager = manager(env.client());
    let kind = DynamicKind::of::<Widget>();
    let metadata = manager.cached::<PartialObjectMeta<Widget>>();
    let dynamic = manager.cache().of_dynamic(&kind).build().unwrap();
    let widgets = manager.cached::<Widget>();
    let _running = Running::start(manager.clone()).await;
    client.create(&widget("b", 2)).await.unwrap();
    settle().await;
    assert_eq!((metadata.len().unwrap(), dynamic.len().unwrap(), widgets.len().unwrap()), (2, 2, 2));
    assert_eq!((metadata.stats().shared, dynamic.stats().shared + widgets.stats().shared), (2, 2));
    assert_eq!(dynamic.list().unwrap()[1].data["spec"]["size"], 2);
    assert_eq!(widgets.list().unwrap()[1].spec.size, 2);
    let metrics = manager.metrics().encode();
    let held: Vec<_> =
        metrics.lines().filter(|line| line.starts_with("controller_runtime_cache_objects{")).collect();
    assert_eq!(held, [r#"controller_runtime_cache_objects{resource="widgets.example.com"} 2"#]);

    // A type that is added later shares the existing texts.
    drop((dynamic, metadata));
    let late = manager.cache().of_dynamic(&kind).build().unwrap();
    late.synced().await;
    assert_eq!((late.len().unwrap(), late.stats().shared, late.stats().text_bytes), (2, 2, 0));
    drop(widgets);
    client.merge_patch(&key("a"), &json!({ "spec": { "size": 3 } })).await.unwrap();
    settle().await;
    let sizes: Vec<_> =
        late.list().unwrap().iter().map(|widget| widget.data["spec"]["size"].clone()).collect();
    assert_eq!(sizes, [3, 2], "the texts outlive the type that held them");
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_watch_or_list_is_abandoned() {
    for hangs in ["the first watch", "the second list", "the stream"] {
        let env = environment().await;
        let (mut lists, mut watches) = (0, 0);
        let client = faulty(env.client(), move |seen| {
            if !seen.is_about("widgets") {
                return Fault::Pass;
            }
            if seen.is_stream() {
                return if hangs == "the stream" { Fault::Hang } else { Fault::Refuse(422, "Invalid") };
            }
            let count = if seen.is_watch() { &mut watches } else { &mut lists };
            *count += 1;
            match (hangs, lists, watches) {
                ("the first watch", _, 1) => Fault::Hang,
                ("the second list", 1, 1) => Fault::Answer(expired()),
                ("the second list", 2, 1) => Fault::Hang,
                _ => Fault::Pass,
            }
        });
        let manager = manager(client);
        let widgets = manager.cached::<Widget>();
        let _running = Running::start(manager).await;
        settle().await;
        Client::new(env.client(), "test").create(&widget("late", 1)).await.unwrap();
        sleep(Duration::from_secs(47)).await;
        assert_eq!(widgets.len().unwrap(), 1, "{hangs} hangs");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silently_dead_watch_is_detected() {
    let env = environment().await;
    let mut dead = false;
    let client = faulty(env.client(), move |seen| {
        if seen.is_watch() && !std::mem::replace(&mut dead, true) { Fault::Open(vec![]) } else { Fault::Pass }
    });
    let manager = manager(client);
    let widgets = manager.cached::<Widget>();
    let _running = Running::start(manager).await;
    Client::new(env.client(), "test").create(&widget("late", 1)).await.unwrap();
    sleep(Duration::from_secs(46)).await;
    assert_eq!(widgets.len().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_object_is_removed_even_if_its_last_state_is_unreadable() {
    let env = Environment::builder().start().await.unwrap();
    let mut watches = 0;
    let client = faulty(env.client(), move |seen| match seen.is_watch() {
        false => Fault::Answer(list("5", &[raw("4", &json!(1))])),
        true if seen.is_stream() => Fault::Refuse(422, "Invalid"),
        true => {
            watches += 1;
            // The controller starts before the deletion.
            if watches == 1 {
                return Fault::Refuse(500, "InternalError");
            }
            Fault::Open(vec![
                line("MODIFIED", &raw("6", &json!("big"))),
                line("DELETED", &raw("7", &json!("big"))),
            ])
        }
    });
    let manager = manager(client);
    let notes = Notes::done();
    Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
    let widgets = manager.cached::<Widget>();
    let _running = Running::start(manager).await;
    sleep(Duration::from_secs(60)).await;
    assert!(widgets.is_empty().unwrap());
    assert!(!notes.names().is_empty());
}

/// OpenShift's projects behave like this: a user that gains access to an older project receives an event with its old
/// version.
#[tokio::test(start_paused = true)]
async fn an_event_out_of_order_causes_a_list_and_neither_loses_nor_restores_an_object() {
    let env = Environment::builder().start().await.unwrap();
    let named = |name: &str, version: &str| {
        let mut object = raw(version, &json!(1));
        object["metadata"]["name"] = json!(name);
        object["metadata"]["uid"] = json!(name);
        object
    };
    let (lists, opened) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&lists);
    let client = faulty(env.client(), move |seen| match (seen.is_watch(), seen.is_stream()) {
        (true, true) => Fault::Refuse(422, "Invalid"),
        (true, false) => Fault::Open(match opened.fetch_add(1, SeqCst) {
            0 => vec![line("ADDED", &named("late", "40"))],
            1 => vec![line("ADDED", &named("gone", "30")), line("ADDED", &named("not read", "101"))],
            _ => vec![line("MODIFIED", &named("late", "60")), line("MODIFIED", &named("late", "50"))],
        }),
        (false, _) => {
            let late = [named("a", "90"), named("late", "40")];
            Fault::Answer(list("100", if counted.fetch_add(1, SeqCst) == 0 { &late[..1] } else { &late }))
        }
    });
    let manager = manager(client);
    let widgets = manager.cached::<Widget>();
    let _running = Running::start(manager).await;
    sleep(Duration::from_secs(5)).await;
    let seen: Vec<_> = widgets.list_lazy().unwrap().iter().map(|object| format!("{object:?}")).collect();
    assert_eq!(seen, ["default/a@90", "default/late@60"]);
    assert_eq!((lists.load(SeqCst), widgets.trouble()), (3, None));
    assert_eq!(widgets.resource_version().unwrap().number(), Some(100), "it does not go back");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_becomes_unreadable_is_not_taken_for_deleted() {
    let env = Environment::builder().start().await.unwrap();
    let mut lists = 0;
    let client = faulty(env.client(), move |seen| {
        if seen.is_watch() {
            return if lists == 1 { Fault::Answer(expired()) } else { Fault::Open(vec![]) };
        }
        lists += 1;
        let size = if lists == 1 { json!(1) } else { json!("big") };
        Fault::Answer(list(&format!("5{lists}"), &[raw(&format!("4{lists}"), &size)]))
    });
    let manager = manager(client);
    let deletes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&deletes);
    let count = move |event: &Event<Widget>| {
        counted.fetch_add(usize::from(matches!(event, Event::Delete { .. })), SeqCst);
        true
    };
    Builder::managed_by(&manager).for_kind::<Widget>().with_predicate(count).complete(Notes::done()).unwrap();
    let widgets = manager.cached::<Widget>();
    let _running = Running::start(manager).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!((widgets.len().unwrap(), deletes.load(SeqCst)), (1, 0));
    let error = widgets.get(&key("a")).expect_err("its size is a text");
    assert_eq!(error.decode_error().unwrap().path(), "spec.size");
    assert!(widgets.list().is_err(), "nothing is left out silently");
    assert_eq!(widgets.list_lazy().unwrap()[0].meta().resource_version().unwrap().to_string(), "42");
}

#[tokio::test(start_paused = true)]
async fn an_object_without_a_version_does_not_reset_the_version_of_the_watch() {
    let env = Environment::builder().start().await.unwrap();
    let versions = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&versions);
    let client = faulty(env.client(), move |seen| {
        if !seen.is_watch() {
            return Fault::Answer(list("5", &[]));
        }
        if seen.is_stream() {
            return Fault::Refuse(422, "Invalid");
        }
        let version = seen.path.split("resourceVersion=").nth(1).unwrap_or_default().to_owned();
        noted.lock().unwrap().push(version);
        match noted.lock().unwrap().len() {
            1 => Fault::Answer(
                line("ADDED", &json!({ "metadata": { "name": "a", "namespace": null } })) + "\n",
            ),
            _ => Fault::Open(vec![]),
        }
    });
    let manager = manager(client);
    let _widgets = manager.cached::<Widget>();
    let _running = Running::start(manager).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(*versions.lock().unwrap(), ["5", "5"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_without_a_name_counts_as_unreadable() {
    let env = Environment::builder().start().await.unwrap();
    let named = |name: Value, namespace: Value| {
        let mut object = raw("4", &json!(1));
        object["metadata"]["name"] = name;
        object["metadata"]["namespace"] = namespace;
        object
    };
    let client = faulty(env.client(), move |seen| match (seen.is_watch(), seen.is_stream()) {
        (true, true) => Fault::Refuse(422, "Invalid"),
        (true, false) => Fault::Open(vec![line("ADDED", &named(json!("b"), Value::Null))]),
        (false, _) => Fault::Answer(list("5", &[raw("4", &json!(1)), named(Value::Null, json!("default"))])),
    });
    let manager = manager(client);
    let widgets = manager.cached::<Widget>();
    let _running = Running::start(manager.clone()).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(
        (widgets.len().unwrap(), widgets.stats().unreadable),
        (1, 2),
        "one of the list, one of the watch"
    );
    let metrics = manager.metrics().encode();
    let counted = r#"controller_runtime_cache_unreadable_total{resource="widgets.example.com"} 2"#;
    assert!(metrics.lines().any(|line| line == counted), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_finds_every_version_too_old_is_asked_at_a_limited_rate() {
    let env = Environment::builder().start().await.unwrap();
    let lists = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lists);
    let client = faulty(env.client(), move |seen| {
        if seen.is_watch() {
            let bookmark = line("BOOKMARK", &json!({ "metadata": { "resourceVersion": "6" } }));
            return Fault::Open(vec![bookmark, expired()]);
        }
        counted.fetch_add(1, SeqCst);
        Fault::Answer(list("6", &[]))
    });
    let manager = manager(client);
    let _widgets = manager.cached::<Widget>();
    let _running = Running::start(manager).await;
    sleep(Duration::from_secs(3600)).await;
    assert!(lists.load(SeqCst) < 400, "{} lists in an hour", lists.load(SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_manager_frees_its_caches_even_if_handlers_hold_them() {
    let env = environment().await;
    let manager = manager(env.client());
    let (alive, widgets) = (Arc::new(()), manager.cached::<Widget>());
    let held = Arc::clone(&alive);
    let nosy = move |_: &Event<Widget>| {
        let _ = (&held, widgets.len());
        true
    };
    Builder::managed_by(&manager).for_kind::<Widget>().with_predicate(nosy).complete(Notes::done()).unwrap();
    let running = Running::start(manager).await;
    assert_eq!(Arc::strong_count(&alive), 2);
    running.stop().await.unwrap();
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[tokio::test(start_paused = true)]
async fn a_day_of_silence_is_a_watch_every_five_minutes_and_a_probe_every_half_minute() {
    let env = environment().await;
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let client = faulty(env.client(), move |_| {
        counted.fetch_add(1, SeqCst);
        Fault::Pass
    });
    let manager = manager(client);
    let _widgets = manager.cached::<Widget>();
    let _running = Running::start(manager).await;
    let started = Instant::now();
    sleep(DAY).await;
    assert_eq!(started.elapsed(), DAY);
    // One list, a watch every five to ten minutes, and an 8 s probe 30 s after the end of the previous one.
    let probes = 24 * 3600 / 38;
    let requests = requests.load(SeqCst);
    assert!((probes..probes + 290).contains(&requests), "{requests} requests");
}
