//! Causes and history of a reconcile, as it sees them and as `/explain` shows them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Client, Context, ObjectKey, ReconcileError, Reconciler,
    controller::{self, ControllerOptions, DelayReason},
    manager::ManagerError,
    set_controller_reference,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_envtest::Environment;
use serde_json::json;

use crate::support::{Notes, Running, Widget, config_map, environment, key, manager, settle, widget};

/// A reconciler that fails while `failing` is set, and records the information of each run about earlier runs.
#[derive(Clone, Default)]
struct Witness {
    runs: Arc<Mutex<Vec<String>>>,
    failing: Arc<Mutex<bool>>,
}

impl Reconciler for Witness {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, _: &ObjectKey<Widget>, cx: &Context) -> Result<Action, ReconcileError> {
        let last_error = cx.last_error().unwrap_or("none");
        self.runs.lock().unwrap().push(format!("{} ({}): {last_error}", cx.attempt(), cx.causes()));
        if *self.failing.lock().unwrap() { Err("no luck".into_error()) } else { Ok(Action::done()) }
    }
}

impl Witness {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.runs.lock().unwrap())
    }
}

/// Converts messages into errors.
trait IntoError {
    fn into_error(self) -> ReconcileError;
}

impl IntoError for &str {
    fn into_error(self) -> ReconcileError {
        ReconcileError::new(self)
    }
}

fn client(env: &Environment) -> Client {
    Client::new(env.client(), "test")
}

async fn run(
    env: &Environment,
    reconciler: impl Reconciler<Request = ObjectKey<Widget>>,
    options: ControllerOptions<ObjectKey<Widget>>,
) -> (Running, controller::ControllerHandle<ObjectKey<Widget>>) {
    let manager = manager(env);
    let controller = Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .owns::<ConfigMap>()
        .with_options(options)
        .complete(reconciler)
        .unwrap();
    (Running::start(manager).await, controller)
}

#[tokio::test(start_paused = true)]
async fn a_run_has_its_causes_and_the_previous_error() {
    let env = environment().await;
    let owner = client(&env).create(&widget("a", 1)).await.unwrap();
    let witness = Witness::default();
    let (_running, _) = run(&env, witness.clone(), ControllerOptions::default()).await;
    settle().await;
    assert_eq!(witness.take(), ["0 (initial list, resync or source): none"]);

    let mut child = config_map("child");
    set_controller_reference(&owner, &mut child).unwrap();
    client(&env).create(&child).await.unwrap();
    settle().await;
    assert_eq!(witness.take(), ["0 (1 event: configmaps default/child created): none"]);

    *witness.failing.lock().unwrap() = true;
    client(&env).merge_patch(&key("a"), &json!({ "spec": { "size": 2 } })).await.unwrap();
    tokio::time::sleep(Duration::from_millis(6)).await;
    assert_eq!(witness.take(), ["0 (1 event: widgets.example.com updated): none", "1 (a retry): no luck"]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_request_is_explained_with_its_runs_and_its_retry_rule() {
    let env = environment().await;
    let notes = Notes::new(|_, attempt| match attempt {
        0 => Err("no luck".into_error()),
        1 => panic!("a bug"),
        _ => Ok(Action::requeue_after(Duration::from_secs(60))),
    });
    let (_running, controller) = run(&env, notes, ControllerOptions::default()).await;
    assert_eq!(controller.explain(&key("a")).state, controller::RequestState::Idle);

    client(&env).create(&widget("a", 1)).await.unwrap();
    settle().await;
    let why = controller.explain(&key("a"));
    let controller::RequestState::Waiting { left, rule, .. } = why.state else { panic!("{why}") };
    assert_eq!((left, rule), (Duration::from_millis(5), DelayReason::RateLimiter));
    assert_eq!(why.attempt, 1);
    assert_eq!(controller.failing(), [key("a")]);
    let text = why.to_string();
    assert!(text.contains("Widget default/a of controller widget waits 5ms more"), "{text}");
    let failed = " failed: no luck (attempt 0, took under 1ms; 1 event: widgets.example.com created)\n";
    assert!(text.contains(failed), "{text}");

    tokio::time::sleep(Duration::from_millis(5)).await;
    settle().await;
    let why = controller.explain(&key("a"));
    let [panicked, failed] = &why.runs[..] else { panic!("{why}") };
    let controller::RunResult::Panicked(text) = &panicked.result else { panic!("{why}") };
    assert!(text.starts_with("a bug, at ") && text.contains("explain.rs:"), "{text}");
    assert_eq!(failed.result, controller::RunResult::Failed("no luck".to_owned()));

    tokio::time::sleep(Duration::from_millis(10)).await;
    settle().await;
    let why = controller.explain(&key("a"));
    let controller::RequestState::Waiting { left, rule, .. } = why.state else { panic!("{why}") };
    assert_eq!((left, rule), (Duration::from_secs(60), DelayReason::Delay));
    assert_eq!((why.attempt, why.runs.len()), (0, 3));
    assert_eq!(controller.failing(), []);
    let program = serde_json::to_value(&why).unwrap();
    assert_eq!(program["state"]["waiting"]["rule"], "delay");
    assert_eq!(program["runs"][2]["causes"]["first"][0]["change"], "created");
}

#[tokio::test(start_paused = true)]
async fn a_panic_that_is_not_to_be_recovered_ends_the_manager_with_the_name_of_the_controller() {
    let env = environment().await;
    let notes = Notes::new(|_, _| panic!("a bug"));
    let (running, _) = run(&env, notes, ControllerOptions::default().recover_panic(false)).await;
    client(&env).create(&widget("a", 1)).await.unwrap();
    let error: ManagerError = running.end().await.unwrap_err();
    assert_eq!(error.to_string(), "widget failed");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("a bug"), "{cause}");
}

#[tokio::test(start_paused = true)]
async fn an_unmanaged_controller_is_explained_until_it_is_dropped() {
    let env = environment().await;
    let manager = manager(&env);
    let fails = Notes::new(|_, _| Err("no luck".into_error()));
    let builder = |name| Builder::managed_by(&manager).for_kind::<Widget>().named(name);
    builder("managed").complete(Notes::done()).unwrap();
    let mut alone = builder("alone").complete_unmanaged(fails).unwrap();
    let _running = Running::start(manager.clone()).await;
    client(&env).create(&widget("a", 1)).await.unwrap();
    alone.run(settle()).await.unwrap();

    let names = || manager.overview().into_iter().map(|known| known.controller).collect::<Vec<_>>();
    assert_eq!(names(), ["alone", "managed"]);
    let why = manager.explain("alone", "default/a").unwrap();
    assert_eq!(why.runs[0].result, controller::RunResult::Failed("no luck".to_owned()));
    assert_eq!(manager.overview()[0].failing[0].error, "no luck");
    drop(alone);
    assert_eq!(names(), ["managed"]);
    let gone = manager.explain("alone", "default/a").unwrap_err().to_string();
    assert_eq!(gone, "there is no controller alone: the manager has managed");
}
