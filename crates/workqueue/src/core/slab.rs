//! Entries at numbered places.
//!
//! Places are stable, so that lines, the heap and the index can refer to an entry by a number of four bytes. Entries live in
//! chunks: growing moves none of them and wastes at most one chunk, where doubling a vector would waste half of it. An
//! entry is written and read in place and never moved as a whole: copying it would cost more than its lookup.

use std::ops::{Index, IndexMut};

use super::entry::{Entry, State};
use crate::Priority;

/// The place of an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Id(u32);

impl Id {
    /// Means "no entry" in links between entries.
    pub(crate) const NONE: Self = Self(u32::MAX);

    fn split(self) -> (usize, usize) {
        let place = self.0 as usize;
        (place / CHUNK, place % CHUNK)
    }
}

/// Entries per chunk: large enough to allocate rarely, small enough for a queue of few keys.
const CHUNK: usize = 64;

pub(crate) struct Slab<K> {
    chunks: Vec<Box<[Entry<K>; CHUNK]>>,
    /// The first vacant place; each vacant place names the next.
    vacant: Id,
    len: usize,
}

impl<K> Slab<K> {
    pub(crate) fn new() -> Self {
        Self { chunks: Vec::new(), vacant: Id::NONE, len: 0 }
    }

    /// Makes an entry for the key in `from`, which becomes `None`. The entry is in no line and no heap yet.
    #[inline]
    pub(crate) fn insert(&mut self, from: &mut Option<K>, hash: u64, flow: u32, priority: Priority) -> Id {
        if self.vacant == Id::NONE {
            self.grow();
        }
        let id = self.vacant;
        self.len += 1;
        let (chunk, place) = id.split();
        let entry = &mut self.chunks[chunk][place];
        self.vacant = entry.next;
        // Swapped instead of moved: a direct copy, without one on the stack.
        std::mem::swap(&mut entry.key, from);
        (entry.hash, entry.flow, entry.priority, entry.state) = (hash, flow, priority, State::NEW);
        id
    }

    #[cold]
    fn grow(&mut self) {
        let first = self.chunks.len() * CHUNK;
        // The last number is no place: it means "none".
        let places = u32::try_from(first + CHUNK).expect("four thousand million keys do not fit into memory");
        let first = places - CHUNK as u32;
        let next = |place| {
            if place + 1 < places { Id(place + 1) } else { Id::NONE }
        };
        self.chunks.push(Box::new(std::array::from_fn(|place| Entry::vacant(next(first + place as u32)))));
        self.vacant = Id(first);
    }

    /// Vacates a place whose key has been taken.
    #[inline]
    pub(crate) fn vacate(&mut self, id: Id) {
        let vacant = self.vacant;
        let entry = &mut self[id];
        (entry.next, entry.past) = (vacant, None);
        self.vacant = id;
        self.len -= 1;
        if self.len == 0 && self.chunks.len() > 16 {
            // A storm has passed, so free its memory.
            *self = Self::new();
        }
    }

    /// The entries at the places of one chunk; `None` beyond the last one.
    pub(crate) fn page(&self, page: usize) -> Option<impl Iterator<Item = &Entry<K>>> {
        Some(self.chunks.get(page)?.iter().filter(|entry| !entry.is_vacant()))
    }
}

impl<K> Slab<K> {
    /// The entries in the order of their places, which is that of memory.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id, &Entry<K>)> {
        let places = self.chunks.iter().flat_map(|chunk| chunk.iter());
        (0..).map(Id).zip(places).filter(|(_, entry)| !entry.is_vacant())
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry<K>> {
        self.chunks.iter_mut().flat_map(|chunk| chunk.iter_mut()).filter(|entry| !entry.is_vacant())
    }
}

impl<K> Index<Id> for Slab<K> {
    type Output = Entry<K>;

    #[inline]
    fn index(&self, id: Id) -> &Entry<K> {
        let (chunk, place) = id.split();
        &self.chunks[chunk][place]
    }
}

impl<K> IndexMut<Id> for Slab<K> {
    #[inline]
    fn index_mut(&mut self, id: Id) -> &mut Entry<K> {
        let (chunk, place) = id.split();
        &mut self.chunks[chunk][place]
    }
}
