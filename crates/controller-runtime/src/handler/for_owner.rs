//! Handler that enqueues the owner of an object.

use kube::core::ApiResource;

use super::{EventHandler, add_each};
use crate::{
    cache::{Event, Lazy, OwnerRef},
    object::{DynamicKind, Object, ObjectKey, OwnableBy, StaticObject},
    request_queue::Enqueue,
};

/// Enqueues the owner of kind `O` of an object that changes. [`ControllerBuilder::owns`](crate::ControllerBuilder::owns) uses it.
///
/// An update enqueues the owners in the old and in the new state, so that both are reconciled when an object gets another owner.
/// Owners are matched by API group and kind; the version is ignored.
///
/// As in Go, the owner's UID is not compared. A request is a name: an owner that was created again under the same name must be
/// reconciled when an object of its predecessor is deleted, because the object's name becomes free. The reconciler, which has both
/// objects, checks ownership with [`is_controlled_by`](crate::is_controlled_by), which compares UIDs.
#[doc(alias = "EnqueueRequestForOwner")]
#[derive(Debug, Clone)]
pub struct ForOwner<O: Object> {
    owners: Owners,
    info: O::DynamicType,
    /// Whether owners are cluster-scoped, for a type with a scope that is known only at run time.
    in_cluster: bool,
}

/// Owner references that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owners {
    Controller,
    Every,
}

impl<O: StaticObject> ForOwner<O> {
    /// Enqueues the owner that is marked as the controller.
    #[must_use]
    pub fn controller() -> Self {
        Self { owners: Owners::Controller, info: (), in_cluster: false }
    }

    /// Enqueues every owner of the kind.
    #[must_use]
    #[doc(alias = "MatchEveryOwner")]
    pub fn every() -> Self {
        Self { owners: Owners::Every, ..Self::controller() }
    }
}

impl<O: Object<DynamicType = ApiResource>> ForOwner<O> {
    /// Enqueues the owner that is marked as the controller, of a kind known at run time.
    #[must_use]
    pub fn dynamic_controller(kind: &DynamicKind) -> Self {
        let (info, in_cluster) = (kind.resource().clone(), !kind.is_namespaced());
        Self { owners: Owners::Controller, info, in_cluster }
    }

    /// Enqueues every owner of a kind known at run time.
    #[must_use]
    pub fn every_dynamic(kind: &DynamicKind) -> Self {
        Self { owners: Owners::Every, ..Self::dynamic_controller(kind) }
    }
}

impl<O: Object> ForOwner<O> {
    /// Changes the handler to enqueue every owner, whether marked as the controller or not.
    pub(crate) fn every_owner(self) -> Self {
        Self { owners: Owners::Every, ..self }
    }

    fn matches(&self, owner: &OwnerRef) -> bool {
        owner.kind() == O::kind(&self.info)
            && owner.group() == O::group(&self.info)
            && (self.owners == Owners::Every || owner.is_controller())
    }

    fn key<K: Object>(&self, state: &Lazy<K>, owner: &OwnerRef) -> Option<ObjectKey<O>>
    where
        K::Scope: OwnableBy<O::Scope>,
    {
        if self.in_cluster {
            return ObjectKey::from_parts(None, owner.name());
        }
        state.key().owner(owner.name())
    }
}

impl<K: Object, O: Object> EventHandler<K, ObjectKey<O>> for ForOwner<O>
where
    K::Scope: OwnableBy<O::Scope>,
{
    fn handle(&self, event: &Event<K>, queue: &Enqueue<'_, ObjectKey<O>>) {
        add_each(event, queue, |state, requests| {
            let owners = state.meta().owner_references().iter().filter(|owner| self.matches(owner));
            requests.extend(owners.filter_map(|owner| self.key(state, owner)));
        });
    }
}
