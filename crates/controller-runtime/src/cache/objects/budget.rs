//! Eviction of decoded objects by the clock algorithm, an approximation of "least recently used first". Pure: entries
//! record their own uses.
//!
//! Up to half of the bytes can be lent to texts that are not compressed yet.

use std::fmt;

/// Entry of a [`Budget`].
pub(in crate::cache) trait BudgetEntry {
    /// Returns whether the entry was used since the last call.
    fn take_used(&self) -> bool;
}

/// Position of an entry. The generation detects that the slot was reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cache) struct EntryId {
    slot: u32,
    generation: u32,
}

/// Entries with a limit for the sum of their sizes and the lent bytes.
///
/// A hand moves around the slots. An entry that was used since the last pass stays, any other is evicted.
pub(in crate::cache) struct Budget<T> {
    limit: usize,
    /// Sum of the sizes of all entries.
    used: usize,
    /// Bytes that are lent for uncompressed texts.
    lent: usize,
    slots: Vec<BudgetSlot<T>>,
    /// Slots without an entry.
    free: Vec<u32>,
    /// Slot that was examined last.
    hand: usize,
}

struct BudgetSlot<T> {
    /// Number of entries that have left the slot.
    generation: u32,
    /// The entry and its size.
    entry: Option<(T, usize)>,
}

impl<T: BudgetEntry> Budget<T> {
    /// Creates a budget of `limit` bytes.
    pub(in crate::cache) fn new(limit: usize) -> Self {
        Self { limit, used: 0, lent: 0, slots: Vec::new(), free: Vec::new(), hand: 0 }
    }

    /// Returns the size of all entries.
    #[cfg(test)]
    pub(in crate::cache) fn used(&self) -> usize {
        self.used
    }

    /// Returns the number of bytes that can be added without evictions.
    pub(in crate::cache) fn room(&self) -> usize {
        self.limit - self.lent - self.used
    }

    /// Returns the number of bytes that can still be lent.
    pub(in crate::cache) fn lendable(&self) -> usize {
        self.limit / 2 - self.lent
    }

    /// Lends bytes, and returns the entries evicted for them; `None` if the lending limit is exceeded.
    pub(in crate::cache) fn lend(&mut self, bytes: usize) -> Option<Vec<T>> {
        let evicted = (bytes <= self.lendable()).then(|| self.make_room(bytes))?;
        self.lent += bytes;
        Some(evicted)
    }

    /// Takes back lent bytes.
    pub(in crate::cache) fn take_back(&mut self, bytes: usize) {
        self.lent -= bytes;
    }

    /// Adds an entry, and returns the entries evicted for it. An entry larger than the limit is returned itself.
    pub(in crate::cache) fn admit(&mut self, entry: T, bytes: usize) -> (Option<EntryId>, Vec<T>) {
        if bytes > self.limit - self.lent {
            return (None, vec![entry]);
        }
        let evicted = self.make_room(bytes);
        self.used += bytes;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(BudgetSlot { generation: 0, entry: None });
            u32::try_from(self.slots.len() - 1).expect("fewer than 2³² objects are decoded")
        });
        let taken = &mut self.slots[slot as usize];
        taken.entry = Some((entry, bytes));
        (Some(EntryId { slot, generation: taken.generation }), evicted)
    }

    /// Evicts entries until this many bytes are free. The caller checks that the limit allows it.
    fn make_room(&mut self, bytes: usize) -> Vec<T> {
        let mut evicted = Vec::new();
        // After two rounds entries are evicted even if they are in use, so the loop ends.
        let mut spared = 2 * self.slots.len();
        while bytes > self.room() {
            self.hand = (self.hand + 1) % self.slots.len();
            let keeps =
                self.slots[self.hand].entry.as_ref().is_none_or(|(entry, _)| spared > 0 && entry.take_used());
            spared = spared.saturating_sub(1);
            if !keeps {
                evicted.extend(self.empty(self.hand));
            }
        }
        evicted
    }

    /// Removes an entry, if it is still present.
    pub(in crate::cache) fn remove(&mut self, id: EntryId) -> Option<T> {
        let slot = id.slot as usize;
        if self.slots.get(slot)?.generation == id.generation { self.empty(slot) } else { None }
    }

    fn empty(&mut self, slot: usize) -> Option<T> {
        let at = &mut self.slots[slot];
        let (entry, bytes) = at.entry.take()?;
        // An id from before must not remove the entry that takes the slot next.
        at.generation = at.generation.wrapping_add(1);
        self.used -= bytes;
        self.free.push(u32::try_from(slot).expect("a slot has an id"));
        Some(entry)
    }
}

