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
//! A key has one entry, so repeated requests are carried out once. An add of a ready key changes nothing, and an add of a waiting
//! one can only bring it forward. Adds of a key being processed are collected, and take effect when its run ends.
//!
//! Time is an argument everywhere, as a function where it is not always needed. Every operation that depends on the order makes due
//! keys ready first, so ready keys are in the order in which they became ready.
//!
//! Read `entry` first, then this, then `order` with its parts `fifo`, `flows` and `heap`; `add` contains the effect of an add
//! on a key in each state, `when` the rules about *when* a key may run, and `recovery` those about keys that only a shared
//! budget delays. `slab`, with `vacancies`, and `loan` store the keys; `index` finds them. `snapshots` describes them.

mod add;
mod entry;
mod fifo;
mod flows;
mod heap;
mod index;
mod loan;
mod order;
mod recovery;
mod slab;
mod snapshots;
#[cfg(test)]
mod tests;
mod timestamp;
mod vacancies;
mod when;

use std::hash::Hash;
use std::time::Duration;

use hashbrown::DefaultHashBuilder;
use tokio::time::Instant;

use crate::options::Options;
use crate::{Gauges, Metrics, Priority};
use entry::{Again, State};
use flows::Fifos;
use index::Index;
use loan::{Lender, Terms};
use order::Order;
use recovery::Recovery;
use slab::{Id, Slab};
use when::Due;

pub(crate) use add::{Added, Adding};
pub use entry::Reason;
pub use flows::Flow;
pub(crate) use loan::Loan;
pub(crate) use timestamp::{Now, Timestamp};

/// Interval at which the first key that a shared budget delays is offered an earlier slot, in addition to when one becomes free
/// in this queue: other queues may draw from the same budget.
const OFFER_EVERY: Duration = Duration::from_secs(1);

pub(crate) struct Core<K> {
    slab: Slab<K>,
    lender: Lender<K>,
    /// Key to place. The order of the hash is not visible outside: order comes from `order`.
    index: Index,
    hasher: DefaultHashBuilder,
    order: Order,
    recovery: Recovery,
    /// The first key that a shared budget delays and its slot, at the last offer of an earlier one.
    offered: Option<(Timestamp, Id)>,
    offer_again: Timestamp,
    /// Number of keys being processed, and of those that will run again.
    processing: usize,
    again: usize,
    acceptance: Acceptance,
    options: Options<K>,
    epoch: Instant,
}

/// Whether adds are accepted, and whether a caller waits for the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Acceptance {
    Open,
    Closed,
    Draining,
}

/// Result of [`Core::take`].
pub(crate) enum Taken<K> {
    Key(Loan<K>),
    /// Nothing is ready now.
    Nothing,
    /// Nothing is ready and nothing will be.
    Finished,
}

impl<K> Core<K> {
    pub(crate) fn new(options: Options<K>, epoch: Instant) -> Self {
        let fifos = if options.flow_of.is_some() { Fifos::fair() } else { Fifos::plain() };
        Self {
            slab: Slab::new(),
            lender: Lender::new(),
            index: Index::new(),
            hasher: DefaultHashBuilder::default(),
            order: Order::new(options.ageing, fifos),
            recovery: Recovery::default(),
            offered: None,
            offer_again: Timestamp::START,
            processing: 0,
            again: 0,
            acceptance: Acceptance::Open,
            options,
            epoch,
        }
    }

    /// The hasher of keys, for adding: keys are hashed before the lock is taken.
    pub(crate) fn hasher(&self) -> DefaultHashBuilder {
        self.hasher.clone()
    }

    /// Number of ready keys. Keys that came due since the last operation are not included.
    pub(crate) fn ready(&self) -> usize {
        self.order.ready()
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let due = self.order.next_due()?;
        // While a key is held, the queue wakes up regularly: another queue may have freed an earlier slot.
        Some(if self.order.first_held().is_some() { due.min(self.offer_again) } else { due })
    }

    /// Makes due keys ready.
    #[inline]
    pub(crate) fn advance(&mut self, now: &Now<impl FnOnce() -> Timestamp>) {
        if !self.order.nothing_waits() {
            self.advance_waiting(**now);
        }
    }

