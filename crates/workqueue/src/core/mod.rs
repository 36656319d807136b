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
//! it is done. Time is an argument everywhere (as a function where it is not always looked at), and every operation that
//! looks at the order first moves the keys that are due into line, so lines are in order of readiness.
//!
//! Read `entry` first, then this, then `order` with its parts `line`, `flows` and `heap`; `when` holds the rules about
//! *when* an added key may run.

mod entry;
mod flows;
mod heap;
mod line;
mod moment;
mod order;
mod slab;
#[cfg(test)]
mod tests;
mod when;

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashTable};
use tokio::time::Instant;

use crate::options::{AddOptions, Options};
use crate::snapshot::{KeySnapshot, KeyState, Waiting};
use crate::{Gauges, Metrics, Priority};
use entry::{Again, Entry, State};
use order::Order;
use slab::Slab;

pub use entry::Reason;
pub use flows::Flow;
pub(crate) use moment::Moment;
pub(crate) use slab::Id;

pub(crate) struct Core<K> {
    slab: Slab<K>,
    /// Key to place. Its order, the hash's, is not visible outside: order comes from `order`.
    index: HashTable<Id>,
    hasher: DefaultHashBuilder,
    order: Order,
    /// How many keys are being processed, and how many of these are to run again.
    processing: usize,
    again: usize,
    intake: Intake,
    options: Options<K>,
    epoch: Instant,
}

/// Whether adds are accepted, and whether somebody waits for the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Intake {
    Open,
    Closed,
    Draining,
}

/// What [`Core::take`] found.
pub(crate) enum Taken<K> {
    Key(Id, K, Priority),
    /// Nothing is ready; something may be later.
    Nothing,
    /// Nothing is ready and nothing will ever be.
    Finished,
}

impl<K> Core<K> {
    pub(crate) fn new(options: Options<K>, epoch: Instant) -> Self {
        Self {
            slab: Slab::new(),
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            order: Order::new(options.ageing, options.flow_of.is_some()),
            processing: 0,
            again: 0,
            intake: Intake::Open,
            options,
            epoch,
        }
    }

    /// What hashes keys, for those who add: a key is read before the lock is taken, not while others wait for it.
    pub(crate) fn hasher(&self) -> DefaultHashBuilder {
        self.hasher.clone()
    }

    /// Ready keys. Keys that came due since the last operation are not yet among them.
    pub(crate) fn ready(&self) -> usize {
        self.order.ready()
    }

    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.order.next_due()
    }

    pub(crate) fn advance(&mut self, now: Moment) {
        self.order.advance(now, &mut self.slab, self.options.metrics.as_deref());
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

    /// Ends the processing of `id`; what was asked for meanwhile takes effect. Returns the key if it leaves the queue, so that
    /// it is dropped outside the lock.
    pub(crate) fn done(&mut self, id: Id, now: impl Fn() -> Moment) -> Option<K> {
        let entry = &mut self.slab[id];
        let State::Processing { again } = entry.state else {
            unreachable!("only a key handed out can be done")
        };
        if let Some(metrics) = &self.options.metrics {
            metrics.worked(now().elapsed_since(entry.at));
        }
        self.processing -= 1;
        self.order.take_back(id, &mut self.slab);
        match again {
            None => Some(self.remove(id)),
            Some(again) => {
                self.again -= 1;
                let now = now();
                self.advance(now);
                let (at, why) = self.after_run(id, again, now);
                // After shutdown this is the last run of the key, and nobody waits for a back-off to end.
                let at = if self.is_shut_down() { now } else { at };
                self.slab[id].priority = again.priority;
                self.place(id, at, why, now);
                None
            }
        }
    }

    /// Puts a key that is nowhere where it belongs: in line, or among those that wait.
    fn place(&mut self, id: Id, at: Moment, why: Reason, now: Moment) {
        if at > now {
            self.order.push_waiting(id, at, why, &mut self.slab);
            return;
        }
        self.order.push_ready(id, now, &mut self.slab);
        if let Some(metrics) = &self.options.metrics {
            metrics.added(self.slab[id].priority);
        }
    }

    /// Forgets an entry that is nowhere, and returns its key.
    fn remove(&mut self, id: Id) -> K {
        let entry = self.slab.remove(id);
        self.order.lines.leave(entry.flow);
        if let Ok(found) = self.index.find_entry(entry.hash, |other| *other == id) {
            found.remove();
        }
        entry.key
    }

    pub(crate) fn gauges(&mut self, now: Moment) -> Gauges {
        self.advance(now);
        let mut gauges = Gauges {
            depth: Priority::ALL.map(|priority| self.order.ready_of(priority)),
            ..Gauges::default()
        };
        if self.options.metrics.is_some() {
            let running = self.order.all_processing(&self.slab).map(|id| now.elapsed_since(self.slab[id].at));
            for running in running {
                gauges.unfinished = gauges.unfinished.saturating_add(running);
                gauges.longest_running = gauges.longest_running.max(running);
            }
        }
        gauges
    }

    fn metrics(&self) -> Option<&dyn Metrics> {
        self.options.metrics.as_deref()
    }
}

