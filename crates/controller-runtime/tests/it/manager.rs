use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Cached, Client, Context, Manager, ObjectKey, Reconciler, controller,
    manager::{self, AddError, BoxError, Options, RunContext, Runnable, Shutdown, State, WeakManager},
    reconcile,
};
use k8s_openapi::api::core::v1::Secret;
use kube_envtest::Environment;
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use crate::{
    faults::{Fault, faulty},
    support::{Notes, Running, Widget, environment, key, manager, run, settle, widget},
};

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_ends_the_start_with_its_name_and_the_cure() {
    let env = Environment::builder().start().await.unwrap();
    let manager = Manager::new(env.client(), Options::new("test").cache_sync_timeout(Duration::from_secs(7)));
    Builder::managed_by(&manager).for_kind::<Widget>().complete(Notes::done()).unwrap();
    let ready = manager.ready();
    let started = Instant::now();
    let error = Running::begin(manager).end().await.expect_err("there is no such kind");
    assert_eq!(started.elapsed(), Duration::from_secs(7));
    assert_eq!(
        error.to_string(),
        "the cache of widgets.example.com is not complete after 7 s: list: the API server does not serve \
         widgets.example.com v1: is its CustomResourceDefinition installed?"
    );
    assert!(ready.await.is_err());
}

