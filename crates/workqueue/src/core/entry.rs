//! What is known of one key.

use super::moment::Moment;
use super::slab::Id;

/// A key the queue knows. A key it does not know is absent, so four of the five states are here.
pub(crate) struct Entry<K> {
    pub(crate) key: K,
    /// Kept so that neither a growing index nor a finished key hashes the key again.
    pub(crate) hash: u64,
    pub(crate) state: State,
}

/// Where a key is. There is one state per key, so it cannot be ready and waiting, or ready and processed, at once.
#[derive(Clone, Copy)]
pub(crate) enum State {
    /// Not before `until`; `place` is its place in the heap of waiting keys.
    Waiting { until: Moment, why: Reason, place: u32 },
    /// In line; the links are its neighbours.
    Ready { previous: Id, next: Id },
    /// Handed out; `again` says that it was added meanwhile.
    Processing { again: Option<Again> },
}

impl State {
    /// Of an entry that is about to be put somewhere: in neither the line nor the heap.
    pub(crate) const NEW: Self = Self::Processing { again: None };
}

/// A run asked for while the key is being processed.
#[derive(Clone, Copy)]
pub(crate) struct Again {
    pub(crate) at: Moment,
    pub(crate) why: Reason,
}

/// Why a key waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// It was added with a delay.
    Delayed,
    /// It failed and the rate limiter set the delay.
    RateLimited,
}
