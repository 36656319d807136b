//! The state of the server: one revision counter, an ordered table per stored resource, and a short history of each.
//!
//! The store is pure: it never waits, never reads a clock and knows nothing of HTTP or of schemas. What it promises:
//!
//! - Every successful commit takes the next revision, and a commit that fails changes nothing.
//! - A [`Snapshot`] is taken in constant time and never changes afterwards, so that a list and its later pages agree.
//! - Events of a table come in the order of their revisions. A reader that fell behind what is kept gets [`Expired`],
//!   never a gap.
//!
//! Bounds: the history of a table holds at most [`HistoryLimits::events`] events, none older than [`HistoryLimits::age`] at
//! the last commit to the table, and [`HistoryLimits::bytes`] bytes of objects that only the history still refers to, counted generously, and 8 MiB of what watchers were sent for them.
//! Readers hold no memory here: a reader is the revision it has seen last.

mod document;
mod event;
mod history;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use imbl::OrdMap;
use tokio::time::Instant;

pub(crate) use document::{Document, TypeMeta};
pub(crate) use event::{Event, State, Traits};
use history::History;
pub(crate) use history::{Expired, HISTORY_AGE, HistoryLimits};

/// Where an object is within its table: `namespace/name`, or `name` where there is no namespace.
///
/// The order is that of the bytes, as in etcd: `a-b/x` precedes `a/x`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(Arc<str>);

impl Key {
    /// An empty namespace is no namespace.
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() {
            Self(Arc::from(name))
        } else {
            Self(Arc::from(format!("{namespace}/{name}")))
        }
    }

    /// The key with exactly this text, as [`as_str`](Self::as_str) gave it.
    pub(crate) fn from_text(text: &str) -> Self {
        Self(Arc::from(text))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Empty for objects without a namespace.
    pub(crate) fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    pub(crate) fn name(&self) -> &str {
        self.0.split_once('/').map_or(&*self.0, |(_, name)| name)
    }
}

/// An object as it was committed.
#[derive(Debug)]
pub(crate) struct Stored {
    /// Revision of the commit: `metadata.resourceVersion`.
    pub(crate) revision: u64,
    pub(crate) document: Document,
    /// The form in which it was encoded last, above its length in it; 0 if it never was.
    encoded: AtomicU64,
}

impl Stored {
    pub(crate) fn new(revision: u64, document: Document) -> Self {
        Self { revision, document, encoded: AtomicU64::new(0) }
    }

    /// Bytes that the object takes in a form, if that is the one in which it was encoded last.
    pub(crate) fn length_in(&self, form: NonZeroU32) -> Option<usize> {
        let encoded = self.encoded.load(Ordering::Relaxed);
        (encoded >> 32 == u64::from(form.get())).then_some(encoded as u32 as usize)
    }

    /// Remembers how many bytes the object takes in a form, which is any number by which the caller knows it again.
    pub(crate) fn remember_length(&self, form: NonZeroU32, length: usize) {
        // What is longer than four gigabytes is not remembered.
        if let Ok(length) = u32::try_from(length) {
            self.encoded.store(u64::from(form.get()) << 32 | u64::from(length), Ordering::Relaxed);
        }
    }
}

/// The objects of a table, persistent: clones share what did not change.
type Objects = OrdMap<Key, Arc<Stored>>;

/// A table by number: found sooner than by name, and never given to another table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TableId(u64);

#[derive(Debug)]
struct Table {
    objects: Objects,
    history: History,
}

/// A table as it was at one revision.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    revision: u64,
    objects: Objects,
}

impl Snapshot {
    /// The revision of the whole store at which this was the table's state.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Stored>> {
        self.objects.get(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// The objects of a namespace (of all, if empty) in the order of their keys, from `start` on if there is one.
    pub(crate) fn range<'a>(
        &'a self,
        namespace: &str,
        start: Option<&Key>,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Stored>)> + use<'a> {
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

/// The way back to what a table was.
#[derive(Debug)]
pub(crate) struct Past {
    revision: u64,
    objects: Objects,
    /// What happened after `revision`.
    since: Vec<Arc<Event>>,
}

/// The present is no way off.
impl From<Snapshot> for Past {
    fn from(Snapshot { revision, objects }: Snapshot) -> Self {
        Self { revision, objects, since: Vec::new() }
    }
}

impl Past {
    /// The revision of the whole store at which this was the table's state.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Goes there. History is undone, not kept twice, so that the cost grows with the number of events since then; it is not
    /// for those who hold the store.
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

/// What a commit does to an object.
#[derive(Debug)]
pub(crate) enum Change {
    Put(Document),
    Delete,
}

/// The history of a table that is no more: for those who had not read all of it.
#[derive(Debug)]
pub(crate) struct Closed(History);

impl Closed {
    /// As [`Store::events_after`].
    pub(crate) fn events_after(&self, revision: u64, max: usize) -> Result<Vec<Arc<Event>>, Expired> {
        Ok(self.0.after(revision)?.take(max).cloned().collect())
    }
}

/// The object is not what the commit expected: read it again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Conflict;

/// All tables and the revision they share. `T` names a table.
#[derive(Debug)]
pub(crate) struct Store<T> {
    revision: u64,
    /// No read begins before this revision, even where the history is still kept.
    compacted: u64,
    names: BTreeMap<T, TableId>,
    tables: BTreeMap<TableId, Table>,
    /// Tables that were ever opened.
    opened: u64,
    limits: HistoryLimits,
}

impl<T: Ord + Clone> Store<T> {
    /// An empty store at revision 1, so that no list ever shows revision 0, which means "any" to clients.
    pub(crate) fn new(limits: HistoryLimits) -> Self {
        Self { revision: 1, compacted: 0, names: BTreeMap::new(), tables: BTreeMap::new(), opened: 0, limits }
    }

