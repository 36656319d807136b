//! Retries and delays: back-off, events that cut it short, and requeues.

use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Client, ReconcileError,
    controller::{ControllerOptions, DelayReason, RequestState},
    workqueue::ItemExponentialFailure,
};
use kube_envtest::eventually;
use serde_json::json;

use crate::support::{Notes, Running, Widget, WidgetStatus, environment, key, manager, run, settle, widget};

const SOON: Duration = Duration::from_secs(5);

fn client(env: &kube_envtest::Environment) -> Client {
    Client::new(env.client(), "test")
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

/// It is no failure, but has the delays of one (A15 of `go_defects.rs`).
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

/// Converts a text into an error that is retried.
trait IntoError {
    fn into_error(self) -> ReconcileError;
}

impl IntoError for &str {
    fn into_error(self) -> ReconcileError {
        ReconcileError::new(self)
    }
}
