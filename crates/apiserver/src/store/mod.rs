//! Objects of the server: one revision counter, and for each stored resource an ordered table with a short history.
//!
//! The store is pure: it never waits, reads no clock, and knows neither HTTP nor schemas. Its guarantees:
//!
//! - Each successful commit takes the next revision; a failed commit changes nothing.
//! - A [`Snapshot`] takes constant time and never changes, so that all pages of a list agree.
//! - Events of a table have the order of their revisions. A reader that falls behind the history gets [`Expired`], never a gap.
//!
//! Bounds: the history of a table holds at most [`HistoryLimits::events`] events, and none that was older than [`HistoryLimits::age`] at
//! the last commit to the table. Objects to which only the history refers take at most [`HistoryLimits::bytes`] bytes, estimated
//! generously; encoded watch events take at most 8 MiB. Readers need no memory in the store: a reader is the last revision that it has
//! seen.

mod document;
mod history;
mod store_event;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use imbl::OrdMap;
use tokio::time::Instant;

pub(crate) use document::{Document, TypeMeta};
use history::History;
pub(crate) use history::{Expired, HISTORY_AGE, HistoryLimits};
pub(crate) use store_event::{EventSide, StoreEvent, Traits};

/// Key of an object within its table: `namespace/name`, or `name` for cluster-scoped objects.
///
/// Keys are ordered by their bytes, as in etcd: `a-b/x` precedes `a/x`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(Arc<str>);

impl Key {
    /// Creates a key; an empty namespace means cluster-scoped.
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() {
            Self(Arc::from(name))
        } else {
            Self(Arc::from(format!("{namespace}/{name}")))
        }
    }

    /// Restores a key from its text.
    pub(crate) fn from_text(text: &str) -> Self {
        Self(Arc::from(text))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the namespace; empty for cluster-scoped objects.
    pub(crate) fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    pub(crate) fn name(&self) -> &str {
        self.0.split_once('/').map_or(&*self.0, |(_, name)| name)
    }
}

/// A committed object.
#[derive(Debug)]
pub(crate) struct Stored {
    /// Revision of the commit: `metadata.resourceVersion`.
    pub(crate) revision: u64,
    pub(crate) document: Document,
    /// Upper half: form in which the object was encoded last, or 0. Lower half: its encoded length.
    encoded: AtomicU64,
}

impl Stored {
    pub(crate) fn new(revision: u64, document: Document) -> Self {
        Self { revision, document, encoded: AtomicU64::new(0) }
    }

    /// Returns the encoded length in a form, if the object was last encoded in that form.
    pub(crate) fn length_in(&self, form: NonZeroU32) -> Option<usize> {
        let encoded = self.encoded.load(Ordering::Relaxed);
        (encoded >> 32 == u64::from(form.get())).then_some(encoded as u32 as usize)
    }

    /// Caches the encoded length in a form. The form is an arbitrary number that the caller chooses.
    pub(crate) fn remember_length(&self, form: NonZeroU32, length: usize) {
        // Lengths above four gigabytes do not fit and are not cached.
        if let Ok(length) = u32::try_from(length) {
            self.encoded.store(u64::from(form.get()) << 32 | u64::from(length), Ordering::Relaxed);
        }
    }
}

/// Objects of a table in a persistent map: clones share the unchanged parts.
type TableObjects = OrdMap<Key, Arc<Stored>>;

/// Number of a table. Looking up a table by its number is faster than by its name. Numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TableId(u64);

#[derive(Debug)]
struct Table {
    objects: TableObjects,
    history: History,
}

/// A table as it was at one revision.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    revision: u64,
    objects: TableObjects,
}

impl Snapshot {
    /// Returns the store's revision at which the table was in this state.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Stored>> {
        self.objects.get(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Replaces an object by its form in another version, for the readers of this snapshot.
    pub(crate) fn replace(&mut self, key: &Key, object: Arc<Stored>) {
        if let Some(stored) = self.objects.get_mut(key) {
            *stored = object;
        }
    }

    /// Iterates over the objects of a namespace in the order of their keys, beginning at `start` if given. An empty namespace means all.
    pub(crate) fn range<'a>(
        &'a self,
        namespace: &str,
        start: Option<&Key>,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Stored>)> + use<'a> {
        // With the slash, so that namespace `a` does not include the keys of namespace `a-b`.
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let first = match start {
            Some(start) if start.as_str() > prefix.as_str() => start.clone(),
            _ => Key::from_text(&prefix),
        };
        self.objects
            .range((Bound::Included(first), Bound::Unbounded))
            .take_while(move |(key, _)| key.as_str().starts_with(&prefix))
    }
}

