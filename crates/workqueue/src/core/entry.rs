//! What is known of one key.

use super::lent::Loan;
use super::moment::Moment;
use super::slab::Id;
use crate::Priority;

/// A key the queue knows. A key it does not know is absent, so four of the five states are here.
pub(crate) struct Entry<K> {
    /// `None` while it is lent, and in a vacant place.
    pub(crate) key: Option<K>,
    /// The queue's handle of a key that is being processed.
    pub(crate) loan: Option<Loan<K>>,
    /// Kept so that neither a growing index nor a finished key hashes the key again.
    pub(crate) hash: u64,
    pub(crate) state: State,
    /// Waiting: until when, the slot of a shared budget included. Ready: since when, if anybody wants to know, else [`Moment::NEVER`]. Processing: the earliest
    /// time asked for meanwhile, [`Moment::NEVER`] when only events asked.
    pub(crate) at: Moment,
    /// Neighbours in the line of ready keys, or in the one of those being processed. A vacant place names the next one.
    pub(crate) previous: Id,
    pub(crate) next: Id,
    pub(crate) priority: Priority,
    pub(crate) flow: u32,
    /// Only keys that failed or are debounced have one.
    pub(crate) past: Option<Box<Past>>,
}

impl<K> Entry<K> {
    pub(crate) fn vacant(next: Id) -> Self {
        Self {
            key: None,
            loan: None,
            hash: 0,
            state: State::NEW,
            at: Moment::START,
            previous: Id::NONE,
            next,
            priority: Priority::Normal,
            flow: 0,
            past: None,
        }
    }

    pub(crate) fn is_vacant(&self) -> bool {
        self.key.is_none() && self.loan.is_none()
    }

    #[inline]
    pub(crate) fn key(&self) -> &K {
        let lent = || self.loan.as_ref().map(Loan::key);
        self.key.as_ref().or_else(lent).expect("a key is with its entry or lent")
    }
}

/// Where a key is. There is one state per key, so it cannot be ready and waiting, or ready and processed, at once.
#[derive(Clone, Copy)]
pub(crate) enum State {
    /// Not due; `place` is its place in the heap of waiting keys, or in that of held ones if only a shared budget holds it
    /// back.
    Waiting { why: Reason, place: u32, held: bool },
    /// In line.
    Ready,
    /// Handed out; `again` says what was asked for meanwhile.
    Processing { again: Option<Again> },
}

impl State {
    /// Of an entry that is about to be put somewhere: in neither a line nor the heap.
    pub(crate) const NEW: Self = Self::Processing { again: None };
}

/// A run asked for while the key is being processed; its time is that of the entry.
#[derive(Clone, Copy)]
pub(crate) struct Again {
    /// Whether an event asked for it: then it is `done` that says when, for only then is it known how the run ended.
    pub(crate) event: bool,
    /// Whether one of the events was urgent.
    pub(crate) urgent: bool,
    pub(crate) why: Reason,
    pub(crate) priority: Priority,
}

/// What the rules about back-off and debounce have to remember of a key.
#[derive(Clone, Copy)]
pub(crate) struct Past {
    /// The key is in back-off until then: what the rate limiter said of its last counted failure.
    pub(crate) back_off: Moment,
    /// When the time is over that its own failures ask for; [`Moment::NEVER`] if no shared budget can hold it back.
    pub(crate) own: Moment,
    /// Whether it has failed since it was last forgotten.
    pub(crate) failed: bool,
    /// Whether it was released ahead of its slot, and its run has not ended.
    pub(crate) ahead: bool,
    /// Whether an event has brought it forward in this back-off.
    pub(crate) brought_forward: bool,
    /// Number of urgent events that brought it forward in this back-off.
    pub(crate) urgent: u8,
    /// Whether the run that is under way began in back-off.
    pub(crate) early: bool,
    /// When its last run ended.
    pub(crate) ended: Moment,
    /// The time beyond which no further event can put a debounced key off.
    pub(crate) latest: Moment,
}

impl Past {
    pub(crate) const NONE: Self = Self {
        back_off: Moment::START,
        own: Moment::NEVER,
        failed: false,
        ahead: false,
        brought_forward: false,
        urgent: 0,
        early: false,
        ended: Moment::START,
        latest: Moment::NEVER,
    };

    pub(crate) fn is_in_back_off(&self, now: Moment) -> bool {
        self.back_off > now
    }
}

/// Why a key waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// It was added with a delay.
    Delayed,
    /// It failed and the rate limiter set the delay.
    RateLimited,
    /// An event arrived, but the key is in back-off and was already brought forward once:
    /// see [`BackOffEvents`](crate::BackOffEvents).
    EventInBackOff,
    /// An event arrived, and more may follow: see [`Options::debounce`](crate::Options::debounce).
    Debounced,
}
