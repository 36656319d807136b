//! A hash map that grows and shrinks in small steps.
//!
//! A hash table of a million entries takes 25 ms to double, and as long to halve, while the queue's lock is held. Here the
//! entries are divided among 64 small tables by some bits of their hash, and each table grows and shrinks on its own: the
//! longest step of a million entries moves about 16,000 of them.
//!
//! A table halves when fewer than three eighths of its buckets are used; afterwards three quarters are. It doubles when seven
//! eighths are used. So at least a sixteenth of the buckets must be used or vacated between two changes, and the cost of all
//! changes is proportional to the number of inserts and removals.

use std::hash::{BuildHasher, Hash};

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};

/// Number of tables. More of them shorten the longest step, but an empty table takes 32 bytes in each limiter.
const TABLES: usize = 64;

/// Tables with at most this many buckets are not shrunk.
const KEPT_BUCKETS: usize = 16;

pub(crate) struct Map<K, V> {
    tables: [HashTable<(K, V)>; TABLES],
    len: usize,
    hasher: DefaultHashBuilder,
}

impl<K, V> Map<K, V> {
    pub(crate) fn new() -> Self {
        Self { tables: [const { HashTable::new() }; TABLES], len: 0, hasher: DefaultHashBuilder::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[cfg(test)]
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.tables.iter().flatten().map(|(_, value)| value)
    }

    /// Number of places for entries, used or not.
    #[cfg(test)]
    fn places(&self) -> usize {
        self.tables.iter().map(HashTable::num_buckets).sum()
    }
}

impl<K: Eq + Hash, V> Map<K, V> {
    #[inline]
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        // The usual case of a limiter without failures: the key is not hashed.
        if self.is_empty() {
            return None;
        }
        let hash = self.hasher.hash_one(key);
        self.tables[table(hash)].find(hash, |(other, _)| other == key).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let hash = self.hasher.hash_one(key);
        self.tables[table(hash)].find_mut(hash, |(other, _)| other == key).map(|(_, value)| value)
    }

    /// The value of `key`, which is inserted if it is absent.
    ///
    /// Before the table of the key grows, entries that are `stale` are removed from it, so that entries which are never
    /// removed otherwise do not accumulate.
    #[inline]
    pub(crate) fn get_or_insert(
        &mut self,
        key: &K,
        mut stale: impl FnMut(&V) -> bool,
        value: impl FnOnce() -> V,
    ) -> &mut V
    where
        K: Clone,
    {
        let hash = self.hasher.hash_one(key);
        let hasher = |(key, _): &(K, V)| self.hasher.hash_one(key);
        let table = &mut self.tables[table(hash)];
        if table.len() == table.capacity() {
            self.len -= sweep(table, |(_, value)| stale(value), hasher);
        }
        match table.entry(hash, |(other, _)| other == key, hasher) {
            Entry::Occupied(known) => &mut known.into_mut().1,
            Entry::Vacant(vacant) => {
                let added = vacant.insert((key.clone(), value()));
                self.len += 1;
                &mut added.into_mut().1
            }
        }
    }

    /// Removes the value of `key`. An empty map does not hash the key.
    #[inline]
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        if self.is_empty() {
            return None;
        }
        let hash = self.hasher.hash_one(key);
        let hasher = |(key, _): &(K, V)| self.hasher.hash_one(key);
        let table = &mut self.tables[table(hash)];
        let ((_, value), _) = table.find_entry(hash, |(other, _)| other == key).ok()?.remove();
        self.len -= 1;
        if is_sparse(table) {
            shrink(table, hasher);
        }
        Some(value)
    }
}

/// The table for keys with this hash.
///
/// The bits of the hash are mixed, because with some hash seeds those of numbers that follow each other differ only in a few places.
/// Without the mixing, one process of twenty divided nine thousand such keys unequally, a few among two or three tables. The tables
/// themselves use the lowest and the highest bits, so with those the entries of a table would collide.
#[inline]
fn table(hash: u64) -> usize {
    /// 2⁶⁴ divided by the golden ratio: its multiples are spread evenly (Knuth, The Art of Computer Programming, 6.4).
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    (hash.wrapping_mul(GOLDEN) >> (64 - TABLES.ilog2())) as usize
}

#[inline]
fn is_sparse<T>(table: &HashTable<T>) -> bool {
    table.num_buckets() > KEPT_BUCKETS && table.len() < table.num_buckets() * 3 / 8
}

/// Halves a table.
#[cold]
fn shrink<T>(table: &mut HashTable<T>, hasher: impl Fn(&T) -> u64) {
    table.shrink_to(table.num_buckets() / 2 * 7 / 8, hasher);
}

