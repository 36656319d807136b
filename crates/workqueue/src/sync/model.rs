//! Loom's lock, and a clock that stands still until a test moves it.
//!
//! Loom runs all threads of a model on one operating system thread and switches only where its own types are used, so the
//! clock can live in a thread-local cell and adds no interleavings of its own.

use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use loom::sync::MutexGuard;
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("no thread of the model panicked with the lock")
    }
}

/// Loom reports a deadlock by itself.
pub(crate) type QueueLock<T> = Mutex<T>;

thread_local! {
    static EPOCH: Cell<Option<Instant>> = const { Cell::new(None) };
    static ELAPSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static SLEEPING: RefCell<Vec<(Instant, Waker)>> = const { RefCell::new(Vec::new()) };
}

/// Resets the clock without waking any task. Call it at the end of every execution of a model.
pub fn reset() {
    EPOCH.set(None);
    ELAPSED.set(Duration::ZERO);
    SLEEPING.take();
}

/// Advances the clock, and wakes tasks that slept until then.
pub fn pass(time: Duration) {
    ELAPSED.set(ELAPSED.get() + time);
    let now = now();
    let due: Vec<Waker> = SLEEPING.with_borrow_mut(|sleeping| {
        let (due, later) = sleeping.drain(..).partition(|(until, _)| *until <= now);
        *sleeping = later;
        due.into_iter().map(|(_, waker)| waker).collect()
    });
    due.into_iter().for_each(Waker::wake);
}

pub(crate) fn now() -> Instant {
    let epoch = EPOCH.get().unwrap_or_else(Instant::now);
    EPOCH.set(Some(epoch));
    epoch + ELAPSED.get()
}

#[derive(Default)]
pub(crate) struct Alarm;

impl Alarm {
    pub(crate) fn poll(&mut self, deadline: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = deadline else {
            return Poll::Pending;
        };
        if deadline <= now() {
            return Poll::Ready(());
        }
        SLEEPING.with_borrow_mut(|sleeping| sleeping.push((deadline, cx.waker().clone())));
        Poll::Pending
    }
}
