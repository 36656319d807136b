//! Orders to open watches, such as to close or to send a bookmark.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::kind::resource::StorageKey;

/// Orders to the watches of each table. Checking for a new order is one atomic load.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// Number of orders given, across all tables.
    given: AtomicU64,
    standing: Mutex<BTreeMap<StorageKey, Order>>,
}

/// Orders that the watches of one table have received so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Order {
    /// Number of orders to send a bookmark.
    pub(crate) bookmarks: u64,
    /// Number of orders to end, each to the watches open at the time.
    pub(crate) closes: u64,
    /// Number of orders to go silent, each to the watches open at the time.
    pub(crate) stalls: u64,
    /// Whether the watches send nothing.
    pub(crate) held: bool,
}

/// Orders that one watch has already seen.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    given: u64,
    pub(crate) order: Order,
}

impl Orders {
    pub(super) fn give(&self, table: &StorageKey, change: impl FnOnce(&mut Order)) {
        let mut standing = self.standing.lock();
        change(standing.entry(table.clone()).or_default());
        // Incremented under the lock, so that a reader of the new number finds the order.
        self.given.fetch_add(1, Ordering::Release);
    }

    /// Returns the state for a watch that begins now. Earlier orders do not affect it, except that the watches of a held table send
    /// nothing.
    pub(crate) fn heard(&self, table: &StorageKey) -> Heard {
        // No number of orders equals this one, so `hear` reads the current orders.
        let mut heard = Heard { given: u64::MAX, order: Order::default() };
        self.hear(table, &mut heard);
        heard
    }

    /// Updates `heard`. Returns its previous order if anything was ordered since.
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
    fn a_watch_receives_later_orders_to_its_own_table() {
        let table = |plural: &str| StorageKey::core(plural);
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
