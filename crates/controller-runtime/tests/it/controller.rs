use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Client, Context, Kind, MapFn, ObjectKey, ReconcileError, Reconciler,
    controller::{ControllerOptions, DelayReason, RequestState},
    is_controlled_by,
    predicate::GenerationChanged,
    set_controller_reference,
    source::{Sink, from_fn},
    workqueue::ItemExponentialFailure,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_envtest::eventually;
use serde_json::json;
use tokio::{sync::Notify, time::Instant};

use crate::support::{
    Notes, Running, Widget, WidgetStatus, config_map, environment, key, manager, run, settle, widget,
};

const SOON: Duration = Duration::from_secs(5);

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

/// Go's handler does the same, although the list of its defects asks for a comparison of uids here.
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
async fn failures_are_retried_after_5_10_20_40_milliseconds_and_success_starts_over() {
    let env = environment().await;
    let notes =
        Notes::new(|_, attempt| if attempt < 6 { Err("not yet".into_error()) } else { Ok(Action::done()) });
    let _running = run(&env, notes.clone()).await;
    client(&env).create(&widget("a", 1)).await.unwrap();
    eventually(
        SOON,
        async || {
            if notes.names().len() == 7 { Ok(()) } else { Err(format!("{:?}", notes.names())) }
        },
    )
    .await
    .unwrap();
    let millis = |ms| Duration::from_millis(ms);
    assert_eq!(notes.gaps(), [5, 10, 20, 40, 80, 160].map(millis));

    notes.clear();
    client(&env).merge_patch(&key("a"), &json!({ "spec": { "size": 2 } })).await.unwrap();
    eventually(
        SOON,
        async || {
            if notes.names().len() == 7 { Ok(()) } else { Err(format!("{:?}", notes.names())) }
        },
    )
    .await
    .unwrap();
    assert_eq!(notes.gaps(), [5, 10, 20, 40, 80, 160].map(millis));
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_waits_for_the_next_event() {
    let env = environment().await;
    let notes = Notes::new(|_, _| Err(ReconcileError::terminal("hopeless")));
    let _running = run(&env, notes.clone()).await;
    client(&env).create(&widget("a", 1)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(notes.names(), ["a"]);
    client(&env).merge_patch(&key("a"), &json!({ "spec": { "size": 2 } })).await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["a", "a"]);
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

/// Returns a controller of Widgets that always fails with a back-off of 1000 s, after the first failure of an object.
async fn in_back_off(env: &kube_envtest::Environment) -> (Running, Notes) {
    let (manager, notes) = (manager(env), Notes::new(|_, _| Err(ReconcileError::new("no luck"))));
    let long = Duration::from_secs(1000);
    let limiter = ItemExponentialFailure::try_new(long, long).unwrap();
    let options = ControllerOptions::default().rate_limiter(limiter);
    Builder::managed_by(&manager).for_kind::<Widget>().with_options(options).complete(notes.clone()).unwrap();
    let running = Running::start(manager).await;
    client(env).create(&widget("a", 0)).await.unwrap();
    settle().await;
    assert_eq!(notes.names().len(), 1);
    notes.clear();
    (running, notes)
}

#[tokio::test(start_paused = true)]
async fn every_edit_of_the_spec_during_back_off_runs_at_once() {
    let env = environment().await;
    let (_running, notes) = in_back_off(&env).await;
    for size in 1..=3 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        client(&env).merge_patch(&key("a"), &json!({ "spec": { "size": size } })).await.unwrap();
        settle().await;
        assert_eq!(notes.names().len(), 1, "edit {size}");
        notes.clear();
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_and_a_new_object_of_the_name_during_back_off_run_at_once() {
    let env = environment().await;
    let (_running, notes) = in_back_off(&env).await;
    let held = json!({ "metadata": { "finalizers": ["example.com/held"] } });
    let ran = async || {
        settle().await;
        let ran = notes.names().len();
        notes.clear();
        ran
    };
    client(&env).merge_patch(&key("a"), &held).await.unwrap();
    assert_eq!(ran().await, 1, "the first event of a back-off");
    client(&env).merge_patch(&key("a"), &json!({ "metadata": { "labels": { "a": "b" } } })).await.unwrap();
    assert_eq!(ran().await, 0);
    let object = client(&env).get(&key("a")).await.unwrap().unwrap();
    client(&env).delete(&object).any_version().await.unwrap();
    assert_eq!(ran().await, 1, "it is being deleted");
    client(&env).merge_patch(&key("a"), &json!({ "metadata": { "finalizers": null } })).await.unwrap();
    assert_eq!(ran().await, 1, "it is gone");
    client(&env).create(&widget("a", 1)).await.unwrap();
    assert_eq!(ran().await, 1, "another object of the name");
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_status_updates_does_not_defeat_the_back_off() {
    let env = environment().await;
    let (_running, notes) = in_back_off(&env).await;
    for seen in 1..=600 {
        let mut changed = client(&env).get(&key("a")).await.unwrap().unwrap();
        changed.status = Some(WidgetStatus { seen });
        client(&env).update_status(&changed).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // One immediately, then one every 30 s.
    assert_eq!(notes.names().len(), 2);
}

/// Otherwise a failing reconciler that edits its own spec would run without pause.
#[tokio::test(start_paused = true)]
async fn a_storm_of_edits_of_the_spec_runs_ten_times_at_once_and_then_every_second() {
    let env = environment().await;
    let (_running, notes) = in_back_off(&env).await;
    for size in 1..=400 {
        client(&env).merge_patch(&key("a"), &json!({ "spec": { "size": size } })).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let runs = notes.names().len();
    assert!((28..=31).contains(&runs), "{runs} runs in 20 s");
}

#[tokio::test(start_paused = true)]
async fn requeue_after_runs_exactly_after_its_delay() {
    let env = environment().await;
    let notes = Notes::new(|_, _| Ok(Action::requeue_after(Duration::from_secs(30))));
    let _running = run(&env, notes.clone()).await;
    client(&env).create(&widget("a", 1)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(91)).await;
    assert_eq!(notes.gaps(), [Duration::from_secs(30); 3]);
}

/// A reconciler that sleeps, and records when each run began.
struct Slow {
    notes: Notes,
    work: Duration,
}

impl Reconciler for Slow {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, key: &ObjectKey<Widget>, cx: &Context) -> Result<Action, ReconcileError> {
        let result = self.notes.reconcile(key, cx).await;
        tokio::time::sleep(self.work).await;
        result
    }
}

/// Creates Widgets that wait for a worker, with names from `a` on.
async fn create_many(env: &kube_envtest::Environment, count: usize) {
    for name in ('a'..='z').take(count) {
        client(env).create(&widget(&name.to_string(), 1)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn sixteen_workers_by_default_and_as_many_as_asked_for() {
    for (workers, expected) in [(None, 16), (Some(1), 1), (Some(3), 3)] {
        let env = environment().await;
        create_many(&env, 20).await;
        let (manager, notes) = (manager(&env), Notes::done());
        let slow = Slow { notes: notes.clone(), work: Duration::from_secs(1) };
        let options = ControllerOptions::default();
        let options = match workers {
            Some(workers) => options.max_concurrent_reconciles(workers),
            None => options,
        };
        Builder::managed_by(&manager).for_kind::<Widget>().with_options(options).complete(slow).unwrap();
        let running = Running::start(manager).await;
        settle().await;
        assert_eq!(notes.names().len(), expected, "{workers:?}");
        running.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_number_of_workers_is_refused_at_build_and_while_running() {
    let env = environment().await;
    let manager = manager(&env);
    let build = |workers| {
        Builder::managed_by(&manager)
            .for_kind::<Widget>()
            .with_options(ControllerOptions::default().max_concurrent_reconciles(workers))
            .complete(Notes::done())
    };
    assert_eq!(
        build(0).unwrap_err().to_string(),
        "controller widget cannot have 0 workers (max_concurrent_reconciles of its options): use 1 to 10000"
    );
    let handle = build(2).unwrap();
    assert_eq!(
        handle.set_max_concurrent_reconciles(0).unwrap_err().to_string(),
        "controller widget cannot have 0 workers (set_max_concurrent_reconciles): use 1 to 10000"
    );
    assert_eq!(handle.max_concurrent_reconciles(), 2);
}

#[tokio::test(start_paused = true)]
async fn workers_are_added_and_retired_while_the_controller_runs() {
    let env = environment().await;
    create_many(&env, 20).await;
    let (manager, notes) = (manager(&env), Notes::done());
    let metrics = manager.metrics().clone();
    let slow = Slow { notes: notes.clone(), work: Duration::from_secs(10) };
    let options = ControllerOptions::default().max_concurrent_reconciles(2);
    let handle =
        Builder::managed_by(&manager).for_kind::<Widget>().with_options(options).complete(slow).unwrap();
    let running = Running::start(manager).await;
    let begun = async || {
        settle().await;
        let begun = notes.names().len();
        notes.clear();
        begun
    };
    assert_eq!(begun().await, 2);

    tokio::time::advance(Duration::from_secs(5)).await;
    handle.set_max_concurrent_reconciles(5).unwrap();
    assert_eq!(begun().await, 3, "the new workers begin at once");
    let gauge = "controller_runtime_max_concurrent_reconciles{controller=\"widget\"} 5\n";
    assert!(metrics.encode().contains(gauge));

    // Reduce, raise and reduce again before any of the five has ended.
    for workers in [1, 4, 1] {
        handle.set_max_concurrent_reconciles(workers).unwrap();
        assert_eq!(begun().await, 0, "running reconciles finish first");
    }
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(begun().await, 1, "all five have ended, and one worker is left");
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(begun().await, 1);

    handle.set_max_concurrent_reconciles(3).unwrap();
    assert_eq!(begun().await, 2, "numbers of retired workers are used again");
    running.stop().await.unwrap();
}

/// Idle workers wait for the queue and no event arrives, so that only the change can wake them.
#[tokio::test(start_paused = true)]
async fn idle_workers_retire_and_the_rest_process_later_requests() {
    let env = environment().await;
    let (manager, notes) = (manager(&env), Notes::done());
    let slow = Slow { notes: notes.clone(), work: Duration::from_secs(1) };
    let handle = Builder::managed_by(&manager).for_kind::<Widget>().complete(slow).unwrap();
    let _running = Running::start(manager).await;
    settle().await;
    handle.set_max_concurrent_reconciles(1).unwrap();
    settle().await;
    create_many(&env, 3).await;
    settle().await;
    assert_eq!(notes.names(), ["a"]);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(notes.names(), ["a", "b", "c"]);
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

/// A15: not a failure, but with the delays of one.
#[tokio::test(start_paused = true)]
async fn a_requeue_backs_off_like_a_failure_and_is_none() {
    let env = environment().await;
    let manager = manager(&env);
    let notes = Notes::new(|_, attempt| Ok(if attempt < 4 { Action::requeue() } else { Action::done() }));
    let controller = Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
    let _running = Running::start(manager.clone()).await;
    client(&env).create(&widget("a", 1)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(notes.gaps(), [5, 10, 20, 40].map(Duration::from_millis));
    assert_eq!((controller.failing(), controller.explain(&key("a")).attempt), (vec![], 0));
    let metrics = manager.metrics().encode();
    for (result, count) in [("requeue", 4), ("success", 1), ("error", 0), ("requeue_after", 0)] {
        let total = format!(
            "controller_runtime_reconcile_total{{controller=\"widget\",result=\"{result}\"}} {count}\n"
        );
        assert!(metrics.contains(&total), "{total} is not in {metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_retried_after_its_delay_and_counts_as_a_failure() {
    let env = environment().await;
    let manager = manager(&env);
    let minute = Duration::from_secs(60);
    let runs = AtomicUsize::new(0);
    let notes = Notes::new(move |_, _| match runs.fetch_add(1, SeqCst) {
        0 => Err("busy".into_error()),
        1 | 2 => Err(ReconcileError::retry_after("come back in a minute", minute)),
        _ => Err("busy".into_error()),
    });
    let controller = Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
    let _running = Running::start(manager.clone()).await;
    client(&env).create(&widget("a", 1)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(6)).await;
    let why = controller.explain(&key("a"));
    let RequestState::Waiting { rule, .. } = why.state else { panic!("{why}") };
    assert_eq!((rule, why.attempt, controller.failing()), (DelayReason::Delay, 1, vec![key("a")]));
    tokio::time::sleep(2 * minute + Duration::from_millis(5)).await;
    let back_off = Duration::from_millis(10);
    assert_eq!(notes.gaps()[..3], [Duration::from_millis(5), minute, minute]);
    assert_eq!(controller.explain(&key("a")).attempt, 2, "the back-off goes on where it was");
    tokio::time::sleep(back_off).await;
    assert_eq!(notes.gaps()[3], back_off);
    let metrics = manager.metrics().encode();
    let total = "controller_runtime_reconcile_total{controller=\"widget\",result=\"error\"} 5\n";
    assert!(metrics.contains(total), "{metrics}");
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

/// Converts a text into an error that is retried.
trait IntoError {
    fn into_error(self) -> ReconcileError;
}

impl IntoError for &str {
    fn into_error(self) -> ReconcileError {
        ReconcileError::new(self)
    }
}
