//! The informers of a manager: who shares which, and the task that runs them.

use std::{
    any::TypeId,
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use kube::core::ApiResource;
use parking_lot::Mutex;
use tokio::{sync::watch, task::JoinSet};
use tracing::Instrument;

use super::{
    Cached, LabelSelector, Options,
    feed::{Feed, Sink, SinkId},
    informer::{AnyInformer, Informer},
    options::OfCache,
    query::Query,
    shelf::Holding,
};
use crate::{
    client::DynamicKind,
    metrics::CacheLook,
    object::{Object, StaticObject},
};

/// The informers of a manager.
pub(crate) struct Cache {
    shared: Arc<Shared>,
    options: Options,
    /// How kinds are held that have no choice of their own.
    holding: Holding,
    /// How those are held that have one, by the Rust type: its caches share a budget.
    of_kinds: Mutex<BTreeMap<TypeId, Holding>>,
    /// Whether controllers are told of what went before they began.
    remembers: bool,
}

#[derive(Default)]
pub(super) struct Shared {
    entries: Mutex<Entries>,
    /// Counts the feeds that came, for the task that runs them.
    came: watch::Sender<u64>,
}

#[derive(Default)]
struct Entries {
    /// By a number that says the order in which they came.
    feeds: BTreeMap<u64, Entry>,
    next: u64,
    /// What is read of a resource unless somebody asks for something else.
    defaults: Vec<Query>,
}

struct Entry {
    feed: Arc<Feed>,
    /// By the Rust type.
    informers: Vec<(TypeId, Weak<dyn AnyInformer>)>,
    running: bool,
}

/// The place of an informer at its feed. The last one to give its place up takes the feed with it.
pub(crate) struct Seat {
    shared: Weak<Shared>,
    feed: Arc<Feed>,
    entry: u64,
    id: SinkId,
}

impl Seat {
    /// For how long the API server has said nothing to the feed.
    pub(super) fn silence(&self) -> Option<Duration> {
        self.feed.silence()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let shared = self.shared.upgrade();
        // Under the lock, so that nobody takes a place at a feed that is about to end.
        let mut entries = shared.as_ref().map(|shared| shared.entries.lock());
        if self.feed.leave(self.id)
            && let Some(entries) = &mut entries
        {
            entries.feeds.remove(&self.entry);
        }
    }
}

impl Cache {
    /// One whose controllers may begin late, when the process leads, `remembers` what went before that.
    pub(crate) fn new(options: Options, remembers: bool) -> Self {
        let holding = Holding::of(options.default_retain());
        Self { shared: Arc::default(), options, holding, of_kinds: Mutex::default(), remembers }
    }

    fn holding_of<K: Object>(&self) -> Holding {
        let Some(retain) = self.options.retain_of::<K>() else { return self.holding.clone() };
        self.of_kinds.lock().entry(TypeId::of::<K>()).or_insert_with(|| Holding::of(retain)).clone()
    }

    /// The objects of `query` as type `K`: the same informer as long as somebody holds it.
    pub(super) fn cached<K: Object>(&self, info: &K::DynamicType, query: Query) -> Cached<K> {
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
            return Cached::of(
                informer.as_any().downcast().expect("the informer of a type id is of that type"),
            );
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
        Cached::of(informer)
    }

    /// What is read of kind `K` unless somebody asks for something else.
    pub(crate) fn of_kind<K: StaticObject>(&self) -> Cached<K> {
        self.cached(&(), self.query_of(&DynamicKind::of::<K>()))
    }

    /// The same of any kind for who needs only objects with such labels: others are cached only if somebody reads them already.
    pub(crate) fn of_kind_with<K: Object>(
        &self,
        info: &K::DynamicType,
        kind: &DynamicKind,
        required: &LabelSelector,
    ) -> Cached<K> {
        let mut query = self.query_of(kind);
        if !self.is_read(&query, |_| true) {
            query = query.with_labels(required);
        }
        self.cached(info, query)
    }

    /// Whether somebody reads kind `K` already, as whatever Rust type.
    pub(super) fn is_declared<K: StaticObject>(&self) -> bool {
        self.is_read(&self.query_of(&DynamicKind::of::<K>()), |_| true)
    }

    /// Whether somebody reads the kind already, as this very type.
    pub(crate) fn is_read_as<K: Object>(&self, kind: &DynamicKind) -> bool {
        self.is_read(&self.query_of(kind), |type_id| type_id == TypeId::of::<K>())
    }

    fn is_read(&self, query: &Query, by: impl Fn(TypeId) -> bool) -> bool {
        let entries = self.shared.entries.lock();
        let feeds = entries.feeds.values().filter(|entry| entry.feed.query == *query);
        let mut informers = feeds.flat_map(|entry| &entry.informers);
        informers.any(|(type_id, informer)| by(*type_id) && informer.strong_count() > 0)
    }

    fn query_of(&self, kind: &DynamicKind) -> Query {
        let defaults = &self.shared.entries.lock().defaults;
        let known = defaults.iter().find(|query| query.resource == kind.resource).cloned();
        known.unwrap_or_else(|| self.query(kind, &OfCache::default()))
    }

    /// Makes `query` what is read of its resource; `false` if another one is already.
    pub(super) fn set_default(&self, query: &Query) -> bool {
        let mut entries = self.shared.entries.lock();
        if let Some(known) = entries.defaults.iter().find(|known| known.resource == query.resource) {
            return known == query;
        }
        entries.defaults.push(query.clone());
        true
    }

    /// What a cache of a kind is about for which `own` was chosen.
    pub(super) fn query(&self, kind: &DynamicKind, own: &OfCache) -> Query {
        self.options.query(kind, own)
    }

    /// All informers that somebody holds.
    pub(crate) fn informers(&self) -> Vec<Arc<dyn AnyInformer>> {
        let entries = self.shared.entries.lock();
        let weak: Vec<_> = entries.feeds.values().flat_map(|entry| entry.informers.iter().cloned()).collect();
        drop(entries);
        weak.iter().filter_map(|(_, informer)| informer.upgrade()).collect()
    }

    /// What is held, by selection as messages name it. What two Rust types of one selection share counts once.
    pub(crate) fn look(&self) -> BTreeMap<String, CacheLook> {
        let mut all: BTreeMap<String, CacheLook> = BTreeMap::new();
        for informer in self.informers() {
            let look = all.entry(informer.resource()).or_default();
            look.stats.add(&informer.stats());
            look.silence = look.silence.max(informer.silence());
        }
        all
    }

    /// Calls `tell` with each feed of the resource and the informers that it feeds.
    pub(super) fn each_of(
        &self,
        resource: &ApiResource,
        mut tell: impl FnMut(&Feed, &[Arc<dyn AnyInformer>]),
    ) {
        let entries = self.shared.entries.lock();
        let of = entries.feeds.values().filter(|entry| entry.feed.query.resource == *resource);
        let found: Vec<_> = of.map(|entry| (Arc::clone(&entry.feed), entry.informers.clone())).collect();
        drop(entries);
        for (feed, informers) in found {
            let informers: Vec<_> = informers.iter().filter_map(|(_, informer)| informer.upgrade()).collect();
            tell(&feed, &informers);
        }
    }

    /// All feeds; a sink that is told something may go meanwhile, which takes the lock.
    fn feeds(&self) -> Vec<Arc<Feed>> {
        self.shared.entries.lock().feeds.values().map(|entry| Arc::clone(&entry.feed)).collect()
    }

    /// Runs all feeds, those that come later included, until dropped.
    pub(crate) async fn run(&self, client: kube::Client, mut rng: fastrand::Rng) {
        let mut came = self.shared.came.subscribe();
        let mut tasks = JoinSet::new();
        let _stopped = Stopped(&self.shared);
        // Before anybody looks whether they know the present.
        for feed in self.feeds() {
            feed.each(|sink| sink.begin_anew());
        }
        loop {
            for entry in self.shared.entries.lock().feeds.values_mut().filter(|entry| !entry.running) {
                entry.running = true;
                let feed = Arc::clone(&entry.feed).run(client.clone(), rng.fork());
                tasks.spawn(feed.in_current_span());
            }
            tokio::select! {
                changed = came.changed() => {
                    let _ = changed; // the sender lives in `self`
                }
                Some(end) = tasks.join_next() => if let Err(error) = end && let Ok(panic) = error.try_into_panic() {
                    std::panic::resume_unwind(panic);
                },
            }
        }
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
