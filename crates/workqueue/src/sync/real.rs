//! Locks of `parking_lot`, clock and timers of tokio.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Duration, Instant, Sleep, sleep_until};

pub(crate) use parking_lot::Mutex;

pub(crate) fn now() -> Instant {
    Instant::now()
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
