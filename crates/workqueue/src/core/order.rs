//! Which key is next: those that are ready in line, those that wait in a heap.
//!
//! A key is in the line, in the heap or in neither; its state says which, and every move between them goes through here.

use std::cmp::Ordering;

use super::entry::{Reason, State};
use super::moment::Moment;
use super::slab::{Id, Slab};

/// Children per node of the heap: flatter than a binary one, so a key moves past fewer cache lines.
const ARITY: usize = 4;

pub(crate) struct Order {
    first: Id,
    last: Id,
    ready: usize,
    waiting: Vec<Node>,
    /// Numbers the waiting keys, so that those due at one moment come out in the order in which they were added.
    added: u64,
}

#[derive(Clone, Copy)]
struct Node {
    until: Moment,
    added: u64,
    id: Id,
}

impl Node {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.until, self.added).cmp(&(other.until, other.added))
    }
}

impl Order {
    pub(crate) fn new() -> Self {
        Self {
            first: Id::NONE,
            last: Id::NONE,
            ready: 0,
            waiting: Vec::new(),
            added: 0,
        }
    }

    pub(crate) fn ready(&self) -> usize {
        self.ready
    }

    /// When the first of the waiting keys is due.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.waiting.first().map(|node| node.until)
    }

    /// Puts a key that is neither ready nor waiting at the end of the line.
    pub(crate) fn push_ready<K>(&mut self, id: Id, slab: &mut Slab<K>) {
        slab[id].state = State::Ready {
            previous: self.last,
            next: Id::NONE,
        };
        if self.last == Id::NONE {
            self.first = id;
        } else if let State::Ready { next, .. } = &mut slab[self.last].state {
            *next = id;
        }
        self.last = id;
        self.ready += 1;
    }

    /// Takes the head of the line; the caller gives it its new state.
    pub(crate) fn pop_ready<K>(&mut self, slab: &mut Slab<K>) -> Option<Id> {
        let id = Some(self.first).filter(|id| *id != Id::NONE)?;
        self.remove_ready(id, slab);
        Some(id)
    }

    /// Takes a ready key out of the line; the caller gives it its new state.
    pub(crate) fn remove_ready<K>(&mut self, id: Id, slab: &mut Slab<K>) {
        let State::Ready { previous, next } = slab[id].state else {
            unreachable!("a key in line is ready")
        };
        match previous {
            Id::NONE => self.first = next,
            before => {
                if let State::Ready { next: link, .. } = &mut slab[before].state {
                    *link = next;
                }
            }
        }
        match next {
            Id::NONE => self.last = previous,
            after => {
                if let State::Ready { previous: link, .. } = &mut slab[after].state {
                    *link = previous;
                }
            }
        }
        self.ready -= 1;
    }

    /// Lets a key that is neither ready nor waiting wait.
    pub(crate) fn push_waiting<K>(&mut self, id: Id, until: Moment, why: Reason, slab: &mut Slab<K>) {
        slab[id].state = State::Waiting { until, why, place: 0 };
        self.waiting.push(Node {
            until,
            added: self.added,
            id,
        });
        self.added += 1;
        self.rise(self.waiting.len() - 1, slab);
    }

    /// Takes a key out of the heap; the caller gives it its new state.
    pub(crate) fn remove_waiting<K>(&mut self, id: Id, slab: &mut Slab<K>) {
        let State::Waiting { place, .. } = slab[id].state else {
            unreachable!("a key in the heap is waiting")
        };
        let place = place as usize;
        self.waiting.swap_remove(place);
        if place < self.waiting.len() {
            self.rise(place, slab);
            self.sink(place, slab);
        }
    }

    /// Moves every key that is due to the end of the line, the one due first first.
    pub(crate) fn advance<K>(&mut self, now: Moment, slab: &mut Slab<K>) {
        while let Some(due) = self.waiting.first().filter(|node| node.until <= now) {
            let id = due.id;
            self.remove_waiting(id, slab);
            self.push_ready(id, slab);
        }
    }

    /// The waiting keys, the one due first first.
    pub(crate) fn all_waiting(&self) -> Vec<Id> {
        let mut nodes = self.waiting.clone();
        nodes.sort_unstable_by(Node::cmp);
        nodes.into_iter().map(|node| node.id).collect()
    }

    fn rise<K>(&mut self, mut place: usize, slab: &mut Slab<K>) {
        let node = self.waiting[place];
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.waiting[parent].cmp(&node).is_le() {
                break;
            }
            self.settle(place, self.waiting[parent], slab);
            place = parent;
        }
        self.settle(place, node, slab);
    }

    fn sink<K>(&mut self, mut place: usize, slab: &mut Slab<K>) {
        let node = self.waiting[place];
        loop {
            let children = place * ARITY + 1..(place * ARITY + 1 + ARITY).min(self.waiting.len());
            let Some(least) = children.min_by(|a, b| self.waiting[*a].cmp(&self.waiting[*b])) else {
                break;
            };
            if node.cmp(&self.waiting[least]).is_le() {
                break;
            }
            self.settle(place, self.waiting[least], slab);
            place = least;
        }
        self.settle(place, node, slab);
    }

    fn settle<K>(&mut self, at: usize, node: Node, slab: &mut Slab<K>) {
        self.waiting[at] = node;
        if let State::Waiting { place, .. } = &mut slab[node.id].state {
            *place = u32::try_from(at).expect("there are no more waiting keys than places in the slab");
        }
    }
}
