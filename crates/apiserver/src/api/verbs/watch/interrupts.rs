//! Interrupts: rare conditions of a watch, which are its end and the next bookmark.
//!
//! A watch of a busy collection is polled thousands of times before one of them occurs, and polling them costs more than an event.
//! Therefore their wake-ups are recorded, and they are polled only after one of them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use futures::task::AtomicWaker;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::request::origin::Closing;

/// End and bookmarks of a watch.
pub(super) struct Interrupts {
    waker: Arc<RecordingWaker>,
    /// Completes at the deadline, or when a fault ends the watch.
    end: Pin<Box<Sleep>>,
    /// Completes when the next bookmark is due; `None` if the client wants no bookmarks.
    bookmark: Option<Pin<Box<Sleep>>>,
    /// Completes when the listener or the server shuts down.
    gone: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_gone: bool,
    has_ended: bool,
    bookmark_is_due: bool,
}

impl Interrupts {
    /// Creates the conditions. `closing` comes from the listener, if the request came over one; `server` becomes true when the server shuts
    /// down.
    pub(super) fn new(
        end: Instant,
        bookmark: Option<Instant>,
        closing: Option<Closing>,
        server: watch::Receiver<bool>,
    ) -> Self {
        Self {
            waker: Arc::new(RecordingWaker { was_woken: AtomicBool::new(true), task: AtomicWaker::new() }),
            end: Box::pin(sleep_until(end)),
            bookmark: bookmark.map(|due| Box::pin(sleep_until(due))),
            gone: Box::pin(gone(closing, server)),
            is_gone: false,
            has_ended: false,
            bookmark_is_due: false,
        }
    }

    /// Polls the conditions if one of them has woken the watch. Otherwise the task is woken when one does.
    pub(super) fn poll(&mut self, context: &Context<'_>) {
        // Register the waker before checking, so that a wake-up in between is not lost.
        self.waker.task.register(context.waker());
        if !self.waker.was_woken.load(Ordering::Acquire) {
            return;
        }
        // Reset before the conditions are polled, so that a wake-up in between is not lost.
        self.waker.was_woken.store(false, Ordering::Release);
        let waker = Waker::from(Arc::clone(&self.waker));
        let context = &mut Context::from_waker(&waker);
        self.is_gone = self.is_gone || self.gone.as_mut().poll(context).is_ready();
        self.has_ended = self.has_ended || self.end.as_mut().poll(context).is_ready();
        if let Some(bookmark) = &mut self.bookmark
            && !self.bookmark_is_due
        {
            self.bookmark_is_due = bookmark.as_mut().poll(context).is_ready();
        }
    }

    /// Whether the listener or the server has shut down.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Whether the watch is over.
    pub(super) fn is_over(&self) -> bool {
        self.is_gone || self.has_ended
    }

    /// Whether the client wants bookmarks.
    pub(super) fn has_bookmarks(&self) -> bool {
        self.bookmark.is_some()
    }

    pub(super) fn bookmark_is_due(&self) -> bool {
        self.bookmark_is_due
    }

    /// Schedules the next bookmark. The caller must poll again before it waits.
    pub(super) fn set_bookmark(&mut self, next: Instant) {
        if let Some(bookmark) = &mut self.bookmark {
            bookmark.as_mut().reset(next);
            self.bookmark_is_due = false;
            self.waker.was_woken.store(true, Ordering::Release);
        }
    }
}

/// A waker that records its wake-up and wakes the task of the watch.
#[derive(Debug)]
struct RecordingWaker {
    was_woken: AtomicBool,
    task: AtomicWaker,
}

impl Wake for RecordingWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.was_woken.store(true, Ordering::Release);
        self.task.wake();
    }
}

/// Waits until the listener of the watch, if it has one, or the server shuts down.
async fn gone(closing: Option<Closing>, mut server: watch::Receiver<bool>) {
    let listener = async {
        match closing {
            Some(Closing(mut closing)) => {
                // An error means that the listener was dropped.
                let _ = closing.wait_for(|closed| *closed).await;
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = listener => {}
        _ = server.wait_for(|closed| *closed) => {}
    }
}
