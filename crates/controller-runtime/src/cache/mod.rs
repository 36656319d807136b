//! Caches: all objects of a kind, listed once, then kept up to date by a watch.
//!
//! A manager has one cache, and a cache one informer per kind, however many controllers read it. Objects are shared
//! as [`Arc`]s: a read copies nothing, and nobody can change what another one reads. Events and metadata-only reads hand
//! out [`Lazy`] states: their [`Meta`] is at hand, the object itself is decoded when asked for.
//!
//! What is not here yet: selectors, single namespaces, indexes, metadata-only kinds, and reading one's own writes
//! before the watch shows them.

mod backoff;
mod budget;
mod decode_error;
mod hot;
mod informer;
mod lazy;
mod list_watch;
mod meta;
mod pack;
mod reflector;
mod retain;
mod shelf;
mod split;
mod stats;
mod store;
mod view;
mod wire;

use std::{
    any::{Any, TypeId},
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

pub(crate) use self::informer::{Status, Subscription};
pub use self::{
    decode_error::DecodeError,
    lazy::Lazy,
    meta::{Labels, Meta, OwnerRef, ResourceVersion, Uid},
    retain::{Options, Retain},
    stats::Stats,
    view::View,
};
use self::{informer::Informer, shelf::Holding};
use crate::{
    event::Event,
    object::{Object, ObjectKey, StaticObject, resource_name},
};

/// The cached objects of one kind.
///
/// A handle: cheap to clone, made by [`Manager::cached`](crate::Manager::cached) before the manager runs. It is empty
/// until the manager has started; within a reconcile it is complete as of some moment not long ago.
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
pub struct Cached<K: Object> {
    informer: Arc<Informer<K>>,
}

impl<K: Object> Cached<K> {
    /// The object, if it exists.
    ///
    /// # Errors
    ///
    /// It exists and does not fit `K`.
    pub fn get(&self, key: &ObjectKey<K>) -> Result<Option<Arc<K>>, DecodeError> {
        self.get_lazy(key).map(|object| object.object()).transpose()
    }

    /// The state of the object, not decoded, if it exists.
    #[must_use]
    pub fn get_lazy(&self, key: &ObjectKey<K>) -> Option<Lazy<K>> {
        self.informer.get(key)
    }

    /// All objects, by namespace and name.
    ///
    /// # Errors
    ///
    /// One of them does not fit `K`: leaving it out silently would look as if it did not exist. To go on without it,
    /// take [`Cached::list_lazy`] and decide for each object.
    pub fn list(&self) -> Result<Vec<Arc<K>>, DecodeError> {
        self.list_lazy().iter().map(Lazy::object).collect()
    }

    /// The states of all objects, not decoded, by namespace and name.
    #[must_use]
    pub fn list_lazy(&self) -> Vec<Lazy<K>> {
        self.informer.list(|_| true)
    }

    /// The objects that have `owner` among their owners (by uid), by namespace and name.
    ///
    /// Looks at the metadata of every object of the kind.
    ///
    /// # Errors
    ///
    /// One of them does not fit `K`.
    pub fn owned_by<O: Object>(&self, owner: &O) -> Result<Vec<Arc<K>>, DecodeError> {
        let Some(uid) = owner.meta().uid.as_deref().map(Uid::from) else {
            return Ok(Vec::new());
        };
        let owned = self
            .informer
            .list(|object| object.meta().owner_references().iter().any(|reference| *reference.uid() == uid));
        owned.iter().map(Lazy::object).collect()
    }

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.informer.len()
    }

    /// What is held in which form.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.informer.shelf.stats()
    }

    /// Whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `subscriber` with the present, as initial creates, and then with every event, until the subscription is
    /// dropped. It must neither block nor panic.
    pub(crate) fn subscribe(&self, subscriber: impl Fn(&Event<K>) + Send + 'static) -> Subscription {
        self.informer.subscribe(subscriber)
    }
}

impl<K: Object> Clone for Cached<K> {
    fn clone(&self) -> Self {
        Self { informer: Arc::clone(&self.informer) }
    }
}

impl<K: StaticObject> fmt::Debug for Cached<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached").field("resource", &resource_name::<K>()).field("len", &self.len()).finish()
    }
}

/// The informers of a manager, in the order in which they were asked for.
pub(crate) struct Cache {
    options: Options,
    /// How kinds are held that have no choice of their own.
    holding: Holding,
    informers: Mutex<Vec<(TypeId, Arc<dyn AnyInformer>)>>,
    added: Notify,
}

impl Cache {
    pub(crate) fn new(options: Options) -> Self {
        let holding = Holding::of(options.default_retain());
        Self { options, holding, informers: Mutex::default(), added: Notify::new() }
    }

    fn holding_of<K: Object>(&self) -> Holding {
        self.options.retain_of::<K>().map_or_else(|| self.holding.clone(), Holding::of)
    }

    /// The cached objects of kind `K`: the same informer at every call.
    pub(crate) fn cached<K: StaticObject>(&self) -> Cached<K> {
        let mut informers = self.informers.lock();
        let id = TypeId::of::<K>();
        let informer =
            informers.iter().find(|(known, _)| *known == id).map(|(_, informer)| Arc::clone(informer));
        let informer = informer.unwrap_or_else(|| {
            let new: Arc<dyn AnyInformer> = Arc::new(Informer::<K>::new(
                &(),
                self.holding_of::<K>(),
                self.options.keeps_managed_fields::<K>(),
            ));
            informers.push((id, Arc::clone(&new)));
            self.added.notify_one();
            new
        });
        let informer = informer.as_any().downcast().expect("the informer of a type id is of that type");
        Cached { informer }
    }

    /// Waits until informers may have been added since the last call returned.
    pub(crate) async fn changed(&self) {
        self.added.notified().await;
    }

    pub(crate) fn informers(&self) -> Vec<Arc<dyn AnyInformer>> {
        self.informers.lock().iter().map(|(_, informer)| Arc::clone(informer)).collect()
    }
}

/// An informer of some kind.
pub(crate) trait AnyInformer: Send + Sync {
    /// The resource, as messages name it.
    fn resource(&self) -> String;

    /// Whether it knows the present.
    fn status(&self) -> watch::Receiver<Status>;

    /// What it holds.
    fn stats(&self) -> Stats;

    /// Lists and watches until dropped.
    fn run(
        self: Arc<Self>,
        client: kube::Client,
        rng: fastrand::Rng,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<K: StaticObject> AnyInformer for Informer<K> {
    fn resource(&self) -> String {
        resource_name::<K>()
    }

    fn status(&self) -> watch::Receiver<Status> {
        Informer::status(self)
    }

    fn stats(&self) -> Stats {
        self.shelf.stats()
    }

    fn run(
        self: Arc<Self>,
        client: kube::Client,
        rng: fastrand::Rng,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { Informer::run(&self, &client, rng).await })
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}
