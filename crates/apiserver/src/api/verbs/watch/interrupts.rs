//! Interrupts: rare conditions of a watch, which are its end and the next bookmark.
//!
//! A watch of a busy collection is polled thousands of times before one of them occurs, and polling them costs more than an event.
//! Therefore they wake a bell, which wakes the watch; they are polled only after the bell has rung.

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
    bell: Arc<Bell>,
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
        cluster: watch::Receiver<bool>,
    ) -> Self {
        Self {
            bell: Arc::new(Bell { has_rung: AtomicBool::new(true), listener: AtomicWaker::new() }),
            end: Box::pin(sleep_until(end)),
            bookmark: bookmark.map(|due| Box::pin(sleep_until(due))),
            gone: Box::pin(gone(closing, cluster)),
            is_gone: false,
            has_ended: false,
            bookmark_is_due: false,
        }
    }

    /// Polls the conditions if the bell has rung. Otherwise the task is woken when it rings.
    pub(super) fn poll(&mut self, context: &Context<'_>) {
        // Register the waker before checking, so that a ring in between is not lost.
        self.bell.listener.register(context.waker());
        if !self.bell.has_rung.load(Ordering::Acquire) {
            return;
        }
        // Reset before the conditions are polled, so that a ring in between is not lost.
        self.bell.has_rung.store(false, Ordering::Release);
        let waker = Waker::from(Arc::clone(&self.bell));
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
            self.bell.has_rung.store(true, Ordering::Release);
        }
    }
}

/// A waker that records its wake-up and wakes the task of the watch.
#[derive(Debug)]
struct Bell {
    has_rung: AtomicBool,
    listener: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Ordering::Release);
        self.listener.wake();
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
