//! Indexes: lookup of cached objects by computed values.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::{Bound, RangeBounds},
    panic::{self, AssertUnwindSafe},
    sync::Arc,
};

use imbl::OrdMap;
use parking_lot::{Mutex, RwLock};

use super::{
    ReadError, Uid, informer::Informer, lazy::Lazy, many, meta::Meta, objects::Objects, reads::Readers,
    selection::Selection, store::Change,
};
use crate::object::{Object, ObjectKey};

/// Lookup table from values of type `V` to cached objects, updated with every change.
///
/// Returned by [`Cached::index`](super::Cached::index) and [`Cached::index_by_meta`](super::Cached::index_by_meta). A
/// handle that is cheap to clone; the index exists as long as one of its handles.
pub struct Index<K: Object, V: Ord + Clone + Send + Sync + 'static> {
    table: Arc<Table<K, V>>,
    /// Keeps the informer alive.
    informer: Arc<Informer<K>>,
}

type Values<K, V> = dyn Fn(&Lazy<K>) -> BTreeSet<V> + Send + Sync;

pub(super) struct Table<K: Object, V: Ord + Clone> {
    by_value: RwLock<OrdMap<V, Objects<K>>>,
    /// Locked before `by_value`.
    upkeep: Mutex<Upkeep<K, V>>,
    values: Box<Values<K, V>>,
    /// Whether values are stored in [`Upkeep::found`].
    remembers: bool,
}

/// State for updates of an index.
struct Upkeep<K: Object, V> {
    /// Values per object, so that a removed object need not be decoded again. Empty for indexes of metadata.
    found: BTreeMap<ObjectKey<K>, Found<V>>,
    /// While the index is filled from a snapshot: keys of objects that have changed since the snapshot. `None`
    /// afterwards.
    changed: Option<BTreeSet<ObjectKey<K>>>,
}

/// Values of an object in compact form: a `BTreeSet` with one string takes 280 bytes.
enum Found<V> {
    One(V),
    Several(Box<[V]>),
}

impl<V> Found<V> {
    fn values(&self) -> &[V] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Several(values) => values,
        }
    }
}

/// Builds an index of the objects by the uids of their owners.
pub(super) fn by_owner<K: Object>(informer: &Informer<K>) -> Arc<Table<K, Uid>> {
    let owners =
        |object: &Lazy<K>| object.meta().owner_references().iter().map(|owner| owner.uid().clone()).collect();
    Table::kept_by(informer, Box::new(owners), false)
}

/// An index, whatever the type of its values.
pub(crate) trait AnyIndex<K: Object>: Send + Sync {
    /// Computes the change of the index when an object changes from `old` to `new`, for [`IndexChange::apply`]. Runs
    /// the user's function, so the caller must not hold a lock.
    fn change(self: Arc<Self>, change: &Change<K>) -> Box<dyn IndexChange>;

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

impl<K: Object, V: Ord + Clone + Send + Sync + 'static> Index<K, V> {
    /// Builds an index by the values that `values` finds in decoded objects.
    pub(super) fn of_objects<I: IntoIterator<Item = V>>(
        informer: &Arc<Informer<K>>,
        values: impl Fn(&K) -> I + Send + Sync + 'static,
    ) -> Self {
        let values = move |object: &Lazy<K>| match object.object_among(Readers::Many) {
            Ok(object) => values(&object).into_iter().collect(),
            Err(_) => BTreeSet::new(), // logged when the object arrived
        };
        Self::new(informer, Box::new(values), true)
    }

    /// Builds an index by the values that `values` finds in metadata.
    pub(super) fn of_meta<I: IntoIterator<Item = V>>(
        informer: &Arc<Informer<K>>,
        values: impl Fn(&Meta) -> I + Send + Sync + 'static,
    ) -> Self {
        Self::new(informer, Box::new(move |object| values(object.meta()).into_iter().collect()), false)
    }

