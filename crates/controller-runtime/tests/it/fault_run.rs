//! Half an hour of every fault of an API server, followed by quiet. Every object converges, none is reconciled twice at
//! once, and nothing is left over: no task, no request in the queue or its history, no object in a cache.
//!
//! Time is paused, and a seed decides the faults. `just fault-run` runs it at full size with a given number of seeds.
//! Two smaller runs are separate processes: one counts heap memory, the one [over TCP](over_tcp) counts sockets.

mod over_tcp;

use std::{
    collections::BTreeSet,
    env,
    fmt::Write as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Cached, Client, Context, Manager, ManagerOptions, ObjectKey, ReconcileError, Reconciler,
    cache::{CacheOptions, Retain},
    controller::{ControllerHandle, ControllerOptions, RequestState},
    set_controller_reference,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt, api::ListParams};
use kube_apiserver_embedded::{
    self as apiserver, Profile,
    faults::{Action as Fault, Failure, Faults, Rule, Verb, WatchFault, When},
};
use kube_envtest::Environment;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    ALLOCATOR,
    support::{Running, Widget, WidgetStatus, alone, config_map, key, settle, widget},
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// User name of the manager's writes.
const OPERATOR: &str = "fault-run";

/// Size of a run.
struct Size {
    objects: usize,
    lasts: Duration,
    /// Mean time between two changes by the user.
    pause: Duration,
    /// Storage of objects in caches.
    retain: Retain,
}

#[tokio::test(start_paused = true)]
async fn after_half_an_hour_of_faults_everything_converges_and_nothing_is_left_over() {
    let seeds = env::var("FAULT_RUN_SEEDS").ok().map(|seeds| seeds.parse().expect("a number of seeds"));
    let retain = Retain::default();
    let size = match seeds {
        None => Size { objects: 60, lasts: 30 * MINUTE, pause: 3 * SECOND, retain },
        Some(_) => Size { objects: 1000, lasts: 30 * MINUTE, pause: SECOND / 2, retain },
    };
    for seed in 1..=seeds.unwrap_or(1) {
        let Story { text, held } = play(seed, &size).await;
        println!("seed {seed}: {text}, {} KiB on the heap", held / 1024);
    }
}

/// A leak that grows with the number of changes shows after enough of them. The history of a request has 32 runs, fewer
/// than the short run makes, so it is full. Nothing is compressed, because compression depends on the times of reads.
#[test]
fn a_manager_holds_no_more_after_a_long_storm_than_after_a_short_one() {
    alone("fault_run::a_manager_holds_no_more_after_a_long_storm_than_after_a_short_one", async || {
        let held = async |lasts| {
            let size = Size { objects: 8, lasts, pause: 2 * SECOND, retain: Retain::Decoded };
            let Story { text, held } = play(1, &size).await;
            println!("{lasts:?}: {text}, {held} bytes");
            held
        };
        let (short, long) = (held(15 * MINUTE).await, held(60 * MINUTE).await);
        assert!(short > 64 << 10, "{short} bytes: something else was counted");
        assert!(long < short + (32 << 10), "{short} bytes after the short storm, {long} after the long one");
    });
}

/// A reconciler that writes the spec of a Widget to its ConfigMap and its status.
struct Copies {
    client: Client,
    widgets: Cached<Widget>,
    in_work: Arc<Mutex<InWork>>,
}

#[derive(Default)]
struct InWork {
    now: BTreeSet<ObjectKey<Widget>>,
    at_most: usize,
    runs: u64,
    twice: Vec<String>,
}

/// Marks a request as running until dropped, however the reconcile ends.
struct Entered {
    key: ObjectKey<Widget>,
    in_work: Arc<Mutex<InWork>>,
}

impl Entered {
    fn new(key: &ObjectKey<Widget>, in_work: &Arc<Mutex<InWork>>) -> Self {
        let mut state = in_work.lock().unwrap();
        state.runs += 1;
        if !state.now.insert(key.clone()) {
            state.twice.push(key.to_string());
        }
        state.at_most = state.at_most.max(state.now.len());
        Self { key: key.clone(), in_work: Arc::clone(in_work) }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.in_work.lock().unwrap().now.remove(&self.key);
    }
}

impl Reconciler for Copies {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, key: &ObjectKey<Widget>, _: &Context) -> Result<Action, ReconcileError> {
        let _entered = Entered::new(key, &self.in_work);
        let Some(widget) = self.widgets.get(key)? else { return Ok(Action::done()) };
        let size = widget.spec.size;
        let mut child = config_map(key.name());
        child.data = Some([("size".to_owned(), size.to_string())].into());
        set_controller_reference(&*widget, &mut child)?;
        self.client.apply(&child).await?;
        sleep(Duration::from_millis(10)).await;
        if widget.status.as_ref().is_none_or(|status| status.seen != size) {
            self.client.apply_status(key, &WidgetStatus { seen: size }).await?;
        }
        Ok(Action::done())
    }
}

/// Result of a run.
struct Story {
    text: String,
    /// Heap memory of the manager in bytes, in a process without other work.
    held: usize,
}

