//! Services: addresses and ports in use, and addresses at which webhooks reach them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use kube_apimachinery::status::ApiError;
use parking_lot::Mutex;
use serde_json::Value;

use super::{ClusterState, CommitObserver};
use crate::kind::registry::ServedKind;
use crate::kind::resource::StorageKey;
use crate::kinds::builtin::service::pool::{AllocationMode, ServiceAllocation, ServicePool, ServiceRange};
use crate::store::{Key, TypeMeta};

/// Separates the random choices of addresses from other random values of a seed.
const CHOICES: u64 = 0x5e71_1ce5;

/// Addresses by namespace and name.
type Addresses = BTreeMap<(String, String), SocketAddr>;

/// Addresses of Services.
pub(crate) struct Services {
    /// Addresses that take precedence over those in the store. Webhooks are called there.
    reachable: Mutex<Addresses>,
    range: ServiceRange,
    pool: Mutex<ServicePool>,
}

impl Services {
    pub(crate) fn new(range: ServiceRange, seed: u64, reachable: Addresses) -> Self {
        let pool = Mutex::new(ServicePool::new(range, seed ^ CHOICES));
        Self { reachable: Mutex::new(reachable), range, pool }
    }

    /// Creates a copy for a server that begins in the state of this one.
    pub(crate) fn fork(&self) -> Self {
        let pool = Mutex::new(self.pool.lock().clone());
        Self { reachable: Mutex::new(self.reachable.lock().clone()), range: self.range, pool }
    }

    /// Replaces the addresses that take precedence over those in the store.
    pub(crate) fn set_reachable(&self, reachable: Addresses) {
        *self.reachable.lock() = reachable;
    }

    /// Returns the address of a Service that takes precedence over those in the store.
    pub(super) fn reachable(&self, namespace: &str, name: &str) -> Option<SocketAddr> {
        self.reachable.lock().get(&(namespace.to_owned(), name.to_owned())).copied()
    }

    /// Returns the range of cluster IPs.
    pub(crate) fn range(&self) -> ServiceRange {
        self.range
    }

    /// Reads all stored Services, as after a restart.
    pub(crate) fn restore(&self, cluster: &ClusterState) {
        let table = table();
        let snapshot = cluster.read(|store| store.snapshot(&table));
        for (key, _) in snapshot.range("", None) {
            self.update(cluster, &table, key);
        }
    }

    /// Reads the current state of one Service.
    fn update(&self, cluster: &ClusterState, table: &StorageKey, key: &Key) {
        // The store is read under the lock of the pool. Of two commits of an object, the one that gets the lock last finds the later state.
        let mut pool = self.pool.lock();
        let stored = cluster.read(|store| store.get(table, key).cloned());
        let object =
            stored.map(|stored| stored.document.to_value(&TypeMeta::new("v1", "Service"), stored.revision));
        pool.observe(key, object.as_ref());
    }
}

fn table() -> StorageKey {
    StorageKey::core("services")
}

impl CommitObserver for Arc<Services> {
    fn committed(&self, cluster: &ClusterState, storage: &StorageKey, key: &Key) {
        if storage.group.is_empty() && storage.plural == "services" {
            self.update(cluster, storage, key);
        }
    }
}

/// Addresses and ports that a request has reserved for its Service. Hold it until the commit, after which the stored Service has them, or
/// until the request fails.
#[must_use]
pub(crate) struct Reservation<'a> {
    services: &'a Services,
    taken: ServiceAllocation,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.services.pool.lock().release(&self.taken);
    }
}

impl ClusterState {
    /// Allocates the addresses and ports that the new state of an object needs; `None` for kinds that need none.
    ///
    /// # Errors
    /// 422 with the fields that cannot be satisfied; 500 if a range is full.
    pub(crate) fn allocate(
        &self,
        served: &ServedKind,
        old: Option<&Value>,
        object: &mut Value,
        mode: AllocationMode,
    ) -> Result<Option<Reservation<'_>>, ApiError> {
        if !served.strategy.allocates(served) {
            return Ok(None);
        }
        let mut reservation = Reservation { services: &self.services, taken: ServiceAllocation::default() };
        let allocated = {
            let mut pool = self.services.pool.lock();
            served.strategy.allocate(&mut pool.reserving(&mut reservation.taken, mode), old, object)
        };
        allocated.map(|()| Some(reservation))
    }

    /// Returns the first cluster IP, which is that of the Service `kubernetes`, and the range.
    pub(crate) fn service_range(&self) -> (Ipv4Addr, ServiceRange) {
        (self.services.range().first(), self.services.range())
    }
}
