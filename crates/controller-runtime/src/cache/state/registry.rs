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

use super::informer::{AnyInformer, Informer};
use crate::{
    cache::{
        objects::{shelf::Holding, stats::ResourceStats},
        query::{
            Query,
            options::{OfCache, Options},
            other_cluster::OtherCluster,
        },
        watch::feed::{Feed, Sink, SinkId},
    },
    object::{DynamicKind, Object, StaticObject},
    ordered_watch,
};

/// The informers of a manager.
pub(crate) struct Cache {
    /// The cluster, if it is not the manager's own.
    cluster: Option<OtherCluster>,
    shared: Arc<Shared>,
    options: Options,
    /// Storage of kinds without an own option; they share one budget.
    holding: Holding,
    /// Storage of kinds with an own option, by Rust type. All caches of a type share a budget.
    of_kinds: Mutex<BTreeMap<TypeId, Holding>>,
    /// Whether deletions on standby are remembered for replay after election.
    remembers: bool,
}

#[derive(Default)]
pub(in crate::cache) struct Shared {
    entries: Mutex<Entries>,
    /// Number of feeds added, which wakes the task that runs them.
    came: ordered_watch::Sender<u64>,
}

#[derive(Default)]
struct Entries {
    /// By number, in the order of creation.
    feeds: BTreeMap<u64, Entry>,
    next: u64,
    /// Default queries, at most one per resource.
    defaults: Vec<Query>,
}

/// A feed and its informers.
struct Entry {
    feed: Arc<Feed>,
    /// By Rust type.
    informers: Vec<(TypeId, Weak<dyn AnyInformer>)>,
    running: bool,
}

/// Registration of an informer at its feed. Dropping the last one removes the feed.
pub(crate) struct Seat {
    shared: Weak<Shared>,
    feed: Arc<Feed>,
    entry: u64,
    id: SinkId,
}

impl Seat {
    /// Returns how long the API server has sent nothing to the feed.
    pub(in crate::cache) fn silence(&self) -> Option<Duration> {
        self.feed.silence()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let shared = self.shared.upgrade();
        // Under the lock, so that no informer joins a feed that is being removed.
        let mut entries = shared.as_ref().map(|shared| shared.entries.lock());
        if self.feed.leave(self.id)
            && let Some(entries) = &mut entries
        {
            entries.feeds.remove(&self.entry);
        }
    }
}

impl Cache {
    /// Creates the caches of a manager. `remembers`: controllers may start later, after an election, and receive
    /// earlier deletions then.
    pub(crate) fn new(options: Options, remembers: bool) -> Self {
        let holding = Holding::of(options.default_retain());
        let (shared, of_kinds) = (Arc::default(), Mutex::default());
        Self { cluster: None, shared, options, holding, of_kinds, remembers }
    }

    /// Like [`Cache::new`], for another cluster than the manager's own.
    pub(crate) fn of_cluster(cluster: OtherCluster, options: Options, remembers: bool) -> Self {
        Self { cluster: Some(cluster), ..Self::new(options, remembers) }
    }

    /// The name of the cluster, if it is not the manager's own.
    pub(crate) fn cluster_name(&self) -> Option<String> {
        Some(self.cluster.as_ref()?.name().to_string())
    }

    fn is_removed(&self) -> bool {
        self.cluster.as_ref().is_some_and(OtherCluster::is_removed)
    }

    fn holding_of<K: Object>(&self) -> Holding {
        let Some(retain) = self.options.retain_of::<K>() else { return self.holding.clone() };
        self.of_kinds.lock().entry(TypeId::of::<K>()).or_insert_with(|| Holding::of(retain)).clone()
    }

