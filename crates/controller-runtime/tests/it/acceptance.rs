//! Figures of Go's controller-runtime that no other test checks. [`go_defects`](crate::go_defects) lists all of them, with their
//! numbers, such as A14.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Client, Context, Enqueue, Event, EventHandler, Kind, Manager, ManagerOptions, MapMeta,
    ObjectKey, ReconcileError, Reconciler, cache::Meta, controller::ControllerOptions, source::Requests,
    workqueue::Bucket,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_envtest::Environment;
use tokio::time::{Instant, sleep};

use crate::{
    faults::{Fault, faulty},
    support::{Notes, Running, Widget, config_map, environment, key, manager, settle, widget},
};

const MILLISECOND: Duration = Duration::from_millis(1);

fn client(env: &Environment) -> Client {
    Client::new(env.client(), "test")
}

/// Returns how long 100 healthy objects wait for their reconcile with one worker, alone or beside one that always fails (A14).
async fn latencies(beside_a_failing_one: bool) -> Vec<Duration> {
    let env = environment().await;
    let seen = Arc::<Mutex<Vec<(String, Instant)>>>::default();
    let note = Arc::clone(&seen);
    let notes = Notes::new(move |key, _| {
        note.lock().unwrap().push((key.name().to_owned(), Instant::now()));
        if key.name() == "bad" { Err(ReconcileError::new("no luck")) } else { Ok(Action::done()) }
    });
    let manager = manager(&env);
    let one = ControllerOptions::default().max_concurrent_reconciles(1);
    Builder::managed_by(&manager).for_kind::<Widget>().with_options(one).complete(notes).unwrap();
    let _running = Running::start(manager).await;
    if beside_a_failing_one {
        client(&env).create(&widget("bad", 1)).await.unwrap();
    }
    sleep(Duration::from_secs(1)).await;
    let mut waited = Vec::new();
    for number in 0..100 {
        let name = format!("good-{number}");
        client(&env).create(&widget(&name, 1)).await.unwrap();
        let created = Instant::now();
        sleep(50 * MILLISECOND).await;
        let seen = seen.lock().unwrap();
        let (_, at) = seen.iter().find(|(seen, _)| *seen == name).expect("it was reconciled");
        waited.push(*at - created);
    }
    waited
}

#[tokio::test(start_paused = true)]
async fn a_failing_request_does_not_delay_others() {
    assert_eq!(latencies(true).await, latencies(false).await);
}

#[tokio::test(start_paused = true)]
async fn caches_have_two_minutes_to_sync_by_default() {
    let env = Environment::builder().start().await.unwrap(); // without the kind
    let manager = Manager::new(env.client(), ManagerOptions::new("test"));
    Builder::managed_by(&manager).for_kind::<Widget>().complete(Notes::done()).unwrap();
    let began = Instant::now();
    manager.run(std::future::pending()).await.unwrap_err();
    assert_eq!(began.elapsed().as_secs(), 120);
}

/// Maps an object to the Widget of the same name.
fn same_name(meta: &Meta) -> Option<ObjectKey<Widget>> {
    (meta.namespace() == Some("default")).then(|| key(meta.name()))
}

/// Before the start the watch sends no request; afterwards it works like the others (A20).
#[tokio::test(start_paused = true)]
async fn a_watch_added_early_waits_for_the_start_and_a_later_one_starts_at_once() {
    let env = environment().await;
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let noted = Arc::clone(&asked);
    let connection = faulty(env.client(), move |seen| {
        let resource =
            ["widgets", "configmaps", "secrets"].into_iter().find(|resource| seen.is_about(resource));
        noted.lock().unwrap().extend(resource.map(str::to_owned));
        Fault::Pass
    });
    let (manager, notes) = (Manager::new(connection, ManagerOptions::new("test").seed(1)), Notes::done());
    let controller = Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
    let by_map = controller.watch(Kind::<ConfigMap, _>::new(MapMeta(same_name)));
    client(&env).create(&config_map("of-a-map")).await.unwrap();
    settle().await;
    assert_eq!((asked.lock().unwrap().len(), notes.names().len()), (0, 0), "it waits for the start");

    let _running = Running::start(manager).await;
    by_map.synced().await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["of-a-map"]);
    assert!(!asked.lock().unwrap().iter().any(|resource| resource == "secrets"));

    let mut secret = Secret::default();
    secret.metadata.namespace = Some("default".to_owned());
    secret.metadata.name = Some("of-a-secret".to_owned());
    client(&env).create(&secret).await.unwrap();
    let by_secret = controller.watch(Kind::<Secret, _>::new(MapMeta(same_name)));
    by_secret.synced().await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["of-a-map", "of-a-secret"]);
}

/// Stations of an event, which record the objects that pass them (A21).
#[derive(Clone, Default)]
struct Stations(Arc<Mutex<Vec<String>>>);

impl Stations {
    fn note(&self, station: &str, name: &str) {
        self.0.lock().unwrap().push(format!("{station} {name}"));
    }
}

/// A predicate that rejects the name `refused`.
struct Gate(Stations);

