//! The served resources of a running server, and their replacement.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::Timestamp;

use super::ClusterState;
use crate::kind::registry::Registry;
use crate::kind::resource::StorageKey;

impl ClusterState {
    /// Returns the currently served resources.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.read())
    }

    /// Returns the time since which the current resources have been served.
    pub(crate) fn registry_since(&self) -> Timestamp {
        Timestamp::from_second(self.registry_since.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// Returns the number of the current registry. Load it before [`registry`](Self::registry), so that a change in between is noticed.
    pub(crate) fn registry_version(&self) -> u64 {
        self.registry_version.load(Ordering::Acquire)
    }

    /// Replaces the served resources. Watches of `affected` tables check whether they are still served.
    pub(crate) fn set_registry(&self, registry: Registry, affected: &[StorageKey]) {
        *self.registry.write() = Arc::new(registry);
        self.registry_since.store(self.clock.now().as_second(), Ordering::Relaxed);
        // Incremented after the registry is set, so that a reader of the new version finds the new registry.
        self.registry_version.fetch_add(1, Ordering::Release);
        let affected: Vec<_> = {
            let state = self.state.lock();
            affected.iter().filter_map(|storage| state.changes.get(storage).cloned()).collect()
        };
        affected.iter().for_each(|changes| changes.notify());
    }
}