    /// Returns the objects of `query` as type `K`. The informer is shared as long as any handle exists.
    pub(in crate::cache) fn informer<K: Object>(
        &self,
        info: &K::DynamicType,
        query: Query,
    ) -> Arc<Informer<K>> {
        let type_id = TypeId::of::<K>();
        let mut entries = self.shared.entries.lock();
        let Entries { feeds, next, .. } = &mut *entries;
        let known = feeds.iter().find(|(_, entry)| entry.feed.query == query).map(|(id, _)| *id);
        let id = known.unwrap_or_else(|| {
            let entry = Entry { feed: Arc::new(Feed::new(query)), informers: Vec::new(), running: false };
            *next += 1;
            feeds.insert(*next, entry);
            *next
        });
        let entry = feeds.get_mut(&id).expect("it was found or inserted");
        let found = entry.informers.iter().find(|(known, _)| *known == type_id);
        if let Some(informer) = found.and_then(|(_, informer)| informer.upgrade()) {
            drop(entries);
            return informer.as_any().downcast().expect("the informer of a type id is of that type");
        }
        let query = entry.feed.query.clone();
        let intake = self.options.intake_of::<K>(&query);
        let (holding, resync) = (self.holding_of::<K>(), self.options.resync_of::<K>());
        let informer = Arc::new(Informer::<K>::new(info, query, holding, intake, resync, self.remembers));
        let any: Arc<dyn AnyInformer> = Arc::clone(&informer) as _;
        entry.informers.retain(|(known, _)| *known != type_id);
        entry.informers.push((type_id, Arc::downgrade(&any)));
        let sink: Arc<dyn Sink> = Arc::clone(&informer) as _;
        informer.sit(Seat {
            shared: Arc::downgrade(&self.shared),
            feed: Arc::clone(&entry.feed),
            entry: id,
            id: entry.feed.join(Arc::downgrade(&sink), sink.form()),
        });
        drop(entries);
        self.shared.came.send_modify(|count| *count += 1);
        // After it has joined: a removal that comes now finds it.
        if self.is_removed() {
            informer.close();
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

    pub(in crate::cache) fn is_read(&self, query: &Query, by: impl Fn(TypeId) -> bool) -> bool {
        let entries = self.shared.entries.lock();
        let feeds = entries.feeds.values().filter(|entry| entry.feed.query == *query);
        let mut informers = feeds.flat_map(|entry| &entry.informers);
        informers.any(|(type_id, informer)| by(*type_id) && informer.strong_count() > 0)
    }

    pub(in crate::cache) fn query_of(&self, kind: &DynamicKind) -> Query {
        let defaults = &self.shared.entries.lock().defaults;
        let known = defaults.iter().find(|query| query.resource == kind.resource).cloned();
        known.unwrap_or_else(|| self.query(kind, &OfCache::default()))
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
    pub(in crate::cache) fn query(&self, kind: &DynamicKind, own: &OfCache) -> Query {
        Query { cluster: self.cluster.clone(), ..self.options.query(kind, own) }
    }

    /// Returns all informers with a handle.
    pub(crate) fn informers(&self) -> Vec<Arc<dyn AnyInformer>> {
        let entries = self.shared.entries.lock();
        let weak: Vec<_> = entries.feeds.values().flat_map(|entry| entry.informers.iter().cloned()).collect();
        drop(entries);
        weak.iter().filter_map(|(_, informer)| informer.upgrade()).collect()
    }

    /// Returns the contents of all caches, by resource and selection. Text that several Rust types share counts once.
    pub(crate) fn look(&self) -> BTreeMap<String, ResourceStats> {
        let mut all: BTreeMap<String, ResourceStats> = BTreeMap::new();
        for informer in self.informers() {
            let look = all.entry(informer.resource()).or_default();
            look.stats.add(&informer.stats());
            look.silence = look.silence.max(informer.silence());
        }
        all
    }

    /// Calls `tell` with each feed of the resource, in any API version, and its informers.
    pub(in crate::cache) fn each_of(
        &self,
        resource: &ApiResource,
        mut tell: impl FnMut(&Feed, &[Arc<dyn AnyInformer>]),
    ) {
        let is_same = |other: &ApiResource| other.group == resource.group && other.plural == resource.plural;
        let entries = self.shared.entries.lock();
        let of = entries.feeds.values().filter(|entry| is_same(&entry.feed.query.resource));
        let found: Vec<_> = of.map(|entry| (Arc::clone(&entry.feed), entry.informers.clone())).collect();
        drop(entries);
        // The lock is released: an informer whose last handle is dropped here takes it.
        for (feed, informers) in found {
            let informers: Vec<_> = informers.iter().filter_map(|(_, informer)| informer.upgrade()).collect();
            tell(&feed, &informers);
        }
    }

    /// Returns all feeds. The lock is released, because a sink that is dropped takes it.
    fn feeds(&self) -> Vec<Arc<Feed>> {
        self.shared.entries.lock().feeds.values().map(|entry| Arc::clone(&entry.feed)).collect()
    }

    /// Removes all objects from the caches of a cluster that was removed, while no list or watch runs.
    pub(crate) async fn withdraw(&self) {
        for feed in self.feeds() {
            feed.withdraw().await;
        }
    }

    /// Runs all feeds, including later ones, until dropped, or until the cluster was removed and its caches are empty.
    pub(crate) async fn run(&self, client: kube::Client, mut rng: fastrand::Rng) {
        let mut came = self.shared.came.subscribe();
        let mut tasks = JoinSet::new();
        let _stopped = Stopped(&self.shared);
        // Before any check of whether they are synced.
        for feed in self.feeds() {
            feed.each(|sink| sink.begin_anew());
        }
        loop {
            for entry in self.shared.entries.lock().feeds.values_mut().filter(|entry| !entry.running) {
                entry.running = true;
                let feed = Arc::clone(&entry.feed).run(client.clone(), rng.fork());
                tasks.spawn(feed.in_current_span());
            }
            if self.is_removed() && tasks.is_empty() {
                return;
            }
            tokio::select! {
                // A removed cluster first: nothing more starts for it.
                biased;
                // The feeds end by themselves then.
                () = removed(self.cluster.as_ref()), if !self.is_removed() => {}
                changed = came.changed() => {
                    let _ = changed; // never an error: the sender is in `self`
                }
                Some(end) = tasks.join_next() => if let Err(error) = end && let Ok(panic) = error.try_into_panic() {
                    std::panic::resume_unwind(panic);
                },
            }
        }
    }
}

/// Waits until a cluster has been removed from its manager, whose own never is.
async fn removed(cluster: Option<&OtherCluster>) {
    match cluster.cloned() {
        Some(cluster) => cluster.removed().await,
        None => std::future::pending().await,
    }
}

/// Marks all feeds as not running, so that another run starts them.
struct Stopped<'s>(&'s Shared);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        for entry in self.0.entries.lock().feeds.values_mut() {
            entry.running = false;
        }
    }
}
