use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{
    Action, BoxError, Builder, Client, Context, DynamicKind, EventReport, Manager, ManagerOptions, ObjectKey,
    ReconcileError, Reconciler, Recorder,
    manager::{RunContext, Runnable},
};
use k8s_openapi::api::{core::v1::Secret, events::v1::Event, rbac::v1::ClusterRole};
use kube::{
    Api,
    api::ListParams,
    core::{DynamicObject, ObjectMeta},
};

use kube_envtest::Environment;
use tokio::time::{Instant, sleep};

use crate::{
    faults::{Fault, faulty},
    support::{Running, Widget, environment, run, settle, widget},
};

/// A reconciler that records the same event at each of four attempts, and another at the last.
struct Complains;

impl Reconciler for Complains {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, key: &ObjectKey<Widget>, cx: &Context) -> Result<Action, ReconcileError> {
        let mut about = widget(key.name(), 1);
        about.metadata.uid = Some("u1".to_owned());
        cx.events().warning(&about, "Broken", "Inspect", format!("attempt {}", cx.attempt()));
        if cx.attempt() < 3 {
            return Err(ReconcileError::new("broken"));
        }
        cx.events().normal(&about, "Mended", "Mend", "it works");
        Ok(Action::done())
    }
}

#[tokio::test(start_paused = true)]
async fn events_are_written_and_repetitions_are_counted() {
    let env = environment().await;
    let running = run(&env, Complains).await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    running.stop().await.unwrap();

    let events: Api<Event> = Api::namespaced(env.client(), "default");
    let mut found: Vec<_> = events
        .list(&ListParams::default())
        .await
        .unwrap()
        .into_iter()
        .map(|event| {
            let count = event.series.map_or(1, |series| series.count);
            (
                event.type_.unwrap(),
                event.reason.unwrap(),
                event.note.unwrap(),
                count,
                event.reporting_controller.unwrap() + " of " + &event.reporting_instance.unwrap(),
            )
        })
        .collect();
    found.sort();
    let host = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let host = host.unwrap_or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap());
    let reporter = format!("widget of widget-{}", host.trim());
    let row = |kind: &str, reason: &str, note: &str, count| {
        (kind.to_owned(), reason.to_owned(), note.to_owned(), count, reporter.clone())
    };
    assert_eq!(found, [row("Normal", "Mended", "it works", 1), row("Warning", "Broken", "attempt 0", 4)]);
}

/// A runnable that records an event each minute, and keeps its recorder.
struct Reports(Arc<Mutex<Option<Recorder>>>);

impl Reconciler for Reports {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, key: &ObjectKey<Widget>, cx: &Context) -> Result<Action, ReconcileError> {
        let mut about = widget(key.name(), 1);
        about.metadata.uid = Some("u1".to_owned());
        cx.events().normal(&about, "Fine", "Look", "nothing new");
        *self.0.lock().unwrap() = Some(cx.events().clone());
        Ok(Action::requeue_after(Duration::from_secs(60)))
    }
}

/// Outcome of requests to write an event, given the number of earlier ones.
fn with_event_faults(
    env: &Environment,
    mut fault: impl FnMut(usize) -> Fault + Send + 'static,
) -> kube::Client {
    let mut writes = 0;
    faulty(env.client(), move |seen| {
        if seen.method == http::Method::GET || !seen.is_about("/events") {
            return Fault::Pass;
        }
        writes += 1;
        fault(writes - 1)
    })
}

/// Returns a manager that records an event each minute while it runs.
async fn reporting(env: &Environment, client: kube::Client) -> (Running, Arc<Mutex<Option<Recorder>>>) {
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let manager = Manager::new(client, ManagerOptions::new("test").seed(1));
    let kept = Arc::default();
    Builder::managed_by(&manager).for_kind::<Widget>().complete(Reports(Arc::clone(&kept))).unwrap();
    (Running::start(manager).await, kept)
}

