//! The queue as a state machine: no lock, no waiting, no clock.
//!
//! ```text
//!            add                      get                    done
//!  absent ────────▶ ready ──────────────────▶ processing ──────────────▶ absent
//!     │               ▲ ▲                        │    ▲
//!     │ add, delayed  │ │ done                   │add │
//!     ▼     due, add  │ │                        ▼    │
//!  waiting ───────────┘ └──────────── processing + again ─── done, delayed ──▶ waiting
//! ```
//!
//! A key has one entry, so what is asked for twice is done once: an add of a ready key changes nothing, an add of a
//! waiting one can only bring it forward, and adds of a key being processed are remembered together and take effect when
//! it is done. `now` is an argument everywhere and every operation that looks at the order first moves the keys that are
//! due into line, so the line is in order of readiness whenever it is looked at.

mod entry;
mod moment;
mod order;
mod slab;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use hashbrown::{DefaultHashBuilder, HashTable};
use tokio::time::Instant;

use crate::RateLimiter;
use entry::{Again, Entry, State};
use order::Order;
use slab::Slab;

pub use entry::Reason;
pub(crate) use moment::Moment;
pub(crate) use slab::Id;

pub(crate) struct Core<K> {
    slab: Slab<K>,
    /// Key to place. Its order, the hash's, is not visible outside: order comes from `order`.
    index: HashTable<Id>,
    hasher: DefaultHashBuilder,
    order: Order,
    processing: usize,
    /// How many of the keys being processed were added again.
    again: usize,
    intake: Intake,
    limiter: Box<dyn RateLimiter<K>>,
    epoch: Instant,
}

/// Whether adds are accepted, and who waits for the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Intake {
    Open,
    Closed,
    /// Closed, and somebody waits until nothing is left.
    Draining,
}

/// How soon an added key is to run.
#[derive(Clone, Copy)]
pub(crate) enum Soon {
    Now,
    After(Duration),
    RateLimited,
}

/// What [`Core::take`] found.
pub(crate) enum Taken<K> {
    Key(Id, K),
    /// Nothing is ready; something may be later.
    Nothing,
    /// Nothing is ready and nothing will ever be.
    Finished,
}

impl<K> Core<K> {
    pub(crate) fn new(limiter: Box<dyn RateLimiter<K>>, epoch: Instant) -> Self {
        Self {
            slab: Slab::new(),
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            order: Order::new(),
            processing: 0,
            again: 0,
            intake: Intake::Open,
            limiter,
            epoch,
        }
    }

    /// Keys in line. Keys that came due since the last operation are not yet among them.
    pub(crate) fn ready(&self) -> usize {
        self.order.ready()
    }

    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.order.next_due()
    }

    pub(crate) fn advance(&mut self, now: Moment) {
        self.order.advance(now, &mut self.slab);
    }

    /// Shut down, nothing in line and nothing that will be: a key to run again is still to come.
    pub(crate) fn is_finished(&self) -> bool {
        self.is_shut_down() && self.order.ready() == 0 && self.again == 0
    }

    /// Finished, and every key that was handed out is done.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_finished() && self.processing == 0
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.intake != Intake::Open
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.intake == Intake::Draining
    }

    /// Ends the processing of `id`; what was asked for meanwhile takes effect.
    pub(crate) fn done(&mut self, id: Id, now: Moment) {
        let State::Processing { again } = self.slab[id].state else {
            unreachable!("only a key handed out can be done")
        };
        self.processing -= 1;
        let Some(Again { at, why }) = again else {
            self.remove(id);
            return;
        };
        self.again -= 1;
        self.advance(now);
        if at <= now {
            self.order.push_ready(id, &mut self.slab);
        } else {
            self.order.push_waiting(id, at, why, &mut self.slab);
        }
    }

    /// Forgets an entry that is neither in line nor in the heap, and returns its key.
    fn remove(&mut self, id: Id) -> K {
        let entry = self.slab.remove(id);
        if let Ok(found) = self.index.find_entry(entry.hash, |other| *other == id) {
            found.remove();
        }
        entry.key
    }
}

