//! Finding objects by what is in them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::{Bound, RangeBounds},
    panic::{self, AssertUnwindSafe},
    sync::Arc,
};

use imbl::OrdMap;
use parking_lot::RwLock;

use super::{DecodeError, Uid, informer::Informer, lazy::Lazy, many, meta::Meta, reads::Readers};
use crate::object::{Object, ObjectKey};

/// The objects of a cache by values of type `V`, kept up to date with every change.
///
/// Made by [`Cached::index`](super::Cached::index) and [`Cached::index_by_meta`](super::Cached::index_by_meta). A handle,
/// cheap to clone; the index lasts as long as one of them.
pub struct Index<K: Object, V: Ord + Clone + Send + Sync + 'static> {
    table: Arc<Table<K, V>>,
    /// Kept going by its index.
    _informer: Arc<Informer<K>>,
}

type Objects<K> = OrdMap<ObjectKey<K>, Lazy<K>>;

type Values<K, V> = dyn Fn(&Lazy<K>) -> BTreeSet<V> + Send + Sync;

pub(super) struct Table<K: Object, V: Ord + Clone> {
    by_value: RwLock<OrdMap<V, Objects<K>>>,
    /// What decoding found, so that an object that goes need not be decoded again. Empty for indexes of metadata.
    found: parking_lot::Mutex<BTreeMap<ObjectKey<K>, BTreeSet<V>>>,
    values: Box<Values<K, V>>,
    remembers: bool,
}

/// The objects by the uids of their owners.
pub(super) fn by_owner<K: Object>() -> Table<K, Uid> {
    let owners =
        |object: &Lazy<K>| object.meta().owner_references().iter().map(|owner| owner.uid().clone()).collect();
    Table::new(Box::new(owners), false)
}

/// An index with values of some type.
pub(crate) trait AnyIndex<K: Object>: Send + Sync {
    /// Readers saw an object as `old` and see it as `new`.
    fn change(&self, key: &ObjectKey<K>, old: Option<&Lazy<K>>, new: Option<&Lazy<K>>);
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
        let table = Arc::new(Table::new(values, remembers));
        let index: Arc<dyn AnyIndex<K>> = Arc::clone(&table) as _;
        informer.add_index(&index);
        Self { table, _informer: Arc::clone(informer) }
    }

    /// The objects that have this value, by namespace and name.
    ///
    /// # Errors
    ///
    /// One of them does not fit `K`, which an index of decoded objects never holds.
    pub fn get<Q: Ord + ?Sized>(&self, value: &Q) -> Result<Vec<Arc<K>>, DecodeError>
    where
        V: std::borrow::Borrow<Q>,
    {
        let found = self.table.objects(value);
        many::objects(|| found.values())
    }

    /// The same, not decoded.
    #[must_use]
    pub fn get_lazy<Q: Ord + ?Sized>(&self, value: &Q) -> Vec<Lazy<K>>
    where
        V: std::borrow::Borrow<Q>,
    {
        self.table.objects(value).values().cloned().collect()
    }

    /// The objects that have a value in this range, by value, then by namespace and name. One that has several of them is there for
    /// each.
    ///
    /// ```no_run
    /// # use controller_runtime::cache::Index;
    /// # use k8s_openapi::api::batch::v1::Job;
    /// # fn example(by_failures: &Index<Job, i32>) -> Result<(), controller_runtime::DecodeError> {
    /// let failing = by_failures.range(3..)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// One of them does not fit `K`, which an index of decoded objects never holds.
    pub fn range(&self, range: impl RangeBounds<V>) -> Result<Vec<Arc<K>>, DecodeError> {
        let found = self.range_lazy(range);
        many::objects(|| found.iter())
    }

    /// The same, not decoded.
    #[must_use]
    pub fn range_lazy(&self, range: impl RangeBounds<V>) -> Vec<Lazy<K>> {
        let all = self.table.by_value.read().clone();
        let begins = all.range::<_, V>((range.start_bound(), Bound::Unbounded));
        let within = begins.take_while(|(value, _)| range.contains(value));
        within.flat_map(|(_, objects)| objects.values().cloned()).collect()
    }

    /// The keys of the objects that have this value, by namespace and name.
    #[must_use]
    pub fn keys<Q: Ord + ?Sized>(&self, value: &Q) -> Vec<ObjectKey<K>>
    where
        V: std::borrow::Borrow<Q>,
    {
        self.table.objects(value).keys().cloned().collect()
    }

    /// The values that objects have, in order.
    #[must_use]
    pub fn values(&self) -> Vec<V> {
        let all = self.table.by_value.read().clone();
        all.keys().cloned().collect()
    }
}

impl<K: Object, V: Ord + Clone> Table<K, V> {
    fn new(values: Box<Values<K, V>>, remembers: bool) -> Self {
        Self { by_value: RwLock::default(), found: parking_lot::Mutex::default(), values, remembers }
    }

    /// A copy that costs nothing, so that the lock is not held while it is looked at.
    pub(super) fn objects<Q: Ord + ?Sized>(&self, value: &Q) -> Objects<K>
    where
        V: std::borrow::Borrow<Q>,
    {
        self.by_value.read().get(value).cloned().unwrap_or_default()
    }

    /// The values of an object; none if the function that finds them panics.
    fn values_of(&self, key: &ObjectKey<K>, object: &Lazy<K>) -> BTreeSet<V> {
        panic::catch_unwind(AssertUnwindSafe(|| (self.values)(object))).unwrap_or_else(|panic| {
            let reason = crate::reconcile::panic_message(&*panic);
            tracing::error!(object = %key, "an index function panicked, and the object is left out of the index: {reason}");
            BTreeSet::new()
        })
    }
}

impl<K: Object, V: Ord + Clone + Send + Sync> AnyIndex<K> for Table<K, V> {
    fn change(&self, key: &ObjectKey<K>, old: Option<&Lazy<K>>, new: Option<&Lazy<K>>) {
        let after = new.map(|object| self.values_of(key, object)).unwrap_or_default();
        let before = if self.remembers {
            let mut found = self.found.lock();
            if after.is_empty() { found.remove(key) } else { found.insert(key.clone(), after.clone()) }
        } else {
            old.map(|object| self.values_of(key, object))
        };
        let mut by_value = self.by_value.write();
        for value in before.iter().flatten().filter(|value| !after.contains(value)) {
            if let Some(objects) = by_value.get_mut(value) {
                objects.remove(key);
                if objects.is_empty() {
                    by_value.remove(value);
                }
            }
        }
        let Some(object) = new else { return };
        for value in after {
            by_value.entry(value).or_default().insert(key.clone(), object.clone());
        }
    }
}

impl<K: Object, V: Ord + Clone + Send + Sync + 'static> Clone for Index<K, V> {
    fn clone(&self) -> Self {
        Self { table: Arc::clone(&self.table), _informer: Arc::clone(&self._informer) }
    }
}

impl<K: Object, V: Ord + Clone + Send + Sync + 'static> fmt::Debug for Index<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("values", &self.table.by_value.read().len()).finish_non_exhaustive()
    }
}