/// An earlier state of a table, which is not reconstructed yet.
#[derive(Debug)]
pub(crate) struct Past {
    revision: u64,
    objects: TableObjects,
    /// Events after `revision`.
    since: Vec<Arc<StoreEvent>>,
}

/// The current state needs no reconstruction.
impl From<Snapshot> for Past {
    fn from(Snapshot { revision, objects }: Snapshot) -> Self {
        Self { revision, objects, since: Vec::new() }
    }
}

impl Past {
    /// Returns the store's revision at which the table was in this state.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Reconstructs the state by undoing the events since then. The cost grows with the number of events, so call this without the store's
    /// lock.
    pub(crate) fn snapshot(self) -> Snapshot {
        let mut objects = self.objects;
        for event in self.since.iter().rev() {
            match &event.before {
                Some(before) => objects.insert(event.key.clone(), Arc::clone(before)),
                None => objects.remove(&event.key),
            };
        }
        Snapshot { revision: self.revision, objects }
    }
}

/// Change of an object by a commit.
#[derive(Debug)]
pub(crate) enum Change {
    Put(Document),
    Delete,
}

/// History of a closed table, for readers that have not read all of it.
#[derive(Debug)]
pub(crate) struct Closed(History);

impl Closed {
    /// Like [`Store::events_after`].
    pub(crate) fn events_after(&self, revision: u64, max: usize) -> Result<Vec<Arc<StoreEvent>>, Expired> {
        Ok(self.0.after(revision)?.take(max).cloned().collect())
    }
}

/// The object is not in the expected state: read it again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Conflict;

/// All tables and their common revision. `T` names a table.
#[derive(Debug)]
pub(crate) struct Store<T> {
    revision: u64,
    /// Oldest revision at which new readers may begin, even if older history is available.
    compacted: u64,
    names: BTreeMap<T, TableId>,
    tables: BTreeMap<TableId, Table>,
    /// Number of tables ever opened.
    opened: u64,
    limits: HistoryLimits,
}

impl<T: Ord + Clone> Store<T> {
    /// Creates an empty store at revision 1, because for clients the resource version 0 means "any".
    pub(crate) fn new(limits: HistoryLimits) -> Self {
        Self { revision: 1, compacted: 0, names: BTreeMap::new(), tables: BTreeMap::new(), opened: 0, limits }
    }

    /// Creates a store that continues after `revision` with these objects. Older revisions are expired.
    #[cfg_attr(not(feature = "persistence"), expect(dead_code, reason = "used by data files only"))]
    pub(crate) fn restored(
        limits: HistoryLimits,
        revision: u64,
        objects: impl IntoIterator<Item = (T, Key, Stored)>,
    ) -> Self {
        let mut store = Self { revision, compacted: revision, ..Self::new(limits) };
        for (name, key, stored) in objects {
            let id = store.open(&name);
            if let Some(table) = store.tables.get_mut(&id) {
                table.objects.insert(key, Arc::new(stored));
            }
        }
        store
    }

    /// Creates a store with the same objects and revision. The objects are shared; the history begins now.
    pub(crate) fn fork(&self) -> Self {
        let fork = |(id, table): (&TableId, &Table)| {
            (*id, Table { objects: table.objects.clone(), history: History::new(self.revision) })
        };
        Self {
            revision: self.revision,
            compacted: self.revision,
            names: self.names.clone(),
            tables: self.tables.iter().map(fork).collect(),
            opened: self.opened,
            limits: self.limits,
        }
    }

    /// Returns the revision of the last commit.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Creates the table, unless it exists. Its history begins now: its older revisions are expired.
    pub(crate) fn open(&mut self, table: &T) -> TableId {
        if let Some(id) = self.id(table) {
            return id;
        }
        self.opened += 1;
        let id = TableId(self.opened);
        self.names.insert(table.clone(), id);
        self.tables.insert(id, Table { objects: TableObjects::new(), history: History::new(self.revision) });
        id
    }

    /// Removes the table and its objects without events. Returns its history.
    pub(crate) fn close(&mut self, table: &T) -> Option<Closed> {
        let id = self.names.remove(table)?;
        self.tables.remove(&id).map(|table| Closed(table.history))
    }

