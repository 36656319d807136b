//! A lock of `parking_lot`, the clock and timers of tokio.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

pub(crate) use parking_lot::Mutex;

pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Waits until `called` says that somebody called, or until `deadline` if there is one.
///
/// `called` is asked first, so a call that comes together with the deadline is not left standing.
pub(crate) async fn called_or_until(mut called: impl FnMut(&Waker) -> bool, deadline: Option<Instant>) {
    let called = poll_fn(|cx: &mut Context<'_>| {
        if called(cx.waker()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    });
    match deadline {
        None => called.await,
        Some(deadline) => {
            // The only outcome is "look again", so which of the two it was does not matter.
            let _: Result<(), _> = tokio::time::timeout_at(deadline, pin!(called)).await;
        }
    }
}