impl<K: Clone + Eq + Hash> Core<K> {
    /// `hash` is that of `key` by [`hasher`](Self::hasher).
    pub(crate) fn add(&mut self, key: K, hash: u64, how: AddOptions, now: Moment) {
        if self.is_shut_down() {
            return;
        }
        self.advance(now);
        let known = self.index.find(hash, |id| self.slab[*id].key == key).copied();
        // Asked before anything changes: a limiter is the caller's code, and may panic.
        let charged = (how.rate_limited && self.is_charged(known))
            .then(|| self.options.rate_limiter.when(&key, now.instant(self.epoch)));
        let id = known.unwrap_or_else(|| self.insert(key, hash, how));
        let asked = match self.slab[id].state {
            // It runs anyway: only its class can change.
            State::Ready => None,
            _ if how.is_event() => None,
            _ => self.asked_for(id, how, charged, now),
        };
        if let (Some((at, _)), Some(metrics)) = (asked, self.metrics())
            && at > now
        {
            metrics.retried();
        }
        if known.is_none() {
            let (at, why) = asked.unwrap_or_else(|| self.event(id, now));
            self.place(id, at, why, now);
        } else {
            self.bring_forward(id, how, asked, now);
        }
    }

    /// An entry that is nowhere yet.
    fn insert(&mut self, key: K, hash: u64, how: AddOptions) -> Id {
        let flow = self.order.lines.join(|| self.options.flow_of.as_ref().map(|flow_of| flow_of(&key)));
        let id = self.slab.insert(Entry {
            key,
            hash,
            state: State::NEW,
            at: Moment::START,
            previous: Id::NONE,
            next: Id::NONE,
            priority: how.priority.unwrap_or_default(),
            flow,
            past: None,
        });
        self.index.insert_unique(hash, id, |id| self.slab[*id].hash);
        id
    }

    /// Lets a known key run earlier or in a higher class, if that is what was `asked` for; `None` is an event.
    fn bring_forward(&mut self, id: Id, how: AddOptions, asked: Option<(Moment, Reason)>, now: Moment) {
        let entry = &self.slab[id];
        let inherited = if how.is_event() { Priority::Normal } else { entry.priority };
        let priority = how.priority.unwrap_or(inherited);
        match entry.state {
            State::Ready if priority > entry.priority => {
                self.order.remove_ready(id, &mut self.slab);
                let since = self.slab[id].at;
                self.slab[id].priority = priority;
                self.order.push_ready(id, since, &mut self.slab);
            }
            State::Ready => {}
            State::Waiting { why, .. } => {
                let until = entry.at;
                let entry = &mut self.slab[id];
                entry.priority = priority.max(entry.priority);
                if let (Some(past), Some((at, _))) = (&mut entry.past, asked) {
                    // Further events may put a debounced key off, but not beyond a time that was asked for.
                    past.latest = past.latest.min(at);
                }
                let (at, because) = match asked {
                    None => self.event(id, now),
                    Some(asked) if asked.0 < until => asked,
                    Some(_) => (until, why),
                };
                if at != until {
                    self.order.remove_waiting(id, &mut self.slab);
                    self.place(id, at, because, now);
                }
            }
            State::Processing { again } => {
                let mut next = again.unwrap_or(Again {
                    event: false,
                    at: Moment::NEVER,
                    why: Reason::Delayed,
                    priority,
                });
                next.event |= asked.is_none();
                next.priority = next.priority.max(priority);
                if let Some((at, why)) = asked.filter(|(at, _)| *at < next.at) {
                    (next.at, next.why) = (at, why);
                }
                self.again += usize::from(again.is_none());
                self.slab[id].state = State::Processing { again: Some(next) };
            }
        }
    }

