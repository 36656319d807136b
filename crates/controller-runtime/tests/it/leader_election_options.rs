//! Effects of the options of an election, and of the election options of controllers.

use std::{sync::Mutex, time::Duration};

use controller_runtime::{
    Action, Builder, Client, Context, Manager, ManagerOptions, ObjectKey,
    controller::{Config, ControllerOptions},
    leader_election::LeaderElectionOptions,
    reconcile,
};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Namespace};
use kube::Api;
use kube_envtest::Environment;
use serde_json::json;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};

use crate::support::{Notes, Running, Widget, environment, key, settle, widget};

const SECOND: Duration = Duration::from_secs(1);

fn election(identity: &str) -> LeaderElectionOptions {
    LeaderElectionOptions::new("the-lease").identity(identity)
}

fn candidate(env: &Environment, election: LeaderElectionOptions, seed: u64) -> Manager {
    Manager::new(env.client(), ManagerOptions::new("test").seed(seed).leader_election(election))
}

/// Runs the manager until it leads, and continues to run it.
async fn leading(manager: &Manager) -> Running {
    let running = Running::start(manager.clone()).await;
    manager.leads().wait_for(|leads| *leads).await.unwrap();
    running
}

async fn holder(leases: &Api<Lease>) -> Option<String> {
    leases.get("the-lease").await.unwrap().spec.unwrap().holder_identity
}

#[tokio::test(start_paused = true)]
async fn the_lease_has_the_chosen_namespace_and_labels() {
    let env = environment().await;
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("elsewhere".to_owned());
    Client::new(env.client(), "test").create(&namespace).await.unwrap();
    let one = election("one").namespace("elsewhere").label("team", "blue").label("tier", "1");
    let one = candidate(&env, one, 1);
    let running = leading(&one).await;
    let leases: Api<Lease> = Api::namespaced(env.client(), "elsewhere");
    let labels = |lease: Lease| serde_json::to_value(lease.metadata.labels).unwrap();
    assert_eq!(labels(leases.get("the-lease").await.unwrap()), json!({ "team": "blue", "tier": "1" }));
    let at_home: Api<Lease> = Api::default_namespaced(env.client());
    assert!(at_home.get_opt("the-lease").await.unwrap().is_none());
    running.stop().await.unwrap();

    let other = candidate(&env, election("other").namespace("elsewhere").label("team", "red"), 2);
    let _running = leading(&other).await;
    assert_eq!(holder(&leases).await.as_deref(), Some("other"));
    assert_eq!(labels(leases.get("the-lease").await.unwrap()), json!({ "team": "blue", "tier": "1" }));
}

#[tokio::test(start_paused = true)]
async fn without_release_the_lease_is_kept_until_it_expires() {
    let env = environment().await;
    let one = candidate(&env, election("one").release_on_cancel(false), 1);
    let running = leading(&one).await;
    let other = candidate(&env, election("other"), 2);
    let _other = Running::start(other.clone()).await;
    sleep(60 * SECOND).await;
    running.stop().await.unwrap();
    let leases: Api<Lease> = Api::default_namespaced(env.client());
    assert_eq!(holder(&leases).await.as_deref(), Some("one"));
    let stopped = Instant::now();
    other.leads().wait_for(|leads| *leads).await.unwrap();
    let took = stopped.elapsed();
    assert!(
        (12 * SECOND..=15 * SECOND).contains(&took),
        "{took:?} after a renewal of two seconds ago at most"
    );
}

#[tokio::test(start_paused = true)]
async fn a_controller_without_election_reconciles_on_a_standby() {
    let env = environment().await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let leader = candidate(&env, election("leader"), 1);
    let _leader = leading(&leader).await;

    let everywhere = Config::default().needs_leader_election(false);
    let options =
        ManagerOptions::new("test").seed(2).leader_election(election("standby")).controller(everywhere);
    let by_manager = Manager::new(env.client(), options);
    let by_itself = candidate(&env, election("other standby"), 3);
    let add = |manager: &Manager, name: &str, options: ControllerOptions<_>| {
        let notes = Notes::done();
        let builder = Builder::managed_by(manager).for_kind::<Widget>().named(name);
        builder.with_options(options).complete(notes.clone()).unwrap();
        notes
    };
    let says = |needs| ControllerOptions::default().needs_leader_election(needs);
    let (silent, needs) =
        (add(&by_manager, "silent", ControllerOptions::default()), add(&by_manager, "needs", says(true)));
    let (needs_not, default) =
        (add(&by_itself, "needs-not", says(false)), add(&by_itself, "default", ControllerOptions::default()));
    let (_one, _other) = (Running::start(by_manager.clone()).await, Running::start(by_itself.clone()).await);
    settle().await;
    assert_eq!((silent.names().len(), needs.names().len()), (1, 0));
    assert_eq!((needs_not.names().len(), default.names().len()), (1, 0));
    assert!(!*by_manager.leads().borrow() && !*by_itself.leads().borrow());
}

