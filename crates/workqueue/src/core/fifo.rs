//! A first-in, first-out list of keys, linked through the entries themselves.

use super::entry::Entry;
use super::slab::{Id, Slab};

/// First and last entry of a list; `Id::NONE` if it is empty.
#[derive(Clone, Copy)]
pub(crate) struct Fifo {
    first: Id,
    last: Id,
}

impl Fifo {
    pub(crate) const EMPTY: Self = Self { first: Id::NONE, last: Id::NONE };

    #[inline]
    pub(crate) fn first(self) -> Option<Id> {
        Some(self.first).filter(|id| *id != Id::NONE)
    }

    /// Appends an entry that is in no list.
    #[inline]
    pub(crate) fn push<K>(&mut self, id: Id, slab: &mut Slab<K>) {
        let entry = &mut slab[id];
        (entry.previous, entry.next) = (self.last, Id::NONE);
        match self.last {
            Id::NONE => self.first = id,
            last => slab[last].next = id,
        }
        self.last = id;
    }

    /// Removes the first entry.
    #[inline]
    pub(crate) fn pop<'s, K>(&mut self, slab: &'s mut Slab<K>) -> Option<(Id, &'s mut Entry<K>)> {
        let first = self.first()?;
        self.first = slab[first].next;
        match self.first {
            Id::NONE => self.last = Id::NONE,
            next => slab[next].previous = Id::NONE,
        }
        Some((first, &mut slab[first]))
    }

    /// Removes an entry, at any position.
    pub(crate) fn remove<K>(&mut self, id: Id, slab: &mut Slab<K>) {
        let (previous, next) = (slab[id].previous, slab[id].next);
        match previous {
            Id::NONE => self.first = next,
            before => slab[before].next = next,
        }
        match next {
            Id::NONE => self.last = previous,
            after => slab[after].previous = previous,
        }
    }

    pub(crate) fn iter<K>(self, slab: &Slab<K>) -> impl Iterator<Item = Id> {
        std::iter::successors(self.first(), |id| Some(slab[*id].next).filter(|next| *next != Id::NONE))
    }
}
