//! Decoded objects that are kept by a budget.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use super::{
    budget::{BudgetEntry, EntryId},
    stats::{Counters, add, subtract},
};

/// A decoded object. The budget holds the only strong handle, so an eviction leaves the state's weak handle dangling.
///
/// Therefore reads and evictions share no lock and never wait for each other.
pub(in crate::cache) struct DecodedObject<K> {
    object: Arc<K>,
    bytes: usize,
    used: AtomicBool,
    id: OnceLock<EntryId>,
    counters: Arc<Counters>,
}

impl<K> DecodedObject<K> {
    /// Creates an entry of about this size.
    pub(in crate::cache) fn new(object: &Arc<K>, bytes: usize, counters: &Arc<Counters>) -> Self {
        add(&counters.decoded, 1);
        add(&counters.decoded_bytes, bytes);
        let (used, id) = (AtomicBool::new(false), OnceLock::new());
        Self { object: Arc::clone(object), bytes, used, id, counters: Arc::clone(counters) }
    }

    /// Returns the id of the entry in the budget.
    pub(in crate::cache) fn id(&self) -> Option<EntryId> {
        self.id.get().copied()
    }

    /// Sets the id of the entry in the budget.
    pub(in crate::cache) fn set_id(&self, id: EntryId) {
        let _ = self.id.set(id); // called once, after the admission
    }

    /// Returns the object and marks it as used.
    pub(in crate::cache) fn object(&self) -> Arc<K> {
        self.used.store(true, Relaxed);
        Arc::clone(&self.object)
    }
}

impl<K> Drop for DecodedObject<K> {
    fn drop(&mut self) {
        subtract(&self.counters.decoded, 1);
        subtract(&self.counters.decoded_bytes, self.bytes);
    }
}

/// A [`DecodedObject`] of any kind.
pub(in crate::cache) trait AnyDecodedObject: Send + Sync {
    fn take_used(&self) -> bool;
}

impl<K: Send + Sync> AnyDecodedObject for DecodedObject<K> {
    fn take_used(&self) -> bool {
        // The load avoids a write to an entry that was not used.
        self.used.load(Relaxed) && self.used.swap(false, Relaxed)
    }
}

impl BudgetEntry for Arc<dyn AnyDecodedObject> {
    fn take_used(&self) -> bool {
        (**self).take_used()
    }
}
