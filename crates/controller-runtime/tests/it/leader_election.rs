use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{
    BoxError, Builder, Client, Manager, ManagerOptions,
    leader_election::LeaderElectionOptions,
    manager::{RunContext, Runnable, Shutdown},
};
use k8s_openapi::api::{coordination::v1::Lease, events::v1::Event};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use kube_envtest::Environment;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    faults::{Fault, faulty, line},
    support::{Notes, Running, Widget, environment, settle, widget},
};

const SECOND: Duration = Duration::from_secs(1);

fn candidate(client: kube::Client, name: &str) -> Manager {
    let election = LeaderElectionOptions::new("the-lease").identity(name);
    let seed = name.len().try_into().unwrap();
    Manager::new(client, ManagerOptions::new("test").seed(seed).leader_election(election))
}

fn with_controller(client: kube::Client, name: &str) -> (Manager, Notes) {
    let (manager, notes) = (candidate(client, name), Notes::done());
    Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
    (manager, notes)
}

async fn lease(env: &Environment) -> (String, i32) {
    let lease = Api::<Lease>::default_namespaced(env.client()).get("the-lease").await.unwrap();
    let spec = lease.spec.unwrap();
    (spec.holder_identity.unwrap_or_default(), spec.lease_transitions.unwrap_or_default())
}

