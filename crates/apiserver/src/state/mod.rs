//! State of the cluster: the store with its lock, the served resources, the clock, and the random number generators.
//!
//! Every change of an object is a [`commit`](ClusterState::commit), of clients and of the server. [`writer`] and [`deletion`] contain the
//! server's own writes: those of its controllers, and of the objects that it creates itself.

mod changes;
pub(crate) mod clock;
mod commits;
pub(crate) mod deletion;
mod durability;
mod initial_state;
#[cfg_attr(not(feature = "persistence"), path = "no_persistence.rs")]
pub(crate) mod persistence;
mod random_names;
mod recent_objects;
mod registry_access;
mod services;
mod tap;
mod turns;
mod webhook_calls;
pub(crate) mod writer;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio::time::Instant;

use self::changes::Changes;
pub(crate) use self::changes::Subscription;
use self::clock::Clock;
use self::commits::Commits;
pub(crate) use self::commits::CommitsSubscription;
use self::initial_state::Forked;
pub(crate) use self::initial_state::InitialState;
use self::persistence::CommitJournal;
pub(crate) use self::recent_objects::RecentObjects;
pub(crate) use self::services::{Reservation, Services};
pub(crate) use self::tap::Tap;
pub use self::tap::{Commit, CommittedObject};
pub(crate) use self::turns::Turns;
pub(crate) use self::webhook_calls::SERVICE_NAME;
use crate::kind::registry::Registry;
use crate::kind::resource::StorageKey;
use crate::metrics::Metrics;
use crate::store::{Change, Document, Expired, Key, Store, StoreEvent};
use crate::webhook_client::WebhookClient;

/// Odd multiplier that spreads revisions over seeds: the golden ratio, as in splitmix64.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Address that a server without a listener publishes.
const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 6443);

/// Maximum number of events of a table that are read under one lock.
const EVENTS_AT_ONCE: usize = 1024;

/// Component that reacts to commits, such as the one that serves the resources of definitions.
pub(crate) trait CommitObserver: Send + Sync {
    /// Reacts to a commit of an object in a table, within the call that made it. Watches and controllers have been notified. No lock is
    /// held, so an observer may commit as well. Commits of one object may be reported out of order; the store has its current state.
    fn committed(&self, cluster: &ClusterState, storage: &StorageKey, key: &Key);
}

/// State of a cluster, without the parts that handle requests.
pub(crate) struct ClusterState {
    pub(crate) clock: Clock,
    /// Published address of the server.
    address: RwLock<SocketAddr>,
    /// Published certificate authority.
    authority: RwLock<Option<Arc<str>>>,
    random: Mutex<fastrand::Rng>,
    /// Separate from `random`, so that requests that only read do not affect the UIDs of later objects.
    audit_ids: Mutex<fastrand::Rng>,
    state: Mutex<LockedState>,
    registry: RwLock<Arc<Registry>>,
    /// Second in which the registry last changed.
    registry_since: AtomicI64,
    /// Number of the current registry; 1 for the first, so that 0 in a cache of its users means none.
    registry_version: AtomicU64,
    /// Revision of the last commit to any table; controllers wait for it.
    committed: Arc<Commits>,
    /// Receives a copy of each commit, once it is set.
    tap: OnceLock<Tap>,
    /// Called after each commit, in this order.
    observers: Vec<Box<dyn CommitObserver>>,
    /// Set to true when the last handle is dropped, which ends watches.
    pub(crate) closed: watch::Sender<bool>,
    /// Data file, if there is one.
    journal: Option<CommitJournal>,
    /// Client of admission and conversion webhooks.
    webhooks: WebhookClient,
    /// Metrics of requests, watches and webhooks.
    pub(crate) metrics: Metrics,
    /// Addresses of Services.
    services: Arc<Services>,
    /// Values of the objects that were updated last.
    pub(crate) recent: RecentObjects,
}

struct LockedState {
    store: Store<StorageKey>,
    /// Notifies the watches of a table.
    changes: BTreeMap<StorageKey, Arc<Changes>>,
}

/// A committed change, and the watches of its table to notify.
type MadeChange = (Arc<StoreEvent>, Option<Arc<Changes>>);

impl LockedState {
    /// Applies a change, and records it in the data file while the lock still orders the commits. Returns the watches to notify too.
    fn commit<E>(
        &mut self,
        journal: Option<&CommitJournal>,
        storage: &StorageKey,
        key: &Key,
        expected: Option<u64>,
        change: Change,
    ) -> Result<MadeChange, Refused<E>> {
        let committed = self.store.commit(storage, key, expected, change, Instant::now());
        let event = committed.map_err(|_| Refused::Conflict)?;
        if let Some(journal) = journal {
            journal.record(storage, key, event.revision, event.after.clone());
        }
        Ok((event, self.changes.get(storage).cloned()))
    }
}

