//! A lock of `parking_lot`, the clock and timers of tokio.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Duration, Instant, Sleep, sleep_until};

pub(crate) use parking_lot::Mutex;

pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Timers of tokio ring at full milliseconds of their own, and the operating system wakes them up to one later still.
const TICK: Duration = Duration::from_millis(1);

/// A timer that exists only while somebody needs it.
///
/// It is set a tick early, though not before the next one. If it then rings too early, it is set again for the rest; if not,
/// what was rounded up twice has been taken back once: a wake-up is late by about a tick at most, instead of two.
#[derive(Default)]
pub(crate) struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Ready when `deadline` has come, or sooner: look, and poll again if it has not. Without a deadline, never.
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
            // A deadline years ahead rings early: whoever waits for it needs a new timer, not one that has rung.
            self.0 = None;
        }
        rung
    }
}