    /// Hands out the key whose turn it is.
    pub(crate) fn take(&mut self, now: impl Fn() -> Moment) -> Taken<K> {
        if !self.order.nothing_waits() {
            self.advance(now());
        }
        let Some(id) = self.order.hand_out(&now, &mut self.slab) else {
            return if self.is_finished() { Taken::Finished } else { Taken::Nothing };
        };
        self.processing += 1;
        let entry = &mut self.slab[id];
        if let Some(past) = &mut entry.past {
            past.early = past.is_in_back_off(now());
        }
        if let Some(metrics) = &self.options.metrics {
            let ready = std::mem::replace(&mut entry.at, now());
            metrics.waited(entry.priority, entry.at.elapsed_since(ready));
        }
        Taken::Key(id, entry.key.clone(), entry.priority)
    }

    /// Takes back the runs that were asked for; one that is under way goes on. Returns whether there was one.
    pub(crate) fn cancel(&mut self, key: &K) -> bool {
        let Some(id) = self.find(key) else { return false };
        match &mut self.slab[id].state {
            State::Ready => self.order.remove_ready(id, &mut self.slab),
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

    /// Forgets the failures of `key`; where it is in the queue does not change.
    pub(crate) fn forget(&mut self, key: &K, now: Moment) {
        self.options.rate_limiter.forget(key, now.instant(self.epoch));
        if let Some(past) = self.find(key).and_then(|id| self.slab[id].past.as_mut()) {
            (past.back_off, past.early) = (Moment::START, false);
        }
    }

    pub(crate) fn num_requeues(&self, key: &K) -> u32 {
        self.options.rate_limiter.num_requeues(key)
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
        let processing: Vec<Id> = self.order.all_processing(&self.slab).collect();
        for id in processing {
            let entry = &mut self.slab[id];
            // What an event asked for still runs, and it is not worth while to wait for the rest.
            if let State::Processing { again } = &mut entry.state
                && again.take_if(|asked| !asked.event && asked.at > now).is_some()
            {
                self.again -= 1;
                given_up.push(entry.key.clone());
            }
        }
        given_up
    }

    /// The keys at one page of places, a bounded number; `None` beyond the last page.
    pub(crate) fn page(&self, page: usize, now: Moment) -> Option<Vec<KeySnapshot<K>>> {
        let describe = |entry: &Entry<K>| KeySnapshot {
            key: entry.key.clone(),
            state: match entry.state {
                State::Waiting { .. } if entry.at <= now => {
                    KeyState::Ready { since: entry.at.instant(self.epoch) }
                }
                State::Waiting { why, .. } => {
                    KeyState::Waiting(Waiting { until: entry.at.instant(self.epoch), why })
                }
                State::Ready => KeyState::Ready { since: entry.at.instant(self.epoch) },
                State::Processing { again } => KeyState::Processing { again: again.is_some() },
            },
            priority: entry.priority,
            flow: self.order.lines.name(entry.flow).cloned(),
            failures: self.num_requeues(&entry.key),
        };
        Some(self.slab.page(page)?.map(describe).collect())
    }

    fn find(&self, key: &K) -> Option<Id> {
        self.index.find(self.hasher.hash_one(key), |id| self.slab[*id].key == *key).copied()
    }
}