/// Change of another object that a commit makes together with its own change, such as the usage of a quota.
#[derive(Debug)]
pub(crate) struct SideChange {
    pub(crate) storage: StorageKey,
    pub(crate) key: Key,
    /// New state of the object.
    pub(crate) object: Document,
}

/// Reason why a commit was refused.
#[derive(Debug)]
pub(crate) enum Refused<E> {
    /// The object changed meanwhile: read it again.
    Conflict,
    /// The guard refused.
    Because(E),
}

impl ClusterState {
    pub(crate) fn new(
        seed: u64,
        clock: Clock,
        registry: Registry,
        InitialState { mut store, journal, forked }: InitialState,
        observers: Vec<Box<dyn CommitObserver>>,
        webhooks: WebhookClient,
        services: Arc<Services>,
    ) -> Self {
        for storage in registry.tables() {
            store.open(storage);
        }
        let forked = forked.unwrap_or_else(|| Forked {
            // A restored server must not generate the UIDs of existing objects again.
            random: fastrand::Rng::with_seed(seed ^ (store.revision() - 1).wrapping_mul(SPREAD)),
            audit_ids: fastrand::Rng::with_seed(seed ^ SPREAD),
            registry: Arc::new(registry),
            registry_since: clock.now().as_second(),
            registry_version: 1,
        });
        Self {
            address: RwLock::new(DEFAULT_ADDRESS),
            authority: RwLock::new(None),
            random: Mutex::new(forked.random),
            audit_ids: Mutex::new(forked.audit_ids),
            committed: Commits::new(store.revision()),
            tap: OnceLock::new(),
            observers,
            closed: watch::Sender::new(false),
            state: Mutex::new(LockedState { store, changes: BTreeMap::new() }),
            registry_since: AtomicI64::new(forked.registry_since),
            registry: RwLock::new(forked.registry),
            registry_version: AtomicU64::new(forked.registry_version),
            clock,
            journal,
            webhooks,
            metrics: Metrics::default(),
            services,
            recent: RecentObjects::default(),
        }
    }

    /// Returns the published address.
    pub(crate) fn address(&self) -> SocketAddr {
        *self.address.read()
    }

    /// Sets the published address.
    pub(crate) fn set_address(&self, address: SocketAddr) {
        *self.address.write() = address;
    }

    /// Returns the certificate authority of the last TLS listener, as PEM.
    pub(crate) fn authority(&self) -> Option<Arc<str>> {
        self.authority.read().clone()
    }

    /// Sets the published certificate authority.
    pub(crate) fn set_authority(&self, authority: &str) {
        *self.authority.write() = Some(Arc::from(authority));
    }

