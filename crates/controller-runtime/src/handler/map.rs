//! Handlers that ask a function.

use super::{EventHandler, add_each};
use crate::{cache::Meta, enqueue::Enqueue, event::Event, object::Object, reconcile::Request};

/// Requests what a function makes of the object, which is decoded for it.
///
/// An update is mapped twice, before and after, so that what an object no longer refers to is reconciled as well. Write the
/// type of the argument (`|secret: &Secret| …`): it decides what is watched. A state that does not fit the type leads to no
/// request, and is in the log as an error; when the object changes, the function is called for the state before it and the new one. Where labels, owners or names are enough, [`MapMeta`] costs less.
#[doc(alias = "EnqueueRequestsFromMapFunc")]
#[derive(Debug, Clone, Copy)]
pub struct MapFn<F>(pub F);

impl<K, R, F, I> EventHandler<K, R> for MapFn<F>
where
    K: Object,
    R: Request,
    F: Fn(&K) -> I + Send + Sync + 'static,
    I: IntoIterator<Item = R>,
{
    fn handle(&self, event: &Event<K>, queue: &Enqueue<'_, R>) {
        add_each(event, queue, |state, requests| {
            match state.object() {
                Ok(object) => requests.extend((self.0)(&object)),
                // Of an older state the event before this one has reported it.
                Err(error) if state.ptr_eq(event.latest()) => queue.report(error),
                Err(_) => {}
            }
        });
    }
}

/// Requests what a function makes of the metadata, without decoding the object.
///
/// Otherwise like [`MapFn`]. What is watched is up to the [`Kind`](crate::Kind) it is given to.
///
/// ```
/// use controller_runtime::{Kind, MapMeta, ObjectKey, cache::Meta};
/// use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
///
/// // A label of a ConfigMap names the Deployment that reads it.
/// let source: Kind<ConfigMap, ObjectKey<Deployment>> = Kind::new(MapMeta(|meta: &Meta| {
///     let reader = meta.labels().get("example.com/read-by");
///     reader.map(|name| ObjectKey::new(meta.namespace().unwrap_or_default(), name))
/// }));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct MapMeta<F>(pub F);

impl<K, R, F, I> EventHandler<K, R> for MapMeta<F>
where
    K: Object,
    R: Request,
    F: Fn(&Meta) -> I + Send + Sync + 'static,
    I: IntoIterator<Item = R>,
{
    fn handle(&self, event: &Event<K>, queue: &Enqueue<'_, R>) {
        add_each(event, queue, |state, requests| requests.extend((self.0)(state.meta())));
    }
}
