//! What one list and watch brings in, and who is fed with it.
//!
//! A feed is about one resource and one selection of its objects. Whoever reads them, by whatever Rust type, is a [`Sink`] of the
//! same feed: each object comes over the wire once. There is one list and watch per namespace, or one for all.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Weak},
};

use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{futures::OwnedNotified, watch},
    task::{JoinError, JoinSet, yield_now},
    time::{Duration, Instant, sleep_until},
};
use tracing::Instrument;

use super::{
    ResourceVersion,
    arrival::Arrival,
    list_watch::ListWatch,
    query::Query,
    reflector::Reflector,
    store::{OutOfOrder, Part},
};
use crate::pace::Pace;

/// A store behind a feed.
///
/// Each method is called by one list and watch of `part` at a time.
pub(crate) trait Sink: Send + Sync {
    /// How much of an object it reads.
    fn form(&self) -> Form;

    /// The whole present of `part` follows, object by object.
    fn begin(&self, part: &Part);

    /// An object of the present.
    fn arrived(&self, part: &Part, object: &Arrival<'_>);

    /// An object that was of the present is not any more.
    fn left(&self, part: &Part, object: &Arrival<'_>);

    /// The present is there, as of this version. Takes a piece of it over, and returns whether that was the last one; otherwise it is
    /// to be called again.
    fn complete(&self, part: &Part, version: &ResourceVersion) -> bool;

    /// An object was added or changed. Its version.
    ///
    /// # Errors
    ///
    /// Only the present can tell whether it is there.
    fn applied(&self, part: &Part, object: &Arrival<'_>) -> Result<Option<ResourceVersion>, OutOfOrder>;

    /// An object was deleted, or is not selected any more. Its version.
    fn deleted(&self, part: &Part, object: &Arrival<'_>) -> Option<ResourceVersion>;

    /// Nothing else happened up to this version.
    fn passed(&self, part: &Part, version: &ResourceVersion);

    /// The parts of which something is held or known.
    fn held(&self) -> Vec<Part>;

    /// The part is not watched any more. Removes a piece of it, and returns whether that was the last one; otherwise it is to be
    /// called again.
    fn withdraw(&self, part: &Part) -> bool;

    /// Returns what to wait for before the next event, if a subscriber has too many to take.
    fn lacks_room(&self) -> Option<OwnedNotified>;

    /// The parts that there are now. It knows the present when it knows all of them.
    fn parts(&self, parts: &[Part]);

    /// Lists and watches of all parts begin, in a run of their own.
    fn begin_anew(&self);

    /// A watch has begun, of a part's present or of what comes after it.
    fn watching(&self);

    /// Counts a watch that was closed because it did not deliver any more.
    fn watch_died(&self);

    /// Counts a probe of a silent watch.
    fn probing(&self);

    /// The watch of the part works.
    fn works(&self, part: &Part);

    /// Something went wrong with it.
    fn failed(&self, part: &Part, trouble: &Trouble);

    /// Whether there is work that can wait until there is nothing to be told.
    fn is_behind(&self) -> bool;

    /// Does it.
    fn catch_up(&self);

    /// Tells again of some of what is there, if it is time; when to ask again.
    fn resync(&self, now: Instant, rng: &mut fastrand::Rng) -> Option<Instant>;

    /// Since when a write of ours waits to be told.
    fn waiting_since(&self, part: &Part) -> Option<Instant>;
}

/// How much of each object is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    Metadata,
    Whole,
}

/// What goes wrong with a list or watch, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) message: String,
    /// The rights that the operator lacks: waiting will not help.
    pub(crate) forbidden: Option<String>,
}

/// One resource, selected, and who is fed with it.
pub(crate) struct Feed {
    pub(crate) query: Query,
    sinks: RwLock<Sinks>,
    /// Counts what makes the lists and watches begin anew.
    generation: watch::Sender<u64>,
    /// A write was laid over the store of a sink.
    wrote: watch::Sender<u64>,
    /// When the API server was heard of last, by part.
    heard: Mutex<BTreeMap<Part, Instant>>,
}

#[derive(Default)]
struct Sinks {
    all: Arc<BTreeMap<SinkId, Weak<dyn Sink>>>,
    next: u64,
}

impl Sinks {
    /// By the ids, because a sink that leaves cannot be asked any more.
    fn form(&self) -> Form {
        self.all.keys().next().map_or(Form::Metadata, |(Reverse(form), _)| *form)
    }
}

/// About how many objects a sink takes over, or removes, at once. With an index function that takes 20 µs (it decodes the object)
/// that is less than a millisecond.
pub(super) const PIECE: u32 = 32;

/// Names a sink of one feed. Those that read whole objects are told first: the others then refer to what these hold.
pub(crate) type SinkId = (Reverse<Form>, u64);

impl Feed {
    pub(crate) fn new(query: Query) -> Self {
        let (generation, wrote) = (watch::Sender::default(), watch::Sender::default());
        Self { query, sinks: RwLock::default(), generation, wrote, heard: Mutex::default() }
    }

    /// Feeds `sink` from now on, with the present first.
    pub(crate) fn join(&self, sink: Weak<dyn Sink>, form: Form) -> SinkId {
        let mut sinks = self.sinks.write();
        let id = (Reverse(form), sinks.next);
        sinks.next += 1;
        Arc::make_mut(&mut sinks.all).insert(id, sink);
        self.generation.send_modify(|generation| *generation += 1);
        id
    }

    /// Feeds a sink no longer; `true` if it was the last one.
    pub(crate) fn leave(&self, id: SinkId) -> bool {
        let mut sinks = self.sinks.write();
        let before = sinks.form();
        Arc::make_mut(&mut sinks.all).remove(&id);
        let (empty, form) = (sinks.all.is_empty(), sinks.form());
        drop(sinks);
        if empty || form != before {
            self.generation.send_modify(|generation| *generation += 1);
        }
        empty
    }

    fn is_empty(&self) -> bool {
        self.sinks.read().all.is_empty()
    }

    /// The least that satisfies everybody.
    pub(super) fn form(&self) -> Form {
        self.sinks.read().form()
    }

    /// Calls `tell` with each sink.
    pub(super) fn each(&self, mut tell: impl FnMut(&dyn Sink)) {
        let all = Arc::clone(&self.sinks.read().all);
        for sink in all.values().filter_map(Weak::upgrade) {
            tell(&*sink);
        }
    }

    /// Calls `piece` with each sink until it returns true, and yields in between.
    ///
    /// # Cancellation
    ///
    /// What was done by then stays done.
    pub(super) async fn each_in_pieces(&self, mut piece: impl FnMut(&dyn Sink) -> bool + Send) {
        let mut pace = Pace::begin();
        let all = Arc::clone(&self.sinks.read().all);
        for sink in all.values() {
            while let Some(sink) = sink.upgrade()
                && !piece(&*sink)
            {
                let lacks_room = sink.lacks_room();
                drop(sink);
                if let Some(room) = lacks_room {
                    room.await;
                }
                pace.steps(PIECE).await;
            }
        }
    }

    /// Waits until no subscriber has too many events to take.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn room(&self) {
        loop {
            let mut lacks_room = None;
            self.each(|sink| lacks_room = lacks_room.take().or_else(|| sink.lacks_room()));
            let Some(room) = lacks_room else { return };
            room.await;
        }
    }

    /// The API server has said something of a part.
    pub(super) fn heard_of(&self, part: &Part) {
        let (now, mut heard) = (Instant::now(), self.heard.lock());
        match heard.get_mut(part) {
            Some(known) => *known = now,
            None => {
                heard.insert(part.clone(), now);
            }
        }
    }

    /// When it was heard of last about a part.
    pub(super) fn heard(&self, part: &Part) -> Option<Instant> {
        self.heard.lock().get(part).copied()
    }

    /// For how long it has said nothing: of the parts the longest.
    pub(super) fn silence(&self) -> Option<Duration> {
        self.heard.lock().values().map(Instant::elapsed).max()
    }

    /// A write was laid over the store of a sink.
    pub(crate) fn note_write(&self) {
        self.wrote.send_modify(|count| *count += 1);
    }

    pub(super) fn writes(&self) -> watch::Receiver<u64> {
        self.wrote.subscribe()
    }

    /// Lists and watches until nobody is fed any more.
    ///
    /// Dropping the future stops it where it stands; running it again brings the stores up to date.
    pub(crate) async fn run(self: Arc<Self>, client: kube::Client, mut rng: fastrand::Rng) {
        let mut generation = self.generation.subscribe();
        let mut namespaces = self.query.namespaces.subscribe();
        let mut machines: BTreeMap<Part, Arc<Mutex<ListWatch>>> = BTreeMap::new();
        while !self.is_empty() {
            generation.mark_unchanged();
            for machine in machines.values() {
                machine.lock().restart();
            }
            let form = self.form();
            let mut running: BTreeMap<Part, tokio::task::AbortHandle> = BTreeMap::new();
            let mut tasks = JoinSet::new();
            loop {
                let parts = self.query.parts();
                // Some may have gone while nothing ran.
                let mut gone: BTreeSet<_> = machines.keys().cloned().collect();
                gone.extend(self.heard.lock().keys().cloned());
                self.each(|sink| gone.extend(sink.held()));
                for part in &parts {
                    gone.remove(part);
                }
                for part in gone {
                    machines.remove(&part);
                    if let Some(task) = running.remove(&part) {
                        task.abort();
                        // It may be in the middle of a chunk, on another thread.
                        while !task.is_finished()
                            && let Some(end) = tasks.join_next().await
                        {
                            rethrow(end);
                        }
                    }
                    self.heard.lock().remove(&part);
                    self.each_in_pieces(|sink| sink.withdraw(&part)).await;
                }
                for part in &parts {
                    let machine = Arc::clone(machines.entry(part.clone()).or_insert_with(|| {
                        Arc::new(Mutex::new(ListWatch::new(self.query.floor.clone(), rng.fork())))
                    }));
                    running.entry(part.clone()).or_insert_with(|| {
                        let feed = Arc::clone(&self);
                        let (client, part) = (client.clone(), part.clone());
                        let reflects = async move {
                            Reflector { feed: &feed, client, part, form }.run(&machine).await;
                        };
                        tasks.spawn(reflects.in_current_span())
                    });
                }
                self.each(|sink| sink.parts(&parts));
                let mut due: Option<Instant> = None;
                self.each(|sink| due = due.into_iter().chain(sink.resync(Instant::now(), &mut rng)).min());
                tokio::select! {
                    () = sleep_until_some(due) => {}
                    changed = generation.changed() => {
                        let _ = changed; // the sender lives in `self`
                        break;
                    }
                    () = namespaces.changed() => {}
                    Some(end) = tasks.join_next() => rethrow(end),
                }
            }
            tasks.shutdown().await;
        }
    }
}

/// Lists and watches end only when they are told to, or panic.
fn rethrow(end: Result<(), JoinError>) {
    if let Err(end) = end
        && let Ok(panic) = end.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

async fn sleep_until_some(due: Option<Instant>) {
    match due {
        // Others get their turn even so.
        Some(due) if due <= Instant::now() => yield_now().await,
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("query", &self.query).finish_non_exhaustive()
    }
}