/// Waits until the manager leads, and returns how long that took.
async fn elected(manager: &Manager) -> Duration {
    let (began, mut leads) = (Instant::now(), manager.leads());
    leads.wait_for(|leads| *leads).await.unwrap();
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_the_other_stands_by_ready_with_warm_caches() {
    let env = environment().await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let ((one, ones), (other, others)) =
        (with_controller(env.client(), "one"), with_controller(env.client(), "other"));
    let cached = other.cached::<Widget>();
    let _one = Running::start(one.clone()).await;
    elected(&one).await;
    let _other = Running::start(other.clone()).await;
    sleep(60 * SECOND).await;
    assert_eq!((ones.names(), others.names()), (vec!["a".to_owned()], vec![]));
    assert_eq!(cached.len().unwrap(), 1, "a standby knows the present");
    assert_eq!((lease(&env).await, *other.leads().borrow()), (("one".to_owned(), 0), false));
    let metrics = one.metrics().encode();
    assert!(metrics.contains("leader_election_master_status{name=\"the-lease\"} 1"), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_changes_hands_at_once() {
    let env = environment().await;
    let (one, other) = (candidate(env.client(), "one"), candidate(env.client(), "other"));
    let running = Running::start(one.clone()).await;
    elected(&one).await;
    let _other = Running::start(other.clone()).await;
    sleep(5 * SECOND).await;
    let stopping = Instant::now();
    running.stop().await.unwrap();
    elected(&other).await;
    assert_eq!(stopping.elapsed(), Duration::ZERO, "the watch shows it");
    assert_eq!(lease(&env).await, ("other".to_owned(), 1));
    settle().await;
    let events: Vec<_> =
        Api::<Event>::default_namespaced(env.client()).list(&Default::default()).await.unwrap().items;
    let notes: Vec<_> = events.into_iter().filter_map(|event| event.note).collect();
    for note in ["one became leader", "one stopped leading", "other became leader"] {
        assert!(notes.iter().any(|known| known == note), "{note} is not among {notes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_dies_is_replaced_after_the_lease_duration() {
    let env = environment().await;
    let (one, other) = (candidate(env.client(), "one"), candidate(env.client(), "other"));
    let running = Running::start(one.clone()).await;
    elected(&one).await;
    let _other = Running::start(other.clone()).await;
    sleep(60 * SECOND).await; // 30 renewals; the last one is now
    drop(running);
    let took = elected(&other).await;
    assert!(took >= 13 * SECOND && took <= 15 * SECOND, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_before_the_other_starts_and_becomes_a_standby() {
    let env = environment().await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let cut_off = Arc::new(AtomicBool::new(false));
    let cut = Arc::clone(&cut_off);
    let flaky = faulty(env.client(), move |seen| match cut.load(SeqCst) && seen.is_about("leases") {
        true => Fault::Hang,
        false => Fault::Pass,
    });
    let ((one, ones), (other, others)) =
        (with_controller(flaky, "one"), with_controller(env.client(), "other"));
    let _one = Running::start(one.clone()).await;
    elected(&one).await;
    let _other = Running::start(other.clone()).await;
    settle().await;
    assert_eq!((ones.names().len(), others.names().len()), (1, 0));

    cut_off.store(true, SeqCst);
    let began = Instant::now();
    one.leads().wait_for(|leads| !leads).await.unwrap();
    assert!(began.elapsed() <= 10 * SECOND, "the renew deadline counts from the start of the last renewal");
    elected(&other).await;
    assert!(began.elapsed() >= 13 * SECOND, "the lease duration counts from when the last renewal was seen");
    settle().await;
    assert_eq!((ones.names().len(), others.names().len()), (1, 1), "a new leader reconciles everything");

    cut_off.store(false, SeqCst);
    sleep(60 * SECOND).await;
    assert_eq!(lease(&env).await, ("other".to_owned(), 1));
    Client::new(env.client(), "test").create(&widget("b", 1)).await.unwrap();
    settle().await;
    assert_eq!((ones.names().len(), others.names().len()), (1, 2), "it did not exit, and does nothing");

    drop(_other);
    elected(&one).await;
    settle().await;
    assert_eq!(ones.names().len(), 3, "elected again, it reconciles everything again");
}

/// Records its start and end. Ends `lag` after the manager stops it.
struct Term {
    notes: Arc<Mutex<Vec<String>>>,
    lag: Duration,
}

impl Runnable for Term {
    async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
        self.notes.lock().unwrap().push(format!("term {:?}", cx.fencing_token()));
        cx.shutdown().await;
        sleep(self.lag).await;
        self.notes.lock().unwrap().push("done".to_owned());
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_event_of_the_lease_does_not_undo_a_change_of_its_labels() {
    let env = environment().await;
    let late = Arc::new(Mutex::new(None::<String>));
    let event = Arc::clone(&late);
    // The first watch fails, so that the next one begins a lease duration later, with the event.
    let flaky = faulty(env.client(), move |seen| {
        if !(seen.is_watch() && seen.is_about("leases")) {
            return Fault::Pass;
        }
        match event.lock().unwrap().take() {
            Some(line) => Fault::Open(vec![line]),
            None => Fault::Refuse(500, "InternalError"),
        }
    });
    let manager = candidate(flaky, "one");
    let _running = Running::start(manager.clone()).await;
    elected(&manager).await;
    settle().await;
    let leases = Api::<Lease>::default_namespaced(env.client());
    let old = leases.get("the-lease").await.unwrap();
    *late.lock().unwrap() = Some(line("MODIFIED", &serde_json::to_value(&old).unwrap()));
    sleep(5 * SECOND).await;
    let labels = json!({ "metadata": { "labels": { "team": "shop" } } });
    leases.patch("the-lease", &PatchParams::default(), &Patch::Merge(&labels)).await.unwrap();
    assert!(late.lock().unwrap().is_some(), "the event comes after the change of the labels");
    sleep(20 * SECOND).await;
    assert!(late.lock().unwrap().is_none(), "the watch has begun again");
    let labels = leases.get("the-lease").await.unwrap().metadata.labels.unwrap_or_default();
    assert_eq!(labels.get("team").map(String::as_str), Some("shop"));
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_kept_until_the_last_reconcile_has_ended() {
    let env = environment().await;
    let (manager, notes) = (candidate(env.client(), "one"), Arc::<Mutex<Vec<_>>>::default());
    manager.add(Term { notes: Arc::clone(&notes), lag: 20 * SECOND }).unwrap();
    let running = Running::start(manager.clone()).await;
    elected(&manager).await;
    settle().await;
    let (stopped, holder) = tokio::join!(running.stop(), async {
        sleep(19 * SECOND).await;
        lease(&env).await.0
    });
    stopped.unwrap();
    assert_eq!((holder.as_str(), lease(&env).await.0.as_str()), ("one", ""));
    assert_eq!(*notes.lock().unwrap(), ["term Some(0)", "done"]);
}

/// Ignores the request to stop.
struct Deaf;

impl Runnable for Deaf {
    fn name(&self) -> String {
        "deaf".to_owned()
    }

    async fn start(&self, _: RunContext) -> Result<(), BoxError> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn unfinished_reconciles_are_dropped_before_the_lease_is_released() {
    let env = environment().await;
    let election = LeaderElectionOptions::new("the-lease").identity("one");
    let options = ManagerOptions::new("test").leader_election(election);
    let manager = Manager::new(env.client(), options.graceful_shutdown_timeout(Shutdown::Within(3 * SECOND)));
    manager.add(Deaf).unwrap();
    let running = Running::start(manager.clone()).await;
    elected(&manager).await;
    let error = running.stop().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the manager's shutdown timeout of 3 s has passed; these reconciles and runnables were still running and have been dropped: deaf"
    );
    assert_eq!(lease(&env).await.0, "");
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_stops_leaves_the_lease_alone() {
    let env = environment().await;
    let (one, other) = (candidate(env.client(), "one"), candidate(env.client(), "other"));
    let _one = Running::start(one.clone()).await;
    elected(&one).await;
    let other = Running::start(other).await;
    sleep(5 * SECOND).await;
    other.stop().await.unwrap();
    assert_eq!(lease(&env).await, ("one".to_owned(), 0));
}

#[tokio::test(start_paused = true)]
async fn runnables_without_election_run_on_every_candidate() {
    struct Everywhere(Arc<Mutex<Vec<String>>>);
    impl Runnable for Everywhere {
        async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
            self.0.lock().unwrap().push(format!("{:?}", cx.fencing_token()));
            cx.shutdown().await;
            Ok(())
        }
        fn needs_leader_election(&self) -> bool {
            false
        }
    }
    let (env, notes) = (environment().await, Arc::<Mutex<Vec<_>>>::default());
    let (one, other) = (candidate(env.client(), "one"), candidate(env.client(), "other"));
    for manager in [&one, &other] {
        manager.add(Everywhere(Arc::clone(&notes))).unwrap();
    }
    let (_one, _other) = (Running::start(one).await, Running::start(other).await);
    settle().await;
    assert_eq!(*notes.lock().unwrap(), ["None", "None"]);
}

#[tokio::test(start_paused = true)]
async fn writes_pass_only_while_the_process_leads() {
    let env = environment().await;
    let (one, other) = (candidate(env.client(), "one"), candidate(env.client(), "other"));
    let error = one.client().create(&widget("early", 1)).await.unwrap_err();
    assert!(
        error.to_string().contains("not sent: this process does not hold the lease the-lease"),
        "{error}"
    );
    let running = Running::start(one.clone()).await;
    elected(&one).await;
    one.client().create(&widget("a", 1)).await.unwrap();
    let _other = Running::start(other.clone()).await;
    other.client().create(&widget("b", 1)).await.unwrap_err();
    other.ungated_client().create(&widget("c", 1)).await.unwrap();
    running.stop().await.unwrap();
    one.client().create(&widget("late", 1)).await.unwrap_err();
    assert!(one.metrics().encode().contains("rest_client_requests_total{code=\"201\",method=\"POST\""));
}

#[tokio::test(start_paused = true)]
async fn a_write_in_flight_is_cut_when_the_permit_ends() {
    let env = environment().await;
    let cut_off = Arc::new(AtomicBool::new(false));
    let cut = Arc::clone(&cut_off);
    let flaky = faulty(env.client(), move |_| if cut.load(SeqCst) { Fault::Hang } else { Fault::Pass });
    let manager = candidate(flaky, "one");
    let _running = Running::start(manager.clone()).await;
    elected(&manager).await;
    cut_off.store(true, SeqCst);
    let began = Instant::now();
    let error = manager.client().create(&widget("a", 1)).await.unwrap_err();
    assert_eq!(began.elapsed(), 10 * SECOND, "the lease was renewed at this very moment");
    assert!(error.to_string().contains("this process does not hold the lease the-lease"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_process_stands_for_election_when_it_is_warm() {
    struct Warm;
    impl Runnable for Warm {
        async fn start(&self, _: RunContext) -> Result<(), BoxError> {
            sleep(7 * SECOND).await;
            Ok(())
        }
    }
    let env = environment().await;
    let manager = candidate(env.client(), "one");
    manager.add_warm_up(Warm).unwrap();
    let _running = Running::begin(manager.clone());
    assert_eq!(elected(&manager).await, 7 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_leader_no_longer_reports_leadership() {
    let env = environment().await;
    let manager = candidate(env.client(), "one");
    let running = Running::start(manager.clone()).await;
    elected(&manager).await;
    let status = |value| format!("leader_election_master_status{{name=\"the-lease\"}} {value}\n");
    assert!(manager.metrics().encode().contains(&status(1)));
    drop(running);
    settle().await;
    assert!(manager.metrics().encode().contains(&status(0)));
    assert!(!*manager.leads().borrow());
    manager
        .client()
        .create(&widget("a", 1))
        .await
        .expect_err("it does not lead, although the lease is its own");
}

#[tokio::test(start_paused = true)]
async fn candidates_of_one_seed_need_identities_because_all_of_them_would_lead() {
    let env = environment().await;
    let election = LeaderElectionOptions::new("the-lease");
    let manager =
        |election| Manager::new(env.client(), ManagerOptions::new("test").seed(1).leader_election(election));
    let error = manager(election.clone()).run(std::future::pending()).await.unwrap_err();
    let expected = "the candidate for the lease the-lease has a seed but no identity: give each candidate its own with \
                    LeaderElectionOptions::identity";
    assert_eq!(error.to_string(), expected);
    let _runs = Running::start(manager(election.identity("one"))).await;
}

#[tokio::test(start_paused = true)]
async fn deletions_without_a_leader_are_reconciled_by_the_next_leader() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let mut made = Vec::new();
    for name in ["before", "between", "stays"] {
        made.push(client.create(&widget(name, 1)).await.unwrap());
    }
    let ((one, _), (other, others)) =
        (with_controller(env.client(), "one"), with_controller(env.client(), "other"));
    let running = Running::start(one.clone()).await;
    elected(&one).await;
    let _other = Running::start(other.clone()).await;
    settle().await;
    client.delete(&made[0]).await.unwrap();
    // The next leader must not receive deletions that this one has handled.
    sleep(601 * SECOND).await;
    drop(running);
    client.delete(&made[1]).await.unwrap();
    elected(&other).await;
    settle().await;
    let mut names = others.names();
    names.sort();
    assert_eq!(names, ["between", "stays"]);
}

#[tokio::test(start_paused = true)]
async fn the_deletion_of_a_recreated_object_precedes_its_creation_for_a_new_leader() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let old = client.create(&widget("a", 1)).await.unwrap();
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&recorded);
    let note = move |event: &controller_runtime::Event<Widget>| {
        let uid = event.meta().uid().map(ToString::to_string);
        let gone = matches!(event, controller_runtime::Event::Delete { .. });
        noted.lock().unwrap().push((gone, uid));
        true
    };
    let (one, other) = (candidate(env.client(), "one"), candidate(env.client(), "other"));
    let notes = Notes::done();
    Builder::managed_by(&other).for_kind::<Widget>().with_predicate(note).complete(notes.clone()).unwrap();
    let running = Running::start(one.clone()).await;
    elected(&one).await;
    let _other = Running::start(other.clone()).await;
    settle().await;
    client.delete(&old).await.unwrap();
    let new = client.create(&widget("a", 2)).await.unwrap();
    settle().await;
    drop(running);
    elected(&other).await;
    settle().await;
    assert_eq!(*recorded.lock().unwrap(), [(true, old.metadata.uid), (false, new.metadata.uid)]);
    assert_eq!(notes.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn without_election_no_deletions_are_replayed() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let made = client.create(&widget("a", 1)).await.unwrap();
    let manager = Manager::new(env.client(), ManagerOptions::new("test"));
    let _widgets = manager.cached::<Widget>();
    let _running = Running::start(manager.clone()).await;
    client.delete(&made).await.unwrap();
    settle().await;
    let notes = Notes::done();
    Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
    settle().await;
    assert_eq!(notes.names(), Vec::<String>::new());
}
