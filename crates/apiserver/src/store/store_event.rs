//! A committed change, with derived data that its readers share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Key, Stored};

/// A committed change of one object.
#[derive(Debug)]
pub(crate) struct StoreEvent {
    pub(crate) revision: u64,
    /// Time of the commit.
    pub(super) at: Instant,
    pub(crate) key: Key,
    /// Object before the commit; `None` if it was created.
    pub(crate) before: Option<Arc<Stored>>,
    /// Object after the commit; `None` if it was deleted.
    pub(crate) after: Option<Arc<Stored>>,
    /// Encoded watch events, one for each form: a combination of encoding, view and version. Tables with more than three forms are rare.
    forms: Mutex<Vec<(u64, Bytes)>>,
    /// Selector values of `before` and `after`, computed once for all watches.
    traits: [OnceLock<Traits>; 2],
    /// Total size of the cached forms of the table's events, in bytes.
    remembered: Arc<AtomicUsize>,
}

/// Maximum number of cached forms per event. Other forms are encoded each time.
const MAX_FORMS: usize = 8;
/// Maximum total size of the cached forms of a table's events, in bytes. The oldest are dropped first, because most watches read an event
/// right after its commit.
pub(super) const FORMS_BYTES: usize = 8 << 20;

impl StoreEvent {
    /// Creates an event; `remembered` is shared by the events of a table.
    pub(super) fn new(
        revision: u64,
        at: Instant,
        key: Key,
        before: Option<Arc<Stored>>,
        after: Option<Arc<Stored>>,
        remembered: Arc<AtomicUsize>,
    ) -> Self {
        let (forms, traits) = (Mutex::default(), Default::default());
        Self { revision, at, key, before, after, forms, traits, remembered }
    }

    /// Returns the number of bytes that this event keeps in memory: both states, and an allowance for derived data.
    pub(super) fn size(&self) -> usize {
        let size = |stored: &Option<Arc<Stored>>| stored.as_ref().map_or(0, |stored| stored.document.len());
        size(&self.before) + size(&self.after) + 512
    }

    /// Returns the bytes for `form`, which are encoded once for all watches. `form` identifies everything on which `make` depends.
    pub(crate) fn bytes_as(&self, form: u64, make: impl FnOnce() -> Bytes) -> Bytes {
        let mut forms = self.forms.lock();
        if let Some((_, bytes)) = forms.iter().find(|(known, _)| *known == form) {
            return bytes.clone();
        }
        // Encoded under the lock: watches that need the same form meanwhile wait for it instead of encoding it again.
        let bytes = make();
        if forms.len() < MAX_FORMS && self.remembered.load(Ordering::Relaxed) < FORMS_BYTES {
            self.remembered.fetch_add(bytes.len(), Ordering::Relaxed);
            forms.push((form, bytes.clone()));
        }
        bytes
    }

    /// Calls `ask` with the selector values of a state. `reader` identifies everything on which `read` depends. Only the values of the
    /// first reader are cached, because watches with selectors rarely use several versions of a kind.
    pub(crate) fn with_traits<R>(
        &self,
        state: EventSide,
        reader: u64,
        read: impl FnOnce() -> Traits,
        ask: impl FnOnce(&Traits) -> R,
    ) -> R {
        let mut read = Some(read);
        let known = self.traits[state as usize].get_or_init(|| {
            let traits = read.take().map(|read| read()).unwrap_or_default();
            Traits { reader, ..traits }
        });
        // `read` is left over if the values were cached before.
        match read {
            Some(read) if known.reader != reader => ask(&read()),
            _ => ask(known),
        }
    }

    /// Drops the cached forms; later readers encode them again.
    pub(super) fn forget(&self) {
        let forms = std::mem::take(&mut *self.forms.lock());
        let bytes: usize = forms.iter().map(|(_, bytes)| bytes.len()).sum();
        self.remembered.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for StoreEvent {
    fn drop(&mut self) {
        self.forget();
    }
}

/// State of the object before or after a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventSide {
    Before,
    After,
}

/// Values that selectors need of one state of an object.
#[derive(Debug, Default)]
pub(crate) struct Traits {
    pub(crate) labels: BTreeMap<String, String>,
    /// Values of the kind's selectable fields, in the order of the kind.
    pub(crate) fields: Vec<String>,
    /// Identifies the reader that computed the values.
    reader: u64,
}

impl Traits {
    pub(crate) fn new(labels: BTreeMap<String, String>, fields: Vec<String>) -> Self {
        Self { labels, fields, reader: 0 }
    }
}
