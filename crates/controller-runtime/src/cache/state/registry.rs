//! The informers of a manager: which share a watch, and the task that runs them.

use std::{
    any::TypeId,
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use kube::core::ApiResource;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tracing::Instrument;

use super::{
    informer::{AnyInformer, Informer},
    tombstones::DeletionReplay,
};
use crate::{
    cache::{
        objects::{object_codec::Retention, stats::ResourceStats},
        query::{
            Query,
            options::{CacheOptions, CacheSelection},
            other_cluster::OtherCluster,
        },
        watch::{
            shared_watch::{SharedWatch, SubscriberId},
            subscriber::{ChangeObserver, WatchSubscriber},
        },
    },
    object::{DynamicKind, Object, StaticObject},
    ordered_watch,
    rights::{self, CodeLine, Declaration, DeclarationLog, Needed, ScopeOf},
};

/// The informers of a manager.
pub(crate) struct Cache {
    /// The cluster, if it is not the manager's own.
    cluster: Option<OtherCluster>,
    shared: Arc<WatchRegistry>,
    options: CacheOptions,
    /// Storage of kinds without an own option; they share one budget.
    retention: Retention,
    /// Storage of kinds with an own option, by Rust type. All caches of a type share a budget.
    of_kinds: Mutex<BTreeMap<TypeId, Retention>>,
    replay: DeletionReplay,
    /// Rights that the operator needs in this cluster.
    declarations: Arc<DeclarationLog>,
    observer: Option<Arc<dyn ChangeObserver>>,
}

#[derive(Default)]
pub(in crate::cache) struct WatchRegistry {
    entries: Mutex<RegisteredWatches>,
    /// Number of shared watches added, which wakes the task that runs them.
    added: ordered_watch::Sender<u64>,
}

#[derive(Default)]
struct RegisteredWatches {
    /// Shared watches by number, in the order of creation.
    watches: BTreeMap<u64, RegisteredWatch>,
    /// Number of the last shared watch.
    last_number: u64,
    /// Default queries, at most one per resource.
    defaults: Vec<Query>,
}

/// A shared watch and its informers.
struct RegisteredWatch {
    watch: Arc<SharedWatch>,
    /// Informers by Rust type, at most one per type.
    informers: Vec<(TypeId, Weak<dyn AnyInformer>)>,
    /// Whether [`Cache::run`] has started the watch.
    running: bool,
}

/// Registration of an informer at its shared watch. Dropping the last one removes the shared watch.
pub(crate) struct WatchRegistration {
    shared: Weak<WatchRegistry>,
    watch: Arc<SharedWatch>,
    /// Number of the shared watch.
    entry: u64,
    id: SubscriberId,
}

impl WatchRegistration {
    /// Returns how long the API server has sent nothing to the shared watch.
    pub(in crate::cache) fn silence(&self) -> Option<Duration> {
        self.watch.silence()
    }
}

impl Drop for WatchRegistration {
    fn drop(&mut self) {
        let shared = self.shared.upgrade();
        // Under the lock, so that no informer joins a shared watch that is being removed.
        let mut entries = shared.as_ref().map(|shared| shared.entries.lock());
        if self.watch.leave(self.id)
            && let Some(entries) = &mut entries
        {
            entries.watches.remove(&self.entry);
        }
    }
}

impl Cache {
    /// Creates the caches of a manager.
    pub(crate) fn new(options: CacheOptions, replay: DeletionReplay) -> Self {
        let retention = Retention::of(options.default_retain());
        let (shared, of_kinds) = (Arc::default(), Mutex::default());
        let (declarations, observer) = (Arc::default(), None);
        Self { cluster: None, shared, options, retention, of_kinds, replay, declarations, observer }
    }

    /// Like [`Cache::new`], for another cluster than the manager's own.
    pub(crate) fn of_cluster(cluster: OtherCluster, options: CacheOptions, replay: DeletionReplay) -> Self {
        Self { cluster: Some(cluster), ..Self::new(options, replay) }
    }

    /// The rights that the operator needs in this cluster.
    pub(crate) fn declarations(&self) -> &Arc<DeclarationLog> {
        &self.declarations
    }

    /// Records the rights to fill a cache.
    pub(crate) fn declare(&self, query: &Query, reason: &'static str, place: CodeLine) {
        for selected in query.selected() {
            let declaration = rights::cached(&query.resource, &selected, reason, place);
            self.declarations.record(declaration, &selected.scope);
        }
    }

    /// Returns the namespaces of the default cache of a kind.
    pub(crate) fn default_scope(&self, kind: &DynamicKind) -> ScopeOf {
        self.query_of(kind).scope()
    }

    /// Returns a right that the program declares, with its namespaces.
    pub(crate) fn needed(&self, needed: Needed) -> (Declaration, ScopeOf) {
        let (declaration, kind) = needed.into_parts();
        let fixed = || ScopeOf::Fixed(declaration.right.scope.clone());
        let scope = kind.map_or_else(fixed, |kind| self.default_scope(&kind));
        (declaration, scope)
    }

    /// Notifies `observer` of changed objects.
    pub(crate) fn observed_by(self, observer: Arc<dyn ChangeObserver>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// The name of the cluster, if it is not the manager's own.
    pub(crate) fn cluster_name(&self) -> Option<String> {
        Some(self.cluster.as_ref()?.name().to_string())
    }

    fn is_removed(&self) -> bool {
        self.cluster.as_ref().is_some_and(OtherCluster::is_removed)
    }

    fn retention_of<K: Object>(&self) -> Retention {
        let Some(retain) = self.options.retain_of::<K>() else { return self.retention.clone() };
        self.of_kinds.lock().entry(TypeId::of::<K>()).or_insert_with(|| Retention::of(retain)).clone()
    }

    /// Returns the objects of `query` as type `K`. The informer is shared as long as any handle exists.
    pub(in crate::cache) fn informer<K: Object>(
        &self,
        info: &K::DynamicType,
        query: Query,
    ) -> Arc<Informer<K>> {
        let type_id = TypeId::of::<K>();
        let mut entries = self.shared.entries.lock();
        let RegisteredWatches { watches, last_number, .. } = &mut *entries;
        let known = watches.iter().find(|(_, entry)| entry.watch.query == query).map(|(id, _)| *id);
        let id = known.unwrap_or_else(|| {
            let entry = RegisteredWatch {
                watch: Arc::new(SharedWatch::new(query, self.observer.clone())),
                informers: Vec::new(),
                running: false,
            };
            *last_number += 1;
            watches.insert(*last_number, entry);
            *last_number
        });
        let entry = watches.get_mut(&id).expect("it was found or inserted");
        let found = entry.informers.iter().find(|(known, _)| *known == type_id);
        // The upgrade fails if the last handle is being dropped, which waits for this lock. A new informer
        // then takes the place of the old one.
        if let Some(informer) = found.and_then(|(_, informer)| informer.upgrade()) {
            drop(entries);
            return informer.as_any().downcast().expect("the informer of a type id is of that type");
        }
        let query = entry.watch.query.clone();
        let ingest_options = self.options.ingest_options_of::<K>(&query);
        let (retention, resync) = (self.retention_of::<K>(), self.options.resync_of::<K>());
        let informer =
            Arc::new(Informer::<K>::new(info, query, retention, ingest_options, resync, self.replay));
        let any: Arc<dyn AnyInformer> = Arc::clone(&informer) as _;
        entry.informers.retain(|(known, _)| *known != type_id);
        entry.informers.push((type_id, Arc::downgrade(&any)));
        let subscriber: Arc<dyn WatchSubscriber> = Arc::clone(&informer) as _;
        informer.set_registration(WatchRegistration {
            shared: Arc::downgrade(&self.shared),
            watch: Arc::clone(&entry.watch),
            entry: id,
            id: entry.watch.join(Arc::downgrade(&subscriber), subscriber.extent()),
        });
        drop(entries);
        // After unlocking, because the woken task takes the lock.
        self.shared.added.send_modify(|count| *count += 1);
        // Checked after the informer has joined, because a removal from now on finds it and removes its objects.
        if self.is_removed() {
            subscriber.closed();
        }
        informer
    }

    /// Whether kind `K` is cached, as any Rust type.
    pub(in crate::cache) fn is_declared<K: StaticObject>(&self) -> bool {
        self.is_read(&self.query_of(&DynamicKind::of::<K>()), |_| true)
    }

    /// Whether the kind is cached as this type.
    pub(crate) fn is_read_as<K: Object>(&self, kind: &DynamicKind) -> bool {
        self.is_read(&self.query_of(kind), |type_id| type_id == TypeId::of::<K>())
    }

    /// Whether an informer with this query and a Rust type that satisfies `by` exists.
    pub(in crate::cache) fn is_read(&self, query: &Query, by: impl Fn(TypeId) -> bool) -> bool {
        let entries = self.shared.entries.lock();
        let watches = entries.watches.values().filter(|entry| entry.watch.query == *query);
        let mut informers = watches.flat_map(|entry| &entry.informers);
        informers.any(|(type_id, informer)| by(*type_id) && informer.strong_count() > 0)
    }

    /// Returns the default query of a kind, or the query that the options of the manager give it.
    pub(in crate::cache) fn query_of(&self, kind: &DynamicKind) -> Query {
        let defaults = &self.shared.entries.lock().defaults;
        let known = defaults.iter().find(|query| query.resource == kind.resource).cloned();
        known.unwrap_or_else(|| self.query(kind, &CacheSelection::default()))
    }

    /// Makes `query` the default of its resource; `false` if there is another default.
    pub(in crate::cache) fn set_default(&self, query: &Query) -> bool {
        let mut entries = self.shared.entries.lock();
        if let Some(known) = entries.defaults.iter().find(|known| known.resource == query.resource) {
            return known == query;
        }
        entries.defaults.push(query.clone());
        true
    }

    /// Returns the query of a cache of a kind with the options `own`.
    pub(in crate::cache) fn query(&self, kind: &DynamicKind, own: &CacheSelection) -> Query {
        Query { cluster: self.cluster.clone(), ..self.options.query(kind, own) }
    }

    /// Returns all informers with a handle.
    pub(crate) fn informers(&self) -> Vec<Arc<dyn AnyInformer>> {
        let entries = self.shared.entries.lock();
        let weak: Vec<_> =
            entries.watches.values().flat_map(|entry| entry.informers.iter().cloned()).collect();
        drop(entries);
        // Upgraded after unlocking, because dropping the last handle of an informer takes the lock.
        weak.iter().filter_map(|(_, informer)| informer.upgrade()).collect()
    }

    /// Returns the kind of this resource, in any version, if a cache of it is in use.
    pub(crate) fn cached_resource(&self, group: &str, plural: &str) -> Option<ApiResource> {
        let entries = self.shared.entries.lock();
        let mut resources = entries.watches.values().map(|entry| &entry.watch.query.resource);
        resources.find(|resource| resource.group == group && resource.plural == plural).cloned()
    }

    /// Returns the statistics of all caches, by resource and selection. Text that several Rust types share counts once.
    pub(crate) fn resource_stats(&self) -> BTreeMap<String, ResourceStats> {
        let mut all: BTreeMap<String, ResourceStats> = BTreeMap::new();
        for informer in self.informers() {
            let stats = all.entry(informer.resource()).or_default();
            stats.stats.add(&informer.stats());
            stats.silence = stats.silence.max(informer.silence());
        }
        all
    }

    /// Calls `visit` with each shared watch of the resource, in any API version, and its informers.
    pub(in crate::cache) fn for_each_watch_of(
        &self,
        resource: &ApiResource,
        mut visit: impl FnMut(&SharedWatch, &[Arc<dyn AnyInformer>]),
    ) {
        let is_same = |other: &ApiResource| other.group == resource.group && other.plural == resource.plural;
        let entries = self.shared.entries.lock();
        let of = entries.watches.values().filter(|entry| is_same(&entry.watch.query.resource));
        let found: Vec<_> = of.map(|entry| (Arc::clone(&entry.watch), entry.informers.clone())).collect();
        drop(entries);
        // The lock is released: an informer takes it if its last handle is dropped here.
        for (watch, informers) in found {
            let informers: Vec<_> = informers.iter().filter_map(|(_, informer)| informer.upgrade()).collect();
            visit(&watch, &informers);
        }
    }

    /// Returns all shared watches. The lock is released, because a subscriber that is dropped takes it.
    fn watches(&self) -> Vec<Arc<SharedWatch>> {
        self.shared.entries.lock().watches.values().map(|entry| Arc::clone(&entry.watch)).collect()
    }

    /// Removes all objects from the caches of a cluster that was removed, while no list or watch runs.
    pub(crate) async fn withdraw(&self) {
        for watch in self.watches() {
            watch.withdraw().await;
        }
    }

    /// Runs all shared watches, including later ones, until the returned future is dropped, or until the cluster was
    /// removed and all its watches have ended.
    pub(crate) async fn run(&self, client: kube::Client, mut rng: fastrand::Rng) {
        let mut added = self.shared.added.subscribe();
        let mut tasks = JoinSet::new();
        let _stopped = MarkWatchesStopped(&self.shared);
        // Failures of an earlier run are cleared before the manager checks whether its caches are synced.
        for watch in self.watches() {
            watch.for_each(|subscriber| subscriber.restarted());
        }
        loop {
            for entry in self.shared.entries.lock().watches.values_mut().filter(|entry| !entry.running) {
                entry.running = true;
                let watch = Arc::clone(&entry.watch).run(client.clone(), rng.fork());
                tasks.spawn(watch.in_current_span());
            }
            if self.is_removed() && tasks.is_empty() {
                return;
            }
            tokio::select! {
                // The removal of the cluster is checked first, so that no watch starts after it. The running watches
                // notice the removal and end by themselves.
                biased;
                () = OtherCluster::removal_of(self.cluster.as_ref()), if !self.is_removed() => {}
                changed = added.changed() => {
                    let _ = changed; // never an error: the sender is in `self`
                }
                Some(end) = tasks.join_next() => if let Err(error) = end && let Ok(panic) = error.try_into_panic() {
                    std::panic::resume_unwind(panic);
                },
            }
        }
    }
}

/// Marks all shared watches as not running, so that another run starts them.
struct MarkWatchesStopped<'s>(&'s WatchRegistry);

impl Drop for MarkWatchesStopped<'_> {
    fn drop(&mut self) {
        for entry in self.0.entries.lock().watches.values_mut() {
            entry.running = false;
        }
    }
}