async fn play(seed: u64, size: &Size) -> Story {
    let options = apiserver::Options::default().profile(Profile::Dev).seed(seed);
    let env = Environment::builder().server_options(options).crd::<Widget>().start().await.unwrap();
    let user = Client::builder(env.client(), "user").seed(seed).build();
    for number in 0..size.objects {
        user.create(&widget(&name(number), 1)).await.unwrap();
    }
    let tasks_before = alive();
    let in_work = Arc::default();
    let (manager, controller, running) = start(env.client(), seed, size.retain, &in_work).await;
    converged(&env.client(), size.objects, 10 * MINUTE, seed).await;
    let tasks_at_work = alive();

    let faults = env.server().faults();
    misbehave(&faults);
    let mut rng = fastrand::Rng::with_seed(seed);
    let began = Instant::now();
    while began.elapsed() < size.lasts {
        act(&user, &name(rng.usize(..size.objects)), &mut rng).await;
        if rng.u32(..600) == 0 {
            faults.compact();
            faults.evict_history("example.com", "widgets");
        }
        if rng.u32(..100) == 0 {
            lose_connections(&faults);
        }
        sleep(size.pause.mul_f64(0.5 + rng.f64())).await;
    }
    faults.clear();
    let injected = faults.journal().len() as u64 + faults.journal().dropped();
    // Longest waits: 10 minutes for a stalled watch, and 1000 s of back-off.
    let quiet = converged(&env.client(), size.objects, 45 * MINUTE, seed).await;

    // By then all watches and back-offs from the time of the faults have ended.
    sleep(30 * MINUTE).await;
    let left = manager.overview();
    assert_eq!((left[0].queued, left[0].waiting, left[0].running), (0, 0, 0), "seed {seed}: {left:?}");
    assert_eq!(left[0].failing, [], "seed {seed}");
    for number in 0..size.objects {
        let left = controller.explain(&key(&name(number)));
        let is_settled = left.state == RequestState::Idle && left.attempt == 0 && left.causes.events() == 0;
        assert!(is_settled && (1..=32).contains(&left.runs.len()), "seed {seed}: {left}");
    }
    assert_eq!(alive(), tasks_at_work, "seed {seed}: tasks at work");
    let fresh_in_work = Arc::default();
    let (fresh, _, freshly) = start(env.client(), seed + 1_000_000, size.retain, &fresh_in_work).await;
    settle().await;
    for resource in ["widgets.example.com", "configmaps"] {
        assert_eq!(
            objects(&manager, resource),
            objects(&fresh, resource),
            "seed {seed}: {resource} in the caches"
        );
    }
    freshly.stop().await.unwrap();
    drop(fresh);
    settle().await;
    let with_the_manager = ALLOCATOR.current_usage();
    running.stop().await.unwrap();
    drop((manager, controller));
    settle().await;
    let held = with_the_manager.saturating_sub(ALLOCATOR.current_usage());
    assert_eq!(alive(), tasks_before, "seed {seed}: tasks after the stop");
    let state = in_work.lock().unwrap();
    assert_eq!(state.twice, Vec::<String>::new(), "seed {seed}: reconciled twice at once");
    assert_eq!(state.now.len(), 0, "seed {seed}");
    assert!(state.at_most > 1, "seed {seed}: nothing ever ran beside something else");
    assert!(injected > 100, "seed {seed}: only {injected} faults");
    let text = format!("{injected} faults, {} reconciles, quiet after {} s", state.runs, quiet.as_secs());
    Story { text, held }
}

async fn start(
    client: kube::Client,
    seed: u64,
    retain: Retain,
    in_work: &Arc<Mutex<InWork>>,
) -> (Manager, ControllerHandle<ObjectKey<Widget>>, Running) {
    let cache = CacheOptions::default().retain(retain);
    let manager = Manager::new(client, ManagerOptions::new(OPERATOR).seed(seed).cache(cache));
    let copies = Copies { client: manager.client(), widgets: manager.cached(), in_work: Arc::clone(in_work) };
    let options = ControllerOptions::default().max_concurrent_reconciles(8);
    let controller = Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .owns::<ConfigMap>()
        .with_options(options)
        .complete(copies)
        .unwrap();
    let running = Running::start(manager.clone()).await;
    (manager, controller, running)
}

