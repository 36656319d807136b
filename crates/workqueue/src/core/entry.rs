//! State of one key.

use super::loan::Loan;
use super::slab::Id;
use super::timestamp::Timestamp;
use crate::Priority;

/// A key in the queue. Unknown keys have no entry, so four of the five states are here.
pub(crate) struct Entry<K> {
    /// `None` while it is lent, and in a vacant place.
    pub(crate) key: Option<K>,
    /// The queue's handle of a key that is being processed.
    pub(crate) loan: Option<Loan<K>>,
    /// Stored, so that neither a growing index nor a finished key hashes the key again.
    pub(crate) hash: u64,
    pub(crate) state: State,
    /// Waiting: the due time, including the slot of a shared budget. Ready: the time since which it is ready if metrics need
    /// it, else [`Timestamp::NEVER`]. Processing: the earliest time requested meanwhile, [`Timestamp::NEVER`] if only events came.
    pub(crate) at: Timestamp,
    /// Neighbours in the FIFO list of ready keys, or in that of keys being processed.
    pub(crate) previous: Id,
    pub(crate) next: Id,
    pub(crate) priority: Priority,
    pub(crate) flow: u32,
    /// Set only for keys that failed or are debounced.
    pub(crate) past: Option<Box<Past>>,
}

impl<K> Entry<K> {
    pub(crate) const VACANT: Self = Self {
        key: None,
        loan: None,
        hash: 0,
        state: State::NEW,
        at: Timestamp::START,
        previous: Id::NONE,
        next: Id::NONE,
        priority: Priority::Normal,
        flow: 0,
        past: None,
    };

    pub(crate) fn is_vacant(&self) -> bool {
        self.key.is_none() && self.loan.is_none()
    }

    #[inline]
    pub(crate) fn key(&self) -> &K {
        let lent = || self.loan.as_ref().map(Loan::key);
        self.key.as_ref().or_else(lent).expect("a key is with its entry or lent")
    }
}

/// State of a key. A key has one state, so it cannot be ready and waiting, or ready and processed, at once.
#[derive(Clone, Copy)]
pub(crate) enum State {
    /// Not due. `place` is its place in the heap of waiting keys, or in that of held keys if only a shared budget delays it.
    Waiting { why: Reason, place: u32, held: bool },
    /// In a FIFO list, to be handed out.
    Ready,
    /// Handed out; `again` is the run requested meanwhile.
    Processing { again: Option<Again> },
}

impl State {
    /// State of an entry that is in neither a FIFO list nor a heap, until it is put into one.
    pub(crate) const NEW: Self = Self::Processing { again: None };
}

/// A run requested while the key is being processed; its time is that of the entry.
#[derive(Clone, Copy)]
pub(crate) struct Again {
    /// Whether an event requested it: then `done` sets the time, because only then is the result of the run known.
    pub(crate) event: bool,
    /// Whether one of the events was urgent.
    pub(crate) urgent: bool,
    pub(crate) why: Reason,
    pub(crate) priority: Priority,
}

/// History of a key that the rules of back-off and debouncing need.
#[derive(Clone, Copy)]
pub(crate) struct Past {
    /// End of the back-off: the time that the rate limiter set for its last counted failure.
    pub(crate) back_off: Timestamp,
    /// End of the delay of its own failures; [`Timestamp::NEVER`] if no shared budget can delay it.
    pub(crate) own: Timestamp,
    /// Value of `own` after the failure that set the time of the next run. A later failure that asks for a later time changes
    /// `own` alone.
    pub(crate) own_of_next: Timestamp,
    /// Whether it has failed since it was last forgotten.
    pub(crate) failed: bool,
    /// Whether it was released ahead of its slot, and its run has not ended.
    pub(crate) ahead: bool,
    /// Whether an event has brought it forward in this back-off.
    pub(crate) brought_forward: bool,
    /// Number of urgent events in this back-off.
    pub(crate) urgent: u8,
    /// Whether the current run began in back-off.
    pub(crate) early: bool,
    /// End of its last run.
    pub(crate) ended: Timestamp,
    /// Time beyond which no event can postpone a debounced key.
    pub(crate) latest: Timestamp,
}

impl Past {
    pub(crate) const NONE: Self = Self {
        back_off: Timestamp::START,
        own: Timestamp::NEVER,
        own_of_next: Timestamp::NEVER,
        failed: false,
        ahead: false,
        brought_forward: false,
        urgent: 0,
        early: false,
        ended: Timestamp::START,
        latest: Timestamp::NEVER,
    };

    pub(crate) fn is_in_back_off(&self, now: Timestamp) -> bool {
        self.back_off > now
    }
}

/// Reason why a key waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The key was added with a delay.
    Delayed,
    /// The key failed and the rate limiter set the delay.
    RateLimited,
    /// An event arrived, but the key is in back-off and was already brought forward once:
    /// see [`BackOffEvents`](crate::BackOffEvents).
    EventInBackOff,
    /// An event arrived, and more may follow: see [`Options::debounce`](crate::Options::debounce).
    Debounced,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::Delayed, Self::RateLimited, Self::EventInBackOff, Self::Debounced];
}
