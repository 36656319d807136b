//! Controllers with sources that run before the process leads.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{
    Action, BoxError, Builder, Client, Context, Manager, ManagerOptions, ObjectKey, ReconcileError,
    Reconciler, Source,
    controller::{self, ControllerOptions},
    leader_election::LeaderElectionOptions,
    source::{Requests, Sink},
};
use kube_envtest::Environment;
use tokio::time::sleep;

use crate::{
    faults::{Fault, faulty},
    support::{Notes, Running, Widget, environment, key, settle, widget},
};

const MINUTE: Duration = Duration::from_secs(60);

fn client(env: &Environment) -> Client {
    Client::new(env.client(), "test")
}

fn candidate(client: kube::Client, name: &str) -> Manager {
    let election = LeaderElectionOptions::new("the-lease").identity(name);
    let seed = name.len().try_into().unwrap();
    Manager::new(client, ManagerOptions::new("test").seed(seed).leader_election(election))
}

fn with_controller(
    manager: &Manager,
    warms_up: bool,
    reconciler: impl Reconciler<Request = ObjectKey<Widget>>,
) -> controller::ControllerHandle<ObjectKey<Widget>> {
    let options = ControllerOptions::default().enable_warmup(warms_up);
    Builder::managed_by(manager).for_kind::<Widget>().with_options(options).complete(reconciler).unwrap()
}

async fn elected(manager: &Manager) {
    manager.leads().wait_for(|leads| *leads).await.unwrap();
}

/// Returns the state of requests while another process leads, and the reconciles after it stops.
async fn standby(warms_up: bool) -> (String, Vec<String>) {
    let env = environment().await;
    client(&env).create(&widget("a", 1)).await.unwrap();
    let (leader, other) = (candidate(env.client(), "leader"), candidate(env.client(), "other"));
    let running = Running::start(leader.clone()).await;
    elected(&leader).await;
    let notes = Notes::done();
    let handle = with_controller(&other, warms_up, notes.clone());
    let _other = Running::start(other.clone()).await;
    sleep(MINUTE).await;
    assert!(notes.names().is_empty(), "it does not lead");
    let state = handle.explain(&key("a")).state.to_string();
    running.stop().await.unwrap();
    elected(&other).await;
    settle().await;
    (state.split(',').next().unwrap_or_default().to_owned(), notes.names())
}

#[tokio::test(start_paused = true)]
async fn the_queue_of_a_standby_that_warms_up_is_full_before_it_leads() {
    assert_eq!(standby(true).await, ("is queued for a worker".to_owned(), vec!["a".to_owned()]));
    assert_eq!(standby(false).await, ("waits for an event".to_owned(), vec!["a".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn the_queue_of_a_standby_loses_deleted_objects_but_not_recent_deletions() {
    let env = environment().await;
    let client = client(&env);
    client.create(&widget("stays", 1)).await.unwrap();
    let (leader, other) = (candidate(env.client(), "leader"), candidate(env.client(), "other"));
    let running = Running::start(leader.clone()).await;
    elected(&leader).await;
    let notes = Notes::done();
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let _handle = Builder::managed_by(&other)
        .for_kind::<Widget>()
        .watches_raw_source(Requests::channel("pushed", receiver))
        .with_options(ControllerOptions::default().enable_warmup(true))
        .complete(notes.clone())
        .unwrap();
    let _other = Running::start(other.clone()).await;
    let queued = || other.overview()[0].queued;
    sender.send(key("pushed")).await.unwrap();
    for number in 0..1500 {
        client.create(&widget(&format!("w{number}"), 1)).await.unwrap();
        client.delete(&widget(&format!("w{number}"), 1)).await.unwrap();
    }
    client.create(&widget("new", 1)).await.unwrap();
    sleep(MINUTE).await;
    assert!(queued() > 1500, "{}", queued());
    sleep(20 * MINUTE).await;
    assert_eq!(queued(), 3, "stays, new and pushed");

    client.create(&widget("short-lived", 1)).await.unwrap();
    client.delete(&widget("short-lived", 1)).await.unwrap();
    sleep(8 * MINUTE).await;
    running.stop().await.unwrap();
    elected(&other).await;
    settle().await;
    let mut names = notes.names();
    names.sort();
    assert_eq!(names, ["new", "pushed", "short-lived", "stays"]);
}

/// A reconciler with a first run of a minute.
struct SlowOnce(Notes, AtomicBool);

impl Reconciler for SlowOnce {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, key: &ObjectKey<Widget>, cx: &Context) -> Result<Action, ReconcileError> {
        let result = self.0.reconcile(key, cx).await;
        if !self.1.swap(true, SeqCst) {
            sleep(MINUTE).await;
        }
        result
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_dropped_with_its_leadership_runs_again_in_the_next() {
    for warms_up in [true, false] {
        let env = environment().await;
        let cut_off = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&cut_off);
        let flaky = faulty(env.client(), move |seen| match cut.load(SeqCst) && seen.is_about("leases") {
            true => Fault::Hang,
            false => Fault::Pass,
        });
        let (manager, notes) = (candidate(flaky, "one"), Notes::done());
        let handle = with_controller(&manager, warms_up, SlowOnce(notes.clone(), AtomicBool::new(false)));
        let _running = Running::start(manager.clone()).await;
        elected(&manager).await;
        client(&env).create(&widget("a", 1)).await.unwrap();
        settle().await;
        assert_eq!(notes.names(), ["a"]);
        cut_off.store(true, SeqCst);
        manager.leads().wait_for(|leads| !leads).await.unwrap();
        client(&env).create(&widget("b", 1)).await.unwrap();
        settle().await;
        assert_eq!(notes.names(), ["a"], "it does not lead");
        cut_off.store(false, SeqCst);
        elected(&manager).await;
        settle().await;
        let mut names = notes.names();
        names.sort();
        assert_eq!(names, ["a", "a", "b"], "warm-up: {warms_up}");
        handle.remove().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_warm_up_that_fails_ends_the_manager_before_it_stands_for_election() {
    struct Broken;
    impl Source<ObjectKey<Widget>> for Broken {
        fn name(&self) -> String {
            "broken".to_owned()
        }
        async fn run(&self, _: Sink<ObjectKey<Widget>>) -> Result<(), BoxError> {
            Err("no route to it".into())
        }
    }
    let env = environment().await;
    let manager = candidate(env.client(), "one");
    Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .watches_raw_source(Broken)
        .with_options(ControllerOptions::default().enable_warmup(true))
        .complete(Notes::done())
        .unwrap();
    let leads = manager.leads();
    let error = Running::begin(manager).end().await.unwrap_err();
    assert_eq!(format!("{error:?}"), "source broken of controller widget failed: no route to it");
    assert!(!*leads.borrow());
}