    fn new(informer: &Arc<Informer<K>>, values: Box<Values<K, V>>, remembers: bool) -> Self {
        let table = Table::kept_by(informer, values, remembers);
        Self { table, informer: Arc::clone(informer) }
    }

    pub(super) fn informer(&self) -> &Arc<Informer<K>> {
        &self.informer
    }

    pub(super) fn objects<Q: Ord + ?Sized>(&self, value: &Q) -> Objects<K>
    where
        V: std::borrow::Borrow<Q>,
    {
        self.table.objects(value)
    }

    /// Starts a selection of the objects that have this value.
    ///
    /// ```no_run
    /// # use controller_runtime::cache::Index;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn example(by_node: &Index<Pod, String>) -> Result<(), Box<dyn std::error::Error>> {
    /// let web = by_node.select("worker-1").namespace("default").labels(&"app=web".parse()?).limit(10).list()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn select<'c, Q: Ord + Sync + ?Sized>(&'c self, value: &'c Q) -> Selection<'c, K>
    where
        V: std::borrow::Borrow<Q>,
    {
        Selection::of(&self.informer).matching(self, value)
    }

    /// Returns the objects that have this value, in the order of namespace and name.
    ///
    /// # Errors
    ///
    /// The objects of the cache have not been listed yet, or an object cannot be decoded as `K`. The latter cannot
    /// happen with an index of decoded objects, which does not contain such objects.
    pub fn get<Q: Ord + ?Sized>(&self, value: &Q) -> Result<Vec<Arc<K>>, ReadError>
    where
        V: std::borrow::Borrow<Q>,
    {
        self.informer.check_synced()?;
        let found = self.objects(value);
        Ok(many::objects(|| found.states())?)
    }

    /// Like [`Index::get`], but returns the states without decoding them.
    ///
    /// # Errors
    ///
    /// The objects of the cache have not been listed yet.
    pub fn get_lazy<Q: Ord + ?Sized>(&self, value: &Q) -> Result<Vec<Lazy<K>>, ReadError>
    where
        V: std::borrow::Borrow<Q>,
    {
        self.informer.check_synced()?;
        Ok(self.objects(value).states().cloned().collect())
    }

    /// Returns the objects that have a value in this range, in the order of value, namespace and name. An object with
    /// several such values is returned once for each.
    ///
    /// ```no_run
    /// # use controller_runtime::cache::Index;
    /// # use k8s_openapi::api::batch::v1::Job;
    /// # fn example(by_failures: &Index<Job, i32>) -> Result<(), controller_runtime::ReadError> {
    /// let failing = by_failures.range(3..)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`Index::get`].
    pub fn range(&self, range: impl RangeBounds<V>) -> Result<Vec<Arc<K>>, ReadError> {
        let found = self.range_lazy(range)?;
        Ok(many::objects(|| found.iter())?)
    }

    /// Like [`Index::range`], but returns the states without decoding them.
    ///
    /// # Errors
    ///
    /// The objects of the cache have not been listed yet.
    pub fn range_lazy(&self, range: impl RangeBounds<V>) -> Result<Vec<Lazy<K>>, ReadError> {
        self.informer.check_synced()?;
        let all = self.table.by_value.read().clone();
        let begins = all.range::<_, V>((range.start_bound(), Bound::Unbounded));
        let within = begins.take_while(|(value, _)| range.contains(value));
        Ok(within.flat_map(|(_, objects)| objects.states().cloned()).collect())
    }

    /// Returns the keys of the objects that have this value, in the order of namespace and name.
    ///
    /// # Errors
    ///
    /// The objects of the cache have not been listed yet.
    pub fn keys<Q: Ord + ?Sized>(&self, value: &Q) -> Result<Vec<ObjectKey<K>>, ReadError>
    where
        V: std::borrow::Borrow<Q>,
    {
        self.informer.check_synced()?;
        Ok(self.objects(value).iter().map(|(key, _)| key.clone()).collect())
    }

