//! The guard of a key that is being processed.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::Priority;
use crate::core::Id;
use crate::shared::Shared;

/// A key to work on; while it lives, nobody else is handed the same key.
///
/// Dropping it says that the work is done, whether it succeeded or not: by returning, by a panic, or because the future
/// that held it was dropped. What the key needs next (a retry, a later run) is asked of the queue before that.
#[must_use = "dropping the item says that its work is done"]
pub struct Item<K> {
    key: K,
    priority: Priority,
    id: Id,
    shared: Arc<Shared<K>>,
}

impl<K> Item<K> {
    pub(crate) fn new(id: Id, key: K, priority: Priority, shared: Arc<Shared<K>>) -> Self {
        Self { key, priority, id, shared }
    }

    /// The key to work on.
    #[must_use]
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The class in which it was handed out.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.priority
    }
}

impl<K> Deref for Item<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.key
    }
}

impl<K> Drop for Item<K> {
    fn drop(&mut self) {
        drop(self.shared.change(|inner| inner.core.done(self.id, || self.shared.now())));
    }
}

impl<K: fmt::Debug> fmt::Debug for Item<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Item").field(&self.key).finish()
    }
}