#[tokio::test]
async fn an_api_server_that_cannot_be_reached_is_named_as_the_reason() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener); // nobody listens there any more
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    let client = kube::Client::try_from(config).unwrap();
    let manager = Manager::new(client, Options::new("test").cache_sync_timeout(Duration::from_secs(2)));
    let _widgets = manager.cached::<Widget>();
    let error = manager.run(std::future::pending()).await.expect_err("nobody answers");
    let text = error.to_string();
    assert!(text.contains("widgets.example.com") && text.contains("refused"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_while_the_caches_cannot_sync_ends_at_once() {
    let env = Environment::builder().start().await.unwrap();
    let manager = manager(&env);
    let _widgets = manager.cached::<Widget>();
    let started = Instant::now();
    let stop = tokio::time::sleep(Duration::from_secs(3));
    manager.run(stop).await.expect("a stop during the start is no error");
    assert_eq!(started.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn the_states_are_gone_through_in_order() {
    let env = environment().await;
    let manager = manager(&env);
    let _widgets = manager.cached::<Widget>();
    let state = manager.state();
    assert_eq!(*state.borrow(), State::Built);
    let running = Running::start(manager).await;
    assert_eq!(*state.borrow(), State::Ready);
    running.stop().await.unwrap();
    assert_eq!(*state.borrow(), State::Stopped);
}

#[tokio::test(start_paused = true)]
async fn two_controllers_of_one_name_are_refused_within_a_manager_only() {
    let env = environment().await;
    let (one, other) = (manager(&env), manager(&env));
    for manager in [&one, &other] {
        Builder::managed_by(manager).for_kind::<Widget>().complete(Notes::done()).expect("it is the first");
    }
    let error =
        Builder::managed_by(&one).for_kind::<Widget>().complete(Notes::done()).expect_err("the second");
    assert_eq!(
        error.to_string(),
        "the manager has a controller named widget already: give this one another name with `named`"
    );
    Builder::managed_by(&one)
        .for_kind::<Widget>()
        .named("other")
        .complete(Notes::done())
        .expect("another name");
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_run_by_itself_has_its_name_for_itself_until_it_is_dropped() {
    let env = environment().await;
    let manager = manager(&env);
    let make = |options| Builder::managed_by(&manager).for_kind::<Widget>().with_options(options);
    let alone = make(controller::Options::default()).complete_unmanaged(Notes::done()).unwrap();
    for refused in [
        make(controller::Options::default()).complete_unmanaged(Notes::done()).map(drop),
        make(controller::Options::default()).complete(Notes::done()).map(drop),
    ] {
        assert!(matches!(refused, Err(AddError::DuplicateName { name }) if name == "widget"));
    }
    let twin = make(controller::Options::default().skip_name_validation(true))
        .complete_unmanaged(Notes::done())
        .unwrap();
    drop(alone);
    make(controller::Options::default()).complete(Notes::done()).expect_err("the twin has the name still");
    drop(twin);
    make(controller::Options::default()).complete(Notes::done()).unwrap();
    make(controller::Options::default())
        .complete_unmanaged(Notes::done())
        .expect_err("the manager's has it now");
}

/// Works for a minute.
struct Slow;

impl Reconciler for Slow {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, _: &ObjectKey<Widget>, _: &Context) -> Result<Action, reconcile::Error> {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(Action::done())
    }
}

async fn stopped_while_slow(shutdown: Shutdown) -> (Result<(), String>, Duration) {
    let env = environment().await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let options = Options::new("test").graceful_shutdown_timeout(shutdown);
    let manager = Manager::new(env.client(), options);
    Builder::managed_by(&manager).for_kind::<Widget>().complete(Slow).unwrap();
    let running = Running::start(manager).await;
    settle().await;
    let stopping = Instant::now();
    (running.stop().await.map_err(|error| error.to_string()), stopping.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_running_reconcile_may_finish_when_the_manager_stops() {
    for shutdown in [Shutdown::Unbounded, Shutdown::Within(Duration::from_secs(90))] {
        let (result, took) = stopped_while_slow(shutdown).await;
        assert_eq!((result, took.as_secs()), (Ok(()), 60), "{shutdown:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_does_not_finish_in_time_is_named() {
    let (result, took) = stopped_while_slow(Shutdown::Within(Duration::from_secs(30))).await;
    assert_eq!(took.as_secs(), 30);
    let text = result.expect_err("it takes a minute");
    assert_eq!(text, "still running 30 s after the shutdown began: widget: Widget default/a");
}

#[tokio::test(start_paused = true)]
async fn an_immediate_shutdown_waits_for_nothing() {
    let (result, took) = stopped_while_slow(Shutdown::Immediate).await;
    assert_eq!((result, took.as_secs()), (Ok(()), 0));
}

#[tokio::test(start_paused = true)]
async fn a_manager_dropped_while_it_runs_stops_like_a_crash_and_another_one_goes_on() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let first = Notes::done();
    let running = run(&env, first.clone()).await;
    client.create(&widget("a", 1)).await.unwrap();
    settle().await;
    drop(running);
    client.create(&widget("b", 1)).await.unwrap();
    settle().await;
    assert_eq!(first.names(), ["a"]);

    let second = Notes::done();
    let running = run(&env, second.clone()).await;
    settle().await;
    assert_eq!(second.names(), ["a", "b"]);
    running.stop().await.unwrap();
    assert!(client.get(&key("b")).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn however_a_manager_ends_its_state_says_so_and_no_task_is_left() {
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let env = environment().await;
    let before = alive();

    let stopped_early = manager(&env);
    let (_widgets, state) = (stopped_early.cached::<Widget>(), stopped_early.state());
    stopped_early.run(std::future::ready(())).await.unwrap();
    settle().await; // the connection of its client ends when it notices that nobody uses it
    assert_eq!((*state.borrow(), alive()), (State::Stopped, before));

    let dropped = manager(&env);
    let (_widgets, state) = (dropped.cached::<Widget>(), dropped.state());
    drop(Running::start(dropped).await);
    settle().await;
    assert_eq!((*state.borrow(), alive()), (State::Stopped, before));
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_was_ready_was_ready_also_after_its_end() {
    let env = environment().await;
    let manager = manager(&env);
    let (ready, later) = (manager.ready(), manager.ready());
    manager.run(async { ready.await.unwrap() }).await.unwrap();
    later.await.unwrap();
}

#[tokio::test]
async fn a_reconciler_that_never_waits_does_not_keep_the_manager_from_stopping() {
    let env = environment().await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let manager = manager(&env);
    let busy = Notes::new(|_, _| Ok(Action::requeue_after(Duration::ZERO)));
    Builder::managed_by(&manager).for_kind::<Widget>().complete(busy.clone()).unwrap();
    let ready = manager.ready();
    manager.run(async { ready.await.unwrap() }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_watched_for_a_controller_that_was_refused() {
    let env = environment().await;
    let secrets = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&secrets);
    let client = faulty(env.client(), move |seen| {
        counted.fetch_add(usize::from(seen.is_about("secrets")), SeqCst);
        Fault::Pass
    });
    let manager = Manager::new(client, Options::new("test"));
    Builder::managed_by(&manager).for_kind::<Widget>().complete(Notes::done()).unwrap();
    Builder::managed_by(&manager).for_kind::<Widget>().owns::<Secret>().complete(Notes::done()).unwrap_err();
    let _running = Running::start(manager).await;
    settle().await;
    assert_eq!(secrets.load(SeqCst), 0);
}

/// Notes what happens to it.
struct Noted {
    name: &'static str,
    notes: Arc<Mutex<Vec<String>>>,
    everywhere: bool,
    fails: bool,
}

impl Noted {
    fn new(name: &'static str, notes: &Arc<Mutex<Vec<String>>>) -> Self {
        Self { name, notes: Arc::clone(notes), everywhere: false, fails: false }
    }

    fn note(&self, what: &str) {
        self.notes.lock().unwrap().push(format!("{} {what}", self.name));
    }
}

impl Runnable for Noted {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
        self.note("starts");
        if self.fails {
            return Err("it is broken".into());
        }
        cx.shutdown().await;
        self.note("ends");
        Ok(())
    }

    fn needs_leader_election(&self) -> bool {
        !self.everywhere
    }
}

#[tokio::test(start_paused = true)]
async fn runnables_can_be_added_in_every_state_until_the_stop() {
    let (env, notes) = (environment().await, Arc::<Mutex<Vec<_>>>::default());
    let manager = manager(&env);
    manager.add(Noted::new("early", &notes)).expect("built");
    let running = Running::start(manager.clone()).await;
    manager.add(Noted::new("late", &notes)).expect("ready");
    settle().await;
    assert_eq!(*notes.lock().unwrap(), ["early starts", "late starts"]);
    running.stop().await.unwrap();
    let error = manager.add(Noted::new("too late", &notes)).unwrap_err();
    let expected = "too late cannot be added to a manager that stops: add it before, or to another manager";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test(start_paused = true)]
async fn groups_stop_in_the_reverse_order_and_a_failure_stops_all_of_them() {
    let (env, notes) = (environment().await, Arc::<Mutex<Vec<_>>>::default());
    let manager = manager(&env);
    manager.add(Noted::new("leader", &notes)).unwrap();
    manager.add(Noted { everywhere: true, ..Noted::new("other", &notes) }).unwrap();
    let running = Running::start(manager.clone()).await;
    settle().await;
    manager.add(Noted { fails: true, everywhere: true, ..Noted::new("broken", &notes) }).unwrap();
    let error = running.end().await.unwrap_err();
    assert_eq!(format!("{error} / {error:?}"), "broken failed / broken failed: it is broken");
    let order = ["other starts", "leader starts", "broken starts", "leader ends", "other ends"];
    assert_eq!(*notes.lock().unwrap(), order);
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_runnable_ends_the_manager_and_is_named() {
    struct Panics;
    impl Runnable for Panics {
        fn name(&self) -> String {
            "panics".to_owned()
        }
        async fn start(&self, _: RunContext) -> Result<(), BoxError> {
            panic!("oh no")
        }
    }
    let env = environment().await;
    let manager = manager(&env);
    manager.add(Panics).unwrap();
    let error = manager.run(std::future::pending()).await.unwrap_err();
    assert_eq!(error.to_string(), "panics ended unexpectedly: oh no");
}

#[tokio::test(start_paused = true)]
async fn a_manager_is_ready_when_its_runnables_say_so() {
    struct Slow;
    impl Runnable for Slow {
        async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
            tokio::time::sleep(Duration::from_secs(3)).await;
            cx.set_ready();
            cx.shutdown().await;
            Ok(())
        }
        fn signals_ready(&self) -> bool {
            true
        }
    }
    let env = environment().await;
    let manager = manager(&env);
    manager.add(Slow).unwrap();
    let began = Instant::now();
    let _running = Running::start(manager).await;
    assert_eq!(began.elapsed(), Duration::from_secs(3));
}

/// Keeps the context of each of its starts, and does not say itself when it is ready.
struct KeepsContexts(Arc<Mutex<Vec<RunContext>>>);

impl Runnable for KeepsContexts {
    async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
        self.0.lock().unwrap().push(cx.clone());
        cx.shutdown().await;
        Ok(())
    }

    fn signals_ready(&self) -> bool {
        true
    }
}

#[tokio::test(start_paused = true)]
async fn who_kept_the_context_of_an_earlier_run_cannot_say_that_this_one_is_ready() {
    let (env, contexts) = (environment().await, Arc::<Mutex<Vec<RunContext>>>::default());
    let manager = manager(&env);
    manager.add(KeepsContexts(Arc::clone(&contexts))).unwrap();
    for stops in [true, false] {
        let running = Running::begin(manager.clone());
        settle().await;
        assert_eq!(*manager.state().borrow(), State::Starting);
        if stops {
            running.stop().await.unwrap();
        } else {
            drop(running);
            settle().await;
        }
    }
    let _running = Running::begin(manager.clone());
    settle().await;
    let contexts = contexts.lock().unwrap().clone();
    let [first, second, third] = &contexts[..] else { panic!("{contexts:?}") };
    first.set_ready();
    second.set_ready();
    settle().await;
    assert_eq!(*manager.state().borrow(), State::Starting);
    third.set_ready();
    settle().await;
    assert_eq!(*manager.state().borrow(), State::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_manager_runs_again_but_not_twice_at_once() {
    let env = environment().await;
    let (manager, notes) = (manager(&env), Notes::done());
    Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    for run in 1..=2 {
        let running = Running::start(manager.clone()).await;
        settle().await;
        assert_eq!(notes.names().len(), run, "each run begins with everything");
        let error = manager.clone().run(std::future::pending()).await.unwrap_err();
        assert!(error.to_string().contains("runs already"), "{error}");
        running.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_added_to_a_running_manager_works_and_can_be_removed() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    client.create(&widget("a", 1)).await.unwrap();
    let manager = manager(&env);
    let _running = Running::start(manager.clone()).await;
    let notes = Notes::done();
    let controller =
        Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).expect("it runs");
    settle().await;
    assert_eq!(notes.names(), ["a"], "its cache is filled first");
    controller.remove().await;
    client.create(&widget("b", 1)).await.unwrap();
    settle().await;
    assert_eq!(notes.names(), ["a"]);
    assert!(!manager.metrics().encode().contains("workqueue_depth{"), "its queue is gone");

    let again = Notes::done();
    Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .complete(again.clone())
        .expect("the name is free again");
    settle().await;
    assert_eq!(again.names(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_removed_after_a_dropped_run_is_gone_from_the_next() {
    let (env, notes) = (environment().await, Arc::<Mutex<Vec<_>>>::default());
    let manager = manager(&env);
    manager.add(Noted::new("stays", &notes)).unwrap();
    let goes = manager.add(Noted::new("goes", &notes)).unwrap();
    drop(Running::start(manager.clone()).await);
    settle().await;
    timeout(Duration::from_secs(60), goes.remove()).await.expect("nothing of it is left to wait for");
    notes.lock().unwrap().clear();
    let _running = Running::start(manager).await;
    settle().await;
    assert_eq!(*notes.lock().unwrap(), ["stays starts"]);
}

/// Asks for an event to be written, and ends.
struct Records;

impl Runnable for Records {
    async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
        cx.recorder("test").normal(&widget("a", 1), "Fine", "Look", "nothing new");
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_begins_when_the_one_before_has_stopped_is_not_ended_by_it() {
    let env = environment().await;
    // What is written last takes as long as it may.
    let client =
        faulty(env.client(), |seen| if seen.is_about("/events") { Fault::Hang } else { Fault::Pass });
    let manager = Manager::new(client, Options::new("test").seed(1));
    manager.add(Records).unwrap();
    let mut state = manager.state();
    let first = Running::start(manager.clone()).await;
    settle().await;
    let (stopped, second) = tokio::join!(first.stop(), async {
        state.wait_for(|state| *state == State::Stopped).await.unwrap();
        Running::start(manager.clone()).await
    });
    stopped.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*state.borrow(), State::Ready);
    let late = manager.add(Noted::new("late", &Arc::default()));
    late.expect("the second run goes on");
    second.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_runnable_that_is_removed_may_own_a_controller_of_the_same_manager() {
    struct Owns {
        _controller: controller::Unmanaged<ObjectKey<Widget>>,
    }
    impl Runnable for Owns {
        async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
            cx.shutdown().await;
            Ok(())
        }
    }
    let env = environment().await;
    let manager = manager(&env);
    let own = || Builder::managed_by(&manager).for_kind::<Widget>().complete_unmanaged(Notes::done());
    let handle = manager.add(Owns { _controller: own().unwrap() }).unwrap();
    // In a thread of its own, because what it may not do is lock the manager for good.
    let (ends, ended) = std::sync::mpsc::channel();
    let runtime = tokio::runtime::Handle::current();
    std::thread::spawn(move || {
        runtime.block_on(handle.remove());
        let _ = ends.send(());
    });
    ended.recv_timeout(Duration::from_secs(10)).expect("it is removed");
    own().expect("the name is free again");
}

#[tokio::test(start_paused = true)]
async fn removing_a_controller_waits_for_its_running_reconcile() {
    let env = environment().await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let manager = manager(&env);
    let controller = Builder::managed_by(&manager).for_kind::<Widget>().complete(Slow).unwrap();
    let _running = Running::start(manager).await;
    settle().await;
    let began = Instant::now();
    controller.remove().await;
    assert_eq!(began.elapsed(), Duration::from_secs(60));
}

#[test]
fn what_never_waits_is_named_when_it_cannot_be_stopped() {
    struct Busy(Arc<AtomicUsize>);
    impl Runnable for Busy {
        fn name(&self) -> String {
            "busy".to_owned()
        }
        async fn start(&self, _: RunContext) -> Result<(), BoxError> {
            while self.0.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            Ok(())
        }
    }
    let (stop, began) = (Arc::<AtomicUsize>::default(), Arc::<Notify>::default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    let (stopped, computes) = (Arc::clone(&stop), Arc::clone(&began));
    let busy = Busy(Arc::clone(&stop));
    let error = runtime.block_on(async {
        let env = environment().await;
        let options = Options::new("test").graceful_shutdown_timeout(Shutdown::Immediate);
        let manager = Manager::new(env.client(), options);
        manager.add(busy).unwrap();
        let notes = Notes::new(move |_, _| {
            computes.notify_one();
            while stopped.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            Ok(Action::done())
        });
        Builder::managed_by(&manager).for_kind::<Widget>().complete(notes).unwrap();
        Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
        manager.run(async { began.notified().await }).await.unwrap_err().to_string()
    });
    stop.store(1, SeqCst);
    assert_eq!(error, "cannot be stopped, because it never waits: busy, widget: Widget default/a");
}

/// The value of a metric of the controller of Widgets.
fn metric(manager: &Manager, name: &str) -> String {
    let text = manager.metrics().encode();
    let line = text.lines().find(|line| line.starts_with(name)).expect("the metric is there");
    line.rsplit_once(' ').expect("it has a value").1.to_owned()
}

#[tokio::test(start_paused = true)]
async fn thirteen_failures_and_a_success_take_41_seconds_and_are_counted() {
    let env = environment().await;
    let (manager, ended) = (manager(&env), Arc::new(Mutex::new(None)));
    let end = Arc::clone(&ended);
    let notes = Notes::new(move |_, failures| {
        if failures < 13 {
            return Err(reconcile::Error::new("not yet"));
        }
        *end.lock().unwrap() = Some(Instant::now());
        Ok(Action::done())
    });
    Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
    let _running = Running::start(manager.clone()).await;
    let began = Instant::now();
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let took = ended.lock().unwrap().expect("it succeeds") - began;
    // 5 ms × (2^13 − 1), and what tokio's timers round up.
    assert!(took.abs_diff(Duration::from_millis(40_955)) < Duration::from_millis(20), "{took:?}");
    assert_eq!(notes.names().len(), 14);
    let total = "controller_runtime_reconcile_total{controller=\"widget\",result=";
    assert_eq!(metric(&manager, &format!("{total}\"error\"")), "13");
    assert_eq!(metric(&manager, &format!("{total}\"success\"")), "1");
    assert_eq!(metric(&manager, "workqueue_retries_total"), "13");
}

#[tokio::test(start_paused = true)]
async fn new_objects_are_never_delayed() {
    let env = environment().await;
    let (manager, notes) = (manager(&env), Notes::done());
    Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
    let _running = Running::start(manager.clone()).await;
    let (client, began) = (Client::new(env.client(), "test"), Instant::now());
    // A hundred times the burst of the retries' bucket.
    for number in 0..10_000 {
        client.create(&widget(&format!("w{number}"), 1)).await.unwrap();
    }
    settle().await;
    assert_eq!((notes.names().len(), began.elapsed()), (10_000, Duration::ZERO));
    assert_eq!(metric(&manager, "workqueue_retries_total"), "0");
}

#[tokio::test(start_paused = true)]
async fn metrics_tell_what_the_caches_hold() {
    let env = environment().await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let manager = manager(&env);
    let widgets = manager.cached::<Widget>();
    let _running = Running::start(manager.clone()).await;
    assert_eq!(widgets.len(), 1);
    assert_eq!(metric(&manager, "controller_runtime_cache_objects{resource=\"widgets.example.com\"}"), "1");
    let text = "controller_runtime_cache_bytes{resource=\"widgets.example.com\",form=\"text\"}";
    assert_ne!(metric(&manager, text), "0");
    // Where nothing happens, a watch is renewed after ten minutes at the latest.
    let age = || -> f64 {
        let age = "controller_runtime_cache_watch_age_seconds{resource=\"widgets.example.com\"}";
        metric(&manager, age).parse().unwrap()
    };
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!((0.0..=600.0).contains(&age()), "{}", age());
    Client::new(env.client(), "test").create(&widget("b", 1)).await.unwrap();
    settle().await;
    assert_eq!(age().to_string(), "0");
}

#[tokio::test(start_paused = true)]
async fn metrics_tell_how_long_an_event_waited_for_its_reconcile() {
    let env = environment().await;
    let manager = manager(&env);
    Builder::managed_by(&manager).for_kind::<Widget>().complete(Slow).unwrap();
    let _running = Running::start(manager.clone()).await;
    let client = Client::new(env.client(), "test");
    client.create(&widget("a", 1)).await.unwrap();
    client.create(&widget("b", 1)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    let lag = "controller_runtime_event_to_reconcile_seconds";
    assert_eq!(metric(&manager, &format!("{lag}_count")), "2");
    let waited: f64 = metric(&manager, &format!("{lag}_sum")).parse().unwrap();
    assert!((waited - 60.0).abs() < 0.1, "b waited until a was done: {waited}");
}

/// Keeps whatever it gets of its manager.
struct Keeps {
    manager: WeakManager,
    context: Mutex<Option<RunContext>>,
    _handle: Arc<Mutex<Option<manager::Handle>>>,
    _alive: Arc<()>,
}

impl Runnable for Keeps {
    async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
        assert!(cx.manager().is_some() && self.manager.upgrade().is_some(), "it runs");
        *self.context.lock().unwrap() = Some(cx.clone());
        cx.shutdown().await;
        Ok(())
    }
}

/// Keeps what a reconciler may want of its manager, its own handle included.
struct Hoards {
    _client: Client,
    _widgets: Cached<Widget>,
    _manager: WeakManager,
    handle: Arc<Mutex<Option<controller::Handle<ObjectKey<Widget>>>>>,
    _alive: Arc<()>,
}

impl Reconciler for Hoards {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, _: &ObjectKey<Widget>, _: &Context) -> Result<Action, reconcile::Error> {
        assert!(self.handle.lock().unwrap().is_some(), "it knows its own handle");
        Ok(Action::done())
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_manager_ran_is_dropped_with_it_although_it_kept_what_it_got_of_it() {
    let env = environment().await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    for stops in [true, false] {
        let (manager, alive) = (manager(&env), Arc::new(()));
        let handle = Arc::<Mutex<_>>::default();
        let keeps = Keeps {
            manager: manager.downgrade(),
            context: Mutex::default(),
            _handle: Arc::clone(&handle),
            _alive: Arc::clone(&alive),
        };
        let added = manager.add(keeps).unwrap();
        *handle.lock().unwrap() = Some(added);
        drop(handle);
        let handle = Arc::default();
        let hoards = Hoards {
            _client: manager.client(),
            _widgets: manager.cached(),
            _manager: manager.downgrade(),
            handle: Arc::clone(&handle),
            _alive: Arc::clone(&alive),
        };
        let made = Builder::managed_by(&manager).for_kind::<Widget>().complete(hoards).unwrap();
        *handle.lock().unwrap() = Some(made);
        drop(handle);
        let running = Running::start(manager).await;
        settle().await;
        if stops {
            running.stop().await.unwrap();
        } else {
            drop(running);
        }
        settle().await;
        assert_eq!(Arc::strong_count(&alive), 1, "stopped: {stops}");
    }
}
