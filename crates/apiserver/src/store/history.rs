//! The last events of one table, bounded in number and in bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{Key, Stored};

/// How much history a table keeps. Old events make room for new ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HistoryLimits {
    /// Number of events.
    pub(crate) events: usize,
    /// Sum of [`Event::size`].
    pub(crate) bytes: usize,
}

impl Default for HistoryLimits {
    fn default() -> Self {
        Self { events: 10_000, bytes: 32 << 20 }
    }
}

/// The history asked for is no longer kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Expired;

/// What one commit did.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) revision: u64,
    pub(crate) key: Key,
    /// The object until then; `None` if it was created.
    pub(crate) before: Option<Arc<Stored>>,
    /// The object from then on; `None` if it was deleted.
    pub(crate) after: Option<Arc<Stored>>,
    /// What watchers were sent for it, one entry per form; few watch one table in more than three forms.
    sent: Mutex<Vec<(u64, Bytes)>>,
}

/// Forms of one event that are remembered. More are made anew each time.
const FORMS: usize = 8;

impl Event {
    pub(super) fn new(
        revision: u64,
        key: Key,
        before: Option<Arc<Stored>>,
        after: Option<Arc<Stored>>,
    ) -> Self {
        Self { revision, key, before, after, sent: Mutex::new(Vec::new()) }
    }

    /// Bytes this event keeps alive: both states and one serialised form.
    fn size(&self) -> usize {
        let size = |stored: &Option<Arc<Stored>>| stored.as_ref().map_or(0, |stored| stored.document.len());
        size(&self.before) + 2 * size(&self.after) + 256
    }

    /// The bytes for `form`, made once for all watchers. `form` identifies everything that `make` depends on.
    pub(crate) fn bytes_as(&self, form: u64, make: impl FnOnce() -> Bytes) -> Bytes {
        let mut sent = self.sent.lock();
        if let Some((_, bytes)) = sent.iter().find(|(known, _)| *known == form) {
            return bytes.clone();
        }
        let bytes = make();
        if sent.len() < FORMS {
            sent.push((form, bytes.clone()));
        }
        bytes
    }
}

/// Events in the order of their revisions.
#[derive(Debug)]
pub(super) struct History {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// All events after this revision are kept.
    floor: u64,
}

impl History {
    /// A history that begins at `revision`.
    pub(super) fn new(revision: u64) -> Self {
        Self { events: VecDeque::new(), bytes: 0, floor: revision }
    }

    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    pub(super) fn push(&mut self, event: Arc<Event>, limits: HistoryLimits) {
        self.bytes += event.size();
        self.events.push_back(event);
        while self.events.len() > limits.events || self.bytes > limits.bytes {
            if !self.drop_oldest() {
                break;
            }
        }
    }

    /// The events after `revision`, oldest first.
    pub(super) fn after(
        &self,
        revision: u64,
    ) -> Result<impl DoubleEndedIterator<Item = &Arc<Event>>, Expired> {
        if revision < self.floor {
            return Err(Expired);
        }
        let first = self.events.partition_point(|event| event.revision <= revision);
        Ok(self.events.range(first..))
    }

    /// Drops all events. A reader that has seen them all goes on.
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