    /// Handles the other cases of [`advance`](Self::advance). The first key that a shared budget delays is offered a slot that
    /// has become free, and so on with the next key if that makes it ready.
    fn advance_waiting(&mut self, now: Timestamp) {
        loop {
            self.order.advance(now, &mut self.slab, self.options.metrics.as_deref());
            let Some(first) = self.order.first_held() else { return };
            // The limiter is the user's code and may be slow, so it is asked once for each key and slot, and again after a while.
            if self.offered == Some(first) && now < self.offer_again {
                return;
            }
            let (until, id) = first;
            let delay = self.options.rate_limiter.move_up(self.slab[id].key(), now.instant(self.epoch));
            let until = until.min(now.after(delay));
            (self.offered, self.offer_again) = (Some((until, id)), now.after(OFFER_EVERY));
            if until != first.0 {
                self.order.move_up(id, until, &mut self.slab);
            }
            // The back-off ends with the slot at the latest.
            if let Some(past) = &mut self.slab[id].past {
                past.back_off = past.back_off.min(until);
            }
        }
    }

    /// Makes keys ready that only a shared budget delays, as many as successes allow. Their slots stay reserved, and are
    /// returned when they succeed.
    fn release(&mut self, now: &Now<impl FnOnce() -> Timestamp>) {
        self.advance(now);
        while let Some((_, id)) = self.order.first_held() {
            if !self.recovery.release() {
                return;
            }
            self.order.remove_waiting(id, &mut self.slab);
            if let Some(past) = &mut self.slab[id].past {
                // Its back-off is over, so that a failure counts.
                (past.ahead, past.back_off) = (true, **now);
            }
            self.enter(id, now);
        }
    }

    /// Handles a service that refuses load: no other key runs ahead of its slot until one succeeds.
    pub(crate) fn throttled(&mut self) {
        self.recovery.failed();
    }

    /// Returns whether the queue was shut down, no key is ready and none will be; a key that will run again is still to
    /// come.
    pub(crate) fn is_finished(&self) -> bool {
        self.is_shut_down() && self.order.ready() == 0 && self.again == 0
    }

