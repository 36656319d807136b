//! Eviction of decoded objects by the clock algorithm, an approximation of "least recently used first". Pure: entries
//! record their own uses.
//!
//! Up to half of the bytes can be lent to texts that are not compressed yet.

use std::fmt;

/// Entry of a [`Budget`].
pub(in crate::cache) trait Entry {
    /// Whether the entry was used since the last call.
    fn take_used(&self) -> bool;
}

/// Place of an entry. The generation detects that the slot was reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cache) struct Place {
    slot: u32,
    generation: u32,
}

/// Entries with a limit on the sum of their sizes and the lent bytes.
///
/// A hand moves around the slots. An entry that was used since the last pass stays, any other is evicted.
pub(in crate::cache) struct Budget<T> {
    limit: usize,
    used: usize,
    lent: usize,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    hand: usize,
}

struct Slot<T> {
    generation: u32,
    entry: Option<(T, usize)>,
}

impl<T: Entry> Budget<T> {
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
        let gone = (bytes <= self.lendable()).then(|| self.make_room(bytes))?;
        self.lent += bytes;
        Some(gone)
    }

    /// Takes back lent bytes.
    pub(in crate::cache) fn take_back(&mut self, bytes: usize) {
        self.lent -= bytes;
    }

    /// Adds an entry, and returns the entries evicted for it. An entry larger than the limit is returned itself.
    pub(in crate::cache) fn admit(&mut self, entry: T, bytes: usize) -> (Option<Place>, Vec<T>) {
        if bytes > self.limit - self.lent {
            return (None, vec![entry]);
        }
        let gone = self.make_room(bytes);
        self.used += bytes;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, entry: None });
            u32::try_from(self.slots.len() - 1).expect("fewer than 2³² objects are decoded")
        });
        let taken = &mut self.slots[slot as usize];
        taken.entry = Some((entry, bytes));
        (Some(Place { slot, generation: taken.generation }), gone)
    }

    /// Evicts entries until this many bytes are free. The caller checks that the limit allows it.
    fn make_room(&mut self, bytes: usize) -> Vec<T> {
        let mut gone = Vec::new();
        // After two rounds entries are evicted even if they are in use, so the loop ends.
        let mut patience = 2 * self.slots.len();
        while bytes > self.room() {
            self.hand = (self.hand + 1) % self.slots.len();
            let keeps = self.slots[self.hand]
                .entry
                .as_ref()
                .is_none_or(|(entry, _)| patience > 0 && entry.take_used());
            patience = patience.saturating_sub(1);
            if !keeps {
                gone.extend(self.empty(self.hand));
            }
        }
        gone
    }

    /// Removes an entry, if it is still present.
    pub(in crate::cache) fn remove(&mut self, place: Place) -> Option<T> {
        let slot = place.slot as usize;
        if self.slots.get(slot)?.generation == place.generation { self.empty(slot) } else { None }
    }

    fn empty(&mut self, slot: usize) -> Option<T> {
        let at = &mut self.slots[slot];
        let (entry, bytes) = at.entry.take()?;
        at.generation = at.generation.wrapping_add(1);
        self.used -= bytes;
        self.free.push(u32::try_from(slot).expect("a slot has a place"));
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

    impl Entry for Used {
        fn take_used(&self) -> bool {
            self.used.replace(false)
        }
    }

    #[test]
    fn what_was_not_used_goes_first() {
        let mut budget = Budget::new(3);
        let entries: Vec<_> = (0..5).map(|name| Used { name, ..Used::default() }).collect();
        for entry in &entries[..3] {
            assert!(budget.admit(entry.clone(), 1).1.is_empty());
        }
        entries[0].used.set(true);
        entries[2].used.set(true);
        let (_, gone) = budget.admit(entries[3].clone(), 1);
        assert_eq!(gone.iter().map(|gone| gone.name).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn what_is_larger_than_the_budget_is_not_kept_and_drives_nothing_out() {
        let mut budget = Budget::new(3);
        budget.admit(Used::default(), 3);
        let (place, gone) = budget.admit(Used { name: 7, ..Used::default() }, 4);
        assert_eq!((place, gone.len(), gone[0].name, budget.used()), (None, 1, 7, 3));
    }

    proptest! {
        /// Compared with a list of the entries: the limit holds, no entry is lost or counted twice, at most half is
        /// lent, and a removed place never refers to another entry.
        #[test]
        fn never_exceeds_its_limit(
            limit in 0..40usize,
            steps in prop::collection::vec((0..6u8, 0..12usize, 0..64usize), 1..120),
        ) {
            let mut budget = Budget::new(limit);
            let mut there: Vec<(Place, Used, usize)> = Vec::new();
            let mut given_up: Vec<Place> = Vec::new();
            let mut loans: Vec<usize> = Vec::new();
            for (name, (what, bytes, which)) in steps.into_iter().enumerate() {
                match what {
                    0 if !there.is_empty() => {
                        let (place, entry, _) = there.remove(which % there.len());
                        prop_assert_eq!(budget.remove(place).map(|gone: Used| gone.name), Some(entry.name));
                        given_up.push(place);
                    }
                    1 if !there.is_empty() => there[which % there.len()].1.used.set(true),
                    2 if !given_up.is_empty() => prop_assert!(budget.remove(given_up[which % given_up.len()]).is_none()),
                    3 if !loans.is_empty() => budget.take_back(loans.swap_remove(which % loans.len())),
                    4 => {
                        let lent: usize = loans.iter().sum();
                        let gone = budget.lend(bytes);
                        prop_assert_eq!(gone.is_none(), lent + bytes > limit / 2);
                        if let Some(gone) = gone {
                            loans.push(bytes);
                            for gone in gone {
                                let at = there.iter().position(|(_, entry, _)| entry.name == gone.name).expect("it was there");
                                given_up.push(there.remove(at).0);
                            }
                        }
                    }
                    _ => {
                        let entry = Used { name, ..Used::default() };
                        let (place, gone) = budget.admit(entry.clone(), bytes);
                        prop_assert_eq!(place.is_none(), bytes > limit - loans.iter().sum::<usize>());
                        if let Some(place) = place {
                            for gone in gone {
                                let at = there.iter().position(|(_, entry, _)| entry.name == gone.name).expect("it was there");
                                given_up.push(there.remove(at).0);
                            }
                            there.push((place, entry, bytes));
                        }
                    }
                }
                prop_assert!(budget.used() + loans.iter().sum::<usize>() <= limit);
                prop_assert_eq!(budget.used(), there.iter().map(|(_, _, bytes)| bytes).sum::<usize>());
            }
        }
    }
}
