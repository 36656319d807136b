//! What open watches are told to do at once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::resource::StorageKey;

/// What the watches of each table were told. Cheap to ask while nobody was told anything new.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// How many were given, of all tables.
    given: AtomicU64,
    standing: Mutex<BTreeMap<StorageKey, Order>>,
}

/// What the watches of a table were told until now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Order {
    /// How often they were to send a bookmark.
    pub(crate) bookmarks: u64,
    /// How often those that were open then were to end.
    pub(crate) closes: u64,
    /// How often those that were open then were to go silent.
    pub(crate) stalls: u64,
    /// Whether they send nothing.
    pub(crate) held: bool,
}

/// What a watch has heard of the orders to its table.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    given: u64,
    pub(crate) order: Order,
}

impl Orders {
    pub(super) fn give(&self, table: &StorageKey, change: impl FnOnce(&mut Order)) {
        let mut standing = self.standing.lock();
        change(standing.entry(table.clone()).or_default());
        // Under the lock, so that whoever sees the number finds the order.
        self.given.fetch_add(1, Ordering::Release);
    }

    /// What a watch that begins now takes for granted.
    pub(crate) fn heard(&self, table: &StorageKey) -> Heard {
        let mut heard = Heard { given: u64::MAX, order: Order::default() };
        self.hear(table, &mut heard);
        heard
    }

    /// Brings `heard` up to date. Returns what it was until now, if anything was ordered since.
    pub(crate) fn hear(&self, table: &StorageKey, heard: &mut Heard) -> Option<Order> {
        let given = self.given.load(Ordering::Acquire);
        if given == heard.given {
            return None;
        }
        heard.given = given;
        let order = self.standing.lock().get(table).copied().unwrap_or_default();
        Some(std::mem::replace(&mut heard.order, order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_hears_what_is_ordered_after_it_began_and_of_its_own_table() {
        let table = |plural: &str| StorageKey { group: String::new(), plural: plural.to_owned() };
        let orders = Orders::default();
        orders.give(&table("pods"), |order| order.closes += 1);
        let mut heard = orders.heard(&table("pods"));
        assert_eq!(orders.hear(&table("pods"), &mut heard), None);
        orders.give(&table("secrets"), |order| order.held = true);
        let before = heard.order;
        assert_eq!(orders.hear(&table("pods"), &mut heard), Some(before));
        assert_eq!(heard.order, before, "it was for others");
        orders.give(&table("pods"), |order| order.bookmarks += 1);
        assert_eq!(orders.hear(&table("pods"), &mut heard), Some(before));
        assert_eq!((heard.order.bookmarks, heard.order.closes, heard.order.held), (1, 1, false));
    }
}
