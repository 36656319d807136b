//! What a watch is seldom told: that it ends, or that a bookmark is due.
//!
//! A watch of a busy collection is asked thousands of times before one of these has anything to say, and asking them costs more
//! than an event does. So each of them wakes a bell, which wakes the watch, and they are asked only when it has rung.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use futures::task::AtomicWaker;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::server::Closing;

/// The end of a watch, and its bookmarks.
pub(super) struct Interrupts {
    bell: Arc<Bell>,
    /// Sleeps until the deadline, or what a fault makes of it.
    end: Pin<Box<Sleep>>,
    /// Sleeps until the next bookmark is due; `None` if the client wants none.
    bookmark: Option<Pin<Box<Sleep>>>,
    /// Ready when the listener or the server is gone.
    gone: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_gone: bool,
    has_ended: bool,
    bookmark_is_due: bool,
}

impl Interrupts {
    /// `closing` is that of the listener, if there is one, and `server` becomes true when the server is gone.
    pub(super) fn new(
        end: Instant,
        bookmark: Option<Instant>,
        closing: Option<Closing>,
        server: watch::Receiver<bool>,
    ) -> Self {
        Self {
            bell: Arc::new(Bell { has_rung: AtomicBool::new(true), listener: AtomicWaker::new() }),
            end: Box::pin(sleep_until(end)),
            bookmark: bookmark.map(|due| Box::pin(sleep_until(due))),
            gone: Box::pin(gone(closing, server)),
            is_gone: false,
            has_ended: false,
            bookmark_is_due: false,
        }
    }

    /// Looks whether something has come. If nothing has, the task is woken when it does.
    pub(super) fn poll(&mut self, context: &Context<'_>) {
        // The one to be woken first, so that no ring after the look is lost.
        self.bell.listener.register(context.waker());
        if !self.bell.has_rung.load(Ordering::Acquire) {
            return;
        }
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

    /// Whether nobody can be served any more.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Whether the watch is over.
    pub(super) fn is_over(&self) -> bool {
        self.is_gone || self.has_ended
    }

    /// Whether the client wants any.
    pub(super) fn has_bookmarks(&self) -> bool {
        self.bookmark.is_some()
    }

    pub(super) fn bookmark_is_due(&self) -> bool {
        self.bookmark_is_due
    }

    /// The next bookmark is due at `next`. The caller polls again before it waits.
    pub(super) fn set_bookmark(&mut self, next: Instant) {
        if let Some(bookmark) = &mut self.bookmark {
            bookmark.as_mut().reset(next);
            self.bookmark_is_due = false;
            self.bell.has_rung.store(true, Ordering::Release);
        }
    }
}

/// Remembers that it was rung, and tells the task.
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

/// Waits until the listener shuts down, if the watch came through one, or the server is gone.
async fn gone(closing: Option<Closing>, mut server: watch::Receiver<bool>) {
    let listener = async {
        match closing {
            Some(Closing(mut closing)) => {
                // An error means that the listener is gone, which is the same.
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
