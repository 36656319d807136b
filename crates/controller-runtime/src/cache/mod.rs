//! Caches: all objects of a kind, listed once, then kept up to date by a watch.
//!
//! A manager has one cache, and a cache one informer per kind, however many controllers read it. Objects are shared
//! as [`Arc`]s: a read copies nothing, and nobody can change what another one reads.
//!
//! What is not here yet: selectors, single namespaces, indexes, metadata-only kinds, and reading one's own writes
//! before the watch shows them.

mod backoff;
mod informer;
mod list_watch;
mod reflector;
mod store;
mod wire;

use std::{
    any::{Any, TypeId},
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::watch;

use self::informer::Informer;
pub(crate) use self::informer::{Status, Subscription};
use crate::{
    event::Event,
    object::{Object, ObjectKey, StaticObject, resource_name},
};

/// The cached objects of one kind.
///
/// A handle: cheap to clone, made by [`Manager::cached`](crate::Manager::cached) before the manager runs. It is empty
/// until the manager has started; within a reconcile it is complete as of some moment not long ago.
///
/// An object that does not fit `K` is reported in the log as an error. It keeps the state in which it was last read; if it
/// never was, it is missing.
///
/// ```no_run
/// # use controller_runtime::{Manager, ObjectKey};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # fn example(manager: &Manager) {
/// let config_maps = manager.cached::<ConfigMap>();
/// // … later, in a reconciler:
/// if let Some(settings) = config_maps.get(&ObjectKey::new("default", "settings")) {
///     println!("{:?}", settings.data);
/// }
/// # }
/// ```
pub struct Cached<K: Object> {
    informer: Arc<Informer<K>>,
}

impl<K: Object> Cached<K> {
    /// The object, if it exists.
    #[must_use]
    pub fn get(&self, key: &ObjectKey<K>) -> Option<Arc<K>> {
        self.informer.get(key)
    }

    /// All objects, by namespace and name.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<K>> {
        self.informer.list(|_| true)
    }

    /// The objects that have `owner` among their owners (by uid), by namespace and name.
    ///
    /// Looks at every object of the kind.
    #[must_use]
    pub fn owned_by<O: Object>(&self, owner: &O) -> Vec<Arc<K>> {
        let Some(uid) = &owner.meta().uid else {
            return Vec::new();
        };
        self.informer.list(|object| {
            object.meta().owner_references.iter().flatten().any(|reference| reference.uid == *uid)
        })
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
#[derive(Default)]
pub(crate) struct Cache {
    informers: Mutex<Vec<(TypeId, Arc<dyn AnyInformer>)>>,
}

impl Cache {
    /// The cached objects of kind `K`: the same informer at every call.
    pub(crate) fn cached<K: StaticObject>(&self) -> Cached<K> {
        let mut informers = self.informers.lock();
        let id = TypeId::of::<K>();
        let informer =
            informers.iter().find(|(known, _)| *known == id).map(|(_, informer)| Arc::clone(informer));
        let informer = informer.unwrap_or_else(|| {
            let new: Arc<dyn AnyInformer> = Arc::new(Informer::<K>::default());
            informers.push((id, Arc::clone(&new)));
            new
        });
        let informer = informer.as_any().downcast().expect("the informer of a type id is of that type");
        Cached { informer }
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
