//! Handlers: which requests an event asks for.
//!
//! A handler runs where the event is delivered, so it must not block; it adds requests to the queue, which keeps each
//! of them once however often it is added.

use std::{collections::BTreeSet, marker::PhantomData};

use crate::{
    cache::{Lazy, Meta, OwnerRef},
    enqueue::Enqueue,
    event::Event,
    object::{Object, ObjectKey, OwnableBy, StaticObject},
    reconcile::Request,
};

/// Turns events of kind `K` into requests of type `R`.
#[doc(alias = "TypedEventHandler")]
pub trait EventHandler<K: Object, R: Request>: Send + Sync + 'static {
    /// Adds to `queue` what the event asks to be reconciled.
    fn handle(&self, event: &Event<K>, queue: &Enqueue<'_, R>);
}

/// Requests the object itself: what a controller does with events of its own kind.
#[derive(Debug, Clone, Copy, Default)]
#[doc(alias = "EnqueueRequestForObject")]
pub struct ForObject;

impl<K: Object> EventHandler<K, ObjectKey<K>> for ForObject {
    fn handle(&self, event: &Event<K>, queue: &Enqueue<'_, ObjectKey<K>>) {
        queue.add(event.key());
    }
}

/// Requests the owner of kind `O`: what a controller does with events of objects it makes.
///
/// An update requests the owners named before and after it, so that an object that changes hands is noticed by both.
/// Owners are matched by API group and kind, whatever the version.
#[doc(alias = "EnqueueRequestForOwner")]
#[derive(Debug, Clone, Copy)]
pub struct ForOwner<O> {
    owners: Owners,
    kind: PhantomData<fn() -> O>,
}

/// Which owner references count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owners {
    Controller,
    Every,
}

impl<O: StaticObject> ForOwner<O> {
    /// Requests the owner that is marked as the controller.
    #[must_use]
    pub fn controller() -> Self {
        Self { owners: Owners::Controller, kind: PhantomData }
    }

    /// Requests every owner of the kind.
    #[must_use]
    #[doc(alias = "MatchEveryOwner")]
    pub fn every() -> Self {
        Self { owners: Owners::Every, kind: PhantomData }
    }

    fn matches(&self, owner: &OwnerRef) -> bool {
        owner.kind() == O::kind(&())
            && owner.group() == O::group(&())
            && (self.owners == Owners::Every || owner.is_controller())
    }
}

impl<K: Object, O: StaticObject> EventHandler<K, ObjectKey<O>> for ForOwner<O>
where
    K::Scope: OwnableBy<O::Scope>,
{
    fn handle(&self, event: &Event<K>, queue: &Enqueue<'_, ObjectKey<O>>) {
        add_each(event, queue, |state, requests| {
            let owners = state.meta().owner_references().iter().filter(|owner| self.matches(owner));
            requests.extend(owners.map(|owner| state.key().owner(owner.name())));
        });
    }
}

/// Requests what a function makes of the object, which is decoded for it.
///
/// An update is mapped twice, before and after, so that what an object no longer refers to is reconciled as well. Write the
/// type of the argument (`|secret: &Secret| …`): it decides what is watched. A state that does not fit the type leads to no
/// request, and is in the log as an error. Where labels, owners or names are enough, [`MapMeta`] costs less.
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
            // An error is reported where it comes up.
            if let Ok(object) = state.object() {
                requests.extend((self.0)(&object));
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

/// Adds what is asked for by the states of the event, each request once.
fn add_each<K: Object, R: Request>(
    event: &Event<K>,
    queue: &Enqueue<'_, R>,
    ask: impl Fn(&Lazy<K>, &mut BTreeSet<R>),
) {
    let mut requests = BTreeSet::new();
    for state in event.old().into_iter().chain([event.latest()]) {
        ask(state, &mut requests);
    }
    for request in requests {
        queue.add(request);
    }
}
