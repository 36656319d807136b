//! Order of keys: ready ones in FIFO lists, waiting ones in heaps.
//!
//! A key is in one list, in one heap or in neither, as its state says. All moves between them are functions of this module.
//!
//! A key that failed may have two times: one of its own, and the slot of a shared budget. It waits in the first heap until
//! its own time is over. If its slot is later, it then waits in the second one, for keys that only the budget delays.

use super::entry::{Entry, Reason, State};
use super::fifo::Fifo;
use super::flows::Fifos;
use super::heap::{Heap, Node};
use super::slab::{Id, Slab};
use super::timestamp::{Now, Timestamp};
use crate::{Ageing, Metrics, Priority};

pub(crate) struct Order {
    pub(crate) fifos: Fifos,
    /// Ready keys per priority, the highest first.
    ready: [usize; Priority::ALL.len()],
    waiting: Heap,
    /// Keys that only a shared budget delays, the one with the first slot on top.
    held: Heap,
    /// Waiting keys by reason, in the order of [`Reason::ALL`].
    waiting_for: [usize; Reason::ALL.len()],
    /// Counts the keys that began to wait: their numbers in the heaps.
    added: u64,
    /// Keys handed out, the oldest first; only if metrics need them.
    processing: Fifo,
    ageing: Ageing,
    /// Time since which each priority has been passed over: since the first time that a key of a higher one was handed out
    /// while it had ready keys; [`Timestamp::NEVER`] while it has none.
    passed_over_since: [Timestamp; Priority::ALL.len()],
    /// Keys handed out past an aged priority since the last time that one of those had its share.
    passed_over: u32,
    /// The priority that had a share last.
    shared: usize,
}

/// Priorities are numbered from the highest on, the order in which they are considered.
fn class(priority: Priority) -> usize {
    Priority::High as usize - priority as usize
}

impl Order {
    pub(crate) fn new(ageing: Ageing, fifos: Fifos) -> Self {
        Self {
            fifos,
            ready: [0; _],
            waiting: Heap::new(),
            held: Heap::new(),
            waiting_for: [0; _],
            added: 0,
            processing: Fifo::EMPTY,
            ageing,
            passed_over_since: [Timestamp::NEVER; _],
            passed_over: 0,
            shared: 0,
        }
    }

    #[inline]
    pub(crate) fn ready(&self) -> usize {
        self.ready.iter().sum()
    }

    #[inline]
    pub(crate) fn ready_of(&self, priority: Priority) -> usize {
        self.ready[class(priority)]
    }

    #[inline]
    pub(crate) fn nothing_waits(&self) -> bool {
        self.waiting.is_empty() && self.held.is_empty()
    }

    /// Slot and key of the first one that only a shared budget delays.
    #[inline]
    pub(crate) fn first_held(&self) -> Option<(Timestamp, Id)> {
        self.held.first().map(|node| (node.until, node.id))
    }

