//! A controller: events that lead to reconciles, and the reconciles.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Client, Context, Kind, MapFn, ObjectKey, ReconcileError, Reconciler,
    controller::ControllerOptions,
    is_controlled_by,
    predicate::GenerationChanged,
    set_controller_reference,
    source::{Sink, from_fn},
};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::{sync::Notify, time::Instant};

use crate::support::{
    Notes, Running, Slow, Widget, config_map, environment, key, manager, run, settle, widget,
};

fn client(env: &kube_envtest::Environment) -> Client {
    Client::new(env.client(), "test")
}

#[tokio::test(start_paused = true)]
async fn objects_that_exist_before_the_start_are_reconciled_in_key_order() {
    let env = environment().await;
    for name in ["c", "a", "b"] {
        client(&env).create(&widget(name, 1)).await.unwrap();
    }
    let notes = Notes::done();
    let _running = run(&env, notes.clone()).await;
    settle().await;
    assert_eq!(notes.names(), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn creates_changes_and_deletes_are_reconciled() {
    let env = environment().await;
    let notes = Notes::done();
    let _running = run(&env, notes.clone()).await;
    let created = client(&env).create(&widget("a", 1)).await.unwrap();
    settle().await;
    assert_eq!(notes.names().len(), 1);
    client(&env).merge_patch(&key("a"), &json!({ "spec": { "size": 2 } })).await.unwrap();
    settle().await;
    assert_eq!(notes.names().len(), 2);
    client(&env).delete(&created).any_version().await.unwrap();
    settle().await;
    assert_eq!(notes.names().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_an_owned_object_reconciles_its_owner() {
    let env = environment().await;
    let owner = client(&env).create(&widget("a", 1)).await.unwrap();
    let notes = Notes::done();
    let _running = run(&env, notes.clone()).await;
    settle().await;
    notes.clear();

    let mut child = config_map("child");
    set_controller_reference(&owner, &mut child).unwrap();
    let child = client(&env).create(&child).await.unwrap();
    client(&env).create(&config_map("stranger")).await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["a"]);
    client(&env).delete(&child).await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["a", "a"]);
}

/// A request is a name, as in Go, so the new owner of the name handles objects that the old one left (13 of `go_defects.rs`).
#[tokio::test(start_paused = true)]
async fn objects_of_a_deleted_owner_reconcile_its_successor() {
    let env = environment().await;
    let first = client(&env).create(&widget("a", 1)).await.unwrap();
    let mut child = config_map("child");
    child.metadata.finalizers = Some(vec!["example.com/held".to_owned()]);
    set_controller_reference(&first, &mut child).unwrap();
    client(&env).create(&child).await.unwrap();
    client(&env).delete(&first).await.unwrap();
    let second = client(&env).create(&widget("a", 1)).await.unwrap();
    let notes = Notes::done();
    let _running = run(&env, notes.clone()).await;
    settle().await;
    notes.clear();

    let left = client(&env).get(&ObjectKey::<ConfigMap>::new("default", "child")).await.unwrap().unwrap();
    assert!(left.metadata.deletion_timestamp.is_some() && !is_controlled_by(&left, &second));
    client(&env).remove_finalizer(&left, "example.com/held").await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["a"], "the name of the child is free now");
}

#[tokio::test(start_paused = true)]
async fn a_mapped_object_enqueues_its_old_and_its_new_requests() {
    let env = environment().await;
    let manager = manager(&env);
    let notes = Notes::done();
    let target = |map: &ConfigMap| {
        let target = map.metadata.labels.as_ref().and_then(|labels| labels.get("for").cloned());
        target.map(|name| key(&name))
    };
    Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .watches(Kind::new(MapFn(target)))
        .complete(notes.clone())
        .unwrap();
    let _running = Running::start(manager).await;
    let mut map = config_map("map");
    map.metadata.labels = Some([("for".to_owned(), "x".to_owned())].into());
    client(&env).create(&map).await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["x"]);
    let map_key = ObjectKey::<ConfigMap>::new("default", "map");
    client(&env).merge_patch(&map_key, &json!({ "metadata": { "labels": { "for": "y" } } })).await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["x", "x", "y"]);
}

