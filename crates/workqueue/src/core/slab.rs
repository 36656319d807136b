//! Entries at numbered places.
//!
//! Places are stable, so that lines, the heap and the index can name an entry by a number of four bytes. Entries live in
//! chunks: growing moves none of them and wastes at most one chunk, where doubling a vector would waste half of it.

use std::ops::{Index, IndexMut};

use super::entry::Entry;

/// The place of an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Id(u32);

impl Id {
    /// Stands for "no entry" in links between entries.
    pub(crate) const NONE: Self = Self(u32::MAX);

    fn split(self) -> (usize, usize) {
        let place = self.0 as usize;
        (place / CHUNK, place % CHUNK)
    }
}

/// Entries per chunk: large enough to be rare, small enough to be no burden for a queue of few keys.
const CHUNK: usize = 64;

pub(crate) struct Slab<K> {
    chunks: Vec<Box<[Slot<K>; CHUNK]>>,
    /// The first of the vacant places, each of which names the next.
    vacant: Id,
    len: usize,
}

enum Slot<K> {
    Vacant { next: Id },
    Taken(Entry<K>),
}

impl<K> Slab<K> {
    pub(crate) fn new() -> Self {
        Self { chunks: Vec::new(), vacant: Id::NONE, len: 0 }
    }

    pub(crate) fn insert(&mut self, entry: Entry<K>) -> Id {
        if self.vacant == Id::NONE {
            self.grow();
        }
        let id = self.vacant;
        let slot = self.slot_mut(id);
        let Slot::Vacant { next } = *slot else { unreachable!("place {id:?} is vacant and taken") };
        *slot = Slot::Taken(entry);
        self.vacant = next;
        self.len += 1;
        id
    }

    #[cold]
    fn grow(&mut self) {
        let first = self.chunks.len() * CHUNK;
        // The last number is no place: it says "none".
        let places = u32::try_from(first + CHUNK).expect("four thousand million keys do not fit into memory");
        let first = places - CHUNK as u32;
        let next = |place| {
            if place + 1 < places { Id(place + 1) } else { Id::NONE }
        };
        self.chunks
            .push(Box::new(std::array::from_fn(|place| Slot::Vacant { next: next(first + place as u32) })));
        self.vacant = Id(first);
    }

    pub(crate) fn remove(&mut self, id: Id) -> Entry<K> {
        let next = self.vacant;
        let Slot::Taken(entry) = std::mem::replace(self.slot_mut(id), Slot::Vacant { next }) else {
            unreachable!("place {id:?} is vacant")
        };
        self.vacant = id;
        self.len -= 1;
        if self.len == 0 && self.chunks.len() > 16 {
            // A storm has passed: its memory need not stay.
            *self = Self::new();
        }
        entry
    }

    /// The entries at the places of one chunk; `None` beyond the last one.
    pub(crate) fn page(&self, page: usize) -> Option<impl Iterator<Item = &Entry<K>>> {
        Some(self.chunks.get(page)?.iter().filter_map(|slot| match slot {
            Slot::Taken(entry) => Some(entry),
            Slot::Vacant { .. } => None,
        }))
    }

    #[inline]
    fn slot_mut(&mut self, id: Id) -> &mut Slot<K> {
        let (chunk, place) = id.split();
        &mut self.chunks[chunk][place]
    }
}

impl<K> Index<Id> for Slab<K> {
    type Output = Entry<K>;

    #[inline]
    fn index(&self, id: Id) -> &Entry<K> {
        let (chunk, place) = id.split();
        match &self.chunks[chunk][place] {
            Slot::Taken(entry) => entry,
            Slot::Vacant { .. } => unreachable!("place {id:?} is vacant"),
        }
    }
}

impl<K> IndexMut<Id> for Slab<K> {
    #[inline]
    fn index_mut(&mut self, id: Id) -> &mut Entry<K> {
        match self.slot_mut(id) {
            Slot::Taken(entry) => entry,
            Slot::Vacant { .. } => unreachable!("place {id:?} is vacant"),
        }
    }
}
