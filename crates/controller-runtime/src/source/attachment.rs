//! The controller to which a source is added.

use crate::{
    cache::{Cache, LabelSelector, Query},
    object::DynamicKind,
    rights::{self, CodeLine, Declaration, Needed, ScopeOf},
};

/// The controller to which a source is added.
pub(crate) struct Attachment<'c> {
    pub(crate) cache: &'c Cache,
    /// Labels that all sources of the controller require: objects without them may be left out.
    pub(crate) required: &'c LabelSelector,
    /// Name of the controller.
    pub(crate) controller: &'c str,
    /// Its kind, if it has one in the manager's own cluster.
    pub(crate) owner: Option<OwnerKind>,
}

/// The kind of a controller.
pub(crate) struct OwnerKind {
    pub(crate) kind: DynamicKind,
    /// Namespaces of the reconciled objects.
    pub(crate) scope: ScopeOf,
}

impl Attachment<'_> {
    /// Records a right that the controller needs.
    pub(crate) fn declare(&self, declaration: Declaration, scope: &ScopeOf) {
        self.cache.declarations().record(declaration.of(self.controller), scope);
    }

    /// Records the rights to fill a cache.
    pub(crate) fn declare_cached(&self, query: &Query, registration: &'static str, place: CodeLine) {
        for selected in query.selected() {
            self.declare(rights::cached(&query.resource, &selected, registration, place), &selected.scope);
        }
    }

    /// Records a right that the program declares.
    pub(crate) fn declare_needed(&self, needed: Needed) {
        let (declaration, scope) = self.cache.needed(needed);
        self.declare(declaration, &scope);
    }

    /// Records the rights to write Kubernetes Events, which are in the namespace of their object; those about objects without a
    /// namespace are in `default`.
    pub(crate) fn declare_events(&self, place: CodeLine) {
        let scope = match &self.owner {
            Some(OwnerKind { kind, .. }) if !kind.is_namespaced() => ScopeOf::namespace(Some("default")),
            Some(OwnerKind { scope, .. }) => scope.clone(),
            None => ScopeOf::CLUSTER,
        };
        self.declare(rights::events("events", place), &scope);
    }

    /// Records the rights to write owned objects.
    pub(super) fn declare_owned(&self, kind: &DynamicKind, place: CodeLine) {
        let Some(OwnerKind { kind: owner, scope }) = &self.owner else { return };
        // Owned objects are in the namespaces of their owners.
        let owned = if scope.is_cluster() { self.cache.default_scope(kind) } else { scope.clone() };
        self.declare(rights::owned(kind.resource(), place), &owned);
        self.declare(rights::owner(owner.resource(), place), scope);
    }
}
