//! Handler made of one function per type of event.

use std::fmt;

use super::EventHandler;
use crate::{
    cache::{Event, Lazy},
    object::Object,
    reconcile::Request,
    request_queue::Enqueue,
};

/// One function per type of event; types without a function enqueue nothing.
///
/// ```
/// use controller_runtime::{Kind, ObjectKey, handler::HandlerFuncs};
/// use k8s_openapi::api::core::v1::Node;
///
/// // Reacts only to deleted nodes.
/// let nodes: Kind<Node, ObjectKey<Node>> = Kind::new(HandlerFuncs::new().on_delete(|node, queue| queue.add(node.key())));
/// ```
#[must_use]
pub struct HandlerFuncs<K: Object, R: Request> {
    create: Box<StateFn<K, R>>,
    update: Box<UpdateFn<K, R>>,
    delete: Box<StateFn<K, R>>,
    generic: Box<StateFn<K, R>>,
}

type StateFn<K, R> = dyn Fn(&Lazy<K>, &Enqueue<'_, R>) + Send + Sync;
type UpdateFn<K, R> = dyn Fn(&Lazy<K>, &Lazy<K>, &Enqueue<'_, R>) + Send + Sync;

impl<K: Object, R: Request> HandlerFuncs<K, R> {
    /// Starts without functions.
    pub fn new() -> Self {
        Self {
            create: Box::new(|_, _| {}),
            update: Box::new(|_, _, _| {}),
            delete: Box::new(|_, _| {}),
            generic: Box::new(|_, _| {}),
        }
    }

    /// Handles creates; the function gets the object.
    pub fn on_create(mut self, handle: impl Fn(&Lazy<K>, &Enqueue<'_, R>) + Send + Sync + 'static) -> Self {
        self.create = Box::new(handle);
        self
    }

    /// Handles updates; the function gets the old and the new state.
    pub fn on_update(
        mut self,
        handle: impl Fn(&Lazy<K>, &Lazy<K>, &Enqueue<'_, R>) + Send + Sync + 'static,
    ) -> Self {
        self.update = Box::new(handle);
        self
    }

    /// Handles deletes; the function gets the last known state.
    pub fn on_delete(mut self, handle: impl Fn(&Lazy<K>, &Enqueue<'_, R>) + Send + Sync + 'static) -> Self {
        self.delete = Box::new(handle);
        self
    }

    /// Handles generic events, from outside the API.
    pub fn on_generic(mut self, handle: impl Fn(&Lazy<K>, &Enqueue<'_, R>) + Send + Sync + 'static) -> Self {
        self.generic = Box::new(handle);
        self
    }
}

impl<K: Object, R: Request> Default for HandlerFuncs<K, R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Object, R: Request> EventHandler<K, R> for HandlerFuncs<K, R> {
    fn handle(&self, event: &Event<K>, queue: &Enqueue<'_, R>) {
        match event {
            Event::Create { object, .. } => (self.create)(object, queue),
            Event::Update { old, new } => (self.update)(old, new, queue),
            Event::Delete { object, .. } => (self.delete)(object, queue),
            Event::Generic { object } => (self.generic)(object, queue),
        }
    }
}

impl<K: Object, R: Request> fmt::Debug for HandlerFuncs<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerFuncs").finish_non_exhaustive()
    }
}
