//! Sources: where a controller's events come from.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::Arc,
};

use crate::{
    cache::{Cache, Subscription},
    controller::Inbox,
    event::Event,
    handler::EventHandler,
    object::{StaticObject, resource_name},
    predicate::Predicate,
    reconcile::{Request, panic_message},
};

/// All changes of one kind, through the manager's cache.
///
/// Any number of controllers share one watch of the kind. A predicate or handler that panics costs its controller the
/// event, which is logged as an error; everything else goes on.
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
pub struct Kind<K: StaticObject, R: Request> {
    handler: Box<dyn EventHandler<K, R>>,
    predicates: Vec<Box<dyn Predicate<K>>>,
}

impl<K: StaticObject, R: Request> Kind<K, R> {
    /// Hands every change of the kind to `handler`.
    pub fn new(handler: impl EventHandler<K, R>) -> Self {
        Self { handler: Box::new(handler), predicates: Vec::new() }
    }

    /// Hands on only what `predicate` passes, in addition to the predicates given before.
    #[must_use]
    pub fn with_predicate(mut self, predicate: impl Predicate<K>) -> Self {
        self.predicates.push(Box::new(predicate));
        self
    }

    /// Hands the event on. A panic in user code costs this event, and nothing else.
    fn handle(&self, source: &Arc<str>, event: &Event<K>, inbox: &Inbox<R>) {
        let handled = panic::catch_unwind(AssertUnwindSafe(|| {
            if self.predicates.iter().all(|predicate| predicate.test(event)) {
                inbox.receive(source, event, |queue| self.handler.handle(event, queue));
            }
        }));
        if let Err(panic) = handled {
            tracing::error!(
                controller = &*inbox.controller,
                resource = &**source,
                object = %event.meta(),
                "a predicate or handler panicked, and the event is lost: {}",
                panic_message(&*panic)
            );
        }
    }
}

/// Declares a kind to the cache, before the manager starts.
pub(crate) type Attach<R> = Box<dyn FnOnce(&Cache) -> Connect<R> + Send>;

/// Begins to fill the inbox of a controller, until the subscription is dropped.
///
/// Called anew in each run, and in each leadership.
pub(crate) type Connect<R> = Box<dyn Fn(&Inbox<R>) -> Subscription + Send + Sync>;

impl<K: StaticObject, R: Request> Kind<K, R> {
    pub(crate) fn attach(self, cache: &Cache) -> Connect<R> {
        let (cached, source) = (cache.of_kind::<K>(), Arc::new(self));
        let name: Arc<str> = Arc::from(resource_name::<K>());
        Box::new(move |inbox| {
            let (source, name, inbox) = (Arc::clone(&source), Arc::clone(&name), inbox.clone());
            cached.subscribe(move |event| source.handle(&name, event, &inbox))
        })
    }
}
