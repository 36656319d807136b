use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use super::{
    MissingRight, ReadError, ResourceVersion, Uid,
    events::Events,
    index::Index,
    informer::{AnyInformer, Informer},
    lazy::Lazy,
    mailbox::Subscription,
    meta::Meta,
    selection::Selection,
    stats::Stats,
    status::Status,
    sync::missing_rights,
    until::{self, UntilError},
};
use crate::object::{Object, ObjectKey};

/// The cached objects of one kind, all of them or those that [`Caches`](super::Caches) was asked for.
///
/// A handle: cheap to clone, made by [`Manager::cached`](crate::Manager::cached) or
/// [`Manager::cache`](crate::Manager::cache). Made before the manager runs, it is complete within every reconcile, as of
/// some moment not long ago; made later, it fills at once and [`Cached::synced`] waits for that. The objects are listed
/// and watched as long as a handle, an index or a controller is there that reads them.
///
/// What our own [`Client`](crate::Client) has written is read at once, before the watch tells of it, if the API server's answer
/// is the object: after a write of `scale`, an `eviction` or a `binding` it is not. Events come from the watch alone.
///
/// An object that does not fit `K` is reported in the log as an error, and reading it is a [`ReadError::Decode`]. Its metadata
/// can be read, and the other objects of the kind go on.
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
/// Until the API server has listed the objects, a read is a [`ReadError::NotSynced`]: what has not arrived yet must not look as if it
/// did not exist. An object that has arrived, or that our own [`Client`](crate::Client) has written, is found. Within a reconcile a
/// handle that was made before the manager ran is always complete. A handle that is made later is not; keep it, because dropping the
/// last one ends the watch, and return the error from the reconcile, which is retried. Elsewhere (in `main`, a webhook, a
/// test) await [`Cached::synced`] or [`Manager::ready`](crate::Manager::ready) first, or wait for one object by
/// [`Cached::until`]. A map function or predicate cannot wait, and need not if the handle was made before the manager ran.
///
/// A cache of some namespaces knows nothing of the others: a read there is a [`ReadError::OutsideNamespaces`].
pub struct Cached<K: Object> {
    informer: Arc<Informer<K>>,
}

impl<K: Object> Cached<K> {
    pub(super) fn of(informer: Arc<Informer<K>>) -> Self {
        Self { informer }
    }

    /// Returns the object, if it exists.
    ///
    /// # Errors
    ///
    /// It exists and does not fit `K`; it is not known whether it exists ([`ReadError::NotSynced`],
    /// [`ReadError::OutsideNamespaces`]).
    pub fn get(&self, key: &ObjectKey<K>) -> Result<Option<Arc<K>>, ReadError> {
        Ok(self.get_lazy(key)?.map(|object| object.object()).transpose()?)
    }

    /// Returns the state of the object, not decoded, if it exists.
    ///
    /// # Errors
    ///
    /// It is not known whether it exists.
    pub fn get_lazy(&self, key: &ObjectKey<K>) -> Result<Option<Lazy<K>>, ReadError> {
        let found = self.informer.get(key);
        if found.is_some() {
            return Ok(found);
        }
        self.informer.check_synced_in(key.namespace())?;
        // Read again: the object may have arrived before the check.
        Ok(self.informer.get(key))
    }

    /// Returns all objects, by namespace and name, as they were at one moment.
    ///
    /// # Errors
    ///
    /// One of them does not fit `K`: leaving it out silently would look as if it did not exist. To go on without it,
    /// take [`Cached::list_lazy`] and decide for each object. Or they have not been listed yet.
    pub fn list(&self) -> Result<Vec<Arc<K>>, ReadError> {
        self.select().list()
    }

    /// Returns the states of all objects, not decoded, by namespace and name, as they were at one moment.
    ///
    /// # Errors
    ///
    /// They have not been listed yet.
    pub fn list_lazy(&self) -> Result<Vec<Lazy<K>>, ReadError> {
        self.select().list_lazy()
    }

    /// Begins to say which objects are wanted.
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

    /// The objects that have `owner` among their owners (by uid), by namespace and name.
    ///
    /// The first call makes an index of the owners of all objects, which all handles of this cache share from then on.
    ///
    /// # Errors
    ///
    /// One of them does not fit `K`; they have not been listed yet; the cache does not hold the namespace of the owner.
    pub fn owned_by<O: Object>(&self, owner: &O) -> Result<Vec<Arc<K>>, ReadError> {
        Ok(self.owned_by_lazy(owner)?.iter().map(Lazy::object).collect::<Result<_, _>>()?)
    }

    /// Like [`Cached::owned_by`], but returns the states, not decoded.
    ///
    /// # Errors
    ///
    /// They have not been listed yet; the cache does not hold the namespace of the owner.
    pub fn owned_by_lazy<O: Object>(&self, owner: &O) -> Result<Vec<Lazy<K>>, ReadError> {
        match owner.meta().namespace.as_deref() {
            // Dependents live in the namespace of their owner.
            Some(namespace) => self.informer.check_synced_in(Some(namespace))?,
            None => self.informer.check_synced()?,
        }
        let Some(uid) = owner.meta().uid.as_deref().map(Uid::from) else { return Ok(Vec::new()) };
        Ok(self.informer.owners().objects(&uid).states().cloned().collect())
    }

