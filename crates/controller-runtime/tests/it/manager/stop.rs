//! Effects of a stop, a drop, or the removal of a controller on running work.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{
    Action, BoxError, Builder, Cached, Client, Context, Manager, ManagerOptions, ObjectKey, ReconcileError,
    Reconciler, controller,
    manager::{self, RunContext, Runnable, Shutdown, State, WeakManager},
};
use tokio::{sync::Notify, time::Instant};

use crate::support::{Notes, Running, Widget, environment, key, manager, run, settle, widget};

/// A reconciler that works for a minute.
pub(super) struct Slow;

impl Reconciler for Slow {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, _: &ObjectKey<Widget>, _: &Context) -> Result<Action, ReconcileError> {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(Action::done())
    }
}

async fn stopped_while_slow(shutdown: Shutdown) -> (Result<(), String>, Duration) {
    let env = environment().await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let options = ManagerOptions::new("test").graceful_shutdown_timeout(shutdown);
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
async fn unfinished_reconciles_are_named_after_the_grace_period() {
    let (result, took) = stopped_while_slow(Shutdown::Within(Duration::from_secs(30))).await;
    assert_eq!(took.as_secs(), 30);
    let text = result.expect_err("it takes a minute");
    assert_eq!(
        text,
        "the manager's shutdown timeout of 30 s has passed; these reconciles and runnables were still running and have been dropped: \
         widget: Widget default/a"
    );
}

#[tokio::test(start_paused = true)]
async fn an_immediate_shutdown_waits_for_nothing() {
    let (result, took) = stopped_while_slow(Shutdown::Immediate).await;
    assert_eq!((result, took.as_secs()), (Ok(()), 0));
}

#[tokio::test(start_paused = true)]
async fn a_manager_dropped_while_it_runs_stops_like_a_crash_and_another_one_continues() {
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
    settle().await; // the connection of its client ends when no handle is left
    assert_eq!((*state.borrow(), alive()), (State::Stopped, before));

    let dropped = manager(&env);
    let (_widgets, state) = (dropped.cached::<Widget>(), dropped.state());
    drop(Running::start(dropped).await);
    settle().await;
    assert_eq!((*state.borrow(), alive()), (State::Stopped, before));
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
fn a_reconcile_that_blocks_its_thread_is_named_when_the_manager_stops() {
    struct Busy {
        began: Arc<Notify>,
        stop: Arc<AtomicUsize>,
    }
    impl Runnable for Busy {
        fn name(&self) -> String {
            "busy".to_owned()
        }
        async fn start(&self, _: RunContext) -> Result<(), BoxError> {
            self.began.notify_one();
            while self.stop.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            Ok(())
        }
    }
    let (stop, began) = (Arc::<AtomicUsize>::default(), Arc::<Notify>::default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    let (stopped, computes) = (Arc::clone(&stop), Arc::clone(&began));
    let busy_began = Arc::<Notify>::default();
    let busy = Busy { began: Arc::clone(&busy_began), stop: Arc::clone(&stop) };
    let error = runtime.block_on(async {
        let env = environment().await;
        let options = ManagerOptions::new("test").graceful_shutdown_timeout(Shutdown::Immediate);
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
        let both_compute = async {
            busy_began.notified().await;
            began.notified().await;
        };
        manager.run(both_compute).await.unwrap_err().to_string()
    });
    stop.store(1, SeqCst);
    assert_eq!(
        error,
        "the manager could not stop these reconciles and runnables, because they do not reach an .await (use tokio::task::spawn_blocking for long \
         computations): busy, widget: Widget default/a"
    );
}

/// A runnable that keeps everything it receives from its manager.
struct Keeps {
    manager: WeakManager,
    context: Mutex<Option<RunContext>>,
    _handle: Arc<Mutex<Option<manager::RunnableHandle>>>,
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

/// A reconciler that keeps handles of its manager, including the manager itself.
struct Hoards {
    _client: Client,
    _widgets: Cached<Widget>,
    _manager: WeakManager,
    handle: Arc<Mutex<Option<controller::ControllerHandle<ObjectKey<Widget>>>>>,
    _alive: Arc<()>,
}

impl Reconciler for Hoards {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, _: &ObjectKey<Widget>, _: &Context) -> Result<Action, ReconcileError> {
        assert!(self.handle.lock().unwrap().is_some(), "it knows its own handle");
        Ok(Action::done())
    }
}

#[tokio::test(start_paused = true)]
async fn runnables_are_dropped_with_the_manager_even_if_they_keep_its_handles() {
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
