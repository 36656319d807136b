use std::{fmt, sync::Arc};

use kube::core::NamespaceScope;

use super::{LabelSelector, ReadError, index::Index, informer::Informer, lazy::Lazy, many, objects::Objects};
use crate::object::{Object, ObjectKey, Scope};

/// Says which objects of a cache are wanted: all of what is said must hold. Made by [`Cached::select`](super::Cached::select) and
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
/// A read goes through the fewest objects that one of the indexes names, or through all if there is none; of these it looks at no others
/// than those of the namespace, and at no more than the limit wants. It decodes those that it returns.
#[derive(Clone)]
#[must_use = "it reads nothing until `list` or its like is called"]
pub struct Selection<'c, K: Object> {
    informer: &'c Arc<Informer<K>>,
    /// What indexes say of them.
    matching: Vec<Matching<'c, K>>,
    namespace: Option<Arc<str>>,
    labels: Option<LabelSelector>,
    limit: usize,
}

/// The objects that have a value, as of now.
type Matching<'c, K> = Arc<dyn Fn() -> Objects<K> + Send + Sync + 'c>;

impl<'c, K: Object> Selection<'c, K> {
    pub(super) fn of(informer: &'c Arc<Informer<K>>) -> Self {
        Self { informer, matching: Vec::new(), namespace: None, labels: None, limit: usize::MAX }
    }

    /// Those that have this value in an index of the same cache. Said several times, those that have all of the values.
    ///
    /// # Panics
    ///
    /// The index is one of another cache: of other namespaces, selectors or another cluster.
    #[doc(alias = "MatchingFields")]
    pub fn matching<V, Q>(mut self, index: &'c Index<K, V>, value: &'c Q) -> Self
    where
        V: Ord + Clone + Send + Sync + std::borrow::Borrow<Q> + 'static,
        Q: Ord + Sync + ?Sized,
    {
        assert!(
            Arc::ptr_eq(self.informer, index.informer()),
            "an index of {:?} cannot say which objects of {:?} are wanted: it is one of another cache",
            index.informer().query(),
            self.informer.query()
        );
        self.matching.push(Arc::new(move || index.objects(value)));
        self
    }

    /// Those in one namespace, without a look at the others.
    pub fn namespace(mut self, name: impl Into<Arc<str>>) -> Self
    where
        K::Scope: NamespaceScope,
    {
        self.namespace = Some(name.into());
        self
    }

    /// Those with such labels. Decodes nothing, and looks at all objects that are left; see
    /// [`Cached::index_by_meta`](super::Cached::index_by_meta) for what is asked often.
    pub fn labels(mut self, selector: &LabelSelector) -> Self {
        self.labels = Some(selector.clone());
        self
    }

    /// No more than so many: the first ones by namespace and name. Default: all.
    #[doc(alias = "Limit")]
    pub fn limit(mut self, objects: usize) -> Self {
        self.limit = objects;
        self
    }

    /// Returns the objects, by namespace and name, as they were at one moment.
    ///
    /// # Errors
    ///
    /// One of them does not fit `K`; they have not been listed yet; the cache does not hold the namespace.
    pub fn list(&self) -> Result<Vec<Arc<K>>, ReadError> {
        let found = self.list_lazy()?;
        Ok(many::objects(|| found.iter())?)
    }

    /// Like [`Selection::list`], but returns the states, not decoded.
    ///
    /// # Errors
    ///
    /// They have not been listed yet; the cache does not hold the namespace.
    pub fn list_lazy(&self) -> Result<Vec<Lazy<K>>, ReadError> {
        match &self.namespace {
            Some(name) => self.informer.check_synced_in(Some(name))?,
            None => self.informer.check_synced()?,
        }
        let mut found: Vec<_> =
            self.informer.at_one_moment(|| self.matching.iter().map(|objects| objects()).collect());
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
        // The empty name comes before all others.
        let Some(namespace) = K::Scope::namespace(Some(name)) else { return Ok(Vec::new()) };
        let here = fewest.from(&ObjectKey::in_namespace(namespace, ""));
        let here = here.take_while(|(key, _)| key.namespace() == Some(name));
        Ok(states(here.filter(wanted).take(self.limit)))
    }

    /// Returns the keys of the objects, by namespace and name.
    ///
    /// # Errors
    ///
    /// As of [`Selection::list_lazy`].
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
