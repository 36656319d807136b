//! [`Stats`] of a cache, and the counters behind them.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

/// Contents and activity of the cache of a kind.
///
/// Counts all states that are in memory: those in the cache, and older ones that a handler or reader still holds.
/// Activity is counted since the cache was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// States in memory.
    pub objects: usize,
    /// States that share their text with the cache of another Rust type that reads the same objects.
    pub shared: usize,
    /// Decoded states.
    pub decoded: usize,
    /// Size of the decoded states, estimated from the length of their text.
    pub decoded_bytes: usize,
    /// Size of the texts, after compression where it applies.
    pub text_bytes: usize,
    /// Number of times a state was decoded.
    pub decodes: usize,
    /// Number of unreadable states. Each counts once. An object that cannot be cached because it has no name or no
    /// namespace counts each time it is received.
    pub unreadable: usize,
    /// Number of lists and watches that failed. A watch that ends and a version that is too old are not failures.
    pub failures: usize,
    /// Number of requests for all objects, as a list or as a watch with initial events.
    pub lists: usize,
    /// Number of opened watches, including those with initial events.
    pub watches: usize,
    /// Number of watches that were closed because they did not deliver events any more.
    pub dead_watches: usize,
    /// Number of probes of silent watches.
    pub probes: usize,
    /// Number of times the compression dictionary was trained on the objects.
    pub trainings: usize,
}

impl Stats {
    /// Adds the stats of another Rust type's cache of the same objects.
    pub(crate) fn add(&mut self, other: &Self) {
        let Self {
            objects,
            shared,
            decoded,
            decoded_bytes,
            text_bytes,
            decodes,
            unreadable,
            failures,
            lists,
            watches,
            dead_watches,
            probes,
            trainings,
        } = self;
        *objects += other.objects;
        *shared += other.shared;
        *decoded += other.decoded;
        *decoded_bytes += other.decoded_bytes;
        *text_bytes += other.text_bytes;
        *decodes += other.decodes;
        *unreadable += other.unreadable;
        // Both caches share one list and watch. The cache that was created later has counted fewer of them.
        *failures = (*failures).max(other.failures);
        *lists = (*lists).max(other.lists);
        *watches = (*watches).max(other.watches);
        *dead_watches = (*dead_watches).max(other.dead_watches);
        *probes = (*probes).max(other.probes);
        *trainings += other.trainings;
    }
}

/// State of all caches of a resource.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ResourceStats {
    pub(crate) stats: Stats,
    /// Time since the API server last sent anything, for the longest silent list or watch.
    pub(crate) silence: Option<Duration>,
}

/// Counters behind [`Stats`]. Each counter is exact, but together they are not a consistent snapshot.
#[derive(Debug, Default)]
pub(in crate::cache) struct Counters {
    pub(in crate::cache) objects: AtomicUsize,
    pub(in crate::cache) shared: AtomicUsize,
    pub(in crate::cache) decoded: AtomicUsize,
    pub(in crate::cache) decoded_bytes: AtomicUsize,
    pub(in crate::cache) text_bytes: AtomicUsize,
    pub(in crate::cache) decodes: AtomicUsize,
    pub(in crate::cache) unreadable: AtomicUsize,
    pub(in crate::cache) failures: AtomicUsize,
    pub(in crate::cache) lists: AtomicUsize,
    pub(in crate::cache) watches: AtomicUsize,
    pub(in crate::cache) dead_watches: AtomicUsize,
    pub(in crate::cache) probes: AtomicUsize,
    pub(in crate::cache) trainings: AtomicUsize,
}

impl Counters {
    pub(in crate::cache) fn read(&self) -> Stats {
        let read = |counter: &AtomicUsize| counter.load(Relaxed);
        Stats {
            objects: read(&self.objects),
            shared: read(&self.shared),
            decoded: read(&self.decoded),
            decoded_bytes: read(&self.decoded_bytes),
            text_bytes: read(&self.text_bytes),
            decodes: read(&self.decodes),
            unreadable: read(&self.unreadable),
            failures: read(&self.failures),
            lists: read(&self.lists),
            watches: read(&self.watches),
            dead_watches: read(&self.dead_watches),
            probes: read(&self.probes),
            trainings: read(&self.trainings),
        }
    }
}

pub(in crate::cache) fn add(counter: &AtomicUsize, amount: usize) {
    counter.fetch_add(amount, Relaxed);
}

pub(in crate::cache) fn subtract(counter: &AtomicUsize, amount: usize) {
    counter.fetch_sub(amount, Relaxed);
}
