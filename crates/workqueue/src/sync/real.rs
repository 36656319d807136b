//! Locks of `parking_lot`, clock and timers of tokio.

use std::cell::Cell;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use parking_lot::MutexGuard;
use tokio::time::{Duration, Instant, Sleep, sleep_until};

pub(crate) use parking_lot::Mutex;

pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Lock of a queue. A thread that holds it and locks it again panics instead of waiting forever: the queue calls the user's rate limiter,
/// metrics and keys under the lock, and one of them may call the queue by mistake.
pub(crate) struct QueueLock<T> {
    /// Number of the thread that holds the lock; 0 if none does. A thread can find its own number only if it stored it itself, so the
    /// order in which others see the number does not matter.
    holder: AtomicUsize,
    value: Mutex<T>,
}

/// Access to the value of a [`QueueLock`], which is locked meanwhile.
pub(crate) struct QueueGuard<'a, T> {
    holder: &'a AtomicUsize,
    /// Dropped after the holder was reset.
    value: MutexGuard<'a, T>,
}

impl<T> QueueLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { holder: AtomicUsize::new(0), value: Mutex::new(value) }
    }

    /// Locks the value.
    ///
    /// # Panics
    /// If this thread has locked it already.
    #[inline]
    pub(crate) fn lock(&self) -> QueueGuard<'_, T> {
        let thread = this_thread();
        // A lock that is free needs no check.
        let value = self.value.try_lock().unwrap_or_else(|| self.wait(thread));
        self.holder.store(thread, Relaxed);
        QueueGuard { holder: &self.holder, value }
    }

    #[cold]
    fn wait(&self, thread: usize) -> MutexGuard<'_, T> {
        assert_ne!(
            self.holder.load(Relaxed),
            thread,
            "a rate limiter, metrics, or `Eq` or `Clone` of a key called the queue that called it: they run under its lock"
        );
        self.value.lock()
    }
}

impl<T> Deref for QueueGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for QueueGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for QueueGuard<'_, T> {
    fn drop(&mut self) {
        self.holder.store(0, Relaxed);
    }
}

/// A number that no other running thread has and that is not 0: the address of a variable of the thread.
#[inline]
fn this_thread() -> usize {
    thread_local! {
        static PLACE: Cell<u8> = const { Cell::new(0) };
    }
    PLACE.with(|place| ptr::from_ref(place).addr())
}

/// Tokio's timers fire at full milliseconds, and the operating system may wake them up to one millisecond later.
const TICK: Duration = Duration::from_millis(1);

/// A timer that exists only while it is needed.
///
/// It is set one tick early, but at least a nanosecond ahead. If it then fires too early, it is set again for the rest. This
/// compensates one of the two roundings: a wake-up is late by about one tick at most, instead of two.
#[derive(Default)]
pub(crate) struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Ready when `deadline` has come, or earlier: check, and poll again if it has not. Without a deadline, never ready.
    pub(crate) fn poll(&mut self, deadline: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = deadline else {
            self.0 = None;
            return Poll::Pending;
        };
        let soonest = now() + Duration::from_nanos(1);
        let at = deadline.checked_sub(TICK).map_or(soonest, |early| early.max(soonest));
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if sleep.deadline() != at {
            sleep.as_mut().reset(at);
        }
        let rung = sleep.as_mut().poll(cx);
        if rung.is_ready() {
            // A deadline years ahead fires early; the caller then needs a new timer, because this one has completed.
            self.0 = None;
        }
        rung
    }
}
