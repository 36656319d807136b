//! A lock of `parking_lot`, the clock and timers of tokio.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until};

pub(crate) use parking_lot::Mutex;

pub(crate) fn now() -> Instant {
    Instant::now()
}

/// A timer that exists only while somebody needs it.
#[derive(Default)]
pub(crate) struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Ready when `deadline` has come; without one, never.
    pub(crate) fn poll(&mut self, deadline: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = deadline else {
            self.0 = None;
            return Poll::Pending;
        };
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() != deadline {
            sleep.as_mut().reset(deadline);
        }
        let rung = sleep.as_mut().poll(cx);
        if rung.is_ready() {
            // A deadline years ahead rings early: whoever waits for it needs a new timer, not one that has rung.
            self.0 = None;
        }
        rung
    }
}
