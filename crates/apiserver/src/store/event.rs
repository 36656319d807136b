//! What one commit did, and what its readers have made of it so far.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Key, Stored};

/// What one commit did.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) revision: u64,
    /// When it happened.
    pub(super) at: Instant,
    pub(crate) key: Key,
    /// The object until then; `None` if it was created.
    pub(crate) before: Option<Arc<Stored>>,
    /// The object from then on; `None` if it was deleted.
    pub(crate) after: Option<Arc<Stored>>,
    /// What watchers were sent for it, one entry per form; few watch one table in more than three forms.
    forms: Mutex<Vec<(u64, Bytes)>>,
    /// What selectors ask of `before` and of `after`, read once for all watchers that do.
    traits: [OnceLock<Traits>; 2],
    /// Bytes of the forms of all events of the table.
    remembered: Arc<AtomicUsize>,
}

/// Forms of one event that are remembered. More are made anew each time.
const FORMS: usize = 8;
/// Bytes of forms that are remembered for the events of a table. The oldest are forgotten first, because most watchers
/// read an event as soon as it is there.
pub(super) const FORMS_BYTES: usize = 8 << 20;

impl Event {
    /// `remembered` is shared by the events of a table.
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

    /// Bytes that the history keeps alive by this event: both states, and what selectors ask of them.
    pub(super) fn size(&self) -> usize {
        let size = |stored: &Option<Arc<Stored>>| stored.as_ref().map_or(0, |stored| stored.document.len());
        size(&self.before) + size(&self.after) + 512
    }

    /// The bytes for `form`, made once for all watchers. `form` identifies everything that `make` depends on.
    pub(crate) fn bytes_as(&self, form: u64, make: impl FnOnce() -> Bytes) -> Bytes {
        let mut forms = self.forms.lock();
        if let Some((_, bytes)) = forms.iter().find(|(known, _)| *known == form) {
            return bytes.clone();
        }
        let bytes = make();
        if forms.len() < FORMS && self.remembered.load(Ordering::Relaxed) < FORMS_BYTES {
            self.remembered.fetch_add(bytes.len(), Ordering::Relaxed);
            forms.push((form, bytes.clone()));
        }
        bytes
    }

    /// The object before or after the commit, if there was one.
    pub(crate) fn state(&self, state: State) -> Option<&Arc<Stored>> {
        match state {
            State::Before => self.before.as_ref(),
            State::After => self.after.as_ref(),
        }
    }

    /// What selectors ask of a state. `reader` identifies everything that `read` depends on; few versions of a kind are
    /// watched by selectors, and only the first is remembered.
    pub(crate) fn with_traits<R>(
        &self,
        state: State,
        reader: u64,
        read: impl FnOnce() -> Traits,
        ask: impl FnOnce(&Traits) -> R,
    ) -> R {
        let mut read = Some(read);
        let known = self.traits[state as usize].get_or_init(|| {
            let traits = read.take().map(|read| read()).unwrap_or_default();
            Traits { reader, ..traits }
        });
        match read {
            Some(read) if known.reader != reader => ask(&read()),
            _ => ask(known),
        }
    }

    /// Forgets the forms; whoever reads the event later makes them anew.
    pub(super) fn forget(&self) {
        let forms = std::mem::take(&mut *self.forms.lock());
        let bytes: usize = forms.iter().map(|(_, bytes)| bytes.len()).sum();
        self.remembered.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.forget();
    }
}

/// One of the states between which a commit leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Before,
    After,
}

/// What selectors ask of one state of an object.
#[derive(Debug, Default)]
pub(crate) struct Traits {
    pub(crate) labels: BTreeMap<String, String>,
    /// Values of the fields that the kind is selected by, in its order.
    pub(crate) fields: Vec<String>,
    /// Whose reading this is.
    reader: u64,
}

impl Traits {
    pub(crate) fn new(labels: BTreeMap<String, String>, fields: Vec<String>) -> Self {
        Self { labels, fields, reader: 0 }
    }
}
