//! [`Cached`], the handle through which cached objects are read.

use std::{collections::BTreeMap, fmt, panic::Location, sync::Arc, time::Duration};

use super::{
    event_stream::EventStream,
    index::Index,
    selection::Selection,
    until::{self, UntilError},
};
use crate::{
    cache::{
        objects::{lazy::Lazy, stats::Stats},
        query::{Query, selector::LabelSelector},
        state::{
            informer::{AnyInformer, Informer},
            mailbox::Subscription,
            read_error::ReadError,
            registry::Cache,
            sync::missing_rights,
        },
        watch::{missing_right::MissingRight, sync_status::SyncStatus},
    },
    object::{
        DynamicKind, Object, ObjectKey, StaticObject,
        meta::{Meta, ResourceVersion, Uid},
    },
};

/// The cached objects of one kind: all of them, or those selected with [`Caches`](crate::cache::Caches).
///
/// A handle that is cheap to clone, returned by [`Manager::cached`](crate::Manager::cached) or
/// [`Manager::cache`](crate::Manager::cache). If it was created before the manager runs, it is complete within every
/// reconcile, though it may be slightly older than the state of the API server. If it was created later, it is filled from then
/// on, and [`Cached::synced`] waits until it is complete. Objects are listed and watched as long as a handle, an index or a
/// controller uses them.
///
/// Writes of the manager's [`Client`](crate::Client) are visible immediately, before the watch delivers them, if the
/// API server's response is the object. Responses to writes of `scale`, `eviction` and `binding` are not the object, so these
/// writes become visible only when the watch delivers them. After a write in another API version than that of the cache, the
/// client reads the object once more in the version of the cache, which requires the right to `get` it. Events always come from
/// the watch.
///
/// If an object cannot be decoded as `K`, the error is logged, and reading the object returns [`ReadError::Decode`].
/// Its metadata can still be read, and other objects of the kind are not affected.
///
/// ```no_run
/// # use controller_runtime::{Manager, ObjectKey};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # fn example(manager: &Manager) -> Result<(), controller_runtime::ReadError> {
/// let config_maps = manager.cached::<ConfigMap>();
/// // … later, in a reconciler:
/// if let Some(settings) = config_maps.get(&ObjectKey::new("default", "settings"))? {
///     println!("{:?}", settings.data);
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Before it is complete
///
/// Until the initial list is complete, a read of an object that has not arrived returns [`ReadError::NotSynced`],
/// because the object may exist. Objects that have arrived, or that the manager's [`Client`](crate::Client) has
/// written, are returned. Within a reconcile, only a handle that was created while the manager runs can be incomplete: keep
/// it, because dropping the last handle ends the watch, and return the error from the reconcile, which is then retried.
/// Elsewhere (in `main`, a webhook, a test), await [`Cached::synced`] or
/// [`Manager::ready`](crate::Manager::ready) first, or wait for one object with [`Cached::until`]. A map function or
/// predicate cannot wait; it does not need to if the handle was created before the manager runs.
///
/// A cache that is restricted to some namespaces returns [`ReadError::OutsideNamespaces`] for reads in others.
///
/// Controllers start without waiting for the caches of another [`Cluster`](crate::manager::Cluster), which may be down. A read
/// there may return [`ReadError::NotSynced`] even within a reconcile, and returns [`ReadError::ClusterRemoved`] after the cluster
/// was removed.
pub struct Cached<K: Object> {
    informer: Arc<Informer<K>>,
}

/// Handles.
impl Cache {
    /// Returns the objects of `query` as type `K`.
    pub(in crate::cache) fn cached<K: Object>(&self, info: &K::DynamicType, query: Query) -> Cached<K> {
        Cached { informer: self.informer(info, query) }
    }

    /// Returns the default cache of kind `K`, and declares the rights that it needs.
    #[track_caller]
    pub(crate) fn declared_of_kind<K: StaticObject>(&self) -> Cached<K> {
        let cached = self.of_kind();
        self.declare(cached.query(), "cached", Location::caller());
        cached
    }

    /// Returns the default cache of kind `K`.
    pub(crate) fn of_kind<K: StaticObject>(&self) -> Cached<K> {
        self.cached(&(), self.query_of(&DynamicKind::of::<K>()))
    }

