//! Rights that a manager needs.

use std::panic::Location;

use super::{Manager, manager_handle::ManagerShared};
use crate::{
    object::{DynamicKind, StaticObject},
    rights::{DeclarationLog, Declarations, Needed, Right, Verb},
};

impl Manager {
    /// Returns the [rights](crate::rights) that follow from all registrations so far (controllers, caches, leader
    /// election, servers, webhooks), and those that [`needs`](Self::needs) and similar methods declare. It can be
    /// called before the manager runs, and without any request.
    ///
    /// Other clusters have [declarations of their own](crate::manager::Cluster::declarations).
    #[must_use]
    pub fn declarations(&self) -> Declarations {
        let ManagerShared { options, webhooks, .. } = &*self.shared;
        options.webhooks.declare(webhooks.registered(), self.declared());
        self.declared().all()
    }

    /// Declares requests for objects of kind `K` that no registration implies, and that no controller sends: those of a
    /// [`Runnable`](crate::manager::Runnable), a webhook or a source. For a controller, use
    /// [`ControllerBuilder::needs`](crate::ControllerBuilder::needs).
    ///
    /// The right is needed in the namespaces of the default cache of `K`. [`needs_right`](Self::needs_right) takes any other.
    ///
    /// ```
    /// # use controller_runtime::Manager;
    /// use controller_runtime::{Verb, rights::Right};
    /// use k8s_openapi::api::core::v1::Secret;
    ///
    /// # fn example(manager: &Manager) {
    /// manager.needs::<Secret>([Verb::Get]);
    /// manager.needs_right(Right::on::<Secret>([Verb::Update]).named(["token"]).in_own_namespace());
    /// manager.needs_url("/metrics", [Verb::Get]);
    /// # }
    /// ```
    #[doc(alias = "+kubebuilder:rbac")]
    #[track_caller]
    pub fn needs<K: StaticObject>(&self, verbs: impl IntoIterator<Item = Verb>) {
        self.declare(Needed::of_kind(DynamicKind::of::<K>(), verbs, Location::caller()));
    }

    /// Like [`needs`](Self::needs), for a subresource such as `eviction` or `scale`.
    #[track_caller]
    pub fn needs_subresource<K: StaticObject>(&self, name: &str, verbs: impl IntoIterator<Item = Verb>) {
        let needed = Needed::of_kind(DynamicKind::of::<K>(), verbs, Location::caller());
        self.declare(needed.on_subresource(name));
    }

    /// Like [`needs`](Self::needs), for a kind known at run time.
    #[track_caller]
    pub fn needs_dynamic(&self, kind: &DynamicKind, verbs: impl IntoIterator<Item = Verb>) {
        self.declare(Needed::of_kind(kind.clone(), verbs, Location::caller()));
    }

    /// Declares requests for a path outside of the resource API, of which the last character may be `*`.
    #[track_caller]
    pub fn needs_url(&self, path: &str, verbs: impl IntoIterator<Item = Verb>) {
        self.declare(Needed::of_right(Right::of_url(path, verbs), Location::caller()));
    }

    /// Like [`needs`](Self::needs), for any right: of single objects, in single namespaces, or with a verb that has no request of its
    /// own.
    #[track_caller]
    pub fn needs_right(&self, right: Right) {
        self.declare(Needed::of_right(right, Location::caller()));
    }

    fn declare(&self, needed: Needed) {
        let (declaration, scope) = self.shared.cache.needed(needed);
        self.declared().record(declaration, &scope);
    }

    fn declared(&self) -> &DeclarationLog {
        self.shared.cache.declarations()
    }
}