    /// Reads the store under its lock. `read` must be short.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&Store<StorageKey>) -> R) -> R {
        read(&self.state.lock().store)
    }

    /// Creates a table before its first commit, so that it can be watched.
    pub(crate) fn open(&self, storage: &StorageKey) {
        self.state.lock().store.open(storage);
    }

    /// Removes a table. Its watches read the rest of its history, and end.
    pub(crate) fn close(&self, storage: &StorageKey) {
        let changes = {
            let mut state = self.state.lock();
            let closed = state.store.close(storage).map(Arc::new);
            let changes = state.changes.remove(storage);
            if let Some(changes) = &changes {
                // Closed under the lock, so that a watch that finds the table removed also finds its history.
                changes.close(closed);
            }
            changes
        };
        if let Some(changes) = changes {
            changes.notify();
        }
    }

    /// Compacts up to `revision`, at most the current one; returns the compacted revision.
    pub(crate) fn compact(&self, revision: u64) -> u64 {
        self.state.lock().store.compact(revision)
    }

    /// Wakes the watches of a table.
    pub(crate) fn wake(&self, storage: &StorageKey) {
        let changes = self.state.lock().changes.get(storage).cloned();
        if let Some(changes) = changes {
            changes.notify();
        }
    }

    /// Drops the history of a table and wakes its watches; returns whether the table exists.
    pub(crate) fn evict(&self, storage: &StorageKey) -> bool {
        let known = self.state.lock().store.evict(storage);
        self.wake(storage);
        known
    }

    /// Returns the changes of a table after the revision `seen`, and the revision up to which the table was read. `Expired` if `seen` is
    /// `None`, or the history no longer reaches back to it. For controllers that follow a table.
    pub(crate) fn events_since(
        &self,
        storage: &StorageKey,
        seen: Option<u64>,
    ) -> (Result<Vec<Arc<StoreEvent>>, Expired>, u64) {
        let (mut all, mut seen) = (Vec::new(), seen);
        loop {
            // Read in portions, so that requests get the lock in between.
            let (events, revision) = self.read(|store| {
                let events =
                    seen.map_or(Err(Expired), |seen| store.events_after(storage, seen, EVENTS_AT_ONCE));
                (events, Store::revision(store))
            });
            match events {
                Err(Expired) => return (Err(Expired), revision),
                Ok(events) if events.is_empty() => return (Ok(all), revision),
                Ok(events) => {
                    seen = events.last().map(|event| event.revision);
                    all.extend(events);
                }
            }
        }
    }

    /// Applies a change if the object still has the revision `expected` and `guard` allows it; both are checked under the lock. Then
    /// watches, controllers, the tap and observers are notified, in this order.
    pub(crate) fn commit<E>(
        &self,
        storage: &StorageKey,
        key: &Key,
        expected: Option<u64>,
        change: Change,
        guard: impl FnOnce(&Store<StorageKey>) -> Result<(), E>,
    ) -> Result<Arc<StoreEvent>, Refused<E>> {
        self.commit_with(storage, key, expected, change, |store| guard(store).map(|()| Vec::new()))
    }

    /// Like [`commit`](Self::commit), without a guard.
    pub(crate) fn commit_unguarded(
        &self,
        storage: &StorageKey,
        key: &Key,
        expected: Option<u64>,
        change: Change,
    ) -> Result<Arc<StoreEvent>, Refused<Infallible>> {
        self.commit(storage, key, expected, change, |_| Ok(()))
    }

    /// Like [`commit`](Self::commit), but `guard` also returns changes of other objects. They are made before this change; if it is
    /// refused, none is made.
    pub(crate) fn commit_with<E>(
        &self,
        storage: &StorageKey,
        key: &Key,
        expected: Option<u64>,
        change: Change,
        guard: impl FnOnce(&Store<StorageKey>) -> Result<Vec<SideChange>, E>,
    ) -> Result<Arc<StoreEvent>, Refused<E>> {
        // Committed changes of other objects, with the watches to notify.
        let mut made: Vec<(StorageKey, Arc<StoreEvent>, Option<Arc<Changes>>)> = Vec::new();
        let (event, changes) = {
            let mut state = self.state.lock();
            // Under the lock, so that no other commit comes between this check and the change.
            let sides = guard(&state.store).map_err(Refused::Because)?;
            if !sides.is_empty() {
                // Checked first, because the commit below must not fail after the other changes were made.
                let revision = state.store.get(storage, key).map(|stored| stored.revision);
                let is_open = |storage: &StorageKey| state.store.id(storage).is_some();
                let all_open = is_open(storage) && sides.iter().all(|side| is_open(&side.storage));
                if !all_open || revision != expected {
                    return Err(Refused::Conflict);
                }
            }
            for SideChange { storage, key, object } in sides {
                let expected = state.store.get(&storage, &key).map(|stored| stored.revision);
                let (event, changes) =
                    state.commit(self.journal.as_ref(), &storage, &key, expected, Change::Put(object))?;
                made.push((storage, event, changes));
            }
            state.commit(self.journal.as_ref(), storage, key, expected, change)?
        };
        // Watches are notified without the lock, because each takes it as soon as it wakes.
        for changes in made.iter().filter_map(|(_, _, changes)| changes.as_ref()).chain(&changes) {
            changes.notify();
        }
        // Commits may be published out of order.
        self.committed.publish(event.revision);
        if let Some(tap) = self.tap.get() {
            made.iter().for_each(|(storage, event, _)| tap(&Commit::new(storage, event)));
            tap(&Commit::new(storage, &event));
        }
        for observer in &self.observers {
            made.iter().for_each(|(storage, event, _)| observer.committed(self, storage, &event.key));
            observer.committed(self, storage, key);
        }
        Ok(event)
    }

    /// Stops the garbage collector and the protection of volumes until they are released.
    pub(crate) fn hold_controllers(&self) {
        self.committed.hold();
    }

    /// Lets held controllers act again.
    pub(crate) fn release_controllers(&self) {
        self.committed.release();
    }

    /// Sets the function that receives each commit from now on. Returns `false` if there is one already.
    pub(crate) fn set_tap(&self, tap: Tap) -> bool {
        self.tap.set(tap).is_ok()
    }

    /// Subscribes to the commits of a table.
    pub(crate) fn changes(&self, storage: &StorageKey) -> Subscription {
        let mut state = self.state.lock();
        state.changes.entry(storage.clone()).or_insert_with(Changes::new).subscribe()
    }

    /// Like [`changes`](Self::changes), for the watch of a client.
    pub(crate) fn watch(&self, storage: &StorageKey) -> Subscription {
        self.state.lock().changes.entry(storage.clone()).or_insert_with(Changes::new).watch()
    }

    /// Whether a client watches the table.
    pub(crate) fn is_watched(&self, storage: &StorageKey) -> bool {
        let changes = self.state.lock().changes.get(storage).cloned();
        changes.is_some_and(|changes| changes.is_watched())
    }

    /// Subscribes to the commits of all tables.
    pub(crate) fn commits(&self) -> CommitsSubscription {
        self.committed.subscribe()
    }
}

#[cfg(test)]
mod tests;
