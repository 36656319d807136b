//! Decoded objects that are kept by a budget.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use super::{
    budget::{Entry, Place},
    stats::{Counters, add, subtract},
};

/// A decoded object. The budget has the only strong handle, so after an eviction the state's weak handle is dangling.
///
/// Reads and evictions therefore lock nothing in common and do not wait for each other.
pub(in crate::cache) struct Hot<K> {
    object: Arc<K>,
    bytes: usize,
    used: AtomicBool,
    place: OnceLock<Place>,
    counters: Arc<Counters>,
}

impl<K> Hot<K> {
    /// Creates an entry of about this size.
    pub(in crate::cache) fn new(object: &Arc<K>, bytes: usize, counters: &Arc<Counters>) -> Self {
        add(&counters.hot, 1);
        add(&counters.hot_bytes, bytes);
        let (used, place) = (AtomicBool::new(false), OnceLock::new());
        Self { object: Arc::clone(object), bytes, used, place, counters: Arc::clone(counters) }
    }

    /// Returns the place in the budget.
    pub(in crate::cache) fn place(&self) -> Option<Place> {
        self.place.get().copied()
    }

    /// Sets the place in the budget.
    pub(in crate::cache) fn set_place(&self, place: Place) {
        let _ = self.place.set(place); // called once, after the admission
    }

    /// Returns the object and marks it as used.
    pub(in crate::cache) fn object(&self) -> Arc<K> {
        self.used.store(true, Relaxed);
        Arc::clone(&self.object)
    }
}

impl<K> Drop for Hot<K> {
    fn drop(&mut self) {
        subtract(&self.counters.hot, 1);
        subtract(&self.counters.hot_bytes, self.bytes);
    }
}

/// A [`Hot`] of any kind.
pub(in crate::cache) trait AnyHot: Send + Sync {
    fn take_used(&self) -> bool;
}

impl<K: Send + Sync> AnyHot for Hot<K> {
    fn take_used(&self) -> bool {
        self.used.load(Relaxed) && self.used.swap(false, Relaxed)
    }
}

impl Entry for Arc<dyn AnyHot> {
    fn take_used(&self) -> bool {
        (**self).take_used()
    }
}
