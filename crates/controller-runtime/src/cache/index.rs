//! Finding objects by what is in them.

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

/// The objects of a cache by values of type `V`, kept up to date with every change.
///
/// Made by [`Cached::index`](super::Cached::index) and [`Cached::index_by_meta`](super::Cached::index_by_meta). A handle,
/// cheap to clone; the index lasts as long as one of them.
pub struct Index<K: Object, V: Ord + Clone + Send + Sync + 'static> {
    table: Arc<Table<K, V>>,
    /// Kept going by its index.
    informer: Arc<Informer<K>>,
}

type Values<K, V> = dyn Fn(&Lazy<K>) -> BTreeSet<V> + Send + Sync;

pub(super) struct Table<K: Object, V: Ord + Clone> {
    by_value: RwLock<OrdMap<V, Objects<K>>>,
    /// Locked before `by_value`.
    upkeep: Mutex<Upkeep<K, V>>,
    values: Box<Values<K, V>>,
    remembers: bool,
}

/// What keeping an index up to date takes besides the index.
struct Upkeep<K: Object, V> {
    /// What decoding found, so that an object that goes need not be decoded again. Empty for indexes of metadata.
    found: BTreeMap<ObjectKey<K>, Found<V>>,
    /// While the index is filled from a snapshot: keys that have changed since the snapshot was taken.
    changed: Option<BTreeSet<ObjectKey<K>>>,
}

/// The values of an object that has some, in little room: a set with one text in it takes 280 bytes.
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

/// The objects by the uids of their owners.
pub(super) fn by_owner<K: Object>(informer: &Informer<K>) -> Arc<Table<K, Uid>> {
    let owners =
        |object: &Lazy<K>| object.meta().owner_references().iter().map(|owner| owner.uid().clone()).collect();
    Table::kept_by(informer, Box::new(owners), false)
}

/// An index with values of some type.
pub(crate) trait AnyIndex<K: Object>: Send + Sync {
    /// Finds the values of an object that readers saw as `old` and see as `new`, for [`IndexChange::apply`]. Runs the user's
    /// function, so the caller holds no lock.
    fn change(self: Arc<Self>, change: &Change<K>) -> Box<dyn IndexChange>;

    /// Adds the objects of a snapshot, except those that have changed since it was taken. Runs the user's function, so the caller holds
    /// no lock.
    fn fill(&self, snapshot: &OrdMap<ObjectKey<K>, Lazy<K>>);
}

/// A change that an index has yet to take over. Dropped when no lock is held, because it may hold the last handles of values
/// and objects.
pub(crate) trait IndexChange: Send {
    /// Takes it over. Runs no user code but the order and clones of values.
    fn apply(&mut self);
}

impl<K: Object, V: Ord + Clone + Send + Sync + 'static> Index<K, V> {
    /// An index by what `values` finds in decoded objects.
    pub(super) fn of_objects<I: IntoIterator<Item = V>>(
        informer: &Arc<Informer<K>>,
        values: impl Fn(&K) -> I + Send + Sync + 'static,
    ) -> Self {
        let values = move |object: &Lazy<K>| match object.object_among(Readers::Many) {
            Ok(object) => values(&object).into_iter().collect(),
            Err(_) => BTreeSet::new(), // reported when it came in
        };
        Self::new(informer, Box::new(values), true)
    }

    /// An index by what `values` finds in metadata.
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

    /// The objects that have this value. Begins to say which of them are wanted.
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

    /// Returns the objects that have this value, by namespace and name.
    ///
    /// # Errors
    ///
    /// The objects of the cache have not been listed yet. One of them does not fit `K`, which an index of decoded objects never
    /// holds.
    pub fn get<Q: Ord + ?Sized>(&self, value: &Q) -> Result<Vec<Arc<K>>, ReadError>
    where
        V: std::borrow::Borrow<Q>,
    {
        self.informer.check_synced()?;
        let found = self.objects(value);
        Ok(many::objects(|| found.states())?)
    }

    /// Like [`Index::get`], but returns the states, not decoded.
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

    /// The objects that have a value in this range, by value, then by namespace and name. One that has several of them is there for
    /// each.
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
    /// As of [`Index::get`].
    pub fn range(&self, range: impl RangeBounds<V>) -> Result<Vec<Arc<K>>, ReadError> {
        let found = self.range_lazy(range)?;
        Ok(many::objects(|| found.iter())?)
    }

    /// Like [`Index::range`], but returns the states, not decoded.
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

    /// Returns the keys of the objects that have this value, by namespace and name.
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

    /// Returns the values that objects have, in order.
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
    /// A copy that costs nothing, so that the lock is not held while it is looked at.
    pub(super) fn objects<Q: Ord + ?Sized>(&self, value: &Q) -> Objects<K>
    where
        V: std::borrow::Borrow<Q>,
    {
        self.by_value.read().get(value).cloned().unwrap_or_default()
    }

    /// The values as they are kept, if there are any: as those of other objects that are equal, which may share what they hold.
    fn to_keep(&self, values: &BTreeSet<V>) -> Option<Found<V>> {
        let by_value = self.by_value.read();
        let keep = |value: &V| by_value.get_key_value(value).map_or(value, |(known, _)| known).clone();
        let first = values.first()?;
        Some(match values.len() {
            1 => Found::One(keep(first)),
            _ => Found::Several(values.iter().map(keep).collect()),
        })
    }

    /// The values of an object; none if the function that finds them panics.
    fn values_of(&self, object: &Lazy<K>) -> BTreeSet<V> {
        panic::catch_unwind(AssertUnwindSafe(|| (self.values)(object))).unwrap_or_else(|panic| {
            let (reason, object) = (crate::reconcile::panic_message(&*panic), object.key());
            tracing::error!(%object, "an index function panicked, and the object is left out of the index: {reason}");
            BTreeSet::new()
        })
    }
}

impl<K: Object, V: Ord + Clone + Send + Sync + 'static> Table<K, V> {
    /// A table that `informer` keeps up to date as long as it is held.
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
            drop(upkeep); // before the values of the piece
        }
        let _changed = self.upkeep.lock().changed.take();
    }
}

/// How many objects a table takes over from a snapshot before events get their turn.
const FILLED_AT_ONCE: usize = 64;

/// The change of one object that a table has yet to take over.
struct TableChange<K: Object, V: Ord + Clone> {
    table: Arc<Table<K, V>>,
    key: ObjectKey<K>,
    new: Option<Lazy<K>>,
    /// The values until now, unless the table remembers them.
    before: Option<Found<V>>,
    after: BTreeSet<V>,
    /// Values that nothing has any more.
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