/// Injects faults into each list and watch, and into the operator's writes.
fn misbehave(faults: &Faults) {
    let busy = Failure::TooManyRequests { retry_after: SECOND };
    let all = [
        (Fault::Fail(Failure::Conflict), 0.05),
        (Fault::Fail(busy), 0.05),
        (Fault::Fail(Failure::Internal), 0.05),
        (Fault::Fail(Failure::Timeout), 0.03),
        (Fault::Fail(Failure::Expired), 0.02),
        (Fault::Reset, 0.03),
        (Fault::LoseResponse, 0.03),
        (Fault::DelayBefore(90 * SECOND), 0.02),
        (Fault::DelayAfter(150 * SECOND), 0.02),
        (Fault::Silence, 0.02),
        (Fault::WithholdResponse, 0.02),
        (Fault::Stall(20), 0.02),
    ];
    for (action, probability) in all {
        let when = When::Probability(probability);
        let write = Rule::new(action.clone()).field_manager(OPERATOR).when(when);
        let list = Rule::new(action).verb(Verb::List).when(When::Probability(2.0 * probability));
        for rule in [write, list] {
            faults.add(rule);
        }
    }
    for failure in [Failure::Expired, busy, Failure::Internal, Failure::Unavailable] {
        faults.add(Rule::new(Fault::Fail(failure)).verb(Verb::Watch).when(When::Probability(0.1)));
    }
    for silent in [Fault::Silence, Fault::Stall(300)] {
        faults.add(Rule::new(silent).verb(Verb::Watch).when(When::Probability(0.05)));
    }
    let watches = [
        WatchFault::CloseAfterEvents(7),
        WatchFault::CloseAfter(20 * SECOND),
        WatchFault::ExpireAfterEvents(11),
        WatchFault::StallAfterEvents(13),
        WatchFault::StallAfter(40 * SECOND),
        WatchFault::Late(5 * SECOND),
        WatchFault::NoBookmarks,
    ];
    for fault in watches {
        faults.add(Rule::new(Fault::Watch(fault)).verb(Verb::Watch).when(When::Probability(0.15)));
    }
}

/// Loses all connections of the operator silently, like a load balancer that is replaced: watches stay open without
/// events, and requests are not answered for a while.
fn lose_connections(faults: &Faults) {
    for (group, plural) in [("", "configmaps"), ("example.com", "widgets")] {
        assert!(faults.stall_watches(group, plural));
    }
    let lost = Rule::new(Fault::Silence).within(Duration::ZERO..20 * SECOND);
    faults.add(lost.clone().field_manager(OPERATOR));
    faults.add(lost.verb(Verb::List).verb(Verb::Watch));
}

/// Changes a Widget or its ConfigMap like a user.
async fn act(user: &Client, name: &str, rng: &mut fastrand::Rng) {
    let child = ObjectKey::<ConfigMap>::new("default", name);
    let size = rng.i32(1..1000);
    match rng.u32(..10) {
        0 => {
            user.delete_key(&key(name)).await.unwrap();
            user.create(&widget(name, size)).await.unwrap();
        }
        // The ConfigMap may be missing if reconciles have failed so far.
        1 => drop(user.delete_key(&child).await),
        2 => drop(user.merge_patch(&child, &json!({ "data": { "size": "wrong" } })).await),
        _ => drop(user.merge_patch(&key(name), &json!({ "spec": { "size": size } })).await.unwrap()),
    }
}

/// Waits until every Widget has converged, and returns how long it took.
async fn converged(client: &kube::Client, objects: usize, limit: Duration, seed: u64) -> Duration {
    let began = Instant::now();
    loop {
        let wrong = differences(client, objects).await;
        if wrong.is_empty() {
            return began.elapsed();
        }
        assert!(began.elapsed() < limit, "seed {seed}, after {limit:?}: {wrong}");
        sleep(SECOND).await;
    }
}

/// Describes the Widgets that have not converged.
async fn differences(client: &kube::Client, objects: usize) -> String {
    let widgets = Api::<Widget>::default_namespaced(client.clone()).list(&ListParams::default()).await;
    let maps = Api::<ConfigMap>::default_namespaced(client.clone()).list(&ListParams::default()).await;
    let (Ok(widgets), Ok(maps)) = (widgets, maps) else { return "the lists failed".to_owned() };
    let mut wrong = String::new();
    if (widgets.items.len(), maps.items.len()) != (objects, objects) {
        let _ = writeln!(wrong, "{} widgets, {} config maps", widgets.items.len(), maps.items.len());
    }
    for widget in &widgets {
        let size = widget.spec.size;
        let seen = widget.status.as_ref().map(|status| status.seen);
        let child = maps.iter().find(|map| map.name_any() == widget.name_any());
        let copied = child.and_then(|child| child.data.as_ref()?.get("size").cloned());
        let owned = child.is_some_and(|child| {
            child.owner_references().iter().any(|owner| Some(&owner.uid) == widget.metadata.uid.as_ref())
        });
        if seen != Some(size) || copied != Some(size.to_string()) || !owned {
            let _ = writeln!(
                wrong,
                "{}: size {size}, seen {seen:?}, copied {copied:?}, owned {owned}",
                widget.name_any()
            );
        }
    }
    wrong
}

fn name(number: usize) -> String {
    format!("w{number:04}")
}

/// Returns the number of tasks.
fn alive() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// Returns the number of objects in the caches of a resource.
fn objects(manager: &Manager, resource: &str) -> String {
    let metric = format!("controller_runtime_cache_objects{{resource=\"{resource}\"}} ");
    let text = manager.metrics().encode();
    text.lines().find_map(|line| line.strip_prefix(&metric)).expect("the caches are there").to_owned()
}
