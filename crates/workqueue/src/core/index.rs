//! Index of keys: finds the place of a key in the slab.
//!
//! A single table, although one of a million keys takes 20 ms to double. Divided among 64 small tables, which grow in short steps,
//! the index made eight producers and eight consumers slower by a sixth.

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
        // The table must not grow by itself: `rebuild` reads the entries in the order of memory.
        if self.0.len() == self.0.capacity() {
            self.rebuild(self.0.len() * 2, slab);
        }
    }

    /// Removes an entry that no longer has its key, but still its place. A table that is mostly empty shrinks to a quarter. Afterwards
    /// half of it is used, so the cost is proportional to the removals before.
    #[inline]
    pub(crate) fn remove<K>(&mut self, id: Id, slab: &Slab<K>) {
        if let Ok(found) = self.0.find_entry(slab[id].hash, |other| *other == id) {
            found.remove();
        }
        if self.0.len() < self.0.num_buckets() / 8 && self.0.num_buckets() > KEPT_BUCKETS {
            self.rebuild(self.0.len(), slab);
        }
    }

    /// Makes the table again, with another capacity. A table that grows by itself visits its entries in its own order, each at a
    /// random place of the slab. Here they are read in the order of memory, which is faster.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Priority;

    #[test]
    fn a_table_doubles_when_it_is_full_and_shrinks_when_it_is_mostly_empty() {
        let (mut slab, mut index) = (Slab::new(), Index::new());
        let mut places = Vec::new();
        let mut ids = Vec::new();
        for key in 0..20_000_u64 {
            index.reserve(&slab);
            let id =
                slab.insert(&mut Some(key), key.wrapping_mul(0x9e37_79b9_7f4a_7c15), 0, Priority::Normal);
            index.insert(id, &slab);
            ids.push(id);
            if places.last() != Some(&index.places()) {
                places.push(index.places());
            }
        }
        assert_eq!(places, [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768]);
        let mut shrunk = Vec::new();
        for (id, key) in ids.into_iter().zip(0..) {
            assert_eq!(index.find(slab[id].hash, |other| other == id), Some(id), "{key}");
            slab[id].key = None;
            let before = index.places();
            index.remove(id, &slab);
            slab.vacate(id);
            if index.places() != before {
                shrunk.push((index.len(), index.places()));
            }
        }
        assert_eq!(shrunk, [(4095, 8192), (1023, 2048), (255, 512)], "and the smallest tables stay");
        assert_eq!(index.len(), 0);
        for key in 0..800_u64 {
            index.reserve(&slab);
            let id = slab.insert(&mut Some(key), key, 0, Priority::Normal);
            index.insert(id, &slab);
        }
        for id in slab.iter().map(|(id, _)| id).collect::<Vec<_>>() {
            slab[id].key = None;
            index.remove(id, &slab);
            slab.vacate(id);
        }
        assert_eq!(index.places(), 1024);
    }
}
