//! Snapshots of keys, for explanations.

use std::hash::Hash;

use super::entry::{Entry, State};
use super::{Core, Timestamp};
use crate::snapshot::{KeySnapshot, KeyState, Waiting};

/// Largest number of flows whose oldest ready keys are compared, so that the lock is held for microseconds only.
const FLOWS_COMPARED: usize = 1024;

impl<K: Clone + Eq + Hash> Core<K> {
    /// Number of pages of the slab.
    pub(crate) fn pages(&self) -> usize {
        self.slab.pages()
    }

    /// The keys at one page of places, a bounded number. A key that waits can move to a page before its own, so a reader that
    /// starts with the last page misses none.
    pub(crate) fn page(&self, page: usize, now: Timestamp) -> Vec<KeySnapshot<K>> {
        self.slab.page(page).map(|entry| self.describe(entry, now)).collect()
    }

    /// State of one key; `None` if it is not in the queue.
    pub(crate) fn snapshot_of(&self, key: &K, hash: u64, now: Timestamp) -> Option<KeySnapshot<K>> {
        self.find(key, hash).map(|id| self.describe(&self.slab[id], now))
    }

    /// The key that has been ready for the longest time, among those that were ready at the last operation.
    pub(crate) fn oldest_ready(&self, now: Timestamp) -> Option<KeySnapshot<K>> {
        self.order.oldest_ready(FLOWS_COMPARED, &self.slab).map(|id| self.describe(&self.slab[id], now))
    }

    fn describe(&self, entry: &Entry<K>, now: Timestamp) -> KeySnapshot<K> {
        KeySnapshot {
            key: entry.key().clone(),
            state: match entry.state {
                State::Waiting { .. } if entry.at <= now => {
                    KeyState::Ready { since: Some(entry.at.instant(self.epoch)) }
                }
                State::Waiting { why, .. } => {
                    KeyState::Waiting(Waiting { until: entry.at.instant(self.epoch), why })
                }
                State::Ready => KeyState::Ready {
                    since: (entry.at != Timestamp::NEVER).then(|| entry.at.instant(self.epoch)),
                },
                State::Processing { again } => KeyState::Processing { again: again.is_some() },
            },
            priority: entry.priority,
            flow: self.order.fifos.name(entry.flow).cloned(),
            failures: self.num_requeues(entry.key()),
        }
    }
}
