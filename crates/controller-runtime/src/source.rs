//! Sources: where a controller's events come from.

use kube_workqueue::Queue;

use crate::{
    cache::Cache, event::Event, handler::EventHandler, object::Object, predicate::Predicate,
    reconcile::Request,
};

/// All changes of one kind, through the manager's cache.
///
/// Any number of controllers share one watch of the kind.
///
/// ```
/// use controller_runtime::{Kind, MapFn, ObjectKey, predicate::LabelChanged};
/// use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
///
/// // ConfigMaps named like a Deployment reconcile it, when their labels change.
/// let source: Kind<ConfigMap, ObjectKey<Deployment>> =
///     Kind::new(MapFn(|map: &ConfigMap| {
///         ObjectKey::of(map).map(|key| ObjectKey::new(key.namespace().unwrap_or_default(), key.name()))
///     }))
///     .with_predicate(LabelChanged);
/// ```
pub struct Kind<K: Object, R: Request> {
    handler: Box<dyn EventHandler<K, R>>,
    predicates: Vec<Box<dyn Predicate<K>>>,
}

impl<K: Object, R: Request> Kind<K, R> {
    /// Hands every change of the kind to `handler`.
    pub fn new(handler: impl EventHandler<K, R>) -> Self {
        Self {
            handler: Box::new(handler),
            predicates: Vec::new(),
        }
    }

    /// Hands on only what `predicate` passes, in addition to the predicates given before.
    #[must_use]
    pub fn with_predicate(mut self, predicate: impl Predicate<K>) -> Self {
        self.predicates.push(Box::new(predicate));
        self
    }

    fn handle(&self, event: &Event<K>, queue: &Queue<R>) {
        if self.predicates.iter().all(|predicate| predicate.test(event)) {
            self.handler.handle(event, queue);
        }
    }
}

/// Starts to fill a queue. Made before the manager starts, so that it knows what to watch.
pub(crate) type Start<R> = Box<dyn FnOnce(&Queue<R>) + Send>;

impl<K: Object, R: Request> Kind<K, R> {
    /// Declares the kind to the cache.
    pub(crate) fn attach(self, cache: &Cache) -> Start<R> {
        let cached = cache.cached::<K>();
        Box::new(move |queue| {
            let queue = queue.clone();
            cached.subscribe(move |event| self.handle(event, &queue));
        })
    }
}
