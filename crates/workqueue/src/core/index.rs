//! From a key to its place.
//!
//! One table: divided among 64 small ones, so that none of them grows for long, it made eight producers and eight consumers
//! slower by a sixth. A table of a million keys takes 20 ms to double.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as TableEntry;

use super::slab::{Id, Slab};

/// Finds the places of keys by their hashes. The order of the hash is not visible outside: order comes from `order`.
pub(crate) struct Index(HashTable<Id>);

/// A table with at most this many buckets is not shrunk.
const KEPT_BUCKETS: usize = 1024;

impl Index {
    pub(crate) fn new() -> Self {
        Self(HashTable::new())
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(Id) -> bool) -> Option<Id> {
        self.0.find(hash, |id| is_it(*id)).copied()
    }

    /// The place of a key, or room for it after [`reserve`](Self::reserve).
    #[inline]
    pub(crate) fn entry<K>(
        &mut self,
        hash: u64,
        is_it: impl Fn(Id) -> bool,
        slab: &Slab<K>,
    ) -> TableEntry<'_, Id> {
        self.0.entry(hash, |id| is_it(*id), |id| slab[*id].hash)
    }

    /// Adds a key that is absent.
    pub(crate) fn insert<K>(&mut self, id: Id, slab: &Slab<K>) {
        self.0.insert_unique(slab[id].hash, id, |id| slab[*id].hash);
    }

    /// Makes room for another key.
    #[inline]
    pub(crate) fn reserve<K>(&mut self, slab: &Slab<K>) {
        if self.0.len() == self.0.capacity() {
            self.rebuild(self.0.len() * 2, slab);
        }
    }

    /// Removes an entry that no longer has its key, but still its place. A table that is mostly empty shrinks to a quarter; afterwards half of it is used, so
    /// the cost is proportional to the removals before it.
    #[inline]
    pub(crate) fn remove<K>(&mut self, id: Id, slab: &Slab<K>) {
        if let Ok(found) = self.0.find_entry(slab[id].hash, |other| *other == id) {
            found.remove();
        }
        if self.0.len() < self.0.num_buckets() / 8 && self.0.num_buckets() > KEPT_BUCKETS {
            self.rebuild(self.0.len() * 3 / 2, slab);
        }
    }

    /// A table that grows by itself visits its entries in its own order, each at a random place of the slab. Here they
    /// are read in the order of memory.
    #[cold]
    fn rebuild<K>(&mut self, capacity: usize, slab: &Slab<K>) {
        let mut table = HashTable::with_capacity(capacity.max(1));
        for (id, entry) in slab.iter() {
            table.insert_unique(entry.hash, id, |id| slab[*id].hash);
        }
        self.0 = table;
    }

    /// Changes the place of a key.
    pub(crate) fn relocate(&mut self, hash: u64, from: Id, to: Id) {
        let id = self.0.find_mut(hash, |id| *id == from);
        *id.expect("a key in the queue is in the index") = to;
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Number of places for keys, used or not.
    #[cfg(test)]
    pub(crate) fn places(&self) -> usize {
        self.0.num_buckets()
    }
}
