//! Runnables of a manager other than controllers.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_runtime::{
    BoxError,
    manager::{RunContext, Runnable, State},
};
use tokio::time::Instant;

use crate::support::{Running, environment, manager, settle};

/// A runnable that records its starts and stops.
pub(super) struct Noted {
    name: &'static str,
    notes: Arc<Mutex<Vec<String>>>,
    everywhere: bool,
    fails: bool,
}

impl Noted {
    pub(super) fn new(name: &'static str, notes: &Arc<Mutex<Vec<String>>>) -> Self {
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
    let expected =
        "too late cannot be added, because the manager is stopping: add it earlier, or to another manager";
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
async fn a_manager_is_ready_when_its_runnables_are() {
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

/// A runnable that keeps the context of each start, and does not report readiness itself.
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
async fn the_context_of_an_earlier_run_cannot_make_this_one_ready() {
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