/// Removes stale entries from a table that is full. If more than half of its entries stay, the table grows, so that the next
/// sweep comes only after as many inserts. Returns the number of removed entries.
#[cold]
fn sweep<T>(
    table: &mut HashTable<T>,
    mut stale: impl FnMut(&T) -> bool,
    hasher: impl Fn(&T) -> u64,
) -> usize {
    let before = table.len();
    table.retain(|entry| !stale(entry));
    let stay = table.len();
    if stay >= before / 2 {
        table.reserve(before, hasher);
    } else if is_sparse(table) {
        shrink(table, hasher);
    }
    before - stay
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(keys: u32) -> Map<u32, u32> {
        let mut map = Map::new();
        for key in 0..keys {
            *map.get_or_insert(&key, |_| false, || 0) = key;
        }
        map
    }

    #[test]
    fn a_map_that_loses_its_entries_gives_back_their_places() {
        let mut map = map(100_000);
        // Each table has about 1562 entries, and room for 1792.
        assert_eq!(map.places(), TABLES * 2048);
        for key in 1000..100_000 {
            assert_eq!(map.remove(&key), Some(key));
        }
        assert_eq!(map.len(), 1000);
        assert!(map.places() <= 3000, "{}", map.places());
        assert!((0..100_000).all(|key| map.get(&key).copied() == (key < 1000).then_some(key)));
        for key in 0..1000 {
            assert_eq!(map.remove(&key), Some(key));
        }
        assert!(map.is_empty());
        assert_eq!(map.places(), TABLES * KEPT_BUCKETS);
        assert_eq!((map.remove(&7), map.get_mut(&7)), (None, None));
    }

    #[test]
    fn entries_are_spread_over_all_tables() {
        let map = map(100_000);
        let longest = map.tables.iter().map(HashTable::len).max();
        assert!(longest < Some(100_000 / TABLES * 2), "{longest:?}");
    }

    #[test]
    fn hashes_that_differ_in_a_few_bits_are_spread_over_all_tables() {
        for shift in 0..=58 {
            let mut entries = [0; TABLES];
            (0..9_000_u64).for_each(|number| entries[table(number << shift)] += 1);
            let (fewest, most) = (entries.iter().min(), entries.iter().max());
            assert!(fewest >= Some(&96) && most <= Some(&192), "shift {shift}: {entries:?}");
        }
    }

    #[test]
    fn a_number_of_entries_that_swings_does_not_change_the_tables_each_time() {
        let mut map = map(10_000);
        assert!((2_000..10_000).all(|key| map.remove(&key).is_some()));
        let places = map.places();
        for _ in 0..10 {
            assert!((2_000..2_050).all(|key| *map.get_or_insert(&key, |_| false, || key) == key));
            assert!((2_000..2_050).all(|key| map.remove(&key).is_some()));
        }
        assert_eq!(map.places(), places);
    }

    #[test]
    fn a_table_shrinks_by_half_at_a_time() {
        let hasher = |key: &u64| *key;
        for entries in [0, 10, 300] {
            let mut table = HashTable::with_capacity(800);
            (0..entries).for_each(|key| {
                table.insert_unique(key, key, hasher);
            });
            assert_eq!(table.num_buckets(), 1024);
            shrink(&mut table, hasher);
            assert_eq!(table.num_buckets(), 512, "with {entries} entries");
        }
    }

    #[test]
    fn a_table_that_loses_many_stale_entries_at_once_shrinks() {
        let hasher = |key: &u64| *key;
        for (stay, buckets) in [(0, 512), (100, 512), (383, 512), (384, 1024), (400, 1024), (448, 2048)] {
            let mut table = HashTable::with_capacity(800);
            (0..896).for_each(|key| {
                table.insert_unique(key, key, hasher);
            });
            assert_eq!(table.capacity(), table.len());
            assert_eq!(sweep(&mut table, |key| *key >= stay, hasher), 896 - stay as usize);
            assert_eq!((table.len(), table.num_buckets()), (stay as usize, buckets));
        }
    }

    #[test]
    fn stale_entries_do_not_accumulate_and_others_stay() {
        let mut map = Map::new();
        for key in 0..100_000_u32 {
            // The last thousand entries are current, and those of the first hundred keys always.
            let is_stale = |other: &u32| *other >= 100 && other + 1000 < key;
            map.get_or_insert(&key, is_stale, || key);
        }
        assert!((0..100).chain(99_000..100_000).all(|key| map.get(&key) == Some(&key)));
        assert!(map.len() <= 4000, "{}", map.len());
        assert_eq!(map.len(), map.values().count());
    }
}