    /// Returns the number of an open table.
    pub(crate) fn id(&self, table: &T) -> Option<TableId> {
        self.names.get(table).copied()
    }

    fn table(&self, table: &T) -> Option<&Table> {
        self.tables.get(&self.id(table)?)
    }

    pub(crate) fn get(&self, table: &T, key: &Key) -> Option<&Arc<Stored>> {
        self.table(table)?.objects.get(key)
    }

    /// Returns the current state of the table; empty if it was never opened.
    pub(crate) fn snapshot(&self, table: &T) -> Snapshot {
        let objects = self.table(table).map(|table| table.objects.clone()).unwrap_or_default();
        Snapshot { revision: self.revision, objects }
    }

    /// Returns the state of the table at `revision`, which must not be in the future. The caller reconstructs it without the lock.
    pub(crate) fn past(&self, table: &T, revision: u64, now: Instant) -> Result<Past, Expired> {
        if revision < self.oldest(table, now) {
            return Err(Expired);
        }
        let Some(table) = self.table(table) else {
            return Ok(Past { revision, objects: TableObjects::new(), since: Vec::new() });
        };
        let since = table.history.after(revision)?.cloned().collect();
        Ok(Past { revision, objects: table.objects.clone(), since })
    }

    /// Returns the events of the table after `revision`, oldest first, at most `max`. Ignores compaction, so that existing
    /// readers continue.
    pub(crate) fn events_after(
        &self,
        table: &T,
        revision: u64,
        max: usize,
    ) -> Result<Vec<Arc<StoreEvent>>, Expired> {
        self.events_in(self.id(table).ok_or(Expired)?, revision, max)
    }

    /// Like [`events_after`](Self::events_after), for a table number.
    pub(crate) fn events_in(
        &self,
        table: TableId,
        revision: u64,
        max: usize,
    ) -> Result<Vec<Arc<StoreEvent>>, Expired> {
        match self.tables.get(&table) {
            Some(table) => Ok(table.history.after(revision)?.take(max).cloned().collect()),
            None => Err(Expired),
        }
    }

    /// Returns the oldest revision from which a new reader of the table may start.
    pub(crate) fn oldest(&self, table: &T, now: Instant) -> u64 {
        let floor = self.table(table).map_or(0, |table| table.history.floor(now, self.limits));
        floor.max(self.compacted)
    }

    /// Compacts up to `revision`, at most the current one: new readers cannot begin at older revisions. Returns the compacted
    /// revision, which never decreases.
    pub(crate) fn compact(&mut self, revision: u64) -> u64 {
        self.compacted = self.compacted.max(revision.min(self.revision));
        self.compacted
    }

    /// Drops the history of a table; returns whether the table exists.
    pub(crate) fn evict(&mut self, table: &T) -> bool {
        let table = self.id(table).and_then(|id| self.tables.get_mut(&id));
        table.map(|table| table.history.clear()).is_some()
    }

    /// Applies the change if the object's revision is `expected` (`None`: the object does not exist).
    ///
    /// Deleting an object that does not exist is a [`Conflict`], whatever `expected` is. So is any change of a table that is not open,
    /// because no reader would find the stored object.
    pub(crate) fn commit(
        &mut self,
        table: &T,
        key: &Key,
        expected: Option<u64>,
        change: Change,
        now: Instant,
    ) -> Result<Arc<StoreEvent>, Conflict> {
        let id = self.id(table).ok_or(Conflict)?;
        let revision = self.revision + 1;
        let table = self.tables.get_mut(&id).ok_or(Conflict)?;
        let before = table.objects.get(key).cloned();
        if before.as_ref().map(|stored| stored.revision) != expected {
            return Err(Conflict);
        }
        let after = match change {
            Change::Put(document) => {
                let stored = Arc::new(Stored::new(revision, document));
                table.objects.insert(key.clone(), Arc::clone(&stored));
                Some(stored)
            }
            Change::Delete if before.is_some() => {
                table.objects.remove(key);
                None
            }
            Change::Delete => return Err(Conflict),
        };
        let event = table.history.push(revision, now, key.clone(), before, after, self.limits);
        // Set last: a refused commit takes no revision.
        self.revision = revision;
        Ok(event)
    }
}

#[cfg(test)]
mod tests;
