//! Events for which user code fails: they are delivered again, and reported to operators.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Cached, Client, Context, Event, Kind, Manager, MapFn, ObjectKey, ReconcileError,
    Reconciler, TryMapFn, TryMapMeta, cache::Meta, reconcile, source,
};
use kube_envtest::Environment;
use serde_json::json;
use tokio::{sync::mpsc, time::sleep};

use crate::support::{Notes, Running, Widget, environment, key, manager, settle, widget};

fn client(env: &Environment) -> Client {
    Client::new(env.client(), "test")
}

fn metric(manager: &Manager, name: &str) -> Vec<String> {
    let encoded = manager.metrics().encode();
    let of_name = |line: &&str| line.starts_with(name) && line[name.len()..].starts_with('{');
    encoded.lines().filter(of_name).map(str::to_owned).collect()
}

const SOURCE: &str = r#"{controller="widget",source="widgets.example.com"}"#;

#[tokio::test(start_paused = true)]
async fn an_event_on_which_a_predicate_panics_is_delivered_again_until_it_is_handled() {
    let env = environment().await;
    client(&env).create(&widget("bad", 1)).await.unwrap();
    let (manager, notes, broken) = (manager(&env), Notes::done(), Arc::new(AtomicBool::new(true)));
    let is_broken = Arc::clone(&broken);
    let fussy = move |event: &Event<Widget>| {
        assert!(!(is_broken.load(SeqCst) && event.meta().name() == "bad"), "a bug");
        true
    };
    let controller = Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .with_predicate(fussy)
        .complete(notes.clone())
        .unwrap();
    let running = Running::start(manager.clone()).await;
    client(&env).create(&widget("good", 1)).await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["good"], "other events go on");
    sleep(Duration::from_secs(2)).await;
    assert_eq!(
        metric(&manager, "controller_runtime_failed_events"),
        [format!("controller_runtime_failed_events{SOURCE} 1")]
    );
    let failures = metric(&manager, "controller_runtime_event_failures_total");
    assert_eq!(failures.len(), 1);
    assert!(failures[0].contains(r#"reason="panic"} 2"#), "{failures:?}");
    let shown = manager.overview()[0].to_string();
    assert!(
        shown.contains("event of widgets.example.com default/bad failed at attempt 2, delivered again in "),
        "{shown}"
    );
    assert!(shown.contains("a predicate or handler panicked: a bug"), "{shown}");
    assert_eq!(controller.explain(&key("bad")).failed_events.len(), 1);
    assert_eq!(controller.explain(&key("good")).failed_events.len(), 0);
    for name in ["default/bad", "Widget default/bad"] {
        let why = manager.explain("widget", name).expect("the request whose only event failed is known");
        assert_eq!((&*why.request, why.failed_events.len()), (name, 1), "{why}");
    }
    manager.explain("widget", "default/ugly").unwrap_err();

    broken.store(false, SeqCst);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(notes.names(), ["good", "bad"]);
    assert_eq!(
        metric(&manager, "controller_runtime_failed_events"),
        [format!("controller_runtime_failed_events{SOURCE} 0")]
    );
    assert_eq!(manager.overview()[0].failed_events, []);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_event_that_a_map_function_fails_to_map_is_delivered_again_until_it_succeeds() {
    let env = environment().await;
    client(&env).create(&widget("a", 1)).await.unwrap();
    let (manager, notes, broken) = (manager(&env), Notes::done(), Arc::new(AtomicBool::new(true)));
    let [of_object, of_meta] = [0, 1].map(|_| Arc::clone(&broken));
    let map = move |widget: &Widget| -> Result<_, anyhow::Error> {
        anyhow::ensure!(!of_object.load(SeqCst), "no luck");
        Ok(ObjectKey::of(widget))
    };
    let map_meta = move |_: &Meta| if of_meta.load(SeqCst) { Err("bad luck") } else { Ok([key("of-meta")]) };
    Builder::managed_by(&manager)
        .for_requests::<ObjectKey<Widget>>("widget")
        .watches(Kind::new(TryMapFn(map)))
        .watches(Kind::<Widget, _>::new(TryMapMeta(map_meta)).named("metadata"))
        .complete(notes.clone())
        .unwrap();
    let _running = Running::start(manager.clone()).await;
    sleep(Duration::from_secs(2)).await;
    assert_eq!(notes.names(), [""; 0]);
    let shown = manager.overview()[0].to_string();
    for (source, error) in [("widgets.example.com", "no luck"), ("metadata", "bad luck")] {
        let told_of = format!("event of {source} default/a failed at attempt 2, delivered again in ");
        assert!(shown.contains(&told_of) && shown.contains(&format!(": {error}\n")), "{shown}");
    }
    let failures = metric(&manager, "controller_runtime_event_failures_total");
    assert!(failures.iter().all(|sample| sample.ends_with(r#"reason="error"} 2"#)), "{failures:?}");

    broken.store(false, SeqCst);
    sleep(Duration::from_secs(3)).await;
    let mut names = notes.names();
    names.sort();
    assert_eq!(names, ["a", "of-meta"]);
    assert_eq!(manager.overview()[0].failed_events, []);
}

#[tokio::test(start_paused = true)]
async fn a_newer_event_takes_the_place_of_a_failed_one_at_once_and_a_deletion_is_not_lost() {
    let env = environment().await;
    let client = client(&env);
    let (manager, notes) = (manager(&env), Notes::done());
    // Panics for an object of size 1 that is not deleted.
    let handler = |event: &Event<Widget>, queue: &controller_runtime::Enqueue<'_, ObjectKey<Widget>>| {
        let size = event.latest().object().unwrap().spec.size;
        assert!(size != 1 || matches!(event, Event::Delete { .. }), "a bug");
        queue.add(event.key());
    };
    Builder::managed_by(&manager)
        .for_requests::<ObjectKey<Widget>>("widget")
        .watches(Kind::new(handler))
        .complete(notes.clone())
        .unwrap();
    let _running = Running::start(manager.clone()).await;
    for name in ["changed", "deleted"] {
        client.create(&widget(name, 1)).await.unwrap();
    }
    settle().await;
    assert_eq!(notes.names(), [""; 0]);
    client.merge_patch(&key("changed"), &json!({ "spec": { "size": 2 } })).await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["changed"]);
    client.delete_key(&key("deleted")).await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["changed", "deleted"]);
    assert_eq!(
        metric(&manager, "controller_runtime_failed_events"),
        [format!("controller_runtime_failed_events{SOURCE} 0")]
    );
}

#[tokio::test(start_paused = true)]
async fn events_of_a_channel_are_delivered_again_too() {
    let env = environment().await;
    let (manager, notes, calls) = (manager(&env), Notes::done(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&calls);
    let handler = move |event: &Event<Widget>, queue: &controller_runtime::Enqueue<'_, ObjectKey<Widget>>| {
        assert!(counted.fetch_add(1, SeqCst) > 2, "a bug");
        queue.add(event.key());
    };
    let (sender, receiver) = mpsc::channel(1);
    Builder::managed_by(&manager)
        .for_requests::<ObjectKey<Widget>>("widget")
        .watches_raw_source(source::Events::channel("drift", receiver, handler))
        .complete(notes.clone())
        .unwrap();
    let _running = Running::start(manager).await;
    let object = controller_runtime::Lazy::of(widget("a", 1)).unwrap();
    sender.send(Event::Generic { object }).await.unwrap();
    drop(sender);
    sleep(Duration::from_secs(60)).await;
    assert_eq!((notes.names(), calls.load(SeqCst)), (vec!["a".to_owned()], 4));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_is_mapped_when_it_changes_with_the_state_before_it() {
    // The schema of this definition accepts any size.
    let mut definition: k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition =
        <Widget as kube::CustomResourceExt>::crd();
    for version in &mut definition.spec.versions {
        version.schema = Some(
            serde_json::from_value(json!({ "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            } }))
            .unwrap(),
        );
    }
    let env = Environment::builder().crds([definition]).start().await.unwrap();
    let client = client(&env);
    client.create(&widget("a", 1)).await.unwrap();
    let (manager, notes) = (manager(&env), Notes::done());
    let widgets = manager.cached::<Widget>();
    Builder::managed_by(&manager)
        .for_requests::<ObjectKey<Widget>>("widget")
        .watches(Kind::new(MapFn(|widget: &Widget| [key(&format!("of-size-{}", widget.spec.size))])))
        .complete(notes.clone())
        .unwrap();
    let reads = Arc::new(AtomicUsize::new(0));
    Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .named("reader")
        .complete(Reader { widgets, reads: Arc::clone(&reads) })
        .unwrap();
    let other_reads = Arc::new(AtomicUsize::new(0));
    let read = async |(widgets, reads): &(Cached<Widget>, Arc<AtomicUsize>),
                      key: &ObjectKey<Widget>,
                      _: &Context| {
        reads.fetch_add(1, SeqCst);
        // Without a context, so that the type of the error is hidden.
        widgets.get(key).map_err(anyhow::Error::from)?;
        Ok(Action::done())
    };
    Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .named("reader-with-anyhow")
        .complete(reconcile::from_fn_with((manager.cached(), Arc::clone(&other_reads)), read))
        .unwrap();
    let _running = Running::start(manager.clone()).await;
    settle().await;
    assert_eq!((notes.names(), reads.load(SeqCst)), (vec!["of-size-1".to_owned()], 1));
    notes.clear();
    client.merge_patch::<Widget>(&key("a"), &json!({ "spec": { "size": "large" } })).await.unwrap_err();
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(notes.names(), ["of-size-1"], "the state before is mapped");
    assert_eq!(reads.load(SeqCst), 2, "reading it is an error that no retry can mend");
    assert_eq!(other_reads.load(SeqCst), 2, "as an anyhow::Error as well");
    let waiting = metric(&manager, "controller_runtime_failed_events");
    assert!(waiting.contains(&format!("controller_runtime_failed_events{SOURCE} 1")), "{waiting:?}");
    let shown = manager.overview().iter().map(ToString::to_string).collect::<String>();
    assert!(
        shown.contains("default/a failed at attempt 1, delivered again when the object changes: "),
        "{shown}"
    );

    notes.clear();
    client.merge_patch(&key("a"), &json!({ "spec": { "size": 3 } })).await.unwrap();
    settle().await;
    let mut names = notes.names();
    names.sort();
    assert_eq!((names, reads.load(SeqCst)), (vec!["of-size-1".to_owned(), "of-size-3".to_owned()], 3));
    let waiting = metric(&manager, "controller_runtime_failed_events");
    assert!(waiting.contains(&format!("controller_runtime_failed_events{SOURCE} 0")), "{waiting:?}");
}

/// A reconciler that reads the object with `?`.
struct Reader {
    widgets: Cached<Widget>,
    reads: Arc<AtomicUsize>,
}

impl Reconciler for Reader {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, key: &ObjectKey<Widget>, _: &Context) -> Result<Action, ReconcileError> {
        self.reads.fetch_add(1, SeqCst);
        self.widgets.get(key)?;
        Ok(Action::done())
    }
}