/// Clients, and the outcomes of their writes.
type Used = ([Client; 2], Mutex<mpsc::UnboundedSender<Result<(), String>>>);

#[tokio::test(start_paused = true)]
async fn a_client_that_needs_the_lease_is_refused_in_a_controller_without_election_on_the_leader_too() {
    let env = environment().await;
    let leader = candidate(&env, election("leader"), 1);
    let (sender, mut seen) = mpsc::unbounded_channel();
    let clients = [leader.client(), leader.ungated_client()];
    let writes = async |(clients, seen): &Used, key: &ObjectKey<Widget>, _: &Context| {
        for client in clients {
            let patched = client.merge_patch(key, &json!({ "spec": { "size": 2 } })).await;
            seen.lock().unwrap().send(patched.map(drop).map_err(|error| error.to_string())).unwrap();
        }
        Ok(Action::done())
    };
    let reconciler = reconcile::from_fn_with((clients, Mutex::new(sender)), writes);
    let options = ControllerOptions::default().needs_leader_election(false);
    let builder = Builder::managed_by(&leader).for_kind::<Widget>().named("everywhere");
    builder.with_options(options).complete(reconciler).unwrap();
    let _leader = leading(&leader).await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let message = "patch widgets.example.com default/a: not sent: controller everywhere runs without leader election, and this \
                client writes only with the lease the-lease: use the client of the reconcile's context (`cx.client()`), or \
                `Manager::ungated_client`";
    assert_eq!(seen.recv().await.unwrap(), Err(message.to_owned()));
    assert_eq!(seen.recv().await.unwrap(), Ok(()));
    // Outside of the manager's runnables it works.
    leader.client().merge_patch(&key("a"), &json!({ "spec": { "size": 3 } })).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_client_of_a_context_writes_on_a_standby_only_where_the_controller_needs_no_leader() {
    let env = environment().await;
    let leader = candidate(&env, election("leader"), 1);
    let _leader = leading(&leader).await;
    let standby = candidate(&env, election("standby"), 2);
    let _standby = Running::start(standby.clone()).await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    for (needs, written) in [(true, Err("does not hold the lease")), (false, Ok(()))] {
        let writes = async |seen: &Mutex<mpsc::UnboundedSender<_>>, key: &ObjectKey<Widget>, cx: &Context| {
            let patched = cx.client().merge_patch(key, &json!({ "spec": { "size": 2 } })).await;
            seen.lock().unwrap().send(patched.map(drop).map_err(|error| error.to_string())).unwrap();
            Ok(Action::done())
        };
        let (sender, mut seen) = mpsc::unbounded_channel();
        // An unmanaged controller runs regardless of the leader.
        let mut controller = Builder::managed_by(&standby)
            .for_kind::<Widget>()
            .with_options(ControllerOptions::default().needs_leader_election(needs))
            .complete_unmanaged(reconcile::from_fn_with(Mutex::new(sender), writes))
            .unwrap();
        controller.run(settle()).await.unwrap();
        match (seen.recv().await.unwrap(), written) {
            (Err(refused), Err(reason)) => assert!(refused.contains(reason), "{refused}"),
            (is, should) => {
                assert_eq!(is.is_ok(), should.is_ok(), "{is:?}, where a leader is needed: {needs}");
            }
        }
    }
    assert!(!*standby.leads().borrow());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_of_a_changed_lease_takes_the_counted_slow_path() {
    let env = environment().await;
    let manager = candidate(&env, election("one"), 1);
    let _running = leading(&manager).await;
    let slow_paths = || {
        let text = manager.metrics().encode();
        let sample = "leader_election_slowpath_total{name=\"the-lease\"} ";
        text.lines().find_map(|line| line.strip_prefix(sample)).expect("it is there").to_owned()
    };
    sleep(10 * SECOND).await;
    assert_eq!(slow_paths(), "0");
    let client = Client::new(env.client(), "test");
    let key = ObjectKey::<Lease>::new("default", "the-lease");
    for times in ["1", "2"] {
        client.merge_patch(&key, &json!({ "metadata": { "labels": { "seen": times } } })).await.unwrap();
        sleep(10 * SECOND).await;
        assert_eq!(slow_paths(), times);
    }
    assert!(*manager.leads().borrow());
}
