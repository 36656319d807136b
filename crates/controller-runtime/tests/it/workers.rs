//! Workers of a controller: their number, and its changes while the controller runs.

use std::time::Duration;

use controller_runtime::{Builder, Client, controller::ControllerOptions};

use crate::support::{Notes, Running, Slow, Widget, environment, manager, settle, widget};

fn client(env: &kube_envtest::Environment) -> Client {
    Client::new(env.client(), "test")
}

/// Creates Widgets that wait for a worker, with names from `a` on.
async fn create_many(env: &kube_envtest::Environment, count: usize) {
    for name in ('a'..='z').take(count) {
        client(env).create(&widget(&name.to_string(), 1)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn sixteen_workers_by_default_and_as_many_as_asked_for() {
    for (workers, expected) in [(None, 16), (Some(1), 1), (Some(3), 3)] {
        let env = environment().await;
        create_many(&env, 20).await;
        let (manager, notes) = (manager(&env), Notes::done());
        let slow = Slow { notes: notes.clone(), work: Duration::from_secs(1) };
        let options = ControllerOptions::default();
        let options = match workers {
            Some(workers) => options.max_concurrent_reconciles(workers),
            None => options,
        };
        Builder::managed_by(&manager).for_kind::<Widget>().with_options(options).complete(slow).unwrap();
        let running = Running::start(manager).await;
        settle().await;
        assert_eq!(notes.names().len(), expected, "{workers:?}");
        running.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_number_of_workers_is_refused_at_build_and_while_running() {
    let env = environment().await;
    let manager = manager(&env);
    let build = |workers| {
        Builder::managed_by(&manager)
            .for_kind::<Widget>()
            .with_options(ControllerOptions::default().max_concurrent_reconciles(workers))
            .complete(Notes::done())
    };
    assert_eq!(
        build(0).unwrap_err().to_string(),
        "controller widget cannot have 0 workers (max_concurrent_reconciles of its options): use 1 to 10000"
    );
    let handle = build(2).unwrap();
    assert_eq!(
        handle.set_max_concurrent_reconciles(0).unwrap_err().to_string(),
        "controller widget cannot have 0 workers (set_max_concurrent_reconciles): use 1 to 10000"
    );
    assert_eq!(handle.max_concurrent_reconciles(), 2);
}

#[tokio::test(start_paused = true)]
async fn workers_are_added_and_retired_while_the_controller_runs() {
    let env = environment().await;
    create_many(&env, 20).await;
    let (manager, notes) = (manager(&env), Notes::done());
    let metrics = manager.metrics().clone();
    let slow = Slow { notes: notes.clone(), work: Duration::from_secs(10) };
    let options = ControllerOptions::default().max_concurrent_reconciles(2);
    let handle =
        Builder::managed_by(&manager).for_kind::<Widget>().with_options(options).complete(slow).unwrap();
    let running = Running::start(manager).await;
    let begun = async || {
        settle().await;
        let begun = notes.names().len();
        notes.clear();
        begun
    };
    assert_eq!(begun().await, 2);

    tokio::time::advance(Duration::from_secs(5)).await;
    handle.set_max_concurrent_reconciles(5).unwrap();
    assert_eq!(begun().await, 3, "the new workers begin at once");
    let gauge = "controller_runtime_max_concurrent_reconciles{controller=\"widget\"} 5\n";
    assert!(metrics.encode().contains(gauge));

    // Reduce, raise and reduce again before any of the five has ended.
    for workers in [1, 4, 1] {
        handle.set_max_concurrent_reconciles(workers).unwrap();
        assert_eq!(begun().await, 0, "running reconciles finish first");
    }
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(begun().await, 1, "all five have ended, and one worker is left");
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(begun().await, 1);

    handle.set_max_concurrent_reconciles(3).unwrap();
    assert_eq!(begun().await, 2, "numbers of retired workers are used again");
    running.stop().await.unwrap();
}

/// Idle workers wait for the queue and no event arrives, so that only the change can wake them.
#[tokio::test(start_paused = true)]
async fn idle_workers_retire_and_the_rest_process_later_requests() {
    let env = environment().await;
    let (manager, notes) = (manager(&env), Notes::done());
    let slow = Slow { notes: notes.clone(), work: Duration::from_secs(1) };
    let handle = Builder::managed_by(&manager).for_kind::<Widget>().complete(slow).unwrap();
    let _running = Running::start(manager).await;
    settle().await;
    handle.set_max_concurrent_reconciles(1).unwrap();
    settle().await;
    create_many(&env, 3).await;
    settle().await;
    assert_eq!(notes.names(), ["a"]);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(notes.names(), ["a", "b", "c"]);
}