#[tokio::test(start_paused = true)]
async fn events_that_a_predicate_drops_are_not_reconciled() {
    let env = environment().await;
    let manager = manager(&env);
    let notes = Notes::done();
    Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .with_predicate(GenerationChanged)
        .complete(notes.clone())
        .unwrap();
    let _running = Running::start(manager).await;
    client(&env).create(&widget("a", 1)).await.unwrap();
    settle().await;
    notes.clear();
    client(&env).merge_patch(&key("a"), &json!({ "metadata": { "labels": { "x": "y" } } })).await.unwrap();
    settle().await;
    assert!(notes.names().is_empty());
    client(&env).merge_patch(&key("a"), &json!({ "spec": { "size": 5 } })).await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_counts_as_a_failure_and_the_controller_continues() {
    let env = environment().await;
    let notes = Notes::new(|key, attempt| match (key.name(), attempt) {
        ("bad", 0..2) => panic!("a bug"),
        _ => Ok(Action::done()),
    });
    let _running = run(&env, notes.clone()).await;
    client(&env).create(&widget("bad", 1)).await.unwrap();
    client(&env).create(&widget("good", 1)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(notes.names(), ["bad", "good", "bad", "bad"]);
}

#[tokio::test(start_paused = true)]
async fn events_during_a_reconcile_run_it_once_more_and_never_twice_at_once() {
    let env = environment().await;
    let notes = Notes::done();
    let _running = run(&env, Slow { notes: notes.clone(), work: Duration::from_secs(1) }).await;
    client(&env).create(&widget("a", 0)).await.unwrap();
    settle().await;
    for size in 1..5 {
        client(&env).merge_patch(&key("a"), &json!({ "spec": { "size": size } })).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(notes.gaps(), [Duration::from_secs(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_beyond_its_timeout_is_dropped_and_retried() {
    let env = environment().await;
    let manager = manager(&env);
    let notes = Notes::done();
    let slow = Slow { notes: notes.clone(), work: Duration::from_secs(60) };
    let options = ControllerOptions::default().reconciliation_timeout(Duration::from_secs(1));
    Builder::managed_by(&manager).for_kind::<Widget>().with_options(options).complete(slow).unwrap();
    client(&env).create(&widget("a", 0)).await.unwrap();
    let _running = Running::start(manager).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(notes.gaps(), [1005, 1010].map(Duration::from_millis));
}

/// A reconciler that works for an hour, unless it is drained.
struct Long(Arc<AtomicUsize>);

impl Reconciler for Long {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, _: &ObjectKey<Widget>, cx: &Context) -> Result<Action, ReconcileError> {
        assert!(!cx.draining().is_cancelled(), "it would not have begun");
        tokio::select! {
            () = cx.draining().cancelled() => {
                self.0.fetch_add(1, SeqCst);
                // Work after the signal is completed if it fits the shutdown timeout.
                tokio::time::sleep(Duration::from_secs(7)).await;
                self.0.fetch_add(1, SeqCst);
            }
            () = tokio::time::sleep(Duration::from_secs(3600)) => {}
        }
        Ok(Action::done())
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_is_notified_of_the_stop_and_can_finish_early() {
    for fails in [false, true] {
        let env = environment().await;
        let (manager, steps, broken) =
            (manager(&env), Arc::<AtomicUsize>::default(), Arc::new(Notify::new()));
        let breaks = Arc::clone(&broken);
        let source = from_fn("breaks", move |_: Sink<ObjectKey<Widget>>| {
            let breaks = Arc::clone(&breaks);
            async move {
                breaks.notified().await;
                Err("no route to it".into())
            }
        });
        Builder::managed_by(&manager)
            .for_kind::<Widget>()
            .watches_raw_source(source)
            .complete(Long(Arc::clone(&steps)))
            .unwrap();
        let running = Running::start(manager).await;
        client(&env).create(&widget("a", 1)).await.unwrap();
        settle().await;
        let began = Instant::now();
        if fails {
            broken.notify_one();
            let error = running.end().await.unwrap_err();
            assert_eq!(error.to_string(), "source breaks of controller widget failed");
        } else {
            running.stop().await.unwrap();
        }
        assert_eq!((steps.load(SeqCst), began.elapsed().as_secs()), (2, 7), "fails: {fails}");
    }
}
