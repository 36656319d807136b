//! Guard of a key that is being processed.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::Priority;
use crate::core::Loan;
use crate::shared::Shared;

/// A key that is being processed; while it lives, the queue hands out the same key to no other worker.
///
/// Dropping it ends the processing, successful or not: on return, by a panic, or because the future that holds it is dropped.
/// Ask the queue for a retry or a later run of the key before that.
///
/// It borrows the handle of its queue; [`into_owned`](Self::into_owned) makes one that can be moved into another task.
#[must_use = "dropping the item ends its processing"]
pub struct Item<'q, K> {
    /// Taken when the item is consumed or dropped.
    loan: Option<Loan<K>>,
    home: Home<'q, K>,
}

/// The queue of the item. A handle of its own is made only on demand: counting references costs half as much as taking a lock.
enum Home<'q, K> {
    Borrowed(&'q Arc<Shared<K>>),
    Owned(Arc<Shared<K>>),
}

impl<'q, K> Item<'q, K> {
    pub(crate) fn new(loan: Loan<K>, home: &'q Arc<Shared<K>>) -> Self {
        Self { loan: Some(loan), home: Home::Borrowed(home) }
    }

    /// Converts to an item that holds its own handle of the queue.
    pub fn into_owned(mut self) -> Item<'static, K> {
        let home = Arc::clone(self.home());
        Item { loan: self.loan.take(), home: Home::Owned(home) }
    }

    /// The key to work on.
    #[must_use]
    pub fn key(&self) -> &K {
        self.loan().key()
    }

    /// The priority with which the key was handed out.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.loan().terms().priority
    }

    /// Returns the key to its queue, and takes another key, if there is one and the queue is `here`.
    pub(crate) fn exchange(mut self, here: &Arc<Shared<K>>) -> Option<Loan<K>> {
        // An item of another queue returns its key there when `self` is dropped.
        let loan = if Arc::ptr_eq(self.home(), here) { self.loan.take() } else { None };
        loan.and_then(|loan| here.exchange(loan))
    }

    fn home(&self) -> &Arc<Shared<K>> {
        match &self.home {
            Home::Borrowed(home) => home,
            Home::Owned(home) => home,
        }
    }

    #[inline]
    fn loan(&self) -> &Loan<K> {
        self.loan.as_ref().expect("an item has its loan until it is consumed or dropped")
    }
}

impl<K> Deref for Item<'_, K> {
    type Target = K;

    fn deref(&self) -> &K {
        self.key()
    }
}

impl<K> Drop for Item<'_, K> {
    fn drop(&mut self) {
        if let Some(loan) = self.loan.take() {
            // The key is dropped after the lock is released.
            let mut gone = None;
            self.home().change(|inner, now| inner.core.done(loan, &mut gone, now));
        }
    }
}

impl<K: fmt::Debug> fmt::Debug for Item<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Item").field(self.key()).finish()
    }
}
