//! What all requests share: the store behind its one lock, the served resources, the clock, the source of randomness.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Profile;
use super::changes::{Changes, Subscription};
use super::intake::Intake;
use crate::admission::Admission;
use crate::authentication::{Authenticator, Found, Objects};
use crate::clock::Clock;
use crate::faults::Injector;
use crate::flow_control::FlowControl;
use crate::persistence::Journal;
use crate::registry::Registry;
use crate::resource::StorageKey;
use crate::status::ApiError;
use crate::store::{Change, Event, Key, Store};

/// Spreads revisions over seeds: the golden ratio, as in splitmix64.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Where a server says it is that does not listen: a client in process has no other address for it.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 6443);

/// The server without its listeners and controllers.
pub(crate) struct Server {
    pub(crate) profile: Profile,
    pub(crate) clock: Clock,
    pub(crate) authenticator: Authenticator,
    /// Who has a say in writes.
    pub(crate) admission: Admission,
    /// What goes wrong on purpose.
    pub(crate) injector: Injector,
    /// Where requests belong.
    pub(crate) flow_control: FlowControl,
    /// Where clients are told that the server is.
    address: RwLock<SocketAddr>,
    /// Whom clients are told to trust there.
    authority: RwLock<Option<Arc<str>>>,
    random: Mutex<fastrand::Rng>,
    /// Apart from `random`, so that reads do not change which uids objects get.
    audit_ids: Mutex<fastrand::Rng>,
    state: Mutex<State>,
    registry: RwLock<Arc<Registry>>,
    /// The second from which on the registry has been what it is.
    registry_since: AtomicI64,
    /// Goes up with each registry; 0 is before the first.
    registry_version: AtomicU64,
    /// The revision of the last commit to any table: what controllers wait for.
    committed: watch::Sender<u64>,
    /// Becomes true when nobody can reach the server any more: watches end.
    pub(crate) closed: watch::Sender<bool>,
    /// Held while definitions are turned into the registry, so that this happens in one order.
    pub(crate) definitions: Mutex<()>,
    /// Where commits are kept, if they are.
    journal: Option<Journal>,
    /// What reads the bodies of requests.
    pub(super) intake: Intake,
}

/// What a server holds when it starts.
pub(crate) struct Contents {
    pub(crate) store: Store<StorageKey>,
    /// Where commits are kept, if they are.
    pub(crate) journal: Option<Journal>,
}

struct State {
    store: Store<StorageKey>,
    /// What the watchers of a table are told by.
    changes: BTreeMap<StorageKey, Arc<Changes>>,
}

/// Why a commit did not happen.
#[derive(Debug)]
pub(crate) enum Refused<E> {
    /// The object changed meanwhile: read it again.
    Conflict,
    /// The guard said so.
    Because(E),
}

impl Server {
    pub(crate) fn new(
        profile: Profile,
        seed: u64,
        clock: Clock,
        authenticator: Authenticator,
        admission: Admission,
        registry: Registry,
        Contents { mut store, journal }: Contents,
    ) -> Self {
        for storage in registry.tables() {
            store.open(storage);
        }
        let mut changes = BTreeMap::new();
        let flow_control =
            FlowControl::new(|table| changes.entry(table).or_insert_with(Changes::new).subscribe());
        Self {
            profile,
            authenticator,
            admission,
            injector: Injector::new(seed),
            flow_control,
            address: RwLock::new(NOWHERE),
            authority: RwLock::new(None),
            // A restored server must not draw the uids again that its objects have.
            random: Mutex::new(fastrand::Rng::with_seed(seed ^ (store.revision() - 1).wrapping_mul(SPREAD))),
            audit_ids: Mutex::new(fastrand::Rng::with_seed(seed ^ SPREAD)),
            committed: watch::Sender::new(store.revision()),
            closed: watch::Sender::new(false),
            state: Mutex::new(State { store, changes }),
            registry_since: AtomicI64::new(clock.now().as_second()),
            registry: RwLock::new(Arc::new(registry)),
            registry_version: AtomicU64::new(1),
            definitions: Mutex::new(()),
            clock,
            journal,
            intake: Intake::default(),
        }
    }

