use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::cache::Uid;

/// Objects that are gone and of which the watch has told nothing that can be told from what it will.
///
/// No other object ever gets the uid of one, so to remember one for too long hides nothing. At most so many are remembered as a
/// store holds writes, the oldest go first.
#[derive(Clone, Default)]
pub(super) struct Ended {
    /// Since when, and the place in `order`.
    uids: BTreeMap<Uid, (Instant, u64)>,
    order: BTreeMap<u64, Uid>,
    next: u64,
}

impl Ended {
    pub(super) fn is_empty(&self) -> bool {
        self.uids.is_empty()
    }

    /// Since when the object is gone, if it is one of these.
    pub(super) fn since(&self, uid: &Uid) -> Option<Instant> {
        self.uids.get(uid).map(|(since, _)| *since)
    }

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

    /// Forgets one whose end was told.
    pub(super) fn remove(&mut self, uid: &Uid) {
        if let Some((_, place)) = self.uids.remove(uid) {
            self.order.remove(&place);
        }
    }
}
