use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Client, Context, Manager, ObjectKey, Reconciler, Recorder, Report,
    client::DynamicKind,
    manager::{BoxError, Options, RunContext, Runnable},
    reconcile,
};
use k8s_openapi::api::{core::v1::Secret, events::v1::Event, rbac::v1::ClusterRole};
use kube::{
    Api,
    api::ListParams,
    core::{DynamicObject, ObjectMeta},
};

use tokio::time::Instant;

use crate::{
    faults::{Fault, faulty},
    support::{Running, Widget, environment, run, widget},
};

/// Records the same event at each of four attempts, and another at the last.
struct Complains;

impl Reconciler for Complains {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, key: &ObjectKey<Widget>, cx: &Context) -> Result<Action, reconcile::Error> {
        let mut about = widget(key.name(), 1);
        about.metadata.uid = Some("u1".to_owned());
        cx.events().warning(&about, "Broken", "Inspect", format!("attempt {}", cx.attempt()));
        if cx.attempt() < 3 {
            return Err(reconcile::Error::new("broken"));
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
    tokio::time::sleep(Duration::from_secs(1)).await;
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
                event.reporting_controller.unwrap(),
            )
        })
        .collect();
    found.sort();
    let row = |kind: &str, reason: &str, note: &str, count| {
        (kind.to_owned(), reason.to_owned(), note.to_owned(), count, "widget".to_owned())
    };
    assert_eq!(found, [row("Normal", "Mended", "it works", 1), row("Warning", "Broken", "attempt 0", 4)]);
}

/// Records an event each minute, and keeps its recorder.
struct Reports(Arc<Mutex<Option<Recorder>>>);

impl Reconciler for Reports {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, key: &ObjectKey<Widget>, cx: &Context) -> Result<Action, reconcile::Error> {
        let mut about = widget(key.name(), 1);
        about.metadata.uid = Some("u1".to_owned());
        cx.events().normal(&about, "Fine", "Look", "nothing new");
        *self.0.lock().unwrap() = Some(cx.events().clone());
        Ok(Action::requeue_after(Duration::from_secs(60)))
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_could_not_be_written_is_made_up_for_and_a_kept_recorder_delays_no_stop() {
    let env = environment().await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let mut posts = 0;
    let client = faulty(env.client(), move |seen| {
        posts += usize::from(seen.method == http::Method::POST);
        match posts {
            1 => Fault::Refuse(500, "InternalError"),
            _ => Fault::Pass,
        }
    });
    let manager = Manager::new(client, Options::new("test").seed(1));
    let kept = Arc::default();
    Builder::managed_by(&manager).for_kind::<Widget>().complete(Reports(Arc::clone(&kept))).unwrap();
    let running = Running::start(manager).await;
    tokio::time::sleep(Duration::from_secs(5 * 60)).await;

    let events: Api<Event> = Api::namespaced(env.client(), "default");
    let found = events.list(&ListParams::default()).await.unwrap().items;
    let counts: Vec<_> =
        found.iter().map(|event| event.series.as_ref().map_or(1, |series| series.count)).collect();
    assert_eq!(counts, [5], "six were recorded, and the first was lost");
    let stopping = Instant::now();
    running.stop().await.unwrap();
    assert_eq!(stopping.elapsed(), Duration::ZERO);
    assert!(kept.lock().unwrap().is_some());
}

/// Records what an API server would refuse, if it came in full.
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
        let report = Report::warning("R".repeat(200), "A".repeat(200), "é".repeat(600));
        events.record(&kind.object(&about), report.related(&secret).annotation("example.com/run", "17"));
        events.record(&kind.object(&about), Report::warning("R".repeat(200), "A".repeat(200), ""));

        let metadata = ObjectMeta { name: Some("system:node".to_owned()), ..ObjectMeta::default() };
        events.normal(&ClusterRole { metadata, ..ClusterRole::default() }, "Looked", "Look", "all is well");
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn events_are_about_kinds_known_at_run_time_and_cut_to_what_is_accepted() {
    let env = environment().await;
    let manager = Manager::new(env.client(), Options::new("m".repeat(200)).seed(1));
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
    assert_eq!(lengths.map(|text| text.as_ref().unwrap().len()), [128, 128, 1024, 128, 63]);
    assert_eq!((&bare.related, &bare.metadata.annotations), (&None, &None));
    assert_eq!(bare.series, None, "it differs in the related object");
}
