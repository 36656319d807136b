//! Sources of requests other than the manager's own cache.

use std::time::Duration;

use controller_runtime::{
    BoxError, Builder, Client, Event, ForObject, Kind, Lazy, Manager, ManagerOptions, MapMeta, ObjectKey,
    Source,
    cache::Meta,
    controller::ControllerOptions,
    source::{Events, Requests, Sink, from_fn},
};
use futures::stream;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_envtest::Environment;
use serde_json::json;
use tokio::{sync::mpsc, time::Instant};

use crate::{
    faults::{Fault, faulty},
    support::{NoteAll, Notes, Running, Widget, config_map, environment, key, manager, settle, widget},
};

fn client(env: &Environment) -> Client {
    Client::new(env.client(), "test")
}

fn generic(name: &str) -> Event<Widget> {
    Event::Generic { object: Lazy::of(widget(name, 1)).expect("it has a name") }
}

#[tokio::test(start_paused = true)]
async fn requests_of_any_type_come_from_a_channel_and_early_ones_wait() {
    let env = environment().await;
    let (manager, notes) = (manager(&env), NoteAll::<(u32, String)>::new());
    let (sender, receiver) = mpsc::channel(2);
    sender.try_send((1, "early".to_owned())).unwrap();
    sender.try_send((1, "early".to_owned())).unwrap();
    let handle = Builder::managed_by(&manager)
        .for_requests("pushes")
        .watches_raw_source(Requests::channel("pushes", receiver))
        .complete(notes.clone())
        .unwrap();
    let running = Running::start(manager.clone()).await;
    settle().await;
    assert_eq!(notes.take(), [r#"(1, "early")"#]);
    running.stop().await.unwrap();

    sender.try_send((2, "between".to_owned())).unwrap();
    let _running = Running::start(manager).await;
    settle().await;
    assert_eq!(notes.take(), [r#"(2, "between")"#]);
    let explained = handle.explain(&(2, "between".to_owned())).to_string();
    assert!(explained.contains("1 event: pushes sent an event"), "{explained}");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_stream_ends_nothing_else() {
    let env = environment().await;
    let (manager, notes) = (manager(&env), Notes::done());
    Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .watches_raw_source(Requests::stream("three", stream::iter(["x", "y", "z"].map(key))))
        .complete(notes.clone())
        .unwrap();
    let running = Running::start(manager).await;
    settle().await;
    assert_eq!(notes.names(), ["x", "y", "z"]);
    client(&env).create(&widget("a", 1)).await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["x", "y", "z", "a"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn generic_events_come_through_a_channel_past_predicates() {
    let env = environment().await;
    let (manager, notes) = (manager(&env), Notes::done());
    let (sender, receiver) = mpsc::channel(8);
    let drift = Events::channel("drift", receiver, ForObject)
        .with_predicate(|event: &Event<Widget>| event.meta().name() != "ignored");
    let handle = Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .watches_raw_source(drift)
        .complete(notes.clone())
        .unwrap();
    let _running = Running::start(manager).await;
    for name in ["ignored", "a"] {
        sender.send(generic(name)).await.unwrap();
    }
    settle().await;
    assert_eq!(notes.names(), ["a"]);
    let explained = handle.explain(&key("a")).to_string();
    assert!(explained.contains("1 event: drift sent an event"), "{explained}");
}

/// Go's raw sources ignore `WithEventFilter`.
#[tokio::test(start_paused = true)]
async fn event_filters_apply_to_all_sources_and_all_must_pass() {
    let env = environment().await;
    let (manager, notes) = (manager(&env), Notes::done());
    let (sender, receiver) = mpsc::channel(8);
    Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .owns::<ConfigMap>()
        .watches_raw_source(Events::channel("drift", receiver, ForObject))
        .with_event_filter(|event: &controller_runtime::MetaEvent<'_>| event.latest().name() != "one")
        .with_event_filter(|event: &controller_runtime::MetaEvent<'_>| event.latest().name() != "two")
        .complete(notes.clone())
        .unwrap();
    let _running = Running::start(manager).await;
    for name in ["one", "two", "three"] {
        sender.send(generic(name)).await.unwrap();
    }
    let owner = client(&env).create(&widget("one", 1)).await.unwrap();
    for name in ["two", "four"] {
        let mut child = config_map(name);
        controller_runtime::set_controller_reference(&owner, &mut child).unwrap();
        client(&env).create(&child).await.unwrap();
    }
    settle().await;
    assert_eq!(notes.names(), ["three", "one"]);
}

/// In Go the second `WithPredicates` replaces the first.
#[tokio::test(start_paused = true)]
async fn several_predicates_must_all_pass() {
    let env = environment().await;
    let (manager, notes) = (manager(&env), Notes::done());
    Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .with_predicate(|event: &Event<Widget>| event.meta().name() != "one")
        .with_predicate(|event: &Event<Widget>| event.meta().name() != "two")
        .complete(notes.clone())
        .unwrap();
    let _running = Running::start(manager).await;
    for name in ["one", "two", "three"] {
        client(&env).create(&widget(name, 1)).await.unwrap();
    }
    settle().await;
    assert_eq!(notes.names(), ["three"]);
}

#[tokio::test(start_paused = true)]
async fn events_of_another_cluster_come_from_its_cache() {
    let (here, there) = (environment().await, environment().await);
    let (manager, far) = (manager(&here), manager(&there));
    let notes = NoteAll::<(&str, ObjectKey<Widget>)>::new();
    let of = |cluster: &'static str| {
        MapMeta(move |widget: &Meta| Some((cluster, ObjectKey::new(widget.namespace()?, widget.name()))))
    };
    let handle = Builder::managed_by(&manager)
        .for_requests("everywhere")
        .watches(Kind::<Widget, _>::new(of("here")))
        .watches(Kind::of(&far.cached::<Widget>(), of("there")).named("widgets there"))
        .complete(notes.clone())
        .unwrap();
    client(&there).create(&widget("same", 1)).await.unwrap();
    let running = Running::start(manager).await;
    client(&here).create(&widget("same", 1)).await.unwrap();
    settle().await;
    assert_eq!(notes.take(), Vec::<String>::new(), "nothing is reconciled before all sources are synced");
    let _far = Running::start(far).await;
    settle().await;
    let mut both = notes.take();
    both.sort();
    assert_eq!(both, [r#"("here", Widget default/same)"#, r#"("there", Widget default/same)"#]);
    client(&there).merge_patch(&key("same"), &json!({ "spec": { "size": 2 } })).await.unwrap();
    settle().await;
    assert_eq!(notes.take(), [r#"("there", Widget default/same)"#]);
    let explained = handle.explain(&("there", key("same"))).to_string();
    assert!(explained.contains("1 event: widgets there default/same updated"), "{explained}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_never_synced_ends_the_start_with_its_name() {
    struct Never;
    impl Source<ObjectKey<Widget>> for Never {
        fn name(&self) -> String {
            "never".to_owned()
        }
        async fn run(&self, _sink: Sink<ObjectKey<Widget>>) -> Result<(), BoxError> {
            std::future::pending().await
        }
        fn signals_synced(&self) -> bool {
            true
        }
        fn trouble(&self) -> Option<String> {
            Some("it is out of paper".to_owned())
        }
    }
    let env = environment().await;
    for (timeout, expected) in [(None, 120), (Some(7), 7)] {
        let manager = manager(&env);
        let options = timeout.map_or_else(ControllerOptions::default, |seconds| {
            ControllerOptions::default().cache_sync_timeout(Duration::from_secs(seconds))
        });
        let notes = Notes::done();
        Builder::managed_by(&manager)
            .for_kind::<Widget>()
            .watches_raw_source(Never)
            .with_options(options)
            .complete(notes.clone())
            .unwrap();
        let began = Instant::now();
        let error = Running::begin(manager).end().await.expect_err("it never is").to_string();
        assert_eq!(began.elapsed().as_secs(), expected);
        assert_eq!(
            error,
            format!("source never of controller widget is not synced after {expected} s: it is out of paper")
        );
        assert!(notes.names().is_empty());
    }
}

async fn end_of_a_manager_with(source: impl Source<ObjectKey<Widget>>) -> String {
    let env = environment().await;
    let manager = manager(&env);
    Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .watches_raw_source(source)
        .complete(Notes::done())
        .unwrap();
    format!("{:?}", Running::begin(manager).end().await.expect_err("the source fails"))
}

#[tokio::test(start_paused = true)]
async fn a_source_that_fails_ends_the_manager_and_is_named() {
    let fails = |_| async { Err::<(), BoxError>("no route to it".into()) };
    let text = end_of_a_manager_with(from_fn("broken", fails)).await;
    assert_eq!(text, "source broken of controller widget failed: no route to it");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_source_ends_the_manager_and_is_named() {
    let panics = |_| async { panic!("a bug") };
    let text = end_of_a_manager_with(from_fn("broken", panics)).await;
    assert!(text.starts_with("source broken of controller widget failed: it panicked: a bug, at "), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_added_waits_for_its_own_sources_alone() {
    let env = environment().await;
    client(&env).create(&widget("a", 1)).await.unwrap();
    let manager = manager(&env);
    let _running = Running::start(manager.clone()).await;
    let absent = controller_runtime::DynamicKind::namespaced("x.example.com", "v1", "Absent", "absents");
    let _never_synced = manager.cache().of_dynamic(&absent).build().unwrap();
    let notes = Notes::done();
    Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
    settle().await;
    assert_eq!(notes.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_kind_ends_a_controller_that_is_added_with_the_rule_to_add() {
    let env = environment().await;
    let refused = faulty(env.client(), |seen| {
        if seen.is_about("secrets") { Fault::Refuse(403, "Forbidden") } else { Fault::Pass }
    });
    let manager = Manager::new(refused, ManagerOptions::new("test"));
    let running = Running::start(manager.clone()).await;
    Builder::managed_by(&manager).for_kind::<Widget>().owns::<Secret>().complete(Notes::done()).unwrap();
    let began = Instant::now();
    let error = running.end().await.expect_err("it may not list secrets").to_string();
    assert!(error.starts_with("the operator has no permission to list and watch secrets: give"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10), "it does not wait for the timeout");
}
