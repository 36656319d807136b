//! Decoded objects that a budget keeps.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use super::{
    budget::{Entry, Place},
    stats::{Counters, add, subtract},
};

/// A decoded object, held by the budget alone: when the budget lets go of it, its state finds it gone.
///
/// So nothing that is locked for a read is locked for an eviction, and neither waits for the other.
pub(super) struct Hot<K> {
    object: Arc<K>,
    bytes: usize,
    used: AtomicBool,
    place: OnceLock<Place>,
    counters: Arc<Counters>,
}

impl<K> Hot<K> {
    /// An object that takes about so many bytes.
    pub(super) fn new(object: &Arc<K>, bytes: usize, counters: &Arc<Counters>) -> Self {
        add(&counters.hot, 1);
        add(&counters.hot_bytes, bytes);
        let (used, place) = (AtomicBool::new(false), OnceLock::new());
        Self { object: Arc::clone(object), bytes, used, place, counters: Arc::clone(counters) }
    }

    /// Where the budget has it.
    pub(super) fn place(&self) -> Option<Place> {
        self.place.get().copied()
    }

    /// Says where the budget has it.
    pub(super) fn set_place(&self, place: Place) {
        let _ = self.place.set(place); // it is admitted once
    }

    /// The object, which is in use therefore.
    pub(super) fn object(&self) -> Arc<K> {
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
pub(super) trait AnyHot: Send + Sync {
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
