//! [`EventHandler`], and the handler that enqueues the object itself.

use crate::{
    cache::Event,
    object::{Object, ObjectKey},
    reconcile::Request,
    request_queue::Enqueue,
};

/// Turns events of kind `K` into requests of type `R`.
///
/// Implemented by every `Fn(&Event<K>, &Enqueue<R>)`:
///
/// ```
/// use std::time::Duration;
/// use controller_runtime::{Enqueue, Event, Kind, ObjectKey};
/// use k8s_openapi::api::batch::v1::Job;
///
/// // Reconciles jobs when they are created, and a minute after they were deleted.
/// let jobs: Kind<Job, ObjectKey<Job>> =
///     Kind::new(|event: &Event<Job>, queue: &Enqueue<'_, ObjectKey<Job>>| match event {
///         Event::Create { object, .. } => queue.add(object.key()),
///         Event::Delete { object, .. } => queue.add_after(object.key(), Duration::from_secs(60)),
///         _ => {}
///     });
/// ```
#[doc(alias = "TypedEventHandler")]
pub trait EventHandler<K: Object, R: Request>: Send + Sync + 'static {
    /// Adds the requests of the event to `queue`.
    fn handle(&self, event: &Event<K>, queue: &Enqueue<'_, R>);
}

impl<K, R, F> EventHandler<K, R> for F
where
    K: Object,
    R: Request,
    F: Fn(&Event<K>, &Enqueue<'_, R>) + Send + Sync + 'static,
{
    fn handle(&self, event: &Event<K>, queue: &Enqueue<'_, R>) {
        self(event, queue);
    }
}

/// Enqueues the object that changes. [`Builder::for_kind`](crate::Builder::for_kind) uses it.
#[derive(Debug, Clone, Copy, Default)]
#[doc(alias = "EnqueueRequestForObject")]
pub struct ForObject;

impl<K: Object> EventHandler<K, ObjectKey<K>> for ForObject {
    fn handle(&self, event: &Event<K>, queue: &Enqueue<'_, ObjectKey<K>>) {
        queue.add(event.key());
    }
}