async fn counts(env: &Environment) -> Vec<i32> {
    let events: Api<Event> = Api::namespaced(env.client(), "default");
    let found = events.list(&ListParams::default()).await.unwrap().items;
    found.iter().map(|event| event.series.as_ref().map_or(1, |series| series.count)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_failed_event_is_retried_and_a_kept_recorder_does_not_delay_the_stop() {
    let env = environment().await;
    let client = with_event_faults(&env, |before| match before {
        0 => Fault::Refuse(500, "InternalError"),
        1 => Fault::Hang,
        _ => Fault::Pass,
    });
    let (running, kept) = reporting(&env, client).await;
    sleep(Duration::from_secs(5 * 60)).await;
    assert_eq!(counts(&env).await, [6]);
    let stopping = Instant::now();
    running.stop().await.unwrap();
    assert_eq!(stopping.elapsed(), Duration::ZERO);
    assert!(kept.lock().unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn repetitions_of_a_waiting_event_are_counted_by_its_next_attempt() {
    let env = environment().await;
    let down = Arc::new(AtomicBool::new(true));
    let is_down = Arc::clone(&down);
    let writes = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&writes);
    let client = with_event_faults(&env, move |_| {
        count.fetch_add(1, SeqCst);
        if is_down.load(SeqCst) { Fault::Refuse(503, "ServiceUnavailable") } else { Fault::Pass }
    });
    let (_running, _) = reporting(&env, client).await;
    sleep(Duration::from_secs(90)).await;
    assert_eq!(counts(&env).await, [0; 0]);
    assert!(writes.load(SeqCst) <= 10, "one event is tried, however often it came: {writes:?}");
    down.store(false, SeqCst);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(counts(&env).await, [2]);
}

#[tokio::test(start_paused = true)]
async fn an_event_is_given_up_after_twelve_attempts_and_at_once_when_it_is_refused() {
    for (code, reason, expected) in [(503, "ServiceUnavailable", 12), (403, "Forbidden", 1)] {
        let env = environment().await;
        let writes = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&writes);
        let client = with_event_faults(&env, move |_| {
            count.fetch_add(1, SeqCst);
            Fault::Refuse(code, reason)
        });
        let manager = Manager::new(client, ManagerOptions::new("test").seed(1));
        manager.add(TellsOnce).unwrap();
        let _running = Running::start(manager).await;
        sleep(Duration::from_secs(600)).await;
        assert_eq!(writes.load(SeqCst), expected, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_waits_is_tried_once_more_at_the_stop() {
    let env = environment().await;
    let client = with_event_faults(&env, |before| match before {
        0 => Fault::Refuse(503, "ServiceUnavailable"),
        _ => Fault::Pass,
    });
    let manager = Manager::new(client, ManagerOptions::new("test").seed(1));
    manager.add(TellsOnce).unwrap();
    let running = Running::start(manager).await;
    settle().await;
    running.stop().await.unwrap();
    assert_eq!(counts(&env).await, [1]);
}

/// Records the same event a thousand times, once a second.
struct TellsOften;

impl Runnable for TellsOften {
    async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
        let events = cx.recorder("test");
        for _ in 0..1000 {
            events.warning(&widget("a", 1), "Broken", "Inspect", "it still is");
            sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_count_of_a_frequent_event_is_written_six_minutes_later() {
    let env = environment().await;
    let writes = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&writes);
    let client = with_event_faults(&env, move |_| {
        count.fetch_add(1, SeqCst);
        Fault::Pass
    });
    let manager = Manager::new(client, ManagerOptions::new("test").seed(1));
    manager.add(TellsOften).unwrap();
    let _running = Running::start(manager).await;
    sleep(Duration::from_secs(999 + 359)).await;
    assert_eq!((counts(&env).await, writes.load(SeqCst)), (vec![512], 16));
    sleep(Duration::from_secs(2)).await;
    assert_eq!((counts(&env).await, writes.load(SeqCst)), (vec![1000], 17));
    let event =
        &Api::<Event>::default_namespaced(env.client()).list(&Default::default()).await.unwrap().items[0];
    let (began, series) = (event.event_time.as_ref().unwrap().0, event.series.as_ref().unwrap());
    let lasted = series.last_observed_time.0.duration_since(began).as_secs();
    assert!((998..=1000).contains(&lasted), "{lasted} s from the first to the last");
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(writes.load(SeqCst), 17, "and no more is said");
}

/// Records one event.
struct TellsOnce;

impl Runnable for TellsOnce {
    async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
        cx.recorder("test").normal(&widget("a", 1), "Fine", "Look", "nothing new");
        Ok(())
    }
}

/// Records an event that an API server would refuse in full length.
struct Tells;

impl Runnable for Tells {
    async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
        let events = cx.recorder(&"c".repeat(80));
        let kind = DynamicKind::of::<Widget>();
        let mut about = DynamicObject::new("a", kind.resource()).within("default");
        about.types = None;
        about.metadata.uid = Some("u1".to_owned());
        let mut secret = Secret::default();
        secret.metadata.name = Some("s".to_owned());
        let report = EventReport::warning("R".repeat(200), "A".repeat(200), "é".repeat(600));
        events.record(&kind.object(&about), report.related(&secret).annotation("example.com/run", "17"));
        events.record(&kind.object(&about), EventReport::warning("R".repeat(200), "A".repeat(200), ""));

        let metadata = ObjectMeta { name: Some("system:node".to_owned()), ..ObjectMeta::default() };
        events.normal(&ClusterRole { metadata, ..ClusterRole::default() }, "Looked", "Look", "all is well");
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn events_refer_to_kinds_known_at_run_time_and_are_cut_to_the_accepted_length() {
    let env = environment().await;
    let manager = Manager::new(env.client(), ManagerOptions::new("m".repeat(200)).seed(1));
    manager.add(Tells).unwrap();
    Running::start(manager).await.stop().await.unwrap();

    let events: Api<Event> = Api::namespaced(env.client(), "default");
    let mut found = events.list(&ListParams::default()).await.unwrap().items;
    found.sort_by_key(|event| (event.type_.clone(), event.related.is_none()));
    let [looked, full, bare] = &found[..] else { panic!("three events: {found:#?}") };

    assert!(
        looked.metadata.name.as_ref().unwrap().starts_with("event."),
        "no name can begin with system:node"
    );
    let regarding = full.regarding.as_ref().unwrap();
    let said = [&regarding.api_version, &regarding.kind, &regarding.name, &regarding.uid];
    assert_eq!(said.map(|text| text.as_deref().unwrap()), ["example.com/v1", "Widget", "a", "u1"]);
    let related = full.related.as_ref().unwrap();
    assert_eq!((related.kind.as_deref(), related.name.as_deref()), (Some("Secret"), Some("s")));
    assert_eq!(full.metadata.annotations.as_ref().unwrap()["example.com/run"], "17");
    let lengths =
        [&full.reason, &full.action, &full.note, &full.reporting_instance, &full.reporting_controller];
    let lengths = lengths.map(|text| text.as_ref().unwrap().len());
    assert_eq!((lengths[0], lengths[1], lengths[2], lengths[4]), (128, 128, 1024, 63));
    assert!((80..=128).contains(&lengths[3]), "{lengths:?}");
    assert_eq!((&bare.related, &bare.metadata.annotations), (&None, &None));
    assert_eq!(bare.series, None, "it differs in the related object");
}
