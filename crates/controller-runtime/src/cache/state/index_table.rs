//! Tables from computed values to objects, which an informer keeps up to date.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{self, AssertUnwindSafe},
    sync::Arc,
};

use imbl::OrdMap;
use parking_lot::{Mutex, RwLock};

use super::{informer::Informer, matches::Objects, store::StateChange};
use crate::{
    cache::objects::lazy::Lazy,
    object::{Object, ObjectKey, meta::Uid},
};

/// Computes the values of an object.
pub(in crate::cache) type Values<K, V> = dyn Fn(&Lazy<K>) -> BTreeSet<V> + Send + Sync;

/// Source of the previous values of a changed object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cache) enum ValueStorage {
    /// [`Upkeep::found`], so that the object need not be decoded again.
    Stored,
    /// The previous state of the object, from which they are computed again.
    Recomputed,
}

/// Table from values to objects.
pub(in crate::cache) struct Table<K: Object, V: Ord + Clone> {
    by_value: RwLock<OrdMap<V, Objects<K>>>,
    /// Locked before `by_value`.
    upkeep: Mutex<Upkeep<K, V>>,
    values: Box<Values<K, V>>,
    storage: ValueStorage,
}

/// State for updates of an index.
struct Upkeep<K: Object, V> {
    /// Values per object, so that a removed object need not be decoded again. Empty for indexes of metadata.
    found: BTreeMap<ObjectKey<K>, ObjectValues<V>>,
    /// While the index is filled from a snapshot: keys of objects that have changed since the snapshot. `None`
    /// afterwards.
    changed: Option<BTreeSet<ObjectKey<K>>>,
}

/// Values of an object in compact form: a `BTreeSet` with one string takes 280 bytes.
enum ObjectValues<V> {
    One(V),
    Several(Box<[V]>),
}

impl<V> ObjectValues<V> {
    fn values(&self) -> &[V] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Several(values) => values,
        }
    }
}

/// Builds an index of the objects by the uids of their owners.
pub(in crate::cache) fn by_owner<K: Object>(informer: &Informer<K>) -> Arc<Table<K, Uid>> {
    let owners =
        |object: &Lazy<K>| object.meta().owner_references().iter().map(|owner| owner.uid().clone()).collect();
    Table::updated_by(informer, Box::new(owners), ValueStorage::Recomputed)
}

/// An index, whatever the type of its values.
pub(crate) trait AnyIndex<K: Object>: Send + Sync {
    /// Computes the change of the index when an object changes from `old` to `new`, for [`IndexChange::apply`]. Runs
    /// the user's function, so the caller must not hold a lock.
    fn change(self: Arc<Self>, change: &StateChange<K>) -> Box<dyn IndexChange>;

    /// Adds the objects of a snapshot, except those that have changed since it was taken. Runs the user's function, so
    /// the caller must not hold a lock.
    fn fill(&self, snapshot: &OrdMap<ObjectKey<K>, Lazy<K>>);
}

/// A computed change that has not been applied to its index. It may own the last handles of values and objects, so it
/// must be dropped while no lock is held.
pub(crate) trait IndexChange: Send {
    /// Applies the change. The only user code that it runs is `Ord` and `Clone` of values.
    fn apply(&mut self);
}

impl<K: Object, V: Ord + Clone> Table<K, V> {
    /// Returns the objects of all values. The copy is cheap and does not change.
    pub(in crate::cache) fn all(&self) -> OrdMap<V, Objects<K>> {
        self.by_value.read().clone()
    }

    /// Returns the objects that have a value. The result is a cheap copy, so that the lock is not held while it is
    /// read.
    pub(in crate::cache) fn objects<Q: Ord + ?Sized>(&self, value: &Q) -> Objects<K>
    where
        V: std::borrow::Borrow<Q>,
    {
        self.by_value.read().get(value).cloned().unwrap_or_default()
    }

    /// Returns the values in the form in which they are stored, or `None` if there are none. Clones equal values of
    /// other objects, so that values such as `Arc<str>` share memory.
    fn to_keep(&self, values: &BTreeSet<V>) -> Option<ObjectValues<V>> {
        let by_value = self.by_value.read();
        let keep = |value: &V| by_value.get_key_value(value).map_or(value, |(known, _)| known).clone();
        let first = values.first()?;
        Some(match values.len() {
            1 => ObjectValues::One(keep(first)),
            _ => ObjectValues::Several(values.iter().map(keep).collect()),
        })
    }

    /// Returns the values of an object; none if the user's function panics.
    fn values_of(&self, object: &Lazy<K>) -> BTreeSet<V> {
        panic::catch_unwind(AssertUnwindSafe(|| (self.values)(object))).unwrap_or_else(|panic| {
            let (reason, object) = (crate::panics::panic_message(&*panic), object.key());
            let kind = std::any::type_name::<K>();
            tracing::error!(
                kind,
                %object,
                "the function of an index panicked, and the index leaves out the object: {reason}"
            );
            BTreeSet::new()
        })
    }
}

