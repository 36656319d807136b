//! Start of a manager, and starts that it refuses.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{
    Builder, Manager, ManagerOptions,
    controller::ControllerOptions,
    manager::{AddError, State},
};
use k8s_openapi::api::core::v1::Secret;
use kube_envtest::Environment;
use tokio::time::Instant;

use crate::{
    faults::{Fault, faulty},
    support::{Notes, Running, Widget, environment, manager, settle},
};

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_ends_the_start_with_its_name_and_the_next_step() {
    let env = Environment::builder().start().await.unwrap();
    let manager =
        Manager::new(env.client(), ManagerOptions::new("test").cache_sync_timeout(Duration::from_secs(7)));
    Builder::managed_by(&manager).for_kind::<Widget>().complete(Notes::done()).unwrap();
    let ready = manager.ready();
    let started = Instant::now();
    let error = Running::begin(manager).end().await.expect_err("there is no such kind");
    assert_eq!(started.elapsed(), Duration::from_secs(7));
    assert_eq!(
        error.to_string(),
        "the cache of widgets.example.com has not received its initial list after 7 s: list: the API server does not serve \
         widgets.example.com v1: is its CustomResourceDefinition installed?"
    );
    assert!(ready.await.is_err());
}

#[tokio::test]
async fn an_api_server_that_cannot_be_reached_is_named_as_the_reason() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener); // the port is closed now
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    let client = kube::Client::try_from(config).unwrap();
    let manager =
        Manager::new(client, ManagerOptions::new("test").cache_sync_timeout(Duration::from_secs(2)));
    let _widgets = manager.cached::<Widget>();
    let error = manager.run(std::future::pending()).await.expect_err("no server answers");
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
async fn a_manager_passes_its_states_in_order() {
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
async fn an_unmanaged_controller_reserves_its_name_until_it_is_dropped() {
    let env = environment().await;
    let manager = manager(&env);
    let make = |options| Builder::managed_by(&manager).for_kind::<Widget>().with_options(options);
    let alone = make(ControllerOptions::default()).complete_unmanaged(Notes::done()).unwrap();
    for refused in [
        make(ControllerOptions::default()).complete_unmanaged(Notes::done()).map(drop),
        make(ControllerOptions::default()).complete(Notes::done()).map(drop),
    ] {
        assert!(matches!(refused, Err(AddError::DuplicateName { name }) if name == "widget"));
    }
    let twin = make(ControllerOptions::default().skip_name_validation(true))
        .complete_unmanaged(Notes::done())
        .unwrap();
    drop(alone);
    make(ControllerOptions::default()).complete(Notes::done()).expect_err("the twin has the name still");
    drop(twin);
    make(ControllerOptions::default()).complete(Notes::done()).unwrap();
    make(ControllerOptions::default())
        .complete_unmanaged(Notes::done())
        .expect_err("the manager's has it now");
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_was_ready_was_ready_also_after_its_end() {
    let env = environment().await;
    let manager = manager(&env);
    let (ready, later) = (manager.ready(), manager.ready());
    manager.run(async { ready.await.unwrap() }).await.unwrap();
    later.await.unwrap();
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
    let manager = Manager::new(client, ManagerOptions::new("test"));
    Builder::managed_by(&manager).for_kind::<Widget>().complete(Notes::done()).unwrap();
    Builder::managed_by(&manager).for_kind::<Widget>().owns::<Secret>().complete(Notes::done()).unwrap_err();
    let _running = Running::start(manager).await;
    settle().await;
    assert_eq!(secrets.load(SeqCst), 0);
}
