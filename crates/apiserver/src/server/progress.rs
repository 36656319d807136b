//! An answer over HTTP/2 whose client does not take it.
//!
//! A client reads the answers on its connection as it likes. One that it does not read waits for room, while the connection
//! itself is busy with others, so that [`Patient`](super::patience::Patient) sees nothing amiss. So the task of each request
//! looks whether what its body gave was followed by a question for more, and ends if it was not for too long. The client
//! is told that this stream is cancelled; other streams do not notice.
//!
//! One piece can be under way without being taken, and no more is asked for until it is; so a client is found out by the
//! second.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::time::{Duration, Instant, Sleep, sleep_until};

tokio::task_local! {
    /// That of the request whose task this is.
    static PROGRESS: Progress;
}

/// Since when the client has been given something without taking it.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress(Arc<Mutex<Option<Instant>>>);

impl Progress {
    /// That of the request whose task this is, over HTTP/2.
    pub(super) fn current() -> Option<Self> {
        PROGRESS.try_with(Self::clone).ok()
    }

    /// The body was asked for more, and gave something or has nothing to give.
    pub(super) fn set(&self, gave: bool) {
        *self.0.lock() = gave.then(Instant::now);
    }
}

/// Carries out the task of a request; ends early if what its answer gave was not taken for `patience`.
pub(super) async fn watched(task: impl Future<Output = ()>, patience: Duration) {
    let progress = Progress::default();
    let stalled = Stalled { progress: progress.clone(), patience, waiting: None };
    tokio::select! {
        // The task first: what it does decides whether there is anything to wait for.
        biased;
        () = PROGRESS.scope(progress, task) => {}
        () = stalled => tracing::debug!("a client does not take its answer: the stream is cancelled"),
    }
}

/// Ready when the client has left what it was given for too long. It is asked whenever the task was, and by its own timer.
struct Stalled {
    progress: Progress,
    patience: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Future for Stalled {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(since) = *self.progress.0.lock() else {
            self.waiting = None;
            return Poll::Pending;
        };
        let end = since + self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep_until(end)));
        if waiting.deadline() != end {
            waiting.as_mut().reset(end);
        }
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(())
    }
}
