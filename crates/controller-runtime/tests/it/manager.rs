use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Client, Context, Manager, ObjectKey, Reconciler,
    manager::{Error, Options, Shutdown, State},
    reconcile,
};
use k8s_openapi::api::core::v1::Secret;
use kube_envtest::Environment;
use tokio::time::Instant;

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

/// Works for a minute.
struct Slow;

impl Reconciler for Slow {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, _: &ObjectKey<Widget>, _: &Context) -> Result<Action, reconcile::Error> {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(Action::done())
    }
}

async fn stopped_while_slow(shutdown: Shutdown) -> (Result<(), Error>, Duration) {
    let env = environment().await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    let options = Options::new("test").graceful_shutdown_timeout(shutdown);
    let manager = Manager::new(env.client(), options);
    Builder::managed_by(&manager).for_kind::<Widget>().complete(Slow).unwrap();
    let running = Running::start(manager).await;
    settle().await;
    let stopping = Instant::now();
    (running.stop().await, stopping.elapsed())
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
    let text = result.expect_err("it takes a minute").to_string();
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