    /// Where the server is, as far as it knows.
    pub(crate) fn address(&self) -> SocketAddr {
        *self.address.read()
    }

    /// From now on the server is here.
    pub(crate) fn set_address(&self, address: SocketAddr) {
        *self.address.write() = address;
    }

    /// The certificate, as PEM, that clients over TLS have to trust; `None` if nobody listens with TLS.
    pub(crate) fn authority(&self) -> Option<Arc<str>> {
        self.authority.read().clone()
    }

    /// From now on it is this one.
    pub(crate) fn set_authority(&self, authority: &str) {
        *self.authority.write() = Some(Arc::from(authority));
    }

    /// The resources served now.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.read())
    }

    /// Since when those have been served.
    pub(crate) fn registry_since(&self) -> Timestamp {
        Timestamp::from_second(self.registry_since.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// Identifies what [`registry`](Self::registry) gives: ask first for this, then for that.
    pub(crate) fn registry_version(&self) -> u64 {
        self.registry_version.load(Ordering::Acquire)
    }

    /// Serves other resources from now on; watchers of `affected` tables look again at what they watch.
    pub(crate) fn set_registry(&self, registry: Registry, affected: &[StorageKey]) {
        *self.registry.write() = Arc::new(registry);
        self.registry_since.store(self.clock.now().as_second(), Ordering::Relaxed);
        self.registry_version.fetch_add(1, Ordering::Release);
        let affected: Vec<_> = {
            let state = self.state.lock();
            affected.iter().filter_map(|storage| state.changes.get(storage).cloned()).collect()
        };
        affected.iter().for_each(|changes| changes.notify());
    }

    /// Reads under the lock: keep it short.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&Store<StorageKey>) -> R) -> R {
        read(&self.state.lock().store)
    }

    /// Makes a table known before its first commit, so that it can be watched.
    pub(crate) fn open(&self, storage: &StorageKey) {
        self.state.lock().store.open(storage);
    }

    /// Forgets a table. Its watchers read to the end what happened in it, and end.
    pub(crate) fn close(&self, storage: &StorageKey) {
        let changes = {
            let mut state = self.state.lock();
            let closed = state.store.close(storage).map(Arc::new);
            let changes = state.changes.remove(storage);
            if let Some(changes) = &changes {
                // Under the lock, so that whoever finds the table gone finds its history here.
                changes.close(closed);
            }
            changes
        };
        if let Some(changes) = changes {
            changes.notify();
        }
    }

    /// Expires what is older than `revision`, or the present one; returns which.
    pub(crate) fn compact(&self, revision: u64) -> u64 {
        self.state.lock().store.compact(revision)
    }

    /// Has the watchers of a table look around.
    pub(crate) fn wake(&self, storage: &StorageKey) {
        let changes = self.state.lock().changes.get(storage).cloned();
        if let Some(changes) = changes {
            changes.notify();
        }
    }

    /// Forgets the history of a table and wakes its watchers; whether there is such a table.
    pub(crate) fn evict(&self, storage: &StorageKey) -> bool {
        let known = self.state.lock().store.evict(storage);
        self.wake(storage);
        known
    }

    /// Applies a change if the object's revision is still `expected` and `guard` agrees, both under the lock.
    pub(crate) fn commit<E>(
        &self,
        storage: &StorageKey,
        key: &Key,
        expected: Option<u64>,
        change: Change,
        guard: impl FnOnce(&Store<StorageKey>) -> Result<(), E>,
    ) -> Result<Arc<Event>, Refused<E>> {
        let (event, changes) = {
            let mut state = self.state.lock();
            guard(&state.store).map_err(Refused::Because)?;
            let committed = state.store.commit(storage, key, expected, change, Instant::now());
            let event = committed.map_err(|_| Refused::Conflict)?;
            if let Some(journal) = &self.journal {
                // Under the lock, which gives commits their order.
                journal.record(storage, key, event.revision, event.after.clone());
            }
            (event, state.changes.get(storage).cloned())
        };
        // Woken outside of the lock: the first thing a watcher does is to take it.
        if let Some(changes) = changes {
            changes.notify();
        }
        self.publish(event.revision);
        Ok(event)
    }

    /// Whether the server has a data file.
    pub(crate) fn is_kept(&self) -> bool {
        self.journal.is_some()
    }

    /// Waits until what was committed up to `revision` outlives the process, if the server has a data file. Whoever is told of
    /// a revision is told after this.
    ///
    /// # Errors
    /// 500 that names the file, if it cannot be written.
    pub(crate) async fn kept(&self, revision: u64) -> Result<(), ApiError> {
        match &self.journal {
            Some(journal) => journal.kept(revision).await,
            None => Ok(()),
        }
    }

    /// The same for all that was committed until now.
    ///
    /// # Errors
    /// Those of [`kept`](Self::kept).
    pub(crate) async fn all_kept(&self) -> Result<(), ApiError> {
        match &self.journal {
            Some(journal) => journal.kept(self.read(Store::revision)).await,
            None => Ok(()),
        }
    }

    /// Refuses while the data file cannot be written, of which it makes sure.
    ///
    /// # Errors
    /// 500 that names the file.
    pub(crate) async fn writable(&self) -> Result<(), ApiError> {
        match &self.journal {
            Some(journal) => journal.writable().await,
            None => Ok(()),
        }
    }

    /// Tells who waits for it that this revision is committed. Commits may arrive here in another order than they were
    /// made.
    fn publish(&self, revision: u64) {
        self.committed.send_if_modified(|latest| {
            let later = revision > *latest;
            *latest = revision.max(*latest);
            later
        });
    }

    /// Whether the last attempt to write to the data file worked, or there is none.
    pub(crate) fn is_writable(&self) -> bool {
        self.journal.as_ref().is_none_or(Journal::is_writable)
    }

    /// Tells of each commit to the table.
    pub(crate) fn changes(&self, storage: &StorageKey) -> Subscription {
        let mut state = self.state.lock();
        state.changes.entry(storage.clone()).or_insert_with(Changes::new).subscribe()
    }

    /// Becomes ready after each commit to any table.
    pub(crate) fn commits(&self) -> watch::Receiver<u64> {
        self.committed.subscribe()
    }

    /// A fresh `metadata.uid`.
    pub(crate) fn uid(&self) -> String {
        uuid(&mut self.random.lock())
    }

    /// A name for a request that has none.
    pub(crate) fn audit_id(&self) -> String {
        uuid(&mut self.audit_ids.lock())
    }

    /// The five characters that `generateName` appends.
    pub(crate) fn name_suffix(&self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut random = self.random.lock();
        (0..5).map(|_| char::from(ALPHABET[random.usize(..ALPHABET.len())])).collect()
    }

    /// A number below `bound`, which must be positive.
    pub(crate) fn random_below(&self, bound: u64) -> u64 {
        self.random.lock().u64(..bound)
    }
}

impl Objects for Server {
    fn find(&self, plural: &str, namespace: &str, name: &str) -> Option<Found> {
        let served = self.registry().get("", "v1", plural).cloned()?;
        let stored = self.read(|store| store.get(served.storage(), &Key::new(namespace, name)).cloned())?;
        let object = served.value(&stored);
        let text = |field: &str| object["metadata"][field].as_str();
        Some(Found {
            uid: text("uid").unwrap_or_default().to_owned(),
            deleted: text("deletionTimestamp").and_then(|time| time.parse().ok()),
        })
    }
}

fn uuid(random: &mut fastrand::Rng) -> String {
    uuid::Builder::from_random_bytes(random.u128(..).to_be_bytes()).into_uuid().to_string()
}

#[cfg(test)]
mod tests {
    use crate::testing;

    #[tokio::test]
    async fn a_published_revision_never_goes_back() {
        let server = testing::server();
        let mut commits = server.commits();
        let later = *commits.borrow() + 20;
        server.publish(later);
        assert_eq!(*commits.borrow_and_update(), later);
        server.publish(later - 10);
        assert_eq!(*commits.borrow(), later);
        assert!(!commits.has_changed().unwrap(), "an older revision is no news");
    }
}