    /// Like `of_kind`, but narrowed to objects with the `required` labels, unless the default cache of the kind is in use
    /// already.
    pub(crate) fn of_kind_with<K: Object>(
        &self,
        info: &K::DynamicType,
        kind: &DynamicKind,
        required: &LabelSelector,
    ) -> Cached<K> {
        let mut query = self.query_of(kind);
        if !self.is_read(&query, |_| true) {
            query = query.with_labels(required);
        }
        self.cached(info, query)
    }
}

impl<K: Object> Cached<K> {
    /// Returns the object, if it exists.
    ///
    /// # Errors
    ///
    /// The object exists but cannot be decoded as `K`, or it is not known whether it exists ([`ReadError::NotSynced`],
    /// [`ReadError::OutsideNamespaces`]).
    pub fn get(&self, key: &ObjectKey<K>) -> Result<Option<Arc<K>>, ReadError> {
        Ok(self.get_lazy(key)?.map(|object| object.object()).transpose()?)
    }

    /// Returns the state of the object without decoding it, if the object exists.
    ///
    /// # Errors
    ///
    /// It is not known whether it exists.
    pub fn get_lazy(&self, key: &ObjectKey<K>) -> Result<Option<Lazy<K>>, ReadError> {
        self.informer.check_cluster()?;
        let found = self.informer.get(key);
        if found.is_some() {
            return Ok(found);
        }
        self.informer.check_synced_in(key.namespace())?;
        // Read again: the object may have arrived between the read and the check.
        Ok(self.informer.get(key))
    }

    /// Returns all objects in the order of namespace and name, from one consistent snapshot.
    ///
    /// # Errors
    ///
    /// The objects have not been listed yet, or an object cannot be decoded as `K`: without the error, the object would seem not to
    /// exist. To continue without such objects, use [`Cached::list_lazy`] and decide for each object.
    pub fn list(&self) -> Result<Vec<Arc<K>>, ReadError> {
        self.select().list()
    }

    /// Returns the states of all objects without decoding them, in the order of namespace and name, from one consistent
    /// snapshot.
    ///
    /// # Errors
    ///
    /// The objects have not been listed yet.
    pub fn list_lazy(&self) -> Result<Vec<Lazy<K>>, ReadError> {
        self.select().list_lazy()
    }