    /// A store that goes on after `revision` with these objects. Of what was before, it knows nothing: older revisions are
    /// expired.
    #[cfg_attr(not(feature = "persistence"), expect(dead_code, reason = "for data files"))]
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

    /// The revision of the last commit.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Makes the table known. Its history begins now: older revisions of it are expired.
    pub(crate) fn open(&mut self, table: &T) -> TableId {
        if let Some(id) = self.id(table) {
            return id;
        }
        self.opened += 1;
        let id = TableId(self.opened);
        self.names.insert(table.clone(), id);
        self.tables.insert(id, Table { objects: Objects::new(), history: History::new(self.revision) });
        id
    }

    /// Forgets the table with its objects, without events. What happened in it until now is returned.
    pub(crate) fn close(&mut self, table: &T) -> Option<Closed> {
        let id = self.names.remove(table)?;
        self.tables.remove(&id).map(|table| Closed(table.history))
    }

    /// The number of an open table.
    pub(crate) fn id(&self, table: &T) -> Option<TableId> {
        self.names.get(table).copied()
    }

    fn table(&self, table: &T) -> Option<&Table> {
        self.tables.get(&self.id(table)?)
    }

    pub(crate) fn get(&self, table: &T, key: &Key) -> Option<&Arc<Stored>> {
        self.table(table)?.objects.get(key)
    }

    /// The table as it is now; empty if it was never opened.
    pub(crate) fn snapshot(&self, table: &T) -> Snapshot {
        let objects = self.table(table).map(|table| table.objects.clone()).unwrap_or_default();
        Snapshot { revision: self.revision, objects }
    }

    /// The table as it was at `revision`, which must not be in the future: what leads there, which is undone elsewhere.
    pub(crate) fn past(&self, table: &T, revision: u64, now: Instant) -> Result<Past, Expired> {
        if revision < self.oldest(table, now) {
            return Err(Expired);
        }
        let Some(table) = self.table(table) else {
            return Ok(Past { revision, objects: Objects::new(), since: Vec::new() });
        };
        let since = table.history.after(revision)?.cloned().collect();
        Ok(Past { revision, objects: table.objects.clone(), since })
    }

    /// The oldest events of the table after `revision`, at most `max` of them. Compaction does not hinder this, so that
    /// a reader under way goes on.
    pub(crate) fn events_after(
        &self,
        table: &T,
        revision: u64,
        max: usize,
    ) -> Result<Vec<Arc<Event>>, Expired> {
        self.events_in(self.id(table).ok_or(Expired)?, revision, max)
    }

    /// The same of a table by number.
    pub(crate) fn events_in(
        &self,
        table: TableId,
        revision: u64,
        max: usize,
    ) -> Result<Vec<Arc<Event>>, Expired> {
        match self.tables.get(&table) {
            Some(table) => Ok(table.history.after(revision)?.take(max).cloned().collect()),
            None => Err(Expired),
        }
    }

    /// The oldest revision that a new reader of the table may start from.
    pub(crate) fn oldest(&self, table: &T, now: Instant) -> u64 {
        let floor = self.table(table).map_or(0, |table| table.history.floor(now, self.limits));
        floor.max(self.compacted)
    }

    /// Expires what is older than `revision`, bounded by the present one, for everybody who begins to read from now on.
    /// Returns the bound that holds now, which never goes back.
    pub(crate) fn compact(&mut self, revision: u64) -> u64 {
        self.compacted = self.compacted.max(revision.min(self.revision));
        self.compacted
    }

    /// Forgets the history of a table; whether there is such a table.
    pub(crate) fn evict(&mut self, table: &T) -> bool {
        let table = self.id(table).and_then(|id| self.tables.get_mut(&id));
        table.map(|table| table.history.clear()).is_some()
    }

    /// Applies the change if the object's revision is `expected` (`None`: there is no such object).
    ///
    /// Deleting what does not exist is a [`Conflict`], whatever was expected, and so is everything in a table that is not
    /// open: nothing is ever stored where nobody would find it.
    pub(crate) fn commit(
        &mut self,
        table: &T,
        key: &Key,
        expected: Option<u64>,
        change: Change,
        now: Instant,
    ) -> Result<Arc<Event>, Conflict> {
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
        self.revision = revision;
        Ok(event)
    }
}

#[cfg(test)]
mod tests;
