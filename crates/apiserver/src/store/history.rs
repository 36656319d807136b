//! Event history of a table, limited in number, bytes and age.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::{Duration, Instant};

use super::store_event::{FORMS_BYTES, StoreEvent};
use super::{Key, Stored};

/// Limits of a table's history. The oldest events are dropped first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HistoryLimits {
    /// Maximum number of events.
    pub(crate) events: usize,
    /// Maximum sum of [`StoreEvent::size`].
    pub(crate) bytes: usize,
    /// Maximum age of events from which a new reader can begin.
    pub(crate) age: Duration,
}

/// Default age, as in clusters on etcd, which is compacted every five minutes.
pub(crate) const HISTORY_AGE: Duration = Duration::from_secs(5 * 60);

impl Default for HistoryLimits {
    fn default() -> Self {
        Self { events: 10_000, bytes: 32 << 20, age: HISTORY_AGE }
    }
}

/// The requested part of the history is no longer available.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Expired;

/// Events in the order of their revisions.
#[derive(Debug)]
pub(super) struct History {
    events: VecDeque<Arc<StoreEvent>>,
    bytes: usize,
    /// Total size of the cached forms of the events, in bytes.
    forms: Arc<AtomicUsize>,
    /// First revision with forms that may still be cached.
    fresh: u64,
    /// All events after this revision are available.
    floor: u64,
}

impl History {
    /// Creates a history that begins at `revision`.
    pub(super) fn new(revision: u64) -> Self {
        Self { events: VecDeque::new(), bytes: 0, forms: Arc::default(), fresh: 0, floor: revision }
    }

    /// Returns the oldest revision from which a new reader may begin: all events after it are available and young
    /// enough. Existing readers may continue for as long as the events are available.
    pub(super) fn floor(&self, now: Instant, limits: HistoryLimits) -> u64 {
        // The last old event has the oldest permitted revision: a reader that begins there does not need the event itself.
        let old = self.events.partition_point(|event| is_old(event, now, limits));
        old.checked_sub(1).and_then(|last| self.events.get(last)).map_or(self.floor, |event| event.revision)
    }

    pub(super) fn push(
        &mut self,
        revision: u64,
        now: Instant,
        key: Key,
        before: Option<Arc<Stored>>,
        after: Option<Arc<Stored>>,
        limits: HistoryLimits,
    ) -> Arc<StoreEvent> {
        self.forget_old_forms();
        let event = Arc::new(StoreEvent::new(revision, now, key, before, after, Arc::clone(&self.forms)));
        self.bytes += event.size();
        self.events.push_back(Arc::clone(&event));
        while let Some(oldest) = self.events.front()
            && (self.events.len() > limits.events || self.bytes > limits.bytes || is_old(oldest, now, limits))
        {
            self.drop_oldest();
        }
        event
    }

    /// Drops cached forms of old events. New events are read by more watches.
    fn forget_old_forms(&mut self) {
        if self.forms.load(Ordering::Relaxed) < FORMS_BYTES / 2 {
            return;
        }
        let first = self.events.partition_point(|event| event.revision < self.fresh);
        for event in self.events.range(first..) {
            if self.forms.load(Ordering::Relaxed) < FORMS_BYTES / 2 {
                break;
            }
            event.forget();
            self.fresh = event.revision + 1;
        }
    }

    /// Returns the events after `revision`, oldest first.
    pub(super) fn after(
        &self,
        revision: u64,
    ) -> Result<impl DoubleEndedIterator<Item = &Arc<StoreEvent>>, Expired> {
        if revision < self.floor {
            return Err(Expired);
        }
        // Most readers have seen all events but the last one, so the end is checked before a binary search.
        let newest = self.events.len().saturating_sub(2);
        let first = match self.events.get(newest) {
            Some(event) if event.revision <= revision => {
                newest + self.events.range(newest..).take_while(|event| event.revision <= revision).count()
            }
            _ => self.events.partition_point(|event| event.revision <= revision),
        };
        Ok(self.events.range(first..))
    }

    /// Drops all events. A reader that has seen all of them can continue.
    pub(super) fn clear(&mut self) {
        while self.drop_oldest() {}
    }

    fn drop_oldest(&mut self) -> bool {
        let Some(event) = self.events.pop_front() else {
            return false;
        };
        self.bytes -= event.size();
        self.floor = event.revision;
        true
    }
}

fn is_old(event: &StoreEvent, now: Instant, limits: HistoryLimits) -> bool {
    now.saturating_duration_since(event.at) > limits.age
}
