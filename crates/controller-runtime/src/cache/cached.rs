use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use super::{
    DecodeError, MissingRight, ResourceVersion, Uid,
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
/// A cache of some namespaces knows nothing of the others: an object there is not found, and the first time that one is looked for
/// the log says so.
///
/// An object that does not fit `K` is reported in the log as an error, and reading it is a [`DecodeError`]. Its metadata
/// can be read, and the other objects of the kind go on.
///
/// ```no_run
/// # use controller_runtime::{Manager, ObjectKey};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # fn example(manager: &Manager) -> Result<(), controller_runtime::DecodeError> {
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
/// Until the API server has told the present, what it has not told looks as if it did not exist: a read finds nothing, or a part,
/// and is no error. The first read that comes so early is a warning in the log. In a reconcile it does not happen if the handle was made
/// before the manager ran. Elsewhere (in `main`, a webhook, a test) await [`Cached::synced`] or
/// [`Manager::ready`](crate::Manager::ready) first, or wait for what you look for by [`Cached::until`]; in a map function, which
/// cannot wait, ask [`Cached::has_synced`].
pub struct Cached<K: Object> {
    informer: Arc<Informer<K>>,
}

impl<K: Object> Cached<K> {
    pub(super) fn of(informer: Arc<Informer<K>>) -> Self {
        Self { informer }
    }

    /// The object, if it exists. Not found either before the cache is [complete](Cached#before-it-is-complete).
    ///
    /// # Errors
    ///
    /// It exists and does not fit `K`.
    #[doc(alias = "ErrCacheNotStarted")]
    pub fn get(&self, key: &ObjectKey<K>) -> Result<Option<Arc<K>>, DecodeError> {
        self.get_lazy(key).map(|object| object.object()).transpose()
    }

    /// The state of the object, not decoded, if it exists.
    #[must_use]
    pub fn get_lazy(&self, key: &ObjectKey<K>) -> Option<Lazy<K>> {
        let found = self.informer.get(key);
        if found.is_none() {
            self.informer.look_early();
            self.informer.look_outside(key.namespace());
        }
        found
    }

    /// All objects, by namespace and name, as they were at one moment. Those that have arrived, before the cache is
    /// [complete](Cached#before-it-is-complete).
    ///
    /// # Errors
    ///
    /// One of them does not fit `K`: leaving it out silently would look as if it did not exist. To go on without it,
    /// take [`Cached::list_lazy`] and decide for each object.
    pub fn list(&self) -> Result<Vec<Arc<K>>, DecodeError> {
        self.select().list()
    }

    /// The states of all objects, not decoded, by namespace and name, as they were at one moment.
    #[must_use]
    pub fn list_lazy(&self) -> Vec<Lazy<K>> {
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
    /// One of them does not fit `K`.
    pub fn owned_by<O: Object>(&self, owner: &O) -> Result<Vec<Arc<K>>, DecodeError> {
        self.owned_by_lazy(owner).iter().map(Lazy::object).collect()
    }

    /// The same, not decoded.
    #[must_use]
    pub fn owned_by_lazy<O: Object>(&self, owner: &O) -> Vec<Lazy<K>> {
        self.informer.look_early();
        let uid = owner.meta().uid.as_deref().map(Uid::from);
        uid.map(|uid| self.informer.owners().objects(&uid).states().cloned().collect()).unwrap_or_default()
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
    /// # fn example(manager: &Manager) -> Result<(), controller_runtime::DecodeError> {
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
    /// # fn example(pods: &Cached<Pod>) {
    /// let by_app: Index<Pod, String> = pods.index_by_meta(|meta| meta.labels().get("app").map(str::to_owned));
    /// assert!(by_app.get_lazy("web").is_empty());
    /// # }
    /// ```
    pub fn index_by_meta<V, I>(&self, values: impl Fn(&Meta) -> I + Send + Sync + 'static) -> Index<K, V>
    where
        V: Ord + Clone + Send + Sync + 'static,
        I: IntoIterator<Item = V>,
    {
        Index::of_meta(&self.informer, values)
    }

    /// Waits until `condition` holds of the object, or of its absence (`None`), and returns it as it is then.
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
    /// It did not hold within the time; the object does not fit `K`.
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

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.informer.len()
    }

    /// Whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is held in which form.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.informer.stats()
    }

    /// Waits until the present is known.
    ///
    /// Once known it stays so, except that of a set of namespaces ([`CacheBuilder::namespace_set`](super::CacheBuilder::namespace_set))
    /// one that was just added is not known for a moment: until then its objects are not found. Pending for ever if the
    /// manager does not run.
    pub async fn synced(&self) {
        self.informer.until_complete().await;
    }

    /// Whether the present is known: of a set of namespaces that of all that are in it now. Until then what is read is not all
    /// there is, or nothing.
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
        f.debug_struct("Cached").field("resource", query).field("len", &self.len()).finish()
    }
}