    /// Starts a selection of objects, by namespace, labels or fields.
    ///
    /// ```no_run
    /// # use controller_runtime::Cached;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn example(pods: &Cached<Pod>) -> Result<(), Box<dyn std::error::Error>> {
    /// let web = pods.select().namespace("default").labels(&"app=web".parse()?).list()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn select(&self) -> Selection<'_, K> {
        Selection::of(&self.informer)
    }

    /// Returns the objects that have `owner` in their owner references (compared by uid), in the order of namespace and
    /// name.
    ///
    /// The first call builds an index of the owners of all objects. All handles of this cache share it. An owner without uid
    /// has no objects.
    ///
    /// # Errors
    ///
    /// An object cannot be decoded as `K`, the objects have not been listed yet, or the cache does not contain the
    /// namespace of the owner.
    pub fn owned_by<O: Object>(&self, owner: &O) -> Result<Vec<Arc<K>>, ReadError> {
        Ok(self.owned_by_lazy(owner)?.iter().map(Lazy::object).collect::<Result<_, _>>()?)
    }

    /// Like [`Cached::owned_by`], but returns the states without decoding them.
    ///
    /// # Errors
    ///
    /// The objects have not been listed yet, or the cache does not contain the namespace of the owner.
    pub fn owned_by_lazy<O: Object>(&self, owner: &O) -> Result<Vec<Lazy<K>>, ReadError> {
        match owner.meta().namespace.as_deref() {
            // Owned objects are in the namespace of their owner.
            Some(namespace) => self.informer.check_synced_in(Some(namespace))?,
            None => self.informer.check_synced()?,
        }
        let Some(uid) = owner.meta().uid.as_deref().map(Uid::from) else { return Ok(Vec::new()) };
        Ok(self.informer.owners().objects(&uid).states().cloned().collect())
    }

    /// Builds an index of the objects by the values that `values` returns for each: one, several, or none.
    ///
    /// `values` must return the same values for the same object each time. It is called for every change of an object,
    /// in the task of the watch, so it must not block. Objects are decoded for it: use [`Cached::index_by_meta`] if
    /// metadata are enough. It may call every method of every cache. Implementations of `Ord` and `Clone` for `V` must
    /// not call methods of caches, because they run while the index is locked.
    ///
    /// The index is filled before this function returns: `values` is called for every cached object. With a large cache
    /// this takes a while (400,000 objects at 20 µs each: 8 s), so build indexes before the manager runs.
    ///
    /// The values of each object are stored with its key, about 80 bytes plus the value. An `Arc<str>` can be shared by
    /// all objects with the same value; a `String` is stored once per object.
    ///
    /// ```no_run
    /// # use controller_runtime::{Manager, cache::Index};
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn example(manager: &Manager) -> Result<(), controller_runtime::ReadError> {
    /// let by_node: Index<Pod, String> = manager.cached::<Pod>().index(|pod| pod.spec.clone()?.node_name);
    /// // … later, in a reconciler:
    /// let pods = by_node.get("worker-1")?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "IndexField")]
    pub fn index<V, I>(&self, values: impl Fn(&K) -> I + Send + Sync + 'static) -> Index<K, V>
    where
        V: Ord + Clone + Send + Sync + 'static,
        I: IntoIterator<Item = V>,
    {
        Index::of_objects(&self.informer, values)
    }

    /// Builds an index of the objects by the values that `values` finds in their metadata. Objects are never decoded
    /// for it.
    ///
    /// ```no_run
    /// # use controller_runtime::{Cached, cache::Index};
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn example(pods: &Cached<Pod>) -> Result<(), controller_runtime::ReadError> {
    /// let by_app: Index<Pod, String> = pods.index_by_meta(|meta| meta.labels().get("app").map(str::to_owned));
    /// let web = by_app.keys("web")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn index_by_meta<V, I>(&self, values: impl Fn(&Meta) -> I + Send + Sync + 'static) -> Index<K, V>
    where
        V: Ord + Clone + Send + Sync + 'static,
        I: IntoIterator<Item = V>,
    {
        Index::of_meta(&self.informer, values)
    }

    /// Waits until `condition` holds for the object, or for its absence (`None`), and returns the object in that state.
    /// An object that has not arrived counts as absent once its namespace has been listed.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use controller_runtime::{Cached, ObjectKey};
    /// # use k8s_openapi::api::core::v1::Secret;
    /// # async fn example(secrets: &Cached<Secret>) -> Result<(), controller_runtime::cache::UntilError> {
    /// let key = ObjectKey::new("default", "tls");
    /// let secret = secrets.until(&key, |secret| secret.is_some(), Duration::from_secs(10)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancellation
    ///
    /// Dropping the future ends the wait and changes nothing.
    ///
    /// # Errors
    ///
    /// The condition did not hold in time, the object cannot be decoded as `K`, or the cache does not contain its
    /// namespace.
    pub async fn until(
        &self,
        key: &ObjectKey<K>,
        condition: impl Fn(Option<&K>) -> bool,
        within: Duration,
    ) -> Result<Option<Arc<K>>, UntilError> {
        until::until(&self.informer, key, condition, within).await
    }

    /// Returns a stream of the initial objects, as creates, and then of their changes.
    ///
    /// Events that the reader has not taken are merged: for each object one event remains, which leads from the last
    /// state that the reader took to the latest one. A slow reader misses intermediate states but always receives the
    /// latest, and at most one event per object waits.
    pub fn events(&self) -> EventStream<K> {
        EventStream::new(&self.informer)
    }

    /// Resource version up to which the cache has received all changes; pass it to
    /// [`CacheBuilder::not_older_than`](crate::cache::CacheBuilder::not_older_than) after a restart. With several lists and
    /// watches it is the oldest of their versions. `None` until the initial list is complete.
    #[must_use]
    pub fn resource_version(&self) -> Option<ResourceVersion> {
        self.informer.version()
    }

    /// Resource version up to which each list and watch has received all changes. A namespace that is watched
    /// separately has an entry under its name; all other namespaces, or a kind without namespaces, have the entry
    /// `None`. Entries that are not known yet or are not numbers are left out.
    ///
    /// Every read after this call returns this state or a newer one.
    ///
    /// ```no_run
    /// # use controller_runtime::{Cached, cache::ResourceVersion};
    /// # use k8s_openapi::api::core::v1::Secret;
    /// # fn example(secrets: &Cached<Secret>, written: &ResourceVersion) {
    /// let watched = secrets.resource_versions();
    /// let is_visible = watched.get(&Some("default".into())).is_some_and(|version| version >= written);
    /// # }
    /// ```
    #[must_use]
    #[doc(alias = "LastSyncResourceVersion")]
    pub fn resource_versions(&self) -> BTreeMap<Option<Arc<str>>, ResourceVersion> {
        self.informer.versions()
    }

    /// Returns the number of objects. [`Cached::stats`] counts the cached objects even before all have been listed.
    ///
    /// # Errors
    ///
    /// The objects have not been listed yet.
    pub fn len(&self) -> Result<usize, ReadError> {
        self.informer.check_synced()?;
        Ok(self.informer.len())
    }

    /// Returns whether there are no objects.
    ///
    /// # Errors
    ///
    /// The objects have not been listed yet.
    pub fn is_empty(&self) -> Result<bool, ReadError> {
        Ok(self.len()? == 0)
    }

    /// Returns statistics of the cache: objects by form of storage, lists, watches and failures.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.informer.stats()
    }

    /// Waits until the initial list is complete. While the manager does not run, the future stays pending.
    ///
    /// A complete cache stays complete, with one exception: after a namespace is added to a set
    /// ([`CacheBuilder::namespace_set`](crate::cache::CacheBuilder::namespace_set)), reads of this namespace, and of all
    /// namespaces together, are errors until its objects have been listed.
    ///
    /// The future also completes when the cluster is removed from the manager
    /// ([`Cluster::remove`](crate::manager::Cluster::remove)); reads are errors from then on.
    pub async fn synced(&self) {
        self.informer.until_complete().await;
    }

    /// Whether the initial list is complete, including all namespaces that are now in a set of namespaces. Until then
    /// reads are errors ([`ReadError::NotSynced`]).
    #[must_use]
    #[doc(alias = "ErrCacheNotStarted")]
    pub fn has_synced(&self) -> bool {
        self.informer.is_complete()
    }

    /// Returns the current failure of the list or watch. While it lasts, reads may return outdated objects.
    ///
    /// [`ManagerOptions::stale_after`](crate::ManagerOptions::stale_after) sets the time after which the failure
    /// affects readiness.
    #[must_use]
    #[doc(alias = "DefaultWatchErrorHandler")]
    pub fn trouble(&self) -> Option<String> {
        Informer::status(&self.informer).borrow().failure()
    }

    /// Waits until the initial list has been complete once, the cluster was removed, or waiting does not help because
    /// permissions are missing.
    ///
    /// # Errors
    ///
    /// The permissions that the operator lacks.
    pub(crate) async fn readable(&self) -> Result<(), Vec<MissingRight>> {
        let mut status = Informer::status(&self.informer);
        // The sender lives in the informer.
        let decided = status.wait_for(SyncStatus::is_decided).await;
        let status = decided.map_or_else(|_| SyncStatus::default(), |status| status.clone());
        let missing = missing_rights(&*self.informer, &status);
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    }

    /// Waits until no object is left because the cluster was removed from the manager.
    pub(crate) async fn closed(&self) {
        let mut status = Informer::status(&self.informer);
        // The sender lives in the informer.
        let _ = status.wait_for(|status| status.closed).await;
    }

    /// Whether the objects are those of another cluster than the manager's own.
    pub(crate) fn is_of_other_cluster(&self) -> bool {
        self.informer.query().cluster.is_some()
    }

    /// Returns resource and selection.
    pub(crate) fn query(&self) -> &Query {
        self.informer.query()
    }

    /// Returns the resource as messages name it: `deployments.apps`, or `east/deployments.apps` of another cluster.
    pub(crate) fn resource_name(&self) -> String {
        self.informer.query().resource_name()
    }

    /// Subscribes a controller, which receives recent deletions, the initial list, then every event.
    pub(crate) fn subscribe(&self) -> Subscription<K> {
        self.informer.subscribe_controller()
    }
}

impl<K: Object> Clone for Cached<K> {
    fn clone(&self) -> Self {
        Self { informer: Arc::clone(&self.informer) }
    }
}

impl<K: Object> fmt::Debug for Cached<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let query = self.informer.query();
        f.debug_struct("Cached").field("resource", query).field("len", &self.informer.len()).finish()
    }
}