impl<K: Object, V: Ord + Clone + Send + Sync + 'static> Table<K, V> {
    /// Creates a table that `informer` updates until the table is dropped.
    pub(in crate::cache) fn updated_by(
        informer: &Informer<K>,
        values: Box<Values<K, V>>,
        storage: ValueStorage,
    ) -> Arc<Self> {
        let upkeep = Mutex::new(Upkeep { found: BTreeMap::new(), changed: Some(BTreeSet::new()) });
        let table = Arc::new(Self { by_value: RwLock::default(), upkeep, values, storage });
        let index: Arc<dyn AnyIndex<K>> = Arc::clone(&table) as _;
        informer.add_index(&index);
        table
    }
}

impl<K: Object, V: Ord + Clone + Send + Sync + 'static> AnyIndex<K> for Table<K, V> {
    fn change(self: Arc<Self>, change: &StateChange<K>) -> Box<dyn IndexChange> {
        let StateChange { key, old, new } = change.clone();
        // The user's function runs here, without a lock; `apply` runs later, under the locks.
        let after = new.as_ref().map(|object| self.values_of(object)).unwrap_or_default();
        let before =
            old.filter(|_| self.storage == ValueStorage::Recomputed).map(|object| self.values_of(&object));
        let before = before.map(|values| ObjectValues::Several(values.into_iter().collect()));
        Box::new(TableChange { table: self, key, new, before, after, retired: Vec::new() })
    }

    fn fill(&self, snapshot: &OrdMap<ObjectKey<K>, Lazy<K>>) {
        let mut objects = snapshot.iter().peekable();
        while objects.peek().is_some() {
            let piece = objects.by_ref().take(FILLED_AT_ONCE);
            let piece: Vec<_> = piece.map(|(key, object)| (key, object, self.values_of(object))).collect();
            let mut upkeep = self.upkeep.lock();
            let Upkeep { found, changed } = &mut *upkeep;
            for (key, object, values) in &piece {
                // A newer state has been applied already.
                if changed.as_ref().is_some_and(|changed| changed.contains(*key)) {
                    continue;
                }
                if self.storage == ValueStorage::Stored
                    && let Some(values) = self.to_keep(values)
                {
                    found.insert((*key).clone(), values);
                }
                let mut by_value = self.by_value.write();
                for value in values {
                    by_value.entry(value.clone()).or_default().insert((*key).clone(), (*object).clone());
                }
            }
            drop(upkeep); // unlock before the values of the piece are dropped, which runs user code
        }
        // Bound to a name, so that the keys are dropped after the lock is released.
        let _changed = self.upkeep.lock().changed.take();
    }
}

/// Number of objects that a table adds from a snapshot before it releases the lock for events.
const FILLED_AT_ONCE: usize = 64;

/// A computed change of one object in a table.
struct TableChange<K: Object, V: Ord + Clone> {
    table: Arc<Table<K, V>>,
    key: ObjectKey<K>,
    new: Option<Lazy<K>>,
    /// Old values, unless the table stores them.
    before: Option<ObjectValues<V>>,
    after: BTreeSet<V>,
    /// Values that no object has any more. Dropped with the change, after the locks are released.
    retired: Vec<V>,
}

impl<K: Object, V: Ord + Clone + Send + Sync> IndexChange for TableChange<K, V> {
    fn apply(&mut self) {
        let Self { table, key, new, before, after, retired } = self;
        let mut upkeep = table.upkeep.lock();
        let Upkeep { found, changed } = &mut *upkeep;
        if let Some(changed) = changed {
            changed.insert(key.clone());
        }
        // The stored values, not those at the time of `change`: other changes may have been applied since.
        if table.storage == ValueStorage::Stored {
            *before = match table.to_keep(after) {
                Some(values) => found.insert(key.clone(), values),
                None => found.remove(key),
            };
        }
        let mut by_value = table.by_value.write();
        for value in before.iter().flat_map(ObjectValues::values).filter(|value| !after.contains(value)) {
            if let Some(objects) = by_value.get_mut(value) {
                objects.remove(key);
                if objects.is_empty() {
                    retired.extend(by_value.remove_with_key(value).map(|(value, _)| value));
                }
            }
        }
        let Some(object) = new else { return };
        for value in &*after {
            match by_value.get_mut(value) {
                Some(objects) => objects.insert(key.clone(), object.clone()),
                None => by_value.entry(value.clone()).or_default().insert(key.clone(), object.clone()),
            }
        }
    }
}
