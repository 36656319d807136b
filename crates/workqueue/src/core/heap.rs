//! The waiting keys, with the one due first on top.

use std::ops::{Index, IndexMut};

use super::entry::State;
use super::slab::{Id, Slab};
use super::timestamp::Timestamp;
use super::vacancies::fit;

/// Children per node: flatter than a binary heap, so a key moves past fewer cache lines.
const ARITY: usize = 4;

pub(crate) struct Heap {
    nodes: Nodes,
}

/// Ordered by its fields from first to last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Node {
    pub(crate) until: Timestamp,
    /// Numbers the keys, so that keys due at the same time come out in the order in which they were added.
    pub(crate) added: u64,
    pub(crate) id: Id,
}

impl Heap {
    pub(crate) fn new() -> Self {
        Self { nodes: Nodes { chunks: Vec::new(), len: 0 } }
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<Node> {
        Some(self.nodes.chunks.first()?[0]).filter(|_| !self.is_empty())
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.len == 0
    }

    /// Adds an entry in state waiting.
    pub(crate) fn push<K>(&mut self, node: Node, slab: &mut Slab<K>) {
        self.nodes.push(node);
        self.rise(self.nodes.len - 1, slab);
    }

    /// Removes an entry in state waiting.
    pub(crate) fn remove<K>(&mut self, id: Id, slab: &mut Slab<K>) -> Node {
        let State::Waiting { place, .. } = slab[id].state else {
            unreachable!("a key in the heap is waiting")
        };
        let place = place as usize;
        let (removed, last) = (self.nodes[place], self.nodes.pop());
        if place < self.nodes.len {
            // The last node fills the gap. It comes from another branch, so it may belong higher or lower: at most one of the
            // two calls moves it.
            self.nodes[place] = last;
            self.rise(place, slab);
            self.sink(place, slab);
        }
        removed
    }

    /// Updates the place of an entry in the slab. The entry is in state waiting.
    pub(crate) fn relocate<K>(&mut self, id: Id, slab: &Slab<K>) {
        let State::Waiting { place, .. } = slab[id].state else {
            unreachable!("a key in the heap is waiting")
        };
        self.nodes[place as usize].id = id;
    }

    /// All keys of the heap, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.nodes.chunks.iter().flat_map(|chunk| chunk.iter()).take(self.nodes.len)
    }

    /// Moves a node up past its larger ancestors. Each of them moves down once, so no pair is swapped.
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

    /// Moves a node down past its smaller descendants.
    fn sink<K>(&mut self, mut place: usize, slab: &mut Slab<K>) {
        let node = self.nodes[place];
        loop {
            let first = place * ARITY + 1;
            let children = first..(first + ARITY).min(self.nodes.len);
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

    /// Stores a node, and its place in the slab, from which [`remove`](Self::remove) finds it without a search.
    fn settle<K>(&mut self, at: usize, node: Node, slab: &mut Slab<K>) {
        self.nodes[at] = node;
        if let State::Waiting { place, .. } = &mut slab[node.id].state {
            *place = u32::try_from(at).expect("there are no more waiting keys than places in the slab");
        }
    }
}

/// Nodes per chunk.
const CHUNK: usize = 64;

/// The nodes in chunks. In a vector, growing or shrinking would copy all of them at once, which takes milliseconds for a
/// million, and would leave up to half of the memory unused.
struct Nodes {
    #[expect(clippy::vec_box, reason = "a growing vector should copy pointers, not chunks")]
    chunks: Vec<Box<[Node; CHUNK]>>,
    len: usize,
}

impl Nodes {
    #[inline]
    fn push(&mut self, node: Node) {
        if self.len == self.chunks.len() * CHUNK {
            self.chunks.push(Box::new([node; CHUNK]));
        }
        self.len += 1;
        let last = self.len - 1;
        self[last] = node;
    }

    /// Removes the last node, of at least one. One chunk without nodes is kept, so that a number of nodes that swings does not
    /// allocate each time.
    #[inline]
    fn pop(&mut self) -> Node {
        self.len -= 1;
        let last = self[self.len];
        if self.len + 2 * CHUNK <= self.chunks.len() * CHUNK {
            self.chunks.pop();
            fit(&mut self.chunks);
        }
        last
    }
}

impl Index<usize> for Nodes {
    type Output = Node;

    #[inline]
    fn index(&self, place: usize) -> &Node {
        &self.chunks[place / CHUNK][place % CHUNK]
    }
}

impl IndexMut<usize> for Nodes {
    #[inline]
    fn index_mut(&mut self, place: usize) -> &mut Node {
        &mut self.chunks[place / CHUNK][place % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_allocated_with_nodes_and_freed_except_one() {
        let mut nodes = Nodes { chunks: Vec::new(), len: 0 };
        let node = |added| Node { until: Timestamp::START, added, id: Id::NONE };
        let mut counts = Vec::new();
        for added in 0..300 {
            nodes.push(node(added));
            counts.push(nodes.chunks.len());
        }
        let expected: Vec<usize> = (1..=300_usize).map(|len| len.div_ceil(CHUNK)).collect();
        assert_eq!(counts, expected);
        for len in (0..300_usize).rev() {
            assert_eq!(nodes.pop().added, len as u64);
            // Up to one chunk more than is needed, so that a number that swings does not allocate.
            assert_eq!(nodes.chunks.len(), (len + CHUNK).div_ceil(CHUNK).min(5), "{len} nodes");
        }
    }
}
