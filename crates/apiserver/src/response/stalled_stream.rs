//! Stall detection for responses over HTTP/2.
//!
//! A client reads the responses on its connection independently. A response that it does not read waits for flow control window while
//! others keep the connection busy, so the write timeout of the connection does not notice. Therefore each request's task records when its
//! body returned a chunk, and ends if the body is not polled for the next one in time. The client sees this stream cancelled; other streams
//! are not affected.
//!
//! One chunk can be buffered without being read, and the next one is only requested when it is sent. A stalled client is therefore detected
//! at the second chunk.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::time::{Duration, Instant, Sleep, sleep_until};

tokio::task_local! {
    /// Progress of the request that this task serves.
    static PROGRESS: StreamProgress;
}

/// Time since which a chunk is unread; `None` if the body is not waiting for the client.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamProgress(Arc<Mutex<Option<Instant>>>);

impl StreamProgress {
    /// Returns the progress of the current task's request, if it came over HTTP/2.
    pub(crate) fn current() -> Option<Self> {
        PROGRESS.try_with(Self::clone).ok()
    }

    /// Records a poll of the body, and whether it yielded a chunk.
    pub(crate) fn set(&self, gave: bool) {
        *self.0.lock() = gave.then(Instant::now);
    }
}

/// Runs the task of a request; ends it early if its response is not read for `limit`.
pub(crate) async fn watched(task: impl Future<Output = ()>, limit: Duration) {
    let progress = StreamProgress::default();
    let stalled = Stalled { progress: progress.clone(), limit, waiting: None };
    tokio::select! {
        // The task is polled first, because it determines whether there is anything to wait for.
        biased;
        () = PROGRESS.scope(progress, task) => {}
        () = stalled => tracing::debug!("the client does not read the response: the stream is cancelled"),
    }
}

/// Completes when a chunk has been unread for too long. Polled after each poll of the task, and by its own timer.
struct Stalled {
    progress: StreamProgress,
    limit: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Future for Stalled {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(since) = *self.progress.0.lock() else {
            self.waiting = None;
            return Poll::Pending;
        };
        let end = since + self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep_until(end)));
        if waiting.deadline() != end {
            waiting.as_mut().reset(end);
        }
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(())
    }
}
