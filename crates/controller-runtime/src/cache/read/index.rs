//! Indexes: lookup of cached objects by computed values.

use std::{
    collections::BTreeSet,
    fmt,
    ops::{Bound, RangeBounds},
    sync::Arc,
};

use super::selection::Selection;
use crate::{
    cache::{
        objects::{decode_list, lazy::Lazy, reads::ReadPattern},
        state::{
            index_table::{Table, ValueStorage, Values},
            informer::Informer,
            matches::Objects,
            read_error::ReadError,
        },
    },
    object::{Object, ObjectKey, meta::Meta},
};

/// Lookup table from values of type `V` to cached objects, updated with every change.
///
/// Returned by [`Cached::index`](crate::Cached::index) and [`Cached::index_by_meta`](crate::Cached::index_by_meta). A
/// handle that is cheap to clone; the index exists as long as one of its handles.
pub struct Index<K: Object, V: Ord + Clone + Send + Sync + 'static> {
    table: Arc<Table<K, V>>,
    /// Keeps the informer alive.
    informer: Arc<Informer<K>>,
}

impl<K: Object, V: Ord + Clone + Send + Sync + 'static> Index<K, V> {
    /// Builds an index by the values that `values` finds in decoded objects.
    pub(in crate::cache) fn of_objects<I: IntoIterator<Item = V>>(
        informer: &Arc<Informer<K>>,
        values: impl Fn(&K) -> I + Send + Sync + 'static,
    ) -> Self {
        let values = move |object: &Lazy<K>| match object.object_for(ReadPattern::Iteration) {
            Ok(object) => values(&object).into_iter().collect(),
            Err(_) => BTreeSet::new(), // the first attempt to decode it has logged the error
        };
        Self::new(informer, Box::new(values), ValueStorage::Stored)
    }

    /// Builds an index by the values that `values` finds in metadata.
    pub(in crate::cache) fn of_meta<I: IntoIterator<Item = V>>(
        informer: &Arc<Informer<K>>,
        values: impl Fn(&Meta) -> I + Send + Sync + 'static,
    ) -> Self {
        Self::new(
            informer,
            Box::new(move |object| values(object.meta()).into_iter().collect()),
            ValueStorage::Recomputed,
        )
    }

    fn new(informer: &Arc<Informer<K>>, values: Box<Values<K, V>>, storage: ValueStorage) -> Self {
        let table = Table::updated_by(informer, values, storage);
        Self { table, informer: Arc::clone(informer) }
    }

    pub(in crate::cache) fn informer(&self) -> &Arc<Informer<K>> {
        &self.informer
    }

    pub(in crate::cache) fn objects<Q: Ord + ?Sized>(&self, value: &Q) -> Objects<K>
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
        Ok(decode_list::decode_all(|| found.states())?)
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
        Ok(decode_list::decode_all(|| found.iter())?)
    }

    /// Like [`Index::range`], but returns the states without decoding them.
    ///
    /// # Errors
    ///
    /// The objects of the cache have not been listed yet.
    pub fn range_lazy(&self, range: impl RangeBounds<V>) -> Result<Vec<Lazy<K>>, ReadError> {
        self.informer.check_synced()?;
        let all = self.table.all();
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
        let all = self.table.all();
        Ok(all.keys().cloned().collect())
    }
}

impl<K: Object, V: Ord + Clone + Send + Sync + 'static> Clone for Index<K, V> {
    fn clone(&self) -> Self {
        Self { table: Arc::clone(&self.table), informer: Arc::clone(&self.informer) }
    }
}

impl<K: Object, V: Ord + Clone + Send + Sync + 'static> fmt::Debug for Index<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("values", &self.table.all().len()).finish_non_exhaustive()
    }
}
