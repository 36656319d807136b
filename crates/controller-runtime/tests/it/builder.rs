//! Options of the builder and of controllers.

use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::Poll,
    time::Duration,
};

use controller_runtime::{
    Action, BoxError, Builder, Cached, Client, Context, Manager, ManagerOptions, ObjectKey, ObjectReconciler,
    ReconcileError, Reconciler, Source,
    controller::{Config, ControllerOptions, SourceError},
    manager::ManagerError,
    reconcile,
    source::{Requests, Sink, from_fn},
    workqueue::{Priority, Queue},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_envtest::Environment;
use tokio::time::Instant;

use crate::support::{
    NoteAll, Notes, Running, Widget, config_map, environment, key, manager, settle, widget,
};

fn client(env: &Environment) -> Client {
    Client::new(env.client(), "test")
}

#[tokio::test(start_paused = true)]
async fn a_controller_needs_a_name_and_a_source() {
    let env = environment().await;
    let manager = manager(&env);
    let builder = || Builder::managed_by(&manager).for_requests::<u32>("numbers");
    let error = builder().complete(NoteAll::new()).unwrap_err().to_string();
    assert_eq!(error, "controller numbers has no source: give it one with `watches` or `watches_raw_source`");
    let source = || Requests::stream("none", futures::stream::empty());
    let error = builder().named("").watches_raw_source(source()).complete(NoteAll::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a controller needs a name, for its metrics and log: give it one with `named`"
    );
    builder().watches_raw_source(source()).complete(NoteAll::new()).unwrap();
    let skip = || ControllerOptions::default().skip_name_validation(true);
    let second =
        builder().watches_raw_source(source()).with_options(skip()).complete(NoteAll::new()).unwrap();
    builder().watches_raw_source(source()).complete(NoteAll::new()).unwrap_err();

    let shown =
        |manager: &Manager| manager.metrics().encode().matches("workqueue_depth{name=\"numbers\"").count();
    assert_eq!(shown(&manager), 3, "two of one name are one, in three classes");
    second.remove().await;
    assert_eq!(shown(&manager), 3, "the first one is there");
}

#[tokio::test(start_paused = true)]
async fn an_object_reconciler_receives_objects_and_no_deletions() {
    struct Sizes(Arc<Mutex<Vec<i32>>>);
    impl ObjectReconciler for Sizes {
        type Object = Widget;
        async fn reconcile(&self, widget: Arc<Widget>, _: &Context) -> Result<Action, ReconcileError> {
            self.0.lock().unwrap().push(widget.spec.size);
            Ok(Action::done())
        }
    }
    let env = environment().await;
    let (manager, sizes) = (manager(&env), Arc::<Mutex<Vec<i32>>>::default());
    let reconciler = reconcile::as_reconciler(manager.cached(), Sizes(Arc::clone(&sizes)));
    let handle = Builder::managed_by(&manager).for_kind::<Widget>().complete(reconciler).unwrap();
    let _running = Running::start(manager).await;
    let created = client(&env).create(&widget("a", 7)).await.unwrap();
    settle().await;
    client(&env).delete(&created).await.unwrap();
    settle().await;
    assert_eq!(*sizes.lock().unwrap(), [7]);
    let runs = handle.explain(&key("a")).runs;
    assert_eq!(runs.len(), 2, "the delete was reconciled, and found nothing to do");
    assert!(runs.iter().all(|run| !run.result.is_failure()));
}

#[tokio::test(start_paused = true)]
async fn a_function_is_a_reconciler() {
    let env = environment().await;
    let (manager, seen) = (manager(&env), Arc::<Mutex<Vec<String>>>::default());
    let notes = Arc::clone(&seen);
    let note = async |notes: &Arc<Mutex<Vec<String>>>, key: &ObjectKey<Widget>, cx: &Context| {
        notes.lock().unwrap().push(format!("{key} ({})", cx.attempt()));
        if cx.attempt() == 0 { Err("once".into_error()) } else { Ok(Action::done()) }
    };
    let builder = Builder::managed_by(&manager).for_kind::<Widget>();
    builder.complete(reconcile::from_fn_with(notes, note)).unwrap();
    let _running = Running::start(manager).await;
    client(&env).create(&widget("a", 1)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*seen.lock().unwrap(), ["default/a (0)", "default/a (1)"]);
}

/// Converts a text into an error that is retried.
trait IntoError {
    fn into_error(self) -> ReconcileError;
}

impl IntoError for &str {
    fn into_error(self) -> ReconcileError {
        ReconcileError::new(self)
    }
}

#[tokio::test(start_paused = true)]
async fn options_of_the_manager_apply_unless_a_controller_sets_its_own() {
    let env = environment().await;
    let config =
        Config::default().max_concurrent_reconciles(2).group_kind_concurrency("Widget.example.com", 3);
    let options = ManagerOptions::new("test").controller(config);
    let manager = Manager::new(env.client(), options);
    let builder = |name| Builder::managed_by(&manager).for_kind::<Widget>().named(name);
    builder("by-kind").complete(Notes::done()).unwrap();
    let own = ControllerOptions::default().max_concurrent_reconciles(4);
    builder("own").with_options(own).complete(Notes::done()).unwrap();
    let source = Requests::stream("none", futures::stream::empty::<u32>());
    Builder::managed_by(&manager)
        .for_requests("for-all")
        .watches_raw_source(source)
        .complete(NoteAll::new())
        .unwrap();
    let text = manager.metrics().encode();
    for (name, workers) in [("by-kind", 3), ("own", 4), ("for-all", 2)] {
        let line =
            format!("controller_runtime_max_concurrent_reconciles{{controller=\"{name}\"}} {workers}\n");
        assert!(text.contains(&line), "{line}{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn options_of_the_manager_take_effect_in_controllers() {
    let env = environment().await;
    client(&env).create(&widget("a", 1)).await.unwrap();
    let manager = |config| Manager::new(env.client(), ManagerOptions::new("test").seed(1).controller(config));

    let fragile = manager(Config::default().recover_panic(false));
    Builder::managed_by(&fragile).for_kind::<Widget>().complete(Notes::new(|_, _| panic!("a bug"))).unwrap();
    let error = fragile.run(pending()).await.unwrap_err();
    assert_eq!(error.to_string(), "widget failed");

    let hasty = manager(Config::default().cache_sync_timeout(Duration::from_secs(7)));
    let builder = Builder::managed_by(&hasty).for_kind::<Widget>().watches_raw_source(Unsynced);
    builder.complete(Notes::done()).unwrap();
    let began = Instant::now();
    let error = hasty.run(pending()).await.unwrap_err();
    assert!(matches!(error, ManagerError::Source(SourceError::NotSynced { .. })), "{error}");
    assert_eq!(began.elapsed(), Duration::from_secs(7));

    let careless = manager(Config::default().skip_name_validation(true));
    for _ in 0..2 {
        Builder::managed_by(&careless).for_kind::<Widget>().complete(Notes::done()).unwrap();
    }

    let in_order = manager(Config::default().use_priority_queue(false));
    Builder::managed_by(&in_order).for_kind::<Widget>().complete(Notes::done()).unwrap();
    assert_eq!(in_order.metrics().encode().matches("workqueue_depth{name=\"widget\"").count(), 1);
}

/// A source that never synchronizes.
struct Unsynced;

impl Source<ObjectKey<Widget>> for Unsynced {
    fn name(&self) -> String {
        "unsynced".to_owned()
    }

    fn signals_synced(&self) -> bool {
        true
    }

    async fn run(&self, _: Sink<ObjectKey<Widget>>) -> Result<(), BoxError> {
        pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_custom_queue_has_the_name_and_metrics_of_its_controller() {
    let env = environment().await;
    let (manager, notes) = (manager(&env), Notes::done());
    let mine: Arc<Mutex<Option<Queue<ObjectKey<Widget>>>>> = Arc::default();
    let made = Arc::clone(&mine);
    let options = ControllerOptions::default().new_queue(move |name, options| {
        assert_eq!(name, "widget");
        let queue = Queue::new(options);
        *made.lock().unwrap() = Some(queue.clone());
        queue
    });
    Builder::managed_by(&manager).for_kind::<Widget>().with_options(options).complete(notes.clone()).unwrap();
    let _running = Running::start(manager.clone()).await;
    mine.lock().unwrap().as_ref().unwrap().add(key("mine"));
    settle().await;
    assert_eq!(notes.names(), ["mine"]);
    assert!(
        manager.metrics().encode().contains("workqueue_adds_total{name=\"widget\",controller=\"widget\"} 1")
    );
}

/// In Go a request of the initial list that is requeued stays behind all others.
#[tokio::test(start_paused = true)]
async fn initial_objects_run_behind_events_but_not_for_ever() {
    for classes in [true, false] {
        let env = environment().await;
        let manager = manager(&env);
        for name in ["a", "b", "c"] {
            client(&env).create(&widget(name, 1)).await.unwrap();
        }
        let notes = NoteAll::<ObjectKey<Widget>>::new();
        // The first reconcile takes 1 s, during which an event arrives.
        type State = (NoteAll<ObjectKey<Widget>>, AtomicUsize);
        let slow = async |(notes, runs): &State, request: &ObjectKey<Widget>, cx: &Context| {
            if runs.fetch_add(1, SeqCst) == 0 {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            notes.reconcile(request, cx).await
        };
        let slow = reconcile::from_fn_with((notes.clone(), AtomicUsize::new(0)), slow);
        let options = ControllerOptions::default().use_priority_queue(classes).max_concurrent_reconciles(1);
        let handle =
            Builder::managed_by(&manager).for_kind::<Widget>().with_options(options).complete(slow).unwrap();
        let _running = Running::start(manager).await;
        settle().await;
        client(&env).create(&widget("d", 1)).await.unwrap();
        settle().await;
        let state = handle.explain(&key("b")).state.to_string();
        assert!(state.contains(if classes { "class low" } else { "class normal" }), "{state}");
        tokio::time::sleep(Duration::from_secs(10)).await;
        let names: Vec<_> = notes.take().iter().map(|text| text.replace("Widget default/", "")).collect();
        assert_eq!(names, if classes { ["a", "d", "b", "c"] } else { ["a", "b", "c", "d"] });
    }
}

#[tokio::test(start_paused = true)]
async fn an_action_may_set_the_priority_of_the_next_run() {
    for (classes, expected) in [(true, Priority::High), (false, Priority::Normal)] {
        let env = environment().await;
        let manager = manager(&env);
        let again = async |_: &&'static str, _: &Context| {
            Ok(Action::requeue_after(Duration::from_secs(60)).with_priority(Priority::High))
        };
        let mine: Arc<Mutex<Option<Queue<&'static str>>>> = Arc::default();
        let made = Arc::clone(&mine);
        let options =
            ControllerOptions::default().use_priority_queue(classes).new_queue(move |_, options| {
                let queue = Queue::new(options);
                *made.lock().unwrap() = Some(queue.clone());
                queue
            });
        Builder::managed_by(&manager)
            .for_requests("names")
            .watches_raw_source(Requests::stream("one", futures::stream::iter(["x"])))
            .with_options(options)
            .complete(reconcile::from_fn(again))
            .unwrap();
        let _running = Running::start(manager).await;
        settle().await;
        let queue = mine.lock().unwrap().clone().unwrap();
        assert_eq!(queue.snapshot().next().unwrap().priority, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_of_a_reconcile_is_cached_at_once_and_owned_by_the_manager() {
    let env = environment().await;
    let manager = Manager::new(env.client(), ManagerOptions::new("the-operator"));
    let (maps, seen) = (manager.cached::<ConfigMap>(), Arc::<Mutex<Vec<String>>>::default());
    type State = (Cached<ConfigMap>, Arc<Mutex<Vec<String>>>);
    let write = async |(maps, seen): &State, key: &ObjectKey<Widget>, cx: &Context| {
        let map =
            ConfigMap { data: Some([("a".to_owned(), "b".to_owned())].into()), ..config_map(key.name()) };
        cx.client().apply(&map).await?;
        let cached = maps.get(&ObjectKey::new("default", key.name()))?;
        seen.lock().unwrap().extend(cached.and_then(|map| map.metadata.name.clone()));
        Ok(Action::done())
    };
    let write = reconcile::from_fn_with((maps, Arc::clone(&seen)), write);
    Builder::managed_by(&manager).for_kind::<Widget>().complete(write).unwrap();
    let _running = Running::start(manager).await;
    client(&env).create(&widget("a", 1)).await.unwrap();
    settle().await;
    assert_eq!(*seen.lock().unwrap(), ["a"]);
    let stored = client(&env).get(&ObjectKey::<ConfigMap>::new("default", "a")).await.unwrap().unwrap();
    let writers = stored.metadata.managed_fields.unwrap().into_iter().filter_map(|entry| entry.manager);
    assert_eq!(writers.collect::<Vec<_>>(), ["the-operator"]);
}

#[tokio::test(start_paused = true)]
async fn an_unmanaged_controller_runs_with_the_caches_of_the_manager() {
    let env = environment().await;
    let (manager, notes) = (manager(&env), Notes::done());
    let mut controller =
        Builder::managed_by(&manager).for_kind::<Widget>().complete_unmanaged(notes.clone()).unwrap();
    let handle = controller.handle();
    let _running = Running::start(manager).await;
    client(&env).create(&widget("a", 1)).await.unwrap();
    settle().await;
    assert!(notes.names().is_empty(), "the controller does not run yet");
    for runs in 1..=2 {
        controller.run(settle()).await.unwrap();
        assert_eq!(notes.names().len(), runs);
    }
    assert_eq!(handle.explain(&key("a")).runs.len(), 2);
    client(&env).create(&widget("b", 1)).await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["a", "a"]);
}

#[tokio::test(start_paused = true)]
async fn an_unmanaged_controller_returns_its_failure() {
    let env = environment().await;
    let manager = manager(&env);
    let mut controller = Builder::managed_by(&manager)
        .for_requests::<u32>("numbers")
        .watches_raw_source(from_fn("broken", |_| async { Err("no route to it".into()) }))
        .complete_unmanaged(NoteAll::new())
        .unwrap();
    let error = controller.run(pending()).await.unwrap_err();
    assert_eq!(format!("{error:?}"), "source broken of controller numbers failed: no route to it");
}

/// A reconciler that waits for a notification, and counts its polls.
struct Polled {
    polls: Arc<AtomicUsize>,
    go: Arc<tokio::sync::Notify>,
}

impl Reconciler for Polled {
    type Request = u32;

    async fn reconcile(&self, number: &u32, _: &Context) -> Result<Action, ReconcileError> {
        let mut waits =
            std::pin::pin!(async { if *number == 0 { self.go.notified().await } else { pending().await } });
        std::future::poll_fn(|cx| {
            self.polls.fetch_add(1, SeqCst);
            match waits.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(Ok(Action::done())),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}

/// kube-runtime 5.0 polls every running reconcile whenever one of them wakes.
#[tokio::test(start_paused = true)]
async fn progress_of_a_reconcile_wakes_no_other_reconcile() {
    const IN_FLIGHT: usize = 500;
    let env = environment().await;
    let (manager, polls, go) = (manager(&env), Arc::<AtomicUsize>::default(), Arc::default());
    let reconciler = Polled { polls: Arc::clone(&polls), go: Arc::clone(&go) };
    let numbers = 0..u32::try_from(IN_FLIGHT).unwrap();
    Builder::managed_by(&manager)
        .for_requests("numbers")
        .watches_raw_source(Requests::stream("numbers", futures::stream::iter(numbers)))
        .with_options(ControllerOptions::default().max_concurrent_reconciles(IN_FLIGHT))
        .complete(reconciler)
        .unwrap();
    let _running = Running::start(manager).await;
    settle().await;
    assert_eq!(polls.load(SeqCst), IN_FLIGHT, "all are in flight");
    go.notify_one();
    settle().await;
    assert_eq!(polls.load(SeqCst), IN_FLIGHT + 1);
}

/// In kube-runtime 5.0 a panic in one reconcile ends the whole controller.
#[tokio::test(start_paused = true)]
async fn a_panic_affects_neither_other_nor_later_reconciles() {
    let env = environment().await;
    let manager = manager(&env);
    let notes = Notes::new(|key, _| {
        assert!(key.name() != "bad", "a bug");
        Ok(Action::done())
    });
    let options = ControllerOptions::default().max_concurrent_reconciles(4);
    Builder::managed_by(&manager).for_kind::<Widget>().with_options(options).complete(notes.clone()).unwrap();
    let running = Running::start(manager).await;
    for name in ["bad", "a", "b"] {
        client(&env).create(&widget(name, 1)).await.unwrap();
    }
    settle().await;
    client(&env).create(&widget("c", 1)).await.unwrap();
    settle().await;
    let mut names = notes.names();
    names.sort();
    names.dedup();
    assert_eq!(names, ["a", "b", "bad", "c"]);
    let stopping = Instant::now();
    running.stop().await.unwrap();
    assert_eq!(stopping.elapsed(), Duration::ZERO);
}