    /// An index of the objects by what `values` finds in each: one value, several, or none.
    ///
    /// `values` must say the same of the same object each time. It is called for every change of an object, in the task of the watch,
    /// so it must not block. Objects are decoded for it: use [`Cached::index_by_meta`] if metadata are enough. It may
    /// call every method of every cache. `V`'s `Ord` and `Clone` may not, because they run while the index is locked.
    ///
    /// The index is filled before this returns: it calls `values` for every object that there is. With a large cache that takes
    /// a while (400,000 objects that take 20 µs each: 8 s), so make indexes before the manager runs.
    ///
    /// What was found in each object is kept with its key, some 80 bytes and the value: an `Arc<str>` is there once for all objects
    /// with the same one, a `String` once for each.
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

    /// An index of the objects by what `values` finds in their metadata, which never decodes an object.
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

    /// Waits until `condition` holds of the object, or of its absence (`None`), and returns it as it is then. An object that has not
    /// arrived counts as absent once its namespace has been listed.
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
    /// It did not hold within the time; the object does not fit `K`; the cache does not hold its namespace.
    pub async fn until(
        &self,
        key: &ObjectKey<K>,
        condition: impl Fn(Option<&K>) -> bool,
        within: Duration,
    ) -> Result<Option<Arc<K>>, UntilError> {
        until::until(&self.informer, key, condition, within).await
    }

    /// The present, as initial creates, and then every change, as a stream.
    ///
    /// What is not taken waits: for each object the last state, as one event that leads to it from the state taken before.
    /// So a slow reader misses states in between, never their outcome, and what waits is at most one event an object.
    pub fn events(&self) -> Events<K> {
        Events::new(&self.informer)
    }

    /// The version up to which everything has been told: what [`CacheBuilder::not_older_than`](super::CacheBuilder::not_older_than)
    /// wants after a restart. Of several lists and watches it is the oldest. `None` until the present is known.
    #[must_use]
    pub fn resource_version(&self) -> Option<ResourceVersion> {
        self.informer.version()
    }

    /// The version up to which each list and watch has told everything: of a namespace that is watched by itself under its
    /// name, of all others, or of a kind without namespaces, under `None`. What is not known yet, or is not told in
    /// numbers, is left out.
    ///
    /// Whatever is read after this was asked is at least as new.
    ///
    /// ```no_run
    /// # use controller_runtime::{Cached, cache::ResourceVersion};
    /// # use k8s_openapi::api::core::v1::Secret;
    /// # fn example(secrets: &Cached<Secret>, written: &ResourceVersion) {
    /// let told = secrets.resource_versions();
    /// let is_told = told.get(&Some("default".into())).is_some_and(|version| version >= written);
    /// # }
    /// ```
    #[must_use]
    #[doc(alias = "LastSyncResourceVersion")]
    pub fn resource_versions(&self) -> BTreeMap<Option<Arc<str>>, ResourceVersion> {
        self.informer.versions()
    }

    /// Returns the number of objects. [`Cached::stats`] says how many are held, whether or not they have all been listed.
    ///
    /// # Errors
    ///
    /// They have not been listed yet.
    pub fn len(&self) -> Result<usize, ReadError> {
        self.informer.check_synced()?;
        Ok(self.informer.len())
    }

    /// Returns whether there are no objects.
    ///
    /// # Errors
    ///
    /// They have not been listed yet.
    pub fn is_empty(&self) -> Result<bool, ReadError> {
        Ok(self.len()? == 0)
    }

    /// What is held in which form.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.informer.stats()
    }

    /// Waits until the present is known.
    ///
    /// Once known it stays so, except that of a set of namespaces ([`CacheBuilder::namespace_set`](super::CacheBuilder::namespace_set))
    /// one that was just added is not known for a moment: until then reads of it, and of all namespaces, are errors. Pending for ever if the
    /// manager does not run.
    pub async fn synced(&self) {
        self.informer.until_complete().await;
    }

    /// Whether the present is known: of a set of namespaces that of all that are in it now. Until then reads are errors
    /// ([`ReadError::NotSynced`]).
    #[must_use]
    #[doc(alias = "ErrCacheNotStarted")]
    pub fn has_synced(&self) -> bool {
        self.informer.is_complete()
    }

    /// What is wrong with the list or watch right now. Until it is over, what is read may be as old as that.
    ///
    /// [`Options::stale_after`](crate::manager::Options::stale_after) says when it counts against readiness.
    #[must_use]
    #[doc(alias = "DefaultWatchErrorHandler")]
    pub fn trouble(&self) -> Option<String> {
        Informer::status(&self.informer).borrow().trouble()
    }

    /// Waits until the present was known once.
    ///
    /// # Errors
    ///
    /// The operator lacks these rights.
    pub(crate) async fn readable(&self) -> Result<(), Vec<MissingRight>> {
        let mut status = Informer::status(&self.informer);
        // The sender lives in the informer.
        let decided = status.wait_for(Status::is_decided).await;
        let status = decided.map_or_else(|_| Status::default(), |status| status.clone());
        let missing = missing_rights(&*self.informer, &status);
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    }

    /// The resource as messages name it, e.g. `deployments.apps`.
    pub(crate) fn resource_name(&self) -> String {
        self.informer.query().resource_name()
    }

    /// The events for a controller: recent deletions, the initial list, then every event.
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
