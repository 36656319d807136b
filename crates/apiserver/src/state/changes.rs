//! Notification of watches about changes of a table.
//!
//! A busy table wakes thousands of watches a thousand times per second, and each checks for changes after each wake-up. The check is one
//! load of a counter that all watches share. The wakers of waiting watches are stored contiguously.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use slab::Slab;

use crate::store::Closed;

/// Change counter and wakers of a table.
#[derive(Debug)]
pub(crate) struct Changes {
    /// Incremented by each change, under the lock of `waiting`. 0 means "before all changes".
    latest: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// One slot per subscription; `None` while it does not wait.
    wakers: Slab<Option<Waker>>,
    /// Number of subscriptions that belong to watches of clients.
    watches: usize,
    /// History of the table, once it is closed.
    closed: Option<Arc<Closed>>,
}

impl Changes {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { latest: AtomicU64::new(1), waiting: Mutex::default() })
    }

    /// Wakes all waiting subscriptions. Call it without holding locks: a waker may run arbitrary code.
    pub(crate) fn notify(&self) {
        let wakers: Vec<Waker> = {
            let mut waiting = self.waiting.lock();
            self.latest.fetch_add(1, Ordering::Release);
            waiting.wakers.iter_mut().filter_map(|(_, waker)| waker.take()).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Marks the table as closed. Call [`notify`](Self::notify) afterwards.
    pub(crate) fn close(&self, closed: Option<Arc<Closed>>) {
        self.waiting.lock().closed = closed;
    }

    /// Creates a subscription to which every earlier change is new.
    pub(crate) fn subscribe(self: &Arc<Self>) -> Subscription {
        self.subscription(ChangeReader::Controller)
    }

    /// Like [`subscribe`](Self::subscribe), for the watch of a client.
    pub(crate) fn watch(self: &Arc<Self>) -> Subscription {
        self.subscription(ChangeReader::ClientWatch)
    }

    fn subscription(self: &Arc<Self>, reader: ChangeReader) -> Subscription {
        let mut waiting = self.waiting.lock();
        waiting.watches += usize::from(reader == ChangeReader::ClientWatch);
        let place = waiting.wakers.insert(None);
        Subscription { changes: Arc::clone(self), place, seen: 0, reader }
    }

    /// Whether a client watches the table.
    pub(crate) fn is_watched(&self) -> bool {
        self.waiting.lock().watches > 0
    }
}

/// A reader's position in the changes of a table.
#[derive(Debug)]
pub(crate) struct Subscription {
    changes: Arc<Changes>,
    /// Slot of the subscription's waker.
    place: usize,
    seen: u64,
    reader: ChangeReader,
}

/// Reader of the changes of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangeReader {
    /// A controller of the server.
    Controller,
    /// The watch of a client.
    ClientWatch,
}

impl Subscription {
    /// Returns the number of the latest change. Load it before reading the table, and [mark](Self::see) it as seen
    /// afterwards.
    pub(crate) fn latest(&self) -> u64 {
        self.changes.latest.load(Ordering::Acquire)
    }

    /// Marks everything up to this number as read.
    pub(crate) fn see(&mut self, latest: u64) {
        self.seen = latest;
    }

    /// Marks all changes so far as seen. Call it before reading the table, so that later changes count as new.
    pub(crate) fn see_all(&mut self) {
        self.seen = self.latest();
    }

    /// Whether there are changes that are not marked as seen.
    pub(crate) fn has_news(&self) -> bool {
        self.latest() != self.seen
    }

    /// Returns the history of the table, once it is closed.
    pub(crate) fn closed(&self) -> Option<Arc<Closed>> {
        self.changes.waiting.lock().closed.clone()
    }

    /// Waits for a change without marking it as seen. `None` if the table is closed. Cancel safe.
    pub(crate) async fn news(&mut self) -> Option<()> {
        poll_fn(|context| self.poll_news(context)).await
    }

    /// Like [`news`](Self::news), for callers that implement `poll`.
    pub(crate) fn poll_news(&mut self, context: &Context<'_>) -> Poll<Option<()>> {
        if self.has_news() {
            return Poll::Ready(Some(()));
        }
        let mut waiting = self.changes.waiting.lock();
        // Check again: the counter does not change while the lock is held.
        if self.has_news() {
            return Poll::Ready(Some(()));
        }
        if waiting.closed.is_some() {
            return Poll::Ready(None);
        }
        let waker = waiting.wakers.get_mut(self.place);
        let old = match waker {
            Some(Some(known)) if known.will_wake(context.waker()) => None,
            Some(place) => place.replace(context.waker().clone()),
            None => None,
        };
        // Dropped after the lock: dropping a waker may drop a task, and with it another subscription.
        drop(waiting);
        drop(old);
        Poll::Pending
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut waiting = self.changes.waiting.lock();
        waiting.watches -= usize::from(self.reader == ChangeReader::ClientWatch);
        let waker = waiting.wakers.try_remove(self.place);
        // Dropped after the lock, as above.
        drop(waiting);
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn a_subscription_waits_for_a_change_that_it_has_not_seen() {
        let changes = Changes::new();
        let (mut first, mut second) = (changes.subscribe(), changes.subscribe());
        assert!(first.news().await.is_some(), "the state at the start is news");
        first.see_all();
        second.see_all();
        assert!(first.news().now_or_never().is_none());
        let ((), first_woken, second_woken) =
            tokio::join!(async { changes.notify() }, first.news(), second.news());
        assert!(first_woken.is_some() && second_woken.is_some());
        first.see_all();
        assert!(first.news().now_or_never().is_none());
        assert!(second.has_news(), "what one has seen is still news to the other");
    }

    #[tokio::test]
    async fn a_change_during_a_read_counts_as_new() {
        let changes = Changes::new();
        let mut subscription = changes.subscribe();
        let latest = subscription.latest();
        changes.notify();
        subscription.see(latest);
        assert!(subscription.news().await.is_some());
    }

    #[tokio::test]
    async fn a_subscription_to_a_closed_table_does_not_wait() {
        let mut store = crate::store::Store::new(crate::store::HistoryLimits::default());
        store.open(&"table");
        let changes = Changes::new();
        let mut subscription = changes.subscribe();
        subscription.see_all();
        changes.close(store.close(&"table").map(Arc::new));
        assert!(subscription.news().await.is_none());
        assert!(subscription.closed().is_some());
    }

    #[test]
    fn a_table_is_watched_as_long_as_a_client_watches_it() {
        let changes = Changes::new();
        let _controller = changes.subscribe();
        assert!(!changes.is_watched(), "a controller of the server is no client");
        let watches = [changes.watch(), changes.watch()];
        for watch in watches {
            assert!(changes.is_watched());
            drop(watch);
        }
        assert!(!changes.is_watched());
    }

    #[test]
    fn a_dropped_subscription_frees_its_slot() {
        let changes = Changes::new();
        for _ in 0..100 {
            let mut subscription = changes.subscribe();
            subscription.see_all();
            let context = Context::from_waker(Waker::noop());
            assert!(subscription.poll_news(&context).is_pending());
        }
        let waiting = changes.waiting.lock();
        assert!(waiting.wakers.is_empty() && waiting.wakers.capacity() < 10);
    }
}
