//! Handlers: which requests an event asks for.
//!
//! A handler runs where the event is delivered, so it must not block; it adds requests to the queue, which keeps each
//! of them once however often it is added.

use std::{collections::BTreeSet, marker::PhantomData};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_workqueue::Queue;

use crate::{
    event::Event,
    object::{Object, ObjectKey, OwnableBy, StaticObject},
    reconcile::Request,
};

/// Turns events of kind `K` into requests of type `R`.
#[doc(alias = "TypedEventHandler")]
pub trait EventHandler<K: Object, R: Request>: Send + Sync + 'static {
    /// Adds to `queue` what the event asks to be reconciled.
    fn handle(&self, event: &Event<K>, queue: &Queue<R>);
}

/// Requests the object itself: what a controller does with events of its own kind.
#[derive(Debug, Clone, Copy, Default)]
#[doc(alias = "EnqueueRequestForObject")]
pub struct ForObject;

impl<K: Object> EventHandler<K, ObjectKey<K>> for ForObject {
    fn handle(&self, event: &Event<K>, queue: &Queue<ObjectKey<K>>) {
        if let Some(key) = ObjectKey::of(event.object()) {
            queue.add(key);
        }
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

    fn matches(&self, reference: &OwnerReference) -> bool {
        let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
        group == O::group(&())
            && reference.kind == O::kind(&())
            && (self.owners == Owners::Every || reference.controller == Some(true))
    }
}

impl<K: Object, O: StaticObject> EventHandler<K, ObjectKey<O>> for ForOwner<O>
where
    K::Scope: OwnableBy<O::Scope>,
{
    fn handle(&self, event: &Event<K>, queue: &Queue<ObjectKey<O>>) {
        let states = event.old().into_iter().chain([event.object()]);
        let owners: BTreeSet<ObjectKey<O>> = states
            .filter_map(|object| Some((ObjectKey::of(object)?, object.meta().owner_references.as_ref()?)))
            .flat_map(|(key, references)| {
                references.iter().filter(|r| self.matches(r)).map(move |r| key.owner(&r.name))
            })
            .collect();
        for owner in owners {
            queue.add(owner);
        }
    }
}

/// Requests what a function makes of the object.
///
/// An update is mapped twice, before and after, so that what an object no longer refers to is reconciled as well. Write the
/// type of the argument (`|secret: &Secret| …`): it decides what is watched.
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
    fn handle(&self, event: &Event<K>, queue: &Queue<R>) {
        let states = event.old().into_iter().chain([event.object()]);
        let requests: BTreeSet<R> = states.flat_map(|object| (self.0)(object)).collect();
        for request in requests {
            queue.add(request);
        }
    }
}
