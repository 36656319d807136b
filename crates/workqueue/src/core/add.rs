//! Effect of an add on a key in each of its states.

use std::hash::Hash;

use hashbrown::hash_table::Entry::{Occupied, Vacant};

use super::entry::{Again, Reason, State};
use super::when::Due;
use super::{Core, Flow, Id, Now, Timestamp};
use crate::Priority;
use crate::options::AddOptions;

/// A key to be added, with its flow.
pub(crate) struct Adding<K> {
    /// Taken when the key enters the queue; otherwise the caller drops it, outside the lock.
    pub(crate) key: Option<K>,
    /// `None` until [`Core::add`] asks for it.
    pub(crate) flow: Option<Flow>,
}

/// Result of [`Core::add`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// The add took effect.
    Complete,
    /// Nothing has changed: the key would enter a queue with flows, and its flow is unknown. The caller determines it outside the
    /// lock, because the function for it is the user's code, and adds the key again.
    NeedsFlow,
}

impl<K: Clone + Eq + Hash> Core<K> {
    /// Adds a key. `hash` is that of the key by [`hasher`](Self::hasher).
    pub(crate) fn add(
        &mut self,
        adding: &mut Adding<K>,
        hash: u64,
        how: AddOptions,
        now: &Now<impl FnOnce() -> Timestamp>,
    ) -> Added {
        let Some(key) = adding.key.as_ref().filter(|_| !self.is_shut_down()) else {
            return Added::Complete;
        };
        // Keys that are due by now go before this one.
        self.advance(now);
        self.index.reserve(&self.slab);
        let slab = &self.slab;
        match self.index.entry(hash, |id| slab[id].key() == key, slab) {
            Occupied(known) => {
                let id = *known.get();
                match self.slab[id].state {
                    // It runs anyway; only its priority can change.
                    State::Ready => self.lift(id, how),
                    _ => self.add_with_care(Some(id), adding, hash, how, now),
                }
            }
            Vacant(_) if adding.flow.is_none() && self.options.flow_of.is_some() => return Added::NeedsFlow,
            Vacant(place) if how.is_event() && self.options.debounce.is_none() => {
                let flow = self.order.fifos.join(adding.flow.as_ref());
                let id = self.slab.insert(&mut adding.key, hash, flow, how.priority.unwrap_or_default());
                place.insert(id);
                self.enter(id, now);
            }
            Vacant(_) => self.add_with_care(None, adding, hash, how, now),
        }
        Added::Complete
    }

    /// Handles the other cases of [`add`](Self::add): a delayed or failed key, or a known one that is not ready. Separate,
    /// because nearly all adds are one of the two cases above and should not pay for this.
    #[inline(never)]
    fn add_with_care(
        &mut self,
        known: Option<Id>,
        adding: &mut Adding<K>,
        hash: u64,
        how: AddOptions,
        now: &Now<impl FnOnce() -> Timestamp>,
    ) {
        // Called before anything changes: a limiter is the user's code, and may panic.
        let failed = adding.key.as_ref().filter(|_| how.rate_limited && self.is_charged(known));
        let charged = failed.map(|key| self.options.rate_limiter.charge(key, now.instant(self.epoch)));
        let id = known.unwrap_or_else(|| {
            let flow = self.order.fifos.join(adding.flow.as_ref());
            let id = self.slab.insert(&mut adding.key, hash, flow, how.priority.unwrap_or_default());
            self.index.insert(id, &self.slab);
            id
        });
        let asked = if how.is_event() { None } else { self.asked_for(id, how, charged, **now) };
        if let (Some((at, _)), Some(metrics)) = (asked, self.metrics())
            && at > **now
        {
            metrics.retried();
        }
        if known.is_none() {
            let due = match asked {
                None => self.event(id, how.urgent, now),
                Some(asked) => self.accept(id, asked),
            };
            self.place(id, due, now);
        } else {
            self.bring_forward(id, how, asked, now);
        }
    }

    /// The priority that an add asks for.
    fn class_of(&self, id: Id, how: AddOptions) -> Priority {
        let inherited = if how.is_event() { Priority::Normal } else { self.slab[id].priority };
        how.priority.unwrap_or(inherited)
    }

    /// Moves a ready key to the end of a higher priority, if the add asks for one.
    fn lift(&mut self, id: Id, how: AddOptions) {
        let priority = self.class_of(id, how);
        let entry = &self.slab[id];
        if priority > entry.priority {
            // It keeps the time since which it is ready, for the metric of waiting times.
            let since = entry.at;
            self.order.remove_ready(id, &mut self.slab);
            self.slab[id].priority = priority;
            self.order.push_ready(id, since, &mut self.slab);
        }
    }

    /// Lets a key that waits or is being processed run earlier or with a higher priority, if the add `asked` for that;
    /// `None` is an event.
    fn bring_forward(
        &mut self,
        id: Id,
        how: AddOptions,
        asked: Option<(Timestamp, Reason)>,
        now: &Now<impl FnOnce() -> Timestamp>,
    ) {
        let priority = self.class_of(id, how);
        let entry = &mut self.slab[id];
        match entry.state {
            State::Ready => unreachable!("a ready key runs anyway"),
            State::Waiting { .. } => {
                let until = entry.at;
                // An add can raise the priority of a waiting key, but not lower it.
                entry.priority = priority.max(entry.priority);
                if let (Some(past), Some((at, _))) = (&mut entry.past, asked) {
                    // More events may postpone a debounced key, but not beyond a requested time.
                    past.latest = past.latest.min(at);
                }
                let due = match asked {
                    None => self.event(id, how.urgent, now),
                    // The key runs before the requested time anyway.
                    Some(asked) if asked.0 >= until => return,
                    Some(asked) => self.accept(id, asked),
                };
                if !matches!(due, Due::At(at, _) if at == until) {
                    self.order.remove_waiting(id, &mut self.slab);
                    self.place(id, due, now);
                }
            }
            State::Processing { again } => {
                let mut next = again.unwrap_or_else(|| {
                    // The first request during this run: the stored time is still that from before the run.
                    entry.at = Timestamp::NEVER;
                    Again { event: false, urgent: false, why: Reason::Delayed, priority }
                });
                next.event |= asked.is_none();
                next.urgent |= asked.is_none() && how.urgent;
                next.priority = next.priority.max(priority);
                if let Some(asked) = asked.filter(|(at, _)| *at < entry.at) {
                    (entry.at, next.why) = asked;
                    self.accept(id, asked);
                }
                self.slab[id].state = State::Processing { again: Some(next) };
                self.again += usize::from(again.is_none());
            }
        }
    }
}