impl<T> fmt::Debug for Budget<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes", self.used, self.limit)
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, rc::Rc};

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Default)]
    struct Used {
        name: usize,
        used: Rc<Cell<bool>>,
    }

    impl BudgetEntry for Used {
        fn take_used(&self) -> bool {
            self.used.replace(false)
        }
    }

    #[test]
    fn entries_not_used_recently_are_evicted_first() {
        let mut budget = Budget::new(3);
        let entries: Vec<_> = (0..5).map(|name| Used { name, ..Used::default() }).collect();
        for entry in &entries[..3] {
            assert!(budget.admit(entry.clone(), 1).1.is_empty());
        }
        entries[0].used.set(true);
        entries[2].used.set(true);
        let (_, evicted) = budget.admit(entries[3].clone(), 1);
        assert_eq!(evicted.iter().map(|evicted| evicted.name).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn an_entry_larger_than_the_budget_is_not_kept_and_evicts_nothing() {
        let mut budget = Budget::new(3);
        budget.admit(Used::default(), 3);
        let (id, evicted) = budget.admit(Used { name: 7, ..Used::default() }, 4);
        assert_eq!((id, evicted.len(), evicted[0].name, budget.used()), (None, 1, 7, 3));
    }

    proptest! {
        /// Compared with a list of the entries: the limit holds, no entry is lost or counted twice, at most half is
        /// lent, and a removed id never refers to another entry.
        #[test]
        fn never_exceeds_its_limit(
            limit in 0..40usize,
            steps in prop::collection::vec((0..6u8, 0..12usize, 0..64usize), 1..120),
        ) {
            let mut budget = Budget::new(limit);
            let mut there: Vec<(EntryId, Used, usize)> = Vec::new();
            let mut removed: Vec<EntryId> = Vec::new();
            let mut loans: Vec<usize> = Vec::new();
            for (name, (what, bytes, which)) in steps.into_iter().enumerate() {
                match what {
                    0 if !there.is_empty() => {
                        let (id, entry, _) = there.remove(which % there.len());
                        prop_assert_eq!(budget.remove(id).map(|evicted: Used| evicted.name), Some(entry.name));
                        removed.push(id);
                    }
                    1 if !there.is_empty() => there[which % there.len()].1.used.set(true),
                    2 if !removed.is_empty() => prop_assert!(budget.remove(removed[which % removed.len()]).is_none()),
                    3 if !loans.is_empty() => budget.take_back(loans.swap_remove(which % loans.len())),
                    4 => {
                        let lent: usize = loans.iter().sum();
                        let evicted = budget.lend(bytes);
                        prop_assert_eq!(evicted.is_none(), lent + bytes > limit / 2);
                        if let Some(evicted) = evicted {
                            loans.push(bytes);
                            for evicted in evicted {
                                let at = there.iter().position(|(_, entry, _)| entry.name == evicted.name).expect("it was there");
                                removed.push(there.remove(at).0);
                            }
                        }
                    }
                    _ => {
                        let entry = Used { name, ..Used::default() };
                        let (id, evicted) = budget.admit(entry.clone(), bytes);
                        prop_assert_eq!(id.is_none(), bytes > limit - loans.iter().sum::<usize>());
                        if let Some(id) = id {
                            for evicted in evicted {
                                let at = there.iter().position(|(_, entry, _)| entry.name == evicted.name).expect("it was there");
                                removed.push(there.remove(at).0);
                            }
                            there.push((id, entry, bytes));
                        }
                    }
                }
                prop_assert!(budget.used() + loans.iter().sum::<usize>() <= limit);
                prop_assert_eq!(budget.used(), there.iter().map(|(_, _, bytes)| bytes).sum::<usize>());
            }
        }
    }
}
