//! The waiting keys, with the one due first on top.

use super::entry::State;
use super::moment::Moment;
use super::slab::{Id, Slab};

/// Children per node: flatter than a binary heap, so a key moves past fewer cache lines.
const ARITY: usize = 4;

pub(crate) struct Heap {
    nodes: Vec<Node>,
}

/// Ordered by its fields from first to last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Node {
    pub(crate) until: Moment,
    /// Numbers the keys, so that keys due at the same time come out in the order in which they were added.
    pub(crate) added: u64,
    pub(crate) id: Id,
}

impl Heap {
    pub(crate) fn new() -> Self {
        Self { nodes: Vec::new() }
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<Node> {
        self.nodes.first().copied()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds an entry in state waiting.
    pub(crate) fn push<K>(&mut self, node: Node, slab: &mut Slab<K>) {
        if self.nodes.len() == self.nodes.capacity() {
            // Grow by an eighth: doubling would leave half of it unused in the middle of a storm.
            self.nodes.reserve_exact(self.nodes.len() / 8 + 16);
        }
        self.nodes.push(node);
        self.rise(self.nodes.len() - 1, slab);
    }

    /// Removes an entry in state waiting.
    pub(crate) fn remove<K>(&mut self, id: Id, slab: &mut Slab<K>) -> Node {
        let State::Waiting { place, .. } = slab[id].state else {
            unreachable!("a key in the heap is waiting")
        };
        let place = place as usize;
        let removed = self.nodes.swap_remove(place);
        if place < self.nodes.len() {
            self.rise(place, slab);
            self.sink(place, slab);
        } else if self.nodes.is_empty() {
            // A storm has passed, so free its memory.
            self.nodes.shrink_to(1024);
        }
        removed
    }

    /// All keys of the heap, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    fn rise<K>(&mut self, mut place: usize, slab: &mut Slab<K>) {
        let node = self.nodes[place];
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.nodes[parent] <= node {
                break;
            }
            self.settle(place, self.nodes[parent], slab);
            place = parent;
        }
        self.settle(place, node, slab);
    }

    fn sink<K>(&mut self, mut place: usize, slab: &mut Slab<K>) {
        let node = self.nodes[place];
        loop {
            let first = place * ARITY + 1;
            let children = first..(first + ARITY).min(self.nodes.len());
            let Some(least) = children.min_by_key(|child| self.nodes[*child]) else {
                break;
            };
            if node <= self.nodes[least] {
                break;
            }
            self.settle(place, self.nodes[least], slab);
            place = least;
        }
        self.settle(place, node, slab);
    }

    fn settle<K>(&mut self, at: usize, node: Node, slab: &mut Slab<K>) {
        self.nodes[at] = node;
        if let State::Waiting { place, .. } = &mut slab[node.id].state {
            *place = u32::try_from(at).expect("there are no more waiting keys than places in the slab");
        }
    }
}
