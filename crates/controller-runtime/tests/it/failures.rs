//! Effects on a manager when a running controller fails.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{
    Action, BoxError, Builder, Client, Context, Manager, ManagerOptions, ObjectKey, ReconcileError,
    Reconciler, Source,
    controller::ControllerOptions,
    manager::{Shutdown, State},
    reconcile,
    source::{Requests, from_fn},
    workqueue::Queue,
};
use kube_envtest::Environment;
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use crate::support::{NoteAll, Notes, Running, Widget, environment, manager, settle, widget};

const MINUTE: Duration = Duration::from_secs(60);

/// A source that is synchronized from the beginning, and fails on request.
fn fails_when_notified<R: reconcile::Request>(failing: &Arc<Notify>) -> impl Source<R> {
    let failing = Arc::clone(failing);
    from_fn("broken", move |_| {
        let failing = Arc::clone(&failing);
        async move {
            failing.notified().await;
            Err::<(), BoxError>("no route to it".into())
        }
    })
}

/// A reconciler that works for a minute, and counts finished runs.
struct Slow(Arc<AtomicUsize>);

impl Reconciler for Slow {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, _: &ObjectKey<Widget>, _: &Context) -> Result<Action, ReconcileError> {
        tokio::time::sleep(MINUTE).await;
        self.0.fetch_add(1, SeqCst);
        Ok(Action::done())
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_fails_later_ends_the_manager_although_workers_wait_for_work() {
    for number in [1, 3] {
        let (env, failing) = (environment().await, Arc::default());
        let manager = manager(&env);
        Builder::managed_by(&manager)
            .for_kind::<Widget>()
            .watches_raw_source(fails_when_notified(&failing))
            .with_options(ControllerOptions::default().max_concurrent_reconciles(number))
            .complete(Notes::done())
            .unwrap();
        let running = Running::start(manager).await;
        settle().await;
        failing.notify_one();
        let ended = timeout(MINUTE, running.end()).await.expect("the manager ends");
        let error = ended.expect_err("its source has failed");
        assert_eq!(format!("{error:?}"), "source broken of controller widget failed: no route to it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_that_is_not_recovered_ends_the_manager_although_other_workers_wait_for_work() {
    for number in [1, 3] {
        let env = environment().await;
        let manager = manager(&env);
        let options = ControllerOptions::default().recover_panic(false).max_concurrent_reconciles(number);
        Builder::managed_by(&manager)
            .for_kind::<Widget>()
            .with_options(options)
            .complete(Notes::new(|_, _| panic!("a bug")))
            .unwrap();
        let running = Running::start(manager).await;
        Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
        let ended = timeout(MINUTE, running.end()).await.expect("the manager ends");
        let text = format!("{:?}", ended.expect_err("its reconciler has panicked"));
        assert!(text.starts_with("widget failed: ") && text.contains("a bug"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unmanaged_controller_ends_when_a_source_fails_later() {
    let (env, failing) = (environment().await, Arc::default());
    let manager = manager(&env);
    let mut controller = Builder::managed_by(&manager)
        .for_requests::<u32>("numbers")
        .watches_raw_source(fails_when_notified(&failing))
        .complete_unmanaged(NoteAll::new())
        .unwrap();
    let tell = async {
        settle().await;
        failing.notify_one();
        std::future::pending::<()>().await;
    };
    let ended = timeout(MINUTE, controller.run(tell)).await.expect("the controller ends");
    let error = ended.expect_err("its source has failed");
    assert_eq!(format!("{error:?}"), "source broken of controller numbers failed: no route to it");
}

/// Returns a manager with one running reconcile and a controller that has just failed, and the number of finished
/// reconciles.
async fn failed_while_slow(shutdown: Shutdown) -> (Environment, Manager, Running, Arc<AtomicUsize>) {
    let (env, failing, finished) = (environment().await, Arc::default(), Arc::default());
    let manager = Manager::new(env.client(), ManagerOptions::new("test").graceful_shutdown_timeout(shutdown));
    Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .watches_raw_source(fails_when_notified(&failing))
        .complete(Slow(Arc::clone(&finished)))
        .unwrap();
    let running = Running::start(manager.clone()).await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    settle().await;
    failing.notify_one();
    settle().await;
    (env, manager, running, finished)
}

#[tokio::test(start_paused = true)]
async fn the_reconciles_of_a_controller_that_failed_may_finish_while_the_manager_drains() {
    let (_env, manager, running, finished) = failed_while_slow(Shutdown::Within(2 * MINUTE)).await;
    assert_eq!(*manager.state().borrow(), State::Draining, "it does not wait for the reconcile to say so");
    let began = Instant::now();
    let ended = timeout(2 * MINUTE, running.end()).await.expect("the manager ends");
    let error = ended.expect_err("its source has failed");
    assert_eq!((began.elapsed().as_secs(), finished.load(SeqCst)), (60, 1));
    assert_eq!(error.to_string(), "source broken of controller widget failed");
}

#[tokio::test(start_paused = true)]
async fn the_reconciles_of_a_controller_that_failed_have_no_more_time_than_at_any_shutdown() {
    let (_env, _, running, finished) = failed_while_slow(Shutdown::Within(MINUTE / 2)).await;
    let began = Instant::now();
    let ended = timeout(2 * MINUTE, running.end()).await.expect("the manager ends");
    let error = ended.expect_err("its source has failed");
    assert_eq!((began.elapsed().as_secs(), finished.load(SeqCst)), (30, 0));
    assert_eq!(error.to_string(), "source broken of controller widget failed", "the cause of all that came");
}

/// A runnable that panics on request.
struct PanicsWhenTold(Arc<Notify>);

impl Reconciler for PanicsWhenTold {
    type Request = &'static str;

    async fn reconcile(&self, _: &&'static str, _: &Context) -> Result<Action, ReconcileError> {
        self.0.notified().await;
        panic!("a bug")
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_noticed_after_another_worker_found_the_queue_shut_down() {
    let (env, failing, queue) =
        (environment().await, Arc::default(), Arc::<Mutex<Option<Queue<_>>>>::default());
    let (manager, made) = (manager(&env), Arc::clone(&queue));
    let options = ControllerOptions::default().recover_panic(false).max_concurrent_reconciles(2);
    Builder::managed_by(&manager)
        .for_requests("names")
        .watches_raw_source(Requests::stream("one", futures::stream::iter(["x"])))
        .with_options(
            options.new_queue(move |_, options| made.lock().unwrap().insert(Queue::new(options)).clone()),
        )
        .complete(PanicsWhenTold(Arc::clone(&failing)))
        .unwrap();
    let running = Running::start(manager).await;
    settle().await;
    queue.lock().unwrap().as_ref().unwrap().shut_down();
    settle().await;
    failing.notify_one();
    let ended = timeout(MINUTE, running.end()).await.expect("the manager ends");
    assert_eq!(ended.expect_err("its reconciler has panicked").to_string(), "names failed");
}
