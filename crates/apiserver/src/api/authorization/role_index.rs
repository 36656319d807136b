//! Roles and bindings of the cluster, indexed for decisions.

use std::sync::Arc;

use kube_apimachinery::rbac::{
    Action, Binding, Decision, GROUP, Identity, Kind, Policy, PolicyRule, Role, RoleRef, Unresolved,
};
use parking_lot::RwLock;

use crate::kind::resource::StorageKey;
use crate::state::{ClusterState, CommitObserver};
use crate::store::Key;

/// Index of the stored roles and bindings. It observes commits, so it contains each change before the client receives the response.
#[derive(Debug, Default)]
pub(crate) struct RoleIndex(RwLock<Arc<Policy>>);

impl RoleIndex {
    /// Creates a copy for a server that begins in the state of this one.
    pub(crate) fn fork(&self) -> Self {
        Self(RwLock::new(Arc::clone(&self.0.read())))
    }

    /// Reads all stored roles and bindings, as after a restart.
    pub(crate) fn restore(&self, cluster: &ClusterState) {
        for kind in Kind::ALL {
            let storage = StorageKey { group: GROUP.to_owned(), plural: kind.plural().to_owned() };
            let snapshot = cluster.read(|store| store.snapshot(&storage));
            for (key, _) in snapshot.range("", None) {
                self.update(cluster, kind, &storage, key);
            }
        }
    }

    /// Reads the current state of one object.
    fn update(&self, cluster: &ClusterState, kind: Kind, storage: &StorageKey, key: &Key) {
        let Some(served) = cluster.registry().get(GROUP, "v1", kind.plural()).cloned() else { return };
        // The state is read under the lock: of two commits of an object, the one that takes the lock last reads the later state.
        let mut policy = self.0.write();
        // Copies the index only as long as a fork shares it.
        let policy = Arc::make_mut(&mut policy);
        let Some(stored) = cluster.read(|store| store.get(storage, key).cloned()) else {
            return policy.remove(kind, key.namespace(), key.name());
        };
        let object = served.value(&stored);
        match kind {
            Kind::Role | Kind::ClusterRole => policy.put_role(Role::from_object(&object)),
            Kind::RoleBinding | Kind::ClusterRoleBinding => policy.put_binding(Binding::from_object(&object)),
        }
    }

    pub(super) fn decide(&self, user: Identity<'_>, action: &Action<'_>) -> Decision {
        self.0.read().decide(user, action)
    }

    pub(super) fn rules_for(
        &self,
        user: Identity<'_>,
        namespace: &str,
    ) -> (Vec<PolicyRule>, Vec<Unresolved>) {
        self.0.read().rules_for(user, namespace)
    }

    /// Returns the rules of the role of a binding in `namespace`.
    pub(super) fn rules_of(&self, role: &RoleRef, namespace: &str) -> Result<Arc<[PolicyRule]>, Unresolved> {
        self.0.read().rules_of(role, namespace).cloned()
    }
}

impl CommitObserver for Arc<RoleIndex> {
    fn committed(&self, cluster: &ClusterState, storage: &StorageKey, key: &Key) {
        if let Some(kind) = Kind::of(&storage.group, &storage.plural) {
            self.update(cluster, kind, storage, key);
        }
    }
}
