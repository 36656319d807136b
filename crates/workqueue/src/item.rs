//! The guard of a key that is being processed.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::Priority;
use crate::core::Loan;
use crate::shared::Shared;

/// A key to work on; while it lives, nobody else is handed the same key.
///
/// Dropping it says that the work is done, whether it succeeded or not: by returning, by a panic, or because the future
/// that held it was dropped. What the key needs next (a retry, a later run) is asked of the queue before that.
///
/// It borrows the handle of the queue that it came from; [`into_owned`](Self::into_owned) makes one that can go into a
/// task of its own.
#[must_use = "dropping the item says that its work is done"]
pub struct Item<'q, K> {
    /// Taken when the item goes, and not before.
    loan: Option<Loan<K>>,
    home: Home<'q, K>,
}

/// The queue it came from. A handle of its own is made only on demand: to count it costs half as much as a lock.
enum Home<'q, K> {
    Borrowed(&'q Arc<Shared<K>>),
    Owned(Arc<Shared<K>>),
}

impl<'q, K> Item<'q, K> {
    pub(crate) fn new(loan: Loan<K>, home: &'q Arc<Shared<K>>) -> Self {
        Self { loan: Some(loan), home: Home::Borrowed(home) }
    }

    /// The same item with a handle of the queue of its own.
    pub fn into_owned(mut self) -> Item<'static, K> {
        let home = Arc::clone(self.home());
        Item { loan: self.loan.take(), home: Home::Owned(home) }
    }

    /// The key to work on.
    #[must_use]
    pub fn key(&self) -> &K {
        self.loan().key()
    }

    /// The class in which it was handed out.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.loan().terms().priority
    }

    /// Gives the key back to the queue it came from, and takes another one if there is one and that queue is `here`.
    pub(crate) fn exchange(mut self, here: &Arc<Shared<K>>) -> Option<Loan<K>> {
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
        self.loan.as_ref().expect("an item that can be asked has not gone")
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
            // The key is dropped after the lock.
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