    /// Due time of the first waiting key.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let [waiting, held] = [&self.waiting, &self.held].map(|heap| heap.first().map(|node| node.until));
        waiting.into_iter().chain(held).min()
    }

    /// Waiting keys by reason.
    pub(crate) fn waiting(&self) -> [usize; Reason::ALL.len()] {
        self.waiting_for
    }

    /// The key that has been ready for the longest time. `limit` is the number of flows that are compared.
    pub(crate) fn oldest_ready<K>(&self, limit: usize, slab: &Slab<K>) -> Option<Id> {
        self.fifos.heads(limit).min_by_key(|id| slab[*id].at)
    }

    /// The waiting keys, the one due first first.
    pub(crate) fn all_waiting<K>(&self, slab: &Slab<K>) -> Vec<Id> {
        let due = |node: &Node| (slab[node.id].at, node.added, node.id);
        let mut nodes: Vec<_> = self.waiting.iter().chain(self.held.iter()).map(due).collect();
        nodes.sort_unstable();
        nodes.into_iter().map(|(_, _, id)| id).collect()
    }

    /// The keys handed out, the oldest first.
    pub(crate) fn all_processing<K>(&self, slab: &Slab<K>) -> impl Iterator<Item = Id> {
        self.processing.iter(slab)
    }

    /// Appends a key that is in no FIFO list and no heap to its list.
    #[inline]
    pub(crate) fn push_ready<K>(&mut self, id: Id, since: Timestamp, slab: &mut Slab<K>) {
        let entry = &mut slab[id];
        (entry.state, entry.at) = (State::Ready, since);
        let class = class(entry.priority);
        self.fifos.push(id, class, slab);
        self.ready[class] += 1;
    }

    /// Removes a ready key from its FIFO list. The caller must place it elsewhere.
    pub(crate) fn remove_ready<K>(&mut self, id: Id, slab: &mut Slab<K>) {
        let class = class(slab[id].priority);
        self.fifos.remove(id, class, slab);
        self.one_less(class);
    }

    /// Lets a key wait `until` a time. From `own` on only a shared budget delays it.
    pub(crate) fn push_waiting<K>(
        &mut self,
        id: Id,
        own: Timestamp,
        until: Timestamp,
        why: Reason,
        slab: &mut Slab<K>,
    ) {
        let entry = &mut slab[id];
        // The heap sets `place` when it stores the node.
        (entry.state, entry.at) = (State::Waiting { why, place: 0, held: false }, until);
        // It waits in the first heap until its own time is over, even if its slot is later. Then `advance` moves it to the second.
        self.waiting.push(Node { until: own.min(until), added: self.added, id }, slab);
        self.waiting_for[why as usize] += 1;
        self.added += 1;
    }

    /// Removes a key from its heap; the caller places it.
    pub(crate) fn remove_waiting<K>(&mut self, id: Id, slab: &mut Slab<K>) {
        let State::Waiting { why, held, .. } = slab[id].state else {
            unreachable!("the caller has found it waiting")
        };
        self.waiting_for[why as usize] -= 1;
        let heap = if held { &mut self.held } else { &mut self.waiting };
        heap.remove(id, slab);
    }

    /// Updates the place of a waiting key in the slab.
    pub(crate) fn relocate_waiting<K>(&mut self, id: Id, slab: &Slab<K>) {
        let held = matches!(slab[id].state, State::Waiting { held: true, .. });
        let heap = if held { &mut self.held } else { &mut self.waiting };
        heap.relocate(id, slab);
    }

    /// Gives the first key that a shared budget delays an earlier slot.
    pub(crate) fn move_up<K>(&mut self, id: Id, until: Timestamp, slab: &mut Slab<K>) {
        let node = self.held.remove(id, slab);
        slab[id].at = until;
        self.held.push(Node { until, ..node }, slab);
    }

    /// Lets a waiting key wait until its time, although its slot was returned.
    pub(crate) fn keep_waiting<K>(&mut self, id: Id, slab: &mut Slab<K>) {
        let State::Waiting { held, .. } = &mut slab[id].state else { return };
        let heap = if std::mem::replace(held, false) { &mut self.held } else { &mut self.waiting };
        let node = heap.remove(id, slab);
        // In this heap it is neither offered an earlier slot nor released by a success.
        self.waiting.push(Node { until: slab[id].at, ..node }, slab);
    }

    /// Removes and returns the key that is due first, if it is due by `now`. Its own time may be over while its slot is later.
    fn pop_due<K>(&mut self, now: Timestamp, slab: &mut Slab<K>) -> Option<Node> {
        let first = |heap: &Heap| heap.first().filter(|node| node.until <= now);
        // Nodes compare by due time, then by the order in which the keys began to wait.
        let heap = match (first(&self.waiting), first(&self.held)) {
            (None, None) => return None,
            (Some(_), None) => &mut self.waiting,
            (None, Some(_)) => &mut self.held,
            (Some(waiting), Some(held)) if waiting < held => &mut self.waiting,
            (Some(_), Some(_)) => &mut self.held,
        };
        let id = heap.first()?.id;
        Some(heap.remove(id, slab))
    }

    /// Moves every due key to the end of its FIFO list, in the order of their due times.
    pub(crate) fn advance<K>(&mut self, now: Timestamp, slab: &mut Slab<K>, metrics: Option<&dyn Metrics>) {
        while let Some(node) = self.pop_due(now, slab) {
            let (id, until) = (node.id, node.until);
            let entry = &mut slab[id];
            // Its own time is over, but its slot is later: from now on only the shared budget delays it.
            if entry.at > until {
                if let State::Waiting { held, .. } = &mut entry.state {
                    *held = true;
                }
                let slot = entry.at;
                self.held.push(Node { until: slot, ..node }, slab);
                continue;
            }
            if let State::Waiting { why, .. } = entry.state {
                self.waiting_for[why as usize] -= 1;
            }
            // Ready since its due time, which may be a while ago, so that waiting-time metrics include the
            // delay.
            self.push_ready(id, until, slab);
            if let Some(metrics) = metrics {
                metrics.added(slab[id].priority);
            }
        }
    }

    /// Removes and returns the next key.
    ///
    /// `now` is read only if more than one priority has ready keys.
    #[inline]
    pub(crate) fn hand_out<'s, K>(
        &mut self,
        now: &Now<impl FnOnce() -> Timestamp>,
        slab: &'s mut Slab<K>,
    ) -> Option<(Id, &'s mut Entry<K>)> {
        let highest = self.ready.iter().position(|ready| *ready > 0)?;
        let class = if self.ready[highest + 1..].iter().all(|ready| *ready == 0) {
            highest
        } else {
            self.share(highest, **now)
        };
        self.one_less(class);
        let (id, entry) = self.fifos.pop(class, slab).expect("a class with ready keys has a first one");
        // `NEW` is `Processing` without another requested run.
        entry.state = State::NEW;
        Some((id, entry))
    }

    fn one_less(&mut self, class: usize) {
        self.ready[class] -= 1;
        if self.ready[class] == 0 {
            // Ageing starts again with the next ready key.
            self.passed_over_since[class] = Timestamp::NEVER;
        }
    }

    /// The priority that is served when there are ready keys below the `highest` one.
    fn share(&mut self, highest: usize, now: Timestamp) -> usize {
        let classes = self.ready.len();
        let mut turn = None;
        // Aged priorities take turns, starting after the one that had the last.
        for class in (1..=classes).map(|behind| (self.shared + behind) % classes) {
            // Only priorities below the highest one can be passed over.
            if class <= highest || self.ready[class] == 0 {
                continue;
            }
            // Ageing starts now, unless it has started before: then the stored time is earlier.
            let since = self.passed_over_since[class].min(now);
            self.passed_over_since[class] = since;
            if since.after(self.ageing.after) <= now {
                turn = turn.or(Some(class));
            }
        }
        let Some(turn) = turn else { return highest };
        // Aged priorities get one of `every` keys, so the highest one keeps most of the workers.
        if self.passed_over + 1 < self.ageing.every.get() {
            self.passed_over += 1;
            return highest;
        }
        (self.passed_over, self.shared) = (0, turn);
        turn
    }

    /// Counts a key that was handed out among those being processed.
    pub(crate) fn push_processing<K>(&mut self, id: Id, slab: &mut Slab<K>) {
        self.processing.push(id, slab);
    }

    /// Removes a key from those being processed; the caller places it.
    pub(crate) fn remove_processing<K>(&mut self, id: Id, slab: &mut Slab<K>) {
        self.processing.remove(id, slab);
    }
}
