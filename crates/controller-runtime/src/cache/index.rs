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

use super::{
    DecodeError, Uid, informer::Informer, lazy::Lazy, many, meta::Meta, objects::Objects, reads::Readers,
    selection::Selection,
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
    /// What decoding found, so that an object that goes need not be decoded again. Empty for indexes of metadata.
    found: parking_lot::Mutex<BTreeMap<ObjectKey<K>, Found<V>>>,
    values: Box<Values<K, V>>,
    remembers: bool,
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
pub(super) fn by_owner<K: Object>() -> Table<K, Uid> {
    let owners =
        |object: &Lazy<K>| object.meta().owner_references().iter().map(|owner| owner.uid().clone()).collect();
    Table::new(Box::new(owners), false)
}

/// An index with values of some type.
pub(crate) trait AnyIndex<K: Object>: Send + Sync {
    /// Looks at an object that readers saw as `old` and see as `new`, and returns what makes the index say so. That runs none
    /// of the user's code, because readers wait for it.
    fn change<'i>(
        &'i self,
        key: &'i ObjectKey<K>,
        old: Option<&Lazy<K>>,
        new: Option<&'i Lazy<K>>,
    ) -> Box<dyn FnOnce() + 'i>;
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

    /// The objects that have this value, by namespace and name. Those that have arrived, before the cache is
    /// [complete](super::Cached#before-it-is-complete).
    ///
    /// # Errors
    ///
    /// One of them does not fit `K`, which an index of decoded objects never holds.
    pub fn get<Q: Ord + ?Sized>(&self, value: &Q) -> Result<Vec<Arc<K>>, DecodeError>
    where
        V: std::borrow::Borrow<Q>,
    {
        self.informer.look_early();
        let found = self.objects(value);
        many::objects(|| found.states())
    }

    /// The same, not decoded.
    #[must_use]
    pub fn get_lazy<Q: Ord + ?Sized>(&self, value: &Q) -> Vec<Lazy<K>>
    where
        V: std::borrow::Borrow<Q>,
    {
        self.informer.look_early();
        self.objects(value).states().cloned().collect()
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
        self.informer.look_early();
        let all = self.table.by_value.read().clone();
        let begins = all.range::<_, V>((range.start_bound(), Bound::Unbounded));
        let within = begins.take_while(|(value, _)| range.contains(value));
        within.flat_map(|(_, objects)| objects.states().cloned()).collect()
    }

    /// The keys of the objects that have this value, by namespace and name.
    #[must_use]
    pub fn keys<Q: Ord + ?Sized>(&self, value: &Q) -> Vec<ObjectKey<K>>
    where
        V: std::borrow::Borrow<Q>,
    {
        self.informer.look_early();
        self.objects(value).iter().map(|(key, _)| key.clone()).collect()
    }

    /// The values that objects have, in order.
    #[must_use]
    pub fn values(&self) -> Vec<V> {
        self.informer.look_early();
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
    fn values_of(&self, key: &ObjectKey<K>, object: &Lazy<K>) -> BTreeSet<V> {
        panic::catch_unwind(AssertUnwindSafe(|| (self.values)(object))).unwrap_or_else(|panic| {
            let reason = crate::reconcile::panic_message(&*panic);
            tracing::error!(object = %key, "an index function panicked, and the object is left out of the index: {reason}");
            BTreeSet::new()
        })
    }
}

impl<K: Object, V: Ord + Clone + Send + Sync> AnyIndex<K> for Table<K, V> {
    fn change<'i>(
        &'i self,
        key: &'i ObjectKey<K>,
        old: Option<&Lazy<K>>,
        new: Option<&'i Lazy<K>>,
    ) -> Box<dyn FnOnce() + 'i> {
        let after = new.map(|object| self.values_of(key, object)).unwrap_or_default();
        let before = if self.remembers {
            match self.to_keep(&after) {
                Some(found) => self.found.lock().insert(key.clone(), found),
                None => self.found.lock().remove(key),
            }
        } else {
            old.map(|object| Found::Several(self.values_of(key, object).into_iter().collect()))
        };
        Box::new(move || {
            let mut by_value = self.by_value.write();
            for value in before.iter().flat_map(Found::values).filter(|value| !after.contains(value)) {
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
        })
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
