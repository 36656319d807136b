//! A value and its changes, like [`tokio::sync::watch`], but waiters wake in the order in which they began to wait.
//!
//! Tokio's channel puts each waiter into one of eight lists at random, so that the tasks behind a change run in another order in
//! every run. A simulation needs the same order each time. The lists spare contention between thousands of waiters, which the
//! channels of this crate do not have.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::Notify;

/// Holds the value and changes it.
pub(crate) struct Sender<T> {
    shared: Arc<WatchedValue<T>>,
}

/// Reads the value and waits for changes.
pub(crate) struct Receiver<T> {
    shared: Arc<WatchedValue<T>>,
    /// Version that counts as seen.
    seen: u64,
}

/// The sender was dropped, so the value does not change any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed;

/// The value that sender and receivers share.
struct WatchedValue<T> {
    value: RwLock<T>,
    /// Number of changes, incremented under the lock of `value`.
    version: AtomicU64,
    is_closed: AtomicBool,
    /// Wakes its waiters first in, first out.
    changed: Notify,
}

impl<T> Sender<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            shared: Arc::new(WatchedValue {
                value: RwLock::new(value),
                version: AtomicU64::new(0),
                is_closed: AtomicBool::new(false),
                changed: Notify::new(),
            }),
        }
    }

    /// Creates a receiver to which the current value is not a change.
    pub(crate) fn subscribe(&self) -> Receiver<T> {
        Receiver { seen: self.shared.version.load(Ordering::Acquire), shared: Arc::clone(&self.shared) }
    }

    /// Locks the value for reading: keep the guard short, and never across an `.await`.
    pub(crate) fn borrow(&self) -> RwLockReadGuard<'_, T> {
        self.shared.value.read()
    }

    /// Replaces the value, notifies the receivers, and returns the old value.
    pub(crate) fn send_replace(&self, value: T) -> T {
        let mut value = value;
        self.send_modify(|current| std::mem::swap(current, &mut value));
        value
    }

    /// Changes the value, and notifies the receivers.
    pub(crate) fn send_modify(&self, change: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            change(value);
            true
        });
    }

    /// Changes the value, and notifies the receivers if `change` returns `true`. Returns the result of `change`.
    pub(crate) fn send_if_modified(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        let is_changed = {
            let mut value = self.shared.value.write();
            let is_changed = change(&mut value);
            if is_changed {
                self.shared.version.fetch_add(1, Ordering::Release);
            }
            is_changed
        };
        // The lock is released first, because a waker may run arbitrary code.
        if is_changed {
            self.shared.changed.notify_waiters();
        }
        is_changed
    }
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // Before the notification, so that the woken receivers see it.
        self.shared.is_closed.store(true, Ordering::Release);
        self.shared.changed.notify_waiters();
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sender").field(&*self.borrow()).finish()
    }
}

impl<T> Receiver<T> {
    /// Locks the value for reading: keep the guard short, and never across an `.await`.
    pub(crate) fn borrow(&self) -> RwLockReadGuard<'_, T> {
        self.shared.value.read()
    }

    /// Like [`borrow`](Self::borrow), but also marks the value as seen.
    pub(crate) fn borrow_and_update(&mut self) -> RwLockReadGuard<'_, T> {
        let value = self.shared.value.read();
        // The version changes under the lock only.
        self.seen = self.shared.version.load(Ordering::Acquire);
        value
    }

    /// Marks the current value as seen.
    pub(crate) fn mark_unchanged(&mut self) {
        self.seen = self.shared.version.load(Ordering::Acquire);
    }

    /// Waits for a value that is not seen yet, and marks it as seen.
    ///
    /// # Cancellation
    ///
    /// Dropping the future has no effect.
    pub(crate) async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            // Created before the check, so that a change after the check ends the wait.
            let changed = self.shared.changed.notified();
            // Read before the version, so that the last change before the end is not lost.
            let is_closed = self.shared.is_closed.load(Ordering::Acquire);
            let version = self.shared.version.load(Ordering::Acquire);
            if version != self.seen {
                self.seen = version;
                return Ok(());
            }
            if is_closed {
                return Err(Closed);
            }
            changed.await;
        }
    }

    /// Waits until the value satisfies `condition`, and returns a copy of it.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses no value. Values that did not satisfy the condition count as seen.
    pub(crate) async fn wait_for(&mut self, mut condition: impl FnMut(&T) -> bool) -> Result<T, Closed>
    where
        T: Clone,
    {
        loop {
            let satisfying = {
                let value = self.borrow_and_update();
                condition(&value).then(|| value.clone())
            };
            match satisfying {
                Some(value) => return Ok(value),
                None => self.changed().await?,
            }
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), seen: self.seen }
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receiver").field(&*self.borrow()).finish()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use parking_lot::Mutex;
    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn waiters_wake_in_the_order_in_which_they_began_to_wait() {
        let (sender, order) = (Sender::new(0), Arc::new(Mutex::new(Vec::new())));
        let mut tasks = JoinSet::new();
        for waiter in 0..64 {
            let (mut receiver, order) = (sender.subscribe(), Arc::clone(&order));
            tasks.spawn(async move {
                receiver.changed().await.unwrap();
                order.lock().push(waiter);
            });
        }
        // Twice, because a yield lets at most 61 tasks run.
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        sender.send_replace(1);
        while tasks.join_next().await.is_some() {}
        assert_eq!(*order.lock(), (0..64).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_change_is_seen_once() {
        let sender = Sender::new(1);
        let mut receiver = sender.subscribe();
        assert!(receiver.changed().now_or_never().is_none(), "the value at the start is no change");
        sender.send_replace(2);
        assert_eq!(receiver.changed().now_or_never(), Some(Ok(())));
        assert!(receiver.changed().now_or_never().is_none());
        sender.send_modify(|value| *value += 1);
        assert_eq!(*receiver.borrow_and_update(), 3);
        assert!(receiver.changed().now_or_never().is_none());
        assert!(!sender.send_if_modified(|_| false));
        assert!(receiver.changed().now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_wait_ends_with_the_value_or_with_the_sender() {
        let sender = Sender::new(1);
        let mut receiver = sender.subscribe();
        assert_eq!(receiver.wait_for(|value| *value == 1).await, Ok(1));
        let (found, ()) = tokio::join!(receiver.wait_for(|value| *value == 3), async {
            sender.send_replace(2);
            sender.send_replace(3);
        });
        assert_eq!(found, Ok(3));
        let mut other = receiver.clone();
        let (found, ()) = tokio::join!(other.wait_for(|value| *value == 4), async { drop(sender) });
        assert_eq!(found, Err(Closed));
        assert_eq!(receiver.changed().await, Err(Closed));
    }
}