    /// Returns the values of all objects, in ascending order.
    ///
    /// # Errors
    ///
    /// The objects of the cache have not been listed yet.
    pub fn values(&self) -> Result<Vec<V>, ReadError> {
        self.informer.check_synced()?;
        let all = self.table.by_value.read().clone();
        Ok(all.keys().cloned().collect())
    }
}

impl<K: Object, V: Ord + Clone> Table<K, V> {
    /// Returns the objects that have a value. The result is a cheap copy, so that the lock is not held while it is
    /// read.
    pub(super) fn objects<Q: Ord + ?Sized>(&self, value: &Q) -> Objects<K>
    where
        V: std::borrow::Borrow<Q>,
    {
        self.by_value.read().get(value).cloned().unwrap_or_default()
    }

    /// Returns the values in the form in which they are stored, or `None` if there are none. Clones equal values of
    /// other objects, so that values such as `Arc<str>` share memory.
    fn to_keep(&self, values: &BTreeSet<V>) -> Option<Found<V>> {
        let by_value = self.by_value.read();
        let keep = |value: &V| by_value.get_key_value(value).map_or(value, |(known, _)| known).clone();
        let first = values.first()?;
        Some(match values.len() {
            1 => Found::One(keep(first)),
            _ => Found::Several(values.iter().map(keep).collect()),
        })
    }

    /// Returns the values of an object; none if the user's function panics.
    fn values_of(&self, object: &Lazy<K>) -> BTreeSet<V> {
        panic::catch_unwind(AssertUnwindSafe(|| (self.values)(object))).unwrap_or_else(|panic| {
            let (reason, object) = (crate::reconcile::panic_message(&*panic), object.key());
            tracing::error!(%object, "an index function panicked, and the object is left out of the index: {reason}");
            BTreeSet::new()
        })
    }
}

impl<K: Object, V: Ord + Clone + Send + Sync + 'static> Table<K, V> {
    /// Creates a table that `informer` updates until the table is dropped.
    pub(super) fn kept_by(informer: &Informer<K>, values: Box<Values<K, V>>, remembers: bool) -> Arc<Self> {
        let upkeep = Mutex::new(Upkeep { found: BTreeMap::new(), changed: Some(BTreeSet::new()) });
        let table = Arc::new(Self { by_value: RwLock::default(), upkeep, values, remembers });
        let index: Arc<dyn AnyIndex<K>> = Arc::clone(&table) as _;
        informer.add_index(&index);
        table
    }
}

impl<K: Object, V: Ord + Clone + Send + Sync + 'static> AnyIndex<K> for Table<K, V> {
    fn change(self: Arc<Self>, change: &Change<K>) -> Box<dyn IndexChange> {
        let Change { key, old, new } = change.clone();
        // The user's function runs here, without a lock; `apply` runs later, under the locks.
        let after = new.as_ref().map(|object| self.values_of(object)).unwrap_or_default();
        let before = old.filter(|_| !self.remembers).map(|object| self.values_of(&object));
        let before = before.map(|values| Found::Several(values.into_iter().collect()));
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
                if self.remembers
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
    before: Option<Found<V>>,
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
        if table.remembers {
            *before = match table.to_keep(after) {
                Some(values) => found.insert(key.clone(), values),
                None => found.remove(key),
            };
        }
        let mut by_value = table.by_value.write();
        for value in before.iter().flat_map(Found::values).filter(|value| !after.contains(value)) {
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

impl<K: Object, V: Ord + Clone + Send + Sync + 'static> Clone for Index<K, V> {
    fn clone(&self) -> Self {
        Self { table: Arc::clone(&self.table), informer: Arc::clone(&self.informer) }
    }
}

impl<K: Object, V: Ord + Clone + Send + Sync + 'static> fmt::Debug for Index<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("values", &self.table.by_value.read().len()).finish_non_exhaustive()
    }
}
