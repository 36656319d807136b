//! Deleted objects with an unknown final version.

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::object::meta::Uid;

/// UIDs of deleted objects with an unknown final resource version, so that a late watch event about them cannot be
/// recognised by its version.
///
/// Uids are never reused, so an entry that stays too long hides nothing else. The number of entries has the same limit
/// as that of writes in a store; the oldest is dropped first.
#[derive(Clone, Default)]
pub(super) struct DeletedUids {
    /// Time of the deletion, and the key in `order`.
    uids: BTreeMap<Uid, (Instant, u64)>,
    order: BTreeMap<u64, Uid>,
    next: u64,
}

impl DeletedUids {
    pub(super) fn is_empty(&self) -> bool {
        self.uids.is_empty()
    }

    /// Returns when the object was deleted, if it is one of these.
    pub(super) fn since(&self, uid: &Uid) -> Option<Instant> {
        self.uids.get(uid).map(|(since, _)| *since)
    }

    /// Adds an object. Above `most` entries the oldest one is dropped.
    pub(super) fn add(&mut self, uid: Uid, now: Instant, most: usize) {
        self.remove(&uid);
        self.order.insert(self.next, uid.clone());
        self.uids.insert(uid, (now, self.next));
        self.next += 1;
        if self.uids.len() > most
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.uids.remove(&oldest);
        }
    }

    /// Removes an object after the watch delivered its deletion.
    pub(super) fn remove(&mut self, uid: &Uid) {
        if let Some((_, place)) = self.uids.remove(uid) {
            self.order.remove(&place);
        }
    }
}
