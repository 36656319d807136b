//! Entries at numbered places.
//!
//! Places are stable, so that lists, the heap and the index can name an entry by a number of four bytes. Entries live in
//! chunks: growing moves none of them and wastes at most one chunk, where doubling a vector would waste half of it.

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
const CHUNK: usize = 512;

pub(crate) struct Slab<K> {
    chunks: Vec<Vec<Slot<K>>>,
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
        Self {
            chunks: Vec::new(),
            vacant: Id::NONE,
            len: 0,
        }
    }

    pub(crate) fn insert(&mut self, entry: Entry<K>) -> Id {
        self.len += 1;
        if self.vacant == Id::NONE {
            return self.push(entry);
        }
        let id = self.vacant;
        let slot = self.slot_mut(id);
        let Slot::Vacant { next } = *slot else {
            unreachable!("place {id:?} is vacant and taken")
        };
        *slot = Slot::Taken(entry);
        self.vacant = next;
        id
    }

    fn push(&mut self, entry: Entry<K>) -> Id {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            // The first chunk grows with its keys: most queues never hold many.
            self.chunks.push(if self.chunks.is_empty() {
                Vec::new()
            } else {
                Vec::with_capacity(CHUNK)
            });
        }
        let full = (self.chunks.len() - 1) * CHUNK;
        let chunk = self.chunks.last_mut().expect("a chunk was just made sure of");
        chunk.push(Slot::Taken(entry));
        let place = u32::try_from(full + chunk.len() - 1)
            .ok()
            .filter(|place| *place != u32::MAX);
        Id(place.expect("four thousand million keys do not fit into memory"))
    }

    pub(crate) fn remove(&mut self, id: Id) -> Entry<K> {
        let next = self.vacant;
        let Slot::Taken(entry) = std::mem::replace(self.slot_mut(id), Slot::Vacant { next }) else {
            unreachable!("place {id:?} is vacant")
        };
        self.vacant = id;
        self.len -= 1;
        if self.len == 0 && self.chunks.len() > 1 {
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

    fn slot_mut(&mut self, id: Id) -> &mut Slot<K> {
        let (chunk, place) = id.split();
        &mut self.chunks[chunk][place]
    }
}

impl<K> std::ops::Index<Id> for Slab<K> {
    type Output = Entry<K>;

    fn index(&self, id: Id) -> &Entry<K> {
        let (chunk, place) = id.split();
        match &self.chunks[chunk][place] {
            Slot::Taken(entry) => entry,
            Slot::Vacant { .. } => unreachable!("place {id:?} is vacant"),
        }
    }
}

impl<K> std::ops::IndexMut<Id> for Slab<K> {
    fn index_mut(&mut self, id: Id) -> &mut Entry<K> {
        match self.slot_mut(id) {
            Slot::Taken(entry) => entry,
            Slot::Vacant { .. } => unreachable!("place {id:?} is vacant"),
        }
    }
}
