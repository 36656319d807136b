//! Repeated runs of a manager, and changes between them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_runtime::{
    BoxError, Builder, Client, Manager, ManagerOptions, ObjectKey,
    manager::{self, RunContext, Runnable, State},
};
use tokio::time::timeout;

use super::runnables::Noted;
use crate::{
    faults::{Fault, faulty},
    support::{Notes, Running, Widget, environment, manager, settle, widget},
};

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
        assert!(error.to_string().contains("is running already"), "{error}");
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
async fn a_runnable_removed_after_a_dropped_run_is_absent_from_the_next() {
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

/// A runnable that records an event, and ends.
struct Records;

impl Runnable for Records {
    async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
        cx.recorder("test").normal(&widget("a", 1), "Fine", "Look", "nothing new");
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_not_ended_by_the_previous_one() {
    let env = environment().await;
    // The last event may take the full time limit.
    let client =
        faulty(env.client(), |seen| if seen.is_about("/events") { Fault::Hang } else { Fault::Pass });
    let manager = Manager::new(client, ManagerOptions::new("test").seed(1));
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
        _controller: manager::UnmanagedController<ObjectKey<Widget>>,
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
    // On a separate thread, because the manager must not stay locked.
    let (ends, ended) = std::sync::mpsc::channel();
    let runtime = tokio::runtime::Handle::current();
    std::thread::spawn(move || {
        runtime.block_on(handle.remove());
        let _ = ends.send(());
    });
    ended.recv_timeout(Duration::from_secs(10)).expect("it is removed");
    own().expect("the name is free again");
}
