//! Handlers that call a mapping function.

use super::{EventHandler, add_each};
use crate::{
    cache::{Event, Meta},
    error::BoxError,
    object::Object,
    reconcile::Request,
    request_queue::Enqueue,
};

/// Enqueues the requests that a function returns for an object.
///
/// For an update the function is called with the old and the new state, so that an object that is no longer referred to is
/// reconciled as well. Write the type of the argument (`|secret: &Secret| …`): it determines the watched kind. If labels, owners or
/// names are enough, [`MapMeta`] is cheaper.
///
/// A state that does not fit the type yields no requests and is logged as an error. When the object changes again, the function is
/// called with the last state that did fit, and with the new state.
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
                // If the older state does not decode, the event before this one has reported that.
                Err(error) if state.ptr_eq(event.latest()) => queue.report_undecodable(&error),
                Err(_) => {}
            }
        });
    }
}

/// Enqueues the requests that a function returns for an object's metadata, without decoding the object.
///
/// Otherwise like [`MapFn`]. The [`Kind`](crate::Kind) that it is passed to determines the watched kind.
///
/// ```
/// use controller_runtime::{Kind, MapMeta, ObjectKey, cache::Meta};
/// use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
///
/// // A label of a ConfigMap names the Deployment that uses it.
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

/// Like [`MapFn`], but for a function that may fail, such as one that reads a cache.
///
/// If the function fails for the old or the new state, the event is delivered again like one on which a handler panics: after
/// 1 s doubling to 5 minutes, until the function succeeds or a newer event of the object replaces it. The metric
/// `controller_runtime_event_failures_total` counts these failures with the reason `error`, and
/// [`Manager::overview`](crate::Manager::overview) shows them.
///
/// ```
/// use controller_runtime::{Cached, Kind, Lazy, ObjectKey, ReadError, TryMapFn};
/// use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
///
/// /// Enqueues all Deployments in the namespace of a ConfigMap.
/// fn source(deployments: Cached<Deployment>) -> Kind<ConfigMap, ObjectKey<Deployment>> {
///     Kind::new(TryMapFn(move |map: &ConfigMap| -> Result<Vec<_>, ReadError> {
///         let namespace = map.metadata.namespace.as_deref().unwrap_or_default();
///         Ok(deployments.select().namespace(namespace).list_lazy()?.iter().map(Lazy::key).collect())
///     }))
/// }
/// ```
#[doc(alias = "EnqueueRequestsFromMapFunc")]
#[derive(Debug, Clone, Copy)]
pub struct TryMapFn<F>(pub F);

impl<K, R, F, I, E> EventHandler<K, R> for TryMapFn<F>
where
    K: Object,
    R: Request,
    F: Fn(&K) -> Result<I, E> + Send + Sync + 'static,
    I: IntoIterator<Item = R>,
    E: Into<BoxError>,
{
    fn handle(&self, event: &Event<K>, queue: &Enqueue<'_, R>) {
        add_each(event, queue, |state, requests| match state.object() {
            Ok(object) => match (self.0)(&object) {
                Ok(found) => requests.extend(found),
                Err(error) => queue.fail(error),
            },
            // If the older state does not decode, the event before this one has reported that.
            Err(error) if state.ptr_eq(event.latest()) => queue.report_undecodable(&error),
            Err(_) => {}
        });
    }
}

/// Like [`MapMeta`], but for a function that may fail, as in [`TryMapFn`].
#[derive(Debug, Clone, Copy)]
pub struct TryMapMeta<F>(pub F);

impl<K, R, F, I, E> EventHandler<K, R> for TryMapMeta<F>
where
    K: Object,
    R: Request,
    F: Fn(&Meta) -> Result<I, E> + Send + Sync + 'static,
    I: IntoIterator<Item = R>,
    E: Into<BoxError>,
{
    fn handle(&self, event: &Event<K>, queue: &Enqueue<'_, R>) {
        add_each(event, queue, |state, requests| match (self.0)(state.meta()) {
            Ok(found) => requests.extend(found),
            Err(error) => queue.fail(error),
        });
    }
}
