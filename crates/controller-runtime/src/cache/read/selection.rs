//! [`Selection`], a query of cached objects.

use std::{fmt, sync::Arc};

use kube::core::NamespaceScope;

use super::index::Index;
use crate::{
    cache::{
        objects::{decode_list, lazy::Lazy},
        query::selector::LabelSelector,
        state::{informer::Informer, matches::Objects, read_error::ReadError},
    },
    object::{Object, ObjectKey, Scope},
};

/// Query of cached objects, which match all given conditions. Returned by [`Cached::select`](crate::Cached::select) and
/// [`Index::select`].
///
/// ```no_run
/// # use controller_runtime::{Cached, cache::Index};
/// # use k8s_openapi::api::core::v1::Pod;
/// # fn example(
/// #     pods: &Cached<Pod>, by_node: &Index<Pod, String>, by_phase: &Index<Pod, String>,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let waiting = pods
///     .select()
///     .matching(by_node, "worker-1")
///     .matching(by_phase, "Pending")
///     .namespace("default")
///     .labels(&"app=web".parse()?)
///     .limit(10)
///     .list()?;
/// # Ok(())
/// # }
/// ```
///
/// A read starts from the index with the fewest matching objects, or from all objects without an index. It visits only
/// objects in the namespace, stops at the limit, and decodes only the objects that it returns.
#[derive(Clone)]
#[must_use = "a selection does nothing until it is read with `list`, `list_lazy` or `keys`"]
pub struct Selection<'c, K: Object> {
    informer: &'c Arc<Informer<K>>,
    /// Conditions on indexes.
    matching: Vec<Matching<'c, K>>,
    namespace: Option<Arc<str>>,
    labels: Option<LabelSelector>,
    limit: usize,
}

/// Returns the objects that have a value now.
type Matching<'c, K> = Arc<dyn Fn() -> Objects<K> + Send + Sync + 'c>;

impl<'c, K: Object> Selection<'c, K> {
    pub(in crate::cache) fn of(informer: &'c Arc<Informer<K>>) -> Self {
        Self { informer, matching: Vec::new(), namespace: None, labels: None, limit: usize::MAX }
    }

    /// Selects objects that have this value in an index of the same cache. After several calls, objects must have all
    /// of the values.
    ///
    /// # Panics
    ///
    /// The index belongs to another cache: with other namespaces or selectors, or of another cluster.
    #[doc(alias = "MatchingFields")]
    pub fn matching<V, Q>(mut self, index: &'c Index<K, V>, value: &'c Q) -> Self
    where
        V: Ord + Clone + Send + Sync + std::borrow::Borrow<Q> + 'static,
        Q: Ord + Sync + ?Sized,
    {
        assert!(
            Arc::ptr_eq(self.informer, index.informer()),
            "an index of {:?} cannot select objects of {:?}: it belongs to another cache",
            index.informer().query(),
            self.informer.query()
        );
        self.matching.push(Arc::new(move || index.objects(value)));
        self
    }

    /// Selects objects in one namespace. Objects of other namespaces are not visited.
    pub fn namespace(mut self, name: impl Into<Arc<str>>) -> Self
    where
        K::Scope: NamespaceScope,
    {
        self.namespace = Some(name.into());
        self
    }

    /// Selects objects with matching labels. Decodes nothing, but visits all objects that match the other conditions;
    /// for frequent queries use [`Cached::index_by_meta`](crate::Cached::index_by_meta).
    pub fn labels(mut self, selector: &LabelSelector) -> Self {
        self.labels = Some(selector.clone());
        self
    }

    /// Limits the result to the first objects in the order of namespace and name. Default: all.
    #[doc(alias = "Limit")]
    pub fn limit(mut self, objects: usize) -> Self {
        self.limit = objects;
        self
    }

    /// Returns the objects in the order of namespace and name, from one consistent snapshot.
    ///
    /// # Errors
    ///
    /// An object cannot be decoded as `K`, the objects have not been listed yet, or the cache does not contain the
    /// namespace.
    pub fn list(&self) -> Result<Vec<Arc<K>>, ReadError> {
        let found = self.list_lazy()?;
        Ok(decode_list::decode_all(|| found.iter())?)
    }

    /// Like [`Selection::list`], but returns the states without decoding them.
    ///
    /// # Errors
    ///
    /// The objects have not been listed yet, or the cache does not contain the namespace.
    pub fn list_lazy(&self) -> Result<Vec<Lazy<K>>, ReadError> {
        match &self.namespace {
            Some(name) => self.informer.check_synced_in(Some(name))?,
            None => self.informer.check_synced()?,
        }
        let mut found: Vec<_> =
            self.informer.with_consistent_indexes(|| self.matching.iter().map(|objects| objects()).collect());
        // Iterate over the smallest result, and check the others by key.
        found.sort_by_key(Objects::len);
        let mut found = found.into_iter();
        let fewest = found.next().unwrap_or_else(|| Objects::Many(self.informer.snapshot()));
        let others: Vec<_> = found.collect();
        let wanted = |(key, object): &(&ObjectKey<K>, &Lazy<K>)| {
            others.iter().all(|objects| objects.contains(key))
                && self.labels.as_ref().is_none_or(|labels| labels.selects(object.meta().labels()))
        };
        let Some(name) = &self.namespace else {
            return Ok(states(fewest.iter().filter(wanted).take(self.limit)));
        };
        // The empty name sorts before all others, so this is the first possible key of the namespace.
        let Some(namespace) = K::Scope::namespace(Some(name)) else { return Ok(Vec::new()) };
        let here = fewest.from(&ObjectKey::in_namespace(namespace, ""));
        let here = here.take_while(|(key, _)| key.namespace() == Some(name));
        Ok(states(here.filter(wanted).take(self.limit)))
    }

    /// Returns the keys of the objects in the order of namespace and name.
    ///
    /// # Errors
    ///
    /// Same as [`Selection::list_lazy`].
    pub fn keys(&self) -> Result<Vec<ObjectKey<K>>, ReadError> {
        Ok(self.list_lazy()?.iter().map(Lazy::key).collect())
    }
}

fn states<'a, K: Object>(found: impl Iterator<Item = (&'a ObjectKey<K>, &'a Lazy<K>)>) -> Vec<Lazy<K>> {
    found.map(|(_, object)| object.clone()).collect()
}

impl<K: Object> fmt::Debug for Selection<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { informer, matching, namespace, labels, limit } = self;
        f.debug_struct("Selection")
            .field("resource", informer.query())
            .field("indexes", &matching.len())
            .field("namespace", namespace)
            .field("labels", labels)
            .field("limit", limit)
            .finish()
    }
}
