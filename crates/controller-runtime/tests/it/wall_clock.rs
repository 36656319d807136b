//! Timestamps in paused time, across restarts, and compared with those of the API server.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Client, Context, Manager, ManagerOptions, ObjectKey, ReconcileError, Reconciler,
    controller, leader_election::LeaderElectionOptions, manager::Epoch,
};
use k8s_openapi::{
    api::{coordination::v1::Lease, events::v1::Event},
    jiff::Timestamp,
};
use kube::{Api, api::ListParams};
use kube_envtest::Environment;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use tokio::time::sleep;

use crate::support::{Running, Widget, environment, key, manager, settle, widget};

const DAY: Duration = Duration::from_secs(86_400);

/// A reconciler that records the wall time of each of its runs.
#[derive(Clone, Default)]
struct Times(Arc<Mutex<Vec<Timestamp>>>);

impl Times {
    /// Returns the wall time of the only run since the last call.
    fn take_one(&self) -> Timestamp {
        let times = std::mem::take(&mut *self.0.lock().unwrap());
        let [time] = times[..] else { panic!("one run, not {times:?}") };
        time
    }
}

impl Reconciler for Times {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, _: &ObjectKey<Widget>, cx: &Context) -> Result<Action, ReconcileError> {
        self.0.lock().unwrap().push(cx.wall_time());
        Ok(Action::done())
    }
}

async fn run(manager: Manager, times: &Times) -> (Running, controller::ControllerHandle<ObjectKey<Widget>>) {
    let handle = Builder::managed_by(&manager).for_kind::<Widget>().complete(times.clone()).unwrap();
    (Running::start(manager).await, handle)
}

/// Returns the current time of the embedded server's clock, in nanoseconds.
fn server_time(env: &Environment) -> Timestamp {
    let faults = env.server().faults();
    faults.resume_clock();
    faults.journal().iter().next_back().unwrap().at
}

#[tokio::test(start_paused = true)]
async fn a_manager_started_after_a_virtual_day_shows_the_time_of_that_day() {
    let env = environment().await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let times = Times::default();
    let (running, _) = run(manager(&env), &times).await;
    settle().await;
    let first = times.take_one();
    running.stop().await.unwrap();

    sleep(DAY).await;
    let (_running, _) = run(manager(&env), &times).await;
    settle().await;
    assert_eq!(times.take_one().duration_since(first), DAY.try_into().unwrap());
}

#[tokio::test(start_paused = true)]
async fn server_manager_and_explain_show_one_time() {
    let env = environment().await;
    let times = Times::default();
    let (_running, handle) = run(manager(&env), &times).await;
    sleep(Duration::from_millis(1234)).await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    settle().await;
    let reconciled = times.take_one();
    assert_eq!(server_time(&env), reconciled);
    assert_eq!(handle.explain(&key("a")).runs[0].ended, reconciled);
}

fn new_year() -> Epoch {
    Epoch::starting_now("2026-01-01T00:00:00Z".parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn managers_with_one_epoch_agree_on_the_time() {
    let env = Environment::builder().epoch(new_year()).crd::<Widget>().start().await.unwrap();
    let client = Client::new(env.client(), "test");
    let created = client.create(&widget("a", 1)).await.unwrap();
    assert_eq!(created.metadata.creation_timestamp.unwrap().0.to_string(), "2026-01-01T00:00:00Z");

    sleep(DAY).await;
    let times = Times::default();
    for day in ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"] {
        let options = ManagerOptions::new("test").seed(1).epoch(env.epoch());
        let (running, _) = run(Manager::new(env.client(), options), &times).await;
        settle().await;
        let truncated = Timestamp::from_second(times.take_one().as_second()).unwrap();
        assert_eq!(truncated.to_string(), day);
        running.stop().await.unwrap();
        sleep(DAY).await;
    }
}

/// A reconciler that writes timestamps in every possible way: in a status, in events, and through the API server.
struct Writer(Client);

impl Reconciler for Writer {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, key: &ObjectKey<Widget>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(widget) = self.0.get(key).await? else { return Ok(Action::done()) };
        let time =
            json!({ "metadata": { "annotations": { "example.com/seen": cx.wall_time().to_string() } } });
        self.0.merge_patch(key, &time).await?;
        cx.events().normal(&widget, "Seen", "See", "it was seen");
        Ok(Action::requeue_after(Duration::from_millis(90_500)))
    }
}

/// Returns the objects of a kind as lines of JSON.
async fn dump<K>(client: kube::Client) -> String
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let objects = Api::<K>::all(client).list(&ListParams::default()).await.unwrap();
    let lines = objects.items.iter().map(|object| serde_json::to_string(object).unwrap() + "\n");
    lines.collect()
}

/// Returns all objects that an operator with a lease creates in ten minutes.
async fn ten_minutes() -> String {
    let env = Environment::builder().seed(7).epoch(new_year()).crd::<Widget>().start().await.unwrap();
    let election = LeaderElectionOptions::new("lease").namespace("default").identity("a");
    let options = ManagerOptions::new("test").seed(7).epoch(env.epoch()).leader_election(election);
    let manager = Manager::new(env.client(), options);
    Builder::managed_by(&manager).for_kind::<Widget>().complete(Writer(manager.client())).unwrap();
    let running = Running::start(manager).await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    sleep(Duration::from_secs(600)).await;
    running.stop().await.unwrap();
    let client = env.client();
    dump::<Widget>(client.clone()).await + &dump::<Lease>(client.clone()).await + &dump::<Event>(client).await
}

#[test]
fn runs_with_one_seed_and_epoch_write_identical_objects() {
    let run = || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().start_paused(true).build().unwrap().block_on(ten_minutes())
    };
    let first = run();
    let written = [
        "\"creationTimestamp\":\"2026-01-01T00:00:00Z\"",
        "\"renewTime\":\"2026-01-01T00:",
        "\"eventTime\":\"2026-01-01T00:",
    ];
    for timestamp in written {
        assert!(first.contains(timestamp), "{timestamp} is not in\n{first}");
    }
    assert_eq!(first, run());
}