    /// Returns whether the queue is finished and every key handed out has been processed.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_finished() && self.processing == 0
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.acceptance != Acceptance::Open
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.acceptance == Acceptance::Draining
    }

    /// Hands out the next key.
    pub(crate) fn take(&mut self, now: &Now<impl FnOnce() -> Timestamp>) -> Taken<K> {
        self.advance(now);
        let Some((id, entry)) = self.order.hand_out(now, &mut self.slab) else {
            return if self.is_finished() { Taken::Finished } else { Taken::Nothing };
        };
        self.processing += 1;
        // A failure of a run that began in back-off does not count.
        if let Some(past) = &mut entry.past {
            past.early = past.is_in_back_off(**now);
        }
        // Only metrics need the time of the hand-out. Without them the clock is not read for it.
        let mut terms = Terms { id, priority: entry.priority, since: Timestamp::NEVER };
        if let Some(metrics) = &self.options.metrics {
            terms.since = **now;
            metrics.waited(entry.priority, terms.since.elapsed_since(entry.at));
        }
        let [ours, theirs] = self.lender.lend(&mut entry.key, terms);
        entry.loan = Some(ours);
        if self.options.metrics.is_some() {
            self.order.push_processing(id, &mut self.slab);
        }
        Taken::Key(theirs)
    }

    /// Ends the processing of a key; requests made meanwhile take effect. If the key leaves the queue it goes into
    /// `gone`, so that it is dropped outside the lock.
    #[inline]
    pub(crate) fn done(
        &mut self,
        theirs: Loan<K>,
        gone: &mut Option<K>,
        now: &Now<impl FnOnce() -> Timestamp>,
    ) {
        let Terms { id, since, .. } = theirs.terms();
        let entry = &mut self.slab[id];
        let (State::Processing { again }, Some(ours)) = (entry.state, entry.loan.take()) else {
            unreachable!("only a key handed out can be done")
        };
        self.processing -= 1;
        if let Some(metrics) = &self.options.metrics {
            metrics.worked(now.elapsed_since(since));
            self.order.remove_processing(id, &mut self.slab);
        }
        let entry = &mut self.slab[id];
        let was_ahead = entry.past.as_mut().is_some_and(|past| std::mem::take(&mut past.ahead));
        if was_ahead {
            self.recovery.finished();
        }
        match again {
            None => {
                self.lender.take_back([theirs, ours], gone);
                self.remove(id);
            }
            Some(again) => self.run_again(id, again, [theirs, ours], now),
        }
        // After the key was placed: if it waits for the budget again, it competes with the others for the place ahead.
        if was_ahead {
            self.release(now);
        }
        if self.slab.is_sparse() {
            self.compact();
        }
    }

    /// Places a key that was just processed as the adds during its run ask for.
    fn run_again(
        &mut self,
        id: Id,
        again: Again,
        loans: [Loan<K>; 2],
        now: &Now<impl FnOnce() -> Timestamp>,
    ) {
        let entry = &mut self.slab[id];
        self.lender.take_back(loans, &mut entry.key);
        entry.priority = again.priority;
        self.again -= 1;
        // Keys that came due during the run go first.
        self.advance(now);
        let due = self.after_run(id, again, now);
        // After shutdown this is the last run of the key, and does not wait for a back-off to end.
        let due = if self.is_shut_down() { Due::AtOnce } else { due };
        self.place(id, due, now);
    }

    /// Places a key that is in no FIFO list and no heap: among the ready keys or the waiting ones.
    fn place(&mut self, id: Id, due: Due, now: &Now<impl FnOnce() -> Timestamp>) {
        if let Due::At(at, why) = due
            && at > **now
        {
            let own = match &self.slab[id].past {
                Some(past) if why == Reason::RateLimited => past.own_of_next,
                // Only the wait after a failure can end in a shared budget. Every other wait is over at `at`.
                _ => at,
            };
            self.order.push_waiting(id, own, at, why, &mut self.slab);
        } else {
            self.enter(id, now);
        }
    }

    /// Places a key that is in no FIFO list and no heap among the ready keys.
    #[inline]
    fn enter(&mut self, id: Id, now: &Now<impl FnOnce() -> Timestamp>) {
        let since = if self.options.metrics.is_some() { **now } else { Timestamp::NEVER };
        self.order.push_ready(id, since, &mut self.slab);
        if let Some(metrics) = &self.options.metrics {
            metrics.added(self.slab[id].priority);
        }
    }

    /// Drops an entry that is in no FIFO list and no heap, and no longer has its key.
    #[inline]
    fn remove(&mut self, id: Id) {
        self.order.fifos.leave(self.slab[id].flow);
        self.index.remove(id, &self.slab);
        self.slab.vacate(id);
    }

    /// Moves up to two waiting keys to low places of the slab, so that the chunks which they leave can be freed. Two for each key
    /// that was processed are enough to keep up with the keys that leave. The ready keys and those being processed stay: they
    /// leave soon, or wait later.
    #[cold]
    fn compact(&mut self) {
        for _ in 0..2 {
            let Some(from) = self.slab.next_to_sink() else { return };
            if let State::Waiting { .. } = self.slab[from].state {
                let to = self.slab.relocate(from);
                self.index.relocate(self.slab[to].hash, from, to);
                self.order.relocate_waiting(to, &self.slab);
                // With a stale place, the limiter would be asked again about the same key and slot.
                if let Some((_, offered)) = &mut self.offered
                    && *offered == from
                {
                    *offered = to;
                }
            }
        }
    }

    pub(crate) fn gauges(&mut self, now: &Now<impl FnOnce() -> Timestamp>) -> Gauges {
        self.advance(now);
        let mut gauges = Gauges {
            depth: Priority::ALL.map(|priority| self.order.ready_of(priority)),
            waiting: self.order.waiting(),
            processing: self.processing,
            ..Gauges::default()
        };
        if self.options.metrics.is_some() {
            let loans = self.order.all_processing(&self.slab).filter_map(|id| self.slab[id].loan.as_ref());
            for running in loans.map(|loan| now.elapsed_since(loan.terms().since)) {
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
    /// Cancels requested runs; one in progress continues. Returns whether there was one. If the key leaves the queue it goes into
    /// `gone`, as in [`done`](Self::done).
    pub(crate) fn cancel(&mut self, key: &K, hash: u64, gone: &mut Option<K>) -> bool {
        let Some(id) = self.find(key, hash) else { return false };
        match &mut self.slab[id].state {
            State::Ready => {
                self.order.remove_ready(id, &mut self.slab);
                // It will not run, so its place ahead of the budget is free.
                if self.slab[id].past.as_ref().is_some_and(|past| past.ahead) {
                    self.recovery.finished();
                }
            }
            State::Waiting { .. } => self.order.remove_waiting(id, &mut self.slab),
            State::Processing { again } => {
                // The entry stays until the run in progress ends.
                let asked = again.take().is_some();
                self.again -= usize::from(asked);
                return asked;
            }
        }
        *gone = self.slab[id].key.take();
        self.remove(id);
        true
    }

    /// Resets the failures of `key`; its state in the queue does not change. If it is being processed and had failed,
    /// its success may release others.
    pub(crate) fn forget(&mut self, key: &K, hash: u64, now: &Now<impl FnOnce() -> Timestamp>) {
        self.options.rate_limiter.forget(key, now.instant(self.epoch));
        // The limiter may have freed slots, so the next `advance` offers an earlier one at once.
        self.offered = None;
        let Some(id) = self.find(key, hash) else { return };
        let entry = &mut self.slab[id];
        let Some(past) = &mut entry.past else { return };
        // If it waits, it keeps its time: it has no slot left that could be exchanged for an earlier one.
        (past.back_off, past.early) = (Timestamp::START, false);
        (past.own, past.own_of_next) = (Timestamp::NEVER, Timestamp::NEVER);
        let had_failed = std::mem::take(&mut past.failed);
        match entry.state {
            State::Processing { .. } if had_failed => {
                self.recovery.succeeded();
                self.release(now);
            }
            State::Waiting { why: Reason::RateLimited, .. } => self.order.keep_waiting(id, &mut self.slab),
            _ => {}
        }
    }

    pub(crate) fn num_requeues(&self, key: &K) -> u32 {
        self.options.rate_limiter.num_requeues(key)
    }

    /// Stops accepting keys and drops runs that are not due. Returns their keys: the one due first first, then those that are being
    /// processed now.
    pub(crate) fn shut_down(&mut self, now: Timestamp) -> Vec<K> {
        self.close(Acceptance::Closed, now)
    }

    /// Like [`shut_down`](Self::shut_down), for a caller that waits until the other keys are processed.
    pub(crate) fn drain(&mut self, now: Timestamp) -> Vec<K> {
        self.close(Acceptance::Draining, now)
    }

    fn close(&mut self, acceptance: Acceptance, now: Timestamp) -> Vec<K> {
        self.acceptance = acceptance;
        // Runs that are due take place; all others are dropped below.
        self.advance(&Now::new(|| now));
        let mut given_up: Vec<K> = Vec::new();
        for id in self.order.all_waiting(&self.slab) {
            self.order.remove_waiting(id, &mut self.slab);
            given_up.extend(self.slab[id].key.take());
            self.remove(id);
        }
        if self.again == 0 {
            return given_up; // no key that is being processed runs again, so the slab is not visited
        }
        for entry in self.slab.iter_mut() {
            // A run that an event requested takes place when the current one ends. A run at a later time is dropped, because a
            // shutdown does not wait for delays.
            if let State::Processing { again } = &mut entry.state
                && again.take_if(|asked| !asked.event && entry.at > now).is_some()
            {
                self.again -= 1;
                // The key itself is lent to a worker.
                given_up.push(entry.key().clone());
            }
        }
        given_up
    }

    /// Finds a key. `hash` is that of `key`.
    #[inline]
    fn find(&self, key: &K, hash: u64) -> Option<Id> {
        self.index.find(hash, |id| self.slab[id].key() == key)
    }
}