impl controller_runtime::Predicate<ConfigMap> for Gate {
    fn test(&self, event: &Event<ConfigMap>) -> bool {
        self.0.note("predicate", event.meta().name());
        event.meta().name() != "refused"
    }
}

/// A handler that enqueues the Widget of the same name.
struct SameName(Stations);

impl EventHandler<ConfigMap, ObjectKey<Widget>> for SameName {
    fn handle(&self, event: &Event<ConfigMap>, queue: &Enqueue<'_, ObjectKey<Widget>>) {
        self.0.note("handler", event.meta().name());
        queue.add(key(event.meta().name()));
        assert_eq!(self.0.0.lock().unwrap().len(), 2, "the queue is between them");
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_passes_predicate_handler_and_queue_to_the_reconciler() {
    let (env, stations) = (environment().await, Stations::default());
    let manager = manager(&env);
    let at_the_end = stations.clone();
    let notes = Notes::new(move |key, _| {
        at_the_end.note("reconciler", key.name());
        Ok(Action::done())
    });
    let source = Kind::new(SameName(stations.clone())).with_predicate(Gate(stations.clone()));
    Builder::managed_by(&manager).for_kind::<Widget>().watches(source).complete(notes).unwrap();
    let _running = Running::start(manager).await;
    client(&env).create(&config_map("passes")).await.unwrap();
    settle().await;
    assert_eq!(*stations.0.lock().unwrap(), ["predicate passes", "handler passes", "reconciler passes"]);
    stations.0.lock().unwrap().clear();
    client(&env).create(&config_map("refused")).await.unwrap();
    settle().await;
    assert_eq!(*stations.0.lock().unwrap(), ["predicate refused"]);
}

/// One limiter for complete controllers (A24).
#[tokio::test(start_paused = true)]
async fn three_controllers_under_one_bucket_retry_together_as_one_would() {
    let env = environment().await;
    for number in 0..100 {
        client(&env).create(&widget(&format!("w{number}"), 1)).await.unwrap();
    }
    let (manager, bucket) = (manager(&env), Bucket::default());
    let attempts = Arc::<Mutex<Vec<Instant>>>::default();
    let attempted = Arc::clone(&attempts);
    let notes = Notes::new(move |_, _| {
        attempted.lock().unwrap().push(Instant::now());
        Err(ReconcileError::new("no luck"))
    });
    for name in ["one", "two", "three"] {
        Builder::managed_by(&manager)
            .for_kind::<Widget>()
            .named(name)
            .with_options(ControllerOptions::default().rate_limiter(bucket.clone()))
            .complete(notes.clone())
            .unwrap();
    }
    let _running = Running::start(manager).await;
    sleep(Duration::from_millis(19_950)).await;
    let attempts = attempts.lock().unwrap();
    assert_eq!(attempts.len() - 300, 299, "a burst of 100, then ten a second");
    // The timers of tokio have a resolution of a millisecond.
    let since_the_first = |attempt: &Instant| attempt.duration_since(attempts[0]).as_millis();
    assert!(attempts[..400].iter().all(|attempt| since_the_first(attempt) <= 2), "the burst is not delayed");
    for (number, attempt) in (1..).zip(&attempts[400..]) {
        let at = since_the_first(attempt);
        assert!(
            (number * 100..=number * 100 + 2).contains(&at),
            "retry {number} after the burst came at {at} ms"
        );
    }
}

/// Fails while the service is down. An attempt takes 5 ms.
#[derive(Clone)]
struct OnService {
    is_up: Arc<AtomicBool>,
    succeeded: Arc<AtomicUsize>,
}

impl Reconciler for OnService {
    type Request = u32;

    async fn reconcile(&self, _: &u32, _: &Context) -> Result<Action, ReconcileError> {
        sleep(5 * MILLISECOND).await;
        if !self.is_up.load(SeqCst) {
            return Err(ReconcileError::new("the service is down"));
        }
        self.succeeded.fetch_add(1, SeqCst);
        Ok(Action::done())
    }
}

/// In Go before 1.23 the bucket delays the last of them by 1000 s. Since then retries are not limited during the
/// outage.
#[tokio::test(start_paused = true)]
async fn ten_thousand_requests_are_done_within_30_s_of_the_end_of_an_outage() {
    let env = environment().await;
    let manager = manager(&env);
    let service = OnService { is_up: Arc::default(), succeeded: Arc::default() };
    Builder::managed_by(&manager)
        .for_requests("numbers")
        .watches_raw_source(Requests::stream("numbers", futures::stream::iter(0..10_000)))
        .complete(service.clone())
        .unwrap();
    let _running = Running::start(manager).await;
    sleep(Duration::from_secs(300)).await;
    service.is_up.store(true, SeqCst);
    let recovered = Instant::now();
    while service.succeeded.load(SeqCst) < 10_000 {
        sleep(10 * MILLISECOND).await;
        assert!(recovered.elapsed() < Duration::from_secs(30), "{} are done", service.succeeded.load(SeqCst));
    }
}
