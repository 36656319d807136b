use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What the cache of a kind holds, and what it did.
///
/// Counts states that somebody holds, the cache or a reader: an old state that a handler looks at is one of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// States held.
    pub objects: usize,
    /// Those of them whose text the cache of another Rust type holds, which reads the same objects.
    pub shared: usize,
    /// Those of them that are decoded.
    pub hot: usize,
    /// What the decoded ones take, as estimated from the length of their text.
    pub hot_bytes: usize,
    /// What the texts take, compressed where they are.
    pub cold_bytes: usize,
    /// How often a state was decoded, since the beginning.
    pub decodes: usize,
    /// States found unreadable, since the beginning. Each counts once; of an object that cannot be held, because it has no name or
    /// no namespace, each that is told.
    pub unreadable: usize,
    /// Lists and watches that failed, since the beginning. A watch that ends and a version that is too old are no failures.
    pub failures: usize,
    /// How often all objects were asked for, since the beginning: by a list, or by a watch that tells of them first.
    pub lists: usize,
    /// Watches that began, since the beginning, those that tell of all objects first among them.
    pub watches: usize,
    /// Watches that were closed because they did not deliver any more, since the beginning.
    pub dead_watches: usize,
    /// Probes of silent watches, since the beginning.
    pub probes: usize,
    /// How often it was learnt what the objects have in common, since the beginning.
    pub trainings: usize,
}

impl Stats {
    /// Adds what the cache of another Rust type holds of the same objects.
    pub(crate) fn add(&mut self, other: &Self) {
        let Self {
            objects,
            shared,
            hot,
            hot_bytes,
            cold_bytes,
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
        *hot += other.hot;
        *hot_bytes += other.hot_bytes;
        *cold_bytes += other.cold_bytes;
        *decodes += other.decodes;
        *unreadable += other.unreadable;
        // They have one list and watch, of which who came later has seen less.
        *failures = (*failures).max(other.failures);
        *lists = (*lists).max(other.lists);
        *watches = (*watches).max(other.watches);
        *dead_watches = (*dead_watches).max(other.dead_watches);
        *probes = (*probes).max(other.probes);
        *trainings += other.trainings;
    }
}

/// [`Stats`] as they are counted. Each number is right by itself; together they are of about one moment.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) objects: AtomicUsize,
    pub(super) shared: AtomicUsize,
    pub(super) hot: AtomicUsize,
    pub(super) hot_bytes: AtomicUsize,
    pub(super) cold_bytes: AtomicUsize,
    pub(super) decodes: AtomicUsize,
    pub(super) unreadable: AtomicUsize,
    pub(super) failures: AtomicUsize,
    pub(super) lists: AtomicUsize,
    pub(super) watches: AtomicUsize,
    pub(super) dead_watches: AtomicUsize,
    pub(super) probes: AtomicUsize,
    pub(super) trainings: AtomicUsize,
}

impl Counters {
    pub(super) fn read(&self) -> Stats {
        let read = |counter: &AtomicUsize| counter.load(Relaxed);
        Stats {
            objects: read(&self.objects),
            shared: read(&self.shared),
            hot: read(&self.hot),
            hot_bytes: read(&self.hot_bytes),
            cold_bytes: read(&self.cold_bytes),
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

pub(super) fn add(counter: &AtomicUsize, amount: usize) {
    counter.fetch_add(amount, Relaxed);
}

pub(super) fn subtract(counter: &AtomicUsize, amount: usize) {
    counter.fetch_sub(amount, Relaxed);
}