impl<K: Clone + Eq + Hash> Core<K> {
    pub(crate) fn add(&mut self, key: K, soon: Soon, now: Moment) {
        if self.is_shut_down() {
            return;
        }
        self.advance(now);
        let hash = self.hasher.hash_one(&key);
        let known = self.index.find(hash, |id| self.slab[*id].key == key).copied();
        let (at, why) = match soon {
            Soon::Now => (now, Reason::Delayed),
            Soon::After(delay) => (now.after(delay), Reason::Delayed),
            // A key that is in line runs anyway: its failure is not counted and the budget of the others not touched.
            Soon::RateLimited
                if known.is_some_and(|id| matches!(self.slab[id].state, State::Ready { .. })) =>
            {
                return;
            }
            Soon::RateLimited => (
                now.after(self.limiter.when(&key, now.instant(self.epoch))),
                Reason::RateLimited,
            ),
        };
        match known {
            Some(id) => self.add_known(id, at, why, now),
            None => self.add_absent(
                Entry {
                    key,
                    hash,
                    state: State::NEW,
                },
                at,
                why,
                now,
            ),
        }
    }

    fn add_absent(&mut self, entry: Entry<K>, at: Moment, why: Reason, now: Moment) {
        let hash = entry.hash;
        let id = self.slab.insert(entry);
        self.index.insert_unique(hash, id, |id| self.slab[*id].hash);
        if at <= now {
            self.order.push_ready(id, &mut self.slab);
        } else {
            self.order.push_waiting(id, at, why, &mut self.slab);
        }
    }

    fn add_known(&mut self, id: Id, at: Moment, why: Reason, now: Moment) {
        match &mut self.slab[id].state {
            State::Ready { .. } => {}
            State::Waiting { until, .. } if *until <= at => {}
            State::Waiting { .. } => {
                self.order.remove_waiting(id, &mut self.slab);
                if at <= now {
                    self.order.push_ready(id, &mut self.slab);
                } else {
                    self.order.push_waiting(id, at, why, &mut self.slab);
                }
            }
            State::Processing { again: Some(asked) } if asked.at <= at => {}
            State::Processing { again } => {
                self.again += usize::from(again.is_none());
                *again = Some(Again { at, why });
            }
        }
    }

    /// Hands out the head of the line.
    pub(crate) fn take(&mut self, now: Moment) -> Taken<K> {
        self.advance(now);
        let Some(id) = self.order.pop_ready(&mut self.slab) else {
            return if self.is_finished() {
                Taken::Finished
            } else {
                Taken::Nothing
            };
        };
        let entry = &mut self.slab[id];
        entry.state = State::Processing { again: None };
        self.processing += 1;
        Taken::Key(id, entry.key.clone())
    }

    /// Takes back the runs that were asked for; one that is under way goes on. Returns whether there was one.
    pub(crate) fn cancel(&mut self, key: &K) -> bool {
        let Some(id) = self.find(key) else { return false };
        match &mut self.slab[id].state {
            State::Ready { .. } => self.order.remove_ready(id, &mut self.slab),
            State::Waiting { .. } => self.order.remove_waiting(id, &mut self.slab),
            State::Processing { again } => {
                let asked = again.take().is_some();
                self.again -= usize::from(asked);
                return asked;
            }
        }
        self.remove(id);
        true
    }

    /// Until when and why `key` waits; `None` when it is not known, or ready, or to run again at once.
    pub(crate) fn when(&self, key: &K, now: Moment) -> Option<(Moment, Reason)> {
        match self.slab[self.find(key)?].state {
            State::Waiting { until, why, .. } => Some((until, why)),
            State::Processing {
                again: Some(Again { at, why }),
            } => Some((at, why)),
            State::Ready { .. } | State::Processing { again: None } => None,
        }
        .filter(|(until, _)| *until > now)
    }

    pub(crate) fn forget(&mut self, key: &K, now: Moment) {
        self.limiter.forget(key, now.instant(self.epoch));
    }

    pub(crate) fn num_requeues(&self, key: &K) -> u32 {
        self.limiter.num_requeues(key)
    }

    /// Accepts no more keys and gives up the runs that are not due: their keys are returned, the one due first first, then
    /// those that are being processed now.
    pub(crate) fn shut_down(&mut self, drain: bool, now: Moment) -> Vec<K> {
        self.intake = if drain { Intake::Draining } else { Intake::Closed };
        self.advance(now);
        let mut given_up: Vec<K> = Vec::new();
        for id in self.order.all_waiting() {
            self.order.remove_waiting(id, &mut self.slab);
            given_up.push(self.remove(id));
        }
        for entry in self.slab.iter_mut() {
            if let State::Processing { again } = &mut entry.state
                && again.take_if(|asked| asked.at > now).is_some()
            {
                self.again -= 1;
                given_up.push(entry.key.clone());
            }
        }
        given_up
    }

    fn find(&self, key: &K) -> Option<Id> {
        self.index
            .find(self.hasher.hash_one(key), |id| self.slab[*id].key == *key)
            .copied()
    }
}
