//! One list and watch, shared by several informers.
//!
//! A feed is defined by a resource and a selection of its objects. All informers of this selection, whatever their Rust
//! types, are [`Sink`]s of the same feed, so each object is received once. There is one list and watch per namespace,
//! or one for all namespaces.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Weak},
};

use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::futures::OwnedNotified,
    task::{JoinError, JoinSet, yield_now},
    time::{Duration, Instant, sleep_until},
};
use tracing::Instrument;

use super::{list_watch::ListWatch, reflector::Reflector};
use crate::{
    cache::{
        objects::{
            arrival::Arrival,
            pack::{Dictionary, Samples},
        },
        query::{Part, Query},
    },
    object::meta::ResourceVersion,
    ordered_watch,
    pace::{Pace, on_another_thread},
};

/// The watch delivered an object that is not in the store, at a version that it had already passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfOrder;

/// Receiver of a feed's objects and events.
///
/// Each method is called by one list and watch of `part` at a time.
pub(crate) trait Sink: Send + Sync {
    /// Returns how much of each object the sink reads.
    fn form(&self) -> Form;

    /// Starts an initial list of `part`. Its objects follow one by one.
    fn begin(&self, part: &Part);

    /// Adds an object to the initial list.
    fn arrived(&self, part: &Part, object: &Arrival<'_>);

    /// Removes an object from the initial list: it was deleted while the list arrived.
    fn left(&self, part: &Part, object: &Arrival<'_>);

    /// Ends the initial list, which has this version. Adds a piece of it to the store, and returns whether that was the
    /// last one; if not, it must be called again.
    fn complete(&self, part: &Part, version: &ResourceVersion) -> bool;

    /// Handles an object that was added or changed. Returns its version.
    ///
    /// # Errors
    ///
    /// Only a new list can show whether the object exists.
    fn applied(&self, part: &Part, object: &Arrival<'_>) -> Result<Option<ResourceVersion>, OutOfOrder>;

    /// Handles an object that was deleted or is not selected any more. Returns its version.
    fn deleted(&self, part: &Part, object: &Arrival<'_>) -> Option<ResourceVersion>;

    /// Records that no other changes happened up to this version.
    fn passed(&self, part: &Part, version: &ResourceVersion);

    /// Returns the parts about which the sink stores anything.
    fn held(&self) -> Vec<Part>;

    /// Removes a piece of a part that is not watched any more, and returns whether that was the last one; if not, it
    /// must be called again.
    fn withdraw(&self, part: &Part) -> bool;

    /// Returns a future to wait for before the next event, if the mailbox of a subscriber is full.
    fn lacks_room(&self) -> Option<OwnedNotified>;

    /// Sets the current parts. The sink is synced when the initial lists of all of them are complete.
    fn parts(&self, parts: &[Part]);

    /// The cluster was removed from the manager, and all parts have been withdrawn.
    fn close(&self);

    /// Records that lists and watches of all parts start again, because the manager started.
    fn begin_anew(&self);

    /// Counts a watch that was opened, with or without initial events.
    fn watching(&self);

    /// Counts a watch that was closed because it did not deliver events any more.
    fn watch_died(&self);

    /// Counts a probe of a silent watch.
    fn probing(&self);

    /// Records that the watch of the part works.
    fn works(&self, part: &Part);

    /// Records a failure of the list or watch of the part.
    fn failed(&self, part: &Part, trouble: &Trouble);

    /// Whether there is work, such as compression, that can wait until no events are pending.
    fn is_behind(&self) -> bool;

    /// Does some of this work.
    fn catch_up(&self);

    /// Returns whether a compression dictionary is to be trained for the objects that have arrived.
    fn is_training_due(&self) -> bool;

    /// Returns texts to train a dictionary with, if that is due.
    fn samples(&self) -> Option<Samples>;

    /// Takes the dictionary that was trained with the samples; `None` if none could be created.
    fn learn(&self, dictionary: Option<Arc<Dictionary>>);

    /// Delivers a piece of a resync if one is due. Returns when to call it again.
    fn resync(&self, now: Instant, rng: &mut fastrand::Rng) -> Option<Instant>;

    /// Returns since when an own write waits for the watch to deliver it.
    fn waiting_since(&self, part: &Part) -> Option<Instant>;
}

/// Part of each object that is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    Metadata,
    Whole,
}

/// Failure of a list or watch, as text for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) message: String,
    /// Rule with the permissions that the operator lacks. Waiting does not help.
    pub(crate) forbidden: Option<String>,
}

/// One resource and selection, and the sinks that receive its objects.
pub(crate) struct Feed {
    pub(crate) query: Query,
    sinks: RwLock<Sinks>,
    /// Incremented when lists and watches must start again.
    generation: ordered_watch::Sender<u64>,
    /// Incremented when an own write is recorded in the store of a sink.
    wrote: ordered_watch::Sender<u64>,
    /// Time of the last data from the API server, by part.
    heard: Mutex<BTreeMap<Part, Instant>>,
    /// Held while a dictionary is trained, so that the lists and watches of other parts wait for it as well.
    training: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Sinks {
    all: Arc<BTreeMap<SinkId, Weak<dyn Sink>>>,
    next: u64,
}

impl Sinks {
    /// Derived from the ids, because a sink that leaves may already be dropped.
    fn form(&self) -> Form {
        self.all.keys().next().map_or(Form::Metadata, |(Reverse(form), _)| *form)
    }
}

/// Approximate number of objects that a sink adds or removes at once. With an index function that takes 20 µs (it
/// decodes the object), this is 0.16 ms.
pub(in crate::cache) const PIECE: u32 = 8;

/// Id of a sink in its feed. Sinks that read whole objects come first in the order: metadata-only sinks then share
/// their text.
pub(crate) type SinkId = (Reverse<Form>, u64);

impl Feed {
    pub(crate) fn new(query: Query) -> Self {
        let (generation, wrote) = (ordered_watch::Sender::default(), ordered_watch::Sender::default());
        Self {
            query,
            sinks: RwLock::default(),
            generation,
            wrote,
            heard: Mutex::default(),
            training: tokio::sync::Mutex::default(),
        }
    }

    /// Adds a sink. Lists and watches start again, so that it receives an initial list.
    pub(crate) fn join(&self, sink: Weak<dyn Sink>, form: Form) -> SinkId {
        let mut sinks = self.sinks.write();
        let id = (Reverse(form), sinks.next);
        sinks.next += 1;
        Arc::make_mut(&mut sinks.all).insert(id, sink);
        self.generation.send_modify(|generation| *generation += 1);
        id
    }

    /// Removes a sink; `true` if it was the last one.
    pub(crate) fn leave(&self, id: SinkId) -> bool {
        let mut sinks = self.sinks.write();
        let before = sinks.form();
        Arc::make_mut(&mut sinks.all).remove(&id);
        let (empty, form) = (sinks.all.is_empty(), sinks.form());
        drop(sinks);
        // The remaining sinks may be satisfied with metadata alone.
        if empty || form != before {
            self.generation.send_modify(|generation| *generation += 1);
        }
        empty
    }

    fn is_empty(&self) -> bool {
        self.sinks.read().all.is_empty()
    }

    /// Returns the smallest form that satisfies all sinks.
    pub(in crate::cache) fn form(&self) -> Form {
        self.sinks.read().form()
    }

    /// Calls `tell` for each sink.
    pub(in crate::cache) fn each(&self, mut tell: impl FnMut(&dyn Sink)) {
        // A copy, so that the lock is not held: a sink may leave meanwhile, which takes the lock.
        let all = Arc::clone(&self.sinks.read().all);
        for sink in all.values().filter_map(Weak::upgrade) {
            tell(&*sink);
        }
    }

    /// Calls `piece` for each sink until it returns `true`, and yields between the calls.
    ///
    /// # Cancellation
    ///
    /// Completed pieces stay completed.
    pub(in crate::cache) async fn each_in_pieces(&self, mut piece: impl FnMut(&dyn Sink) -> bool + Send) {
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

    /// Waits until no subscriber's mailbox is full.
    ///
    /// # Cancellation
    ///
    /// Dropping the future has no effect.
    pub(in crate::cache) async fn room(&self) {
        loop {
            let mut lacks_room = None;
            self.each(|sink| lacks_room = lacks_room.take().or_else(|| sink.lacks_room()));
            let Some(room) = lacks_room else { return };
            room.await;
        }
    }

    /// Trains the compression dictionaries that are due, on another thread, and compresses the texts that wait for them.
    ///
    /// # Cancellation
    ///
    /// Dropping the future drops a dictionary that is being trained. The training is then still due.
    pub(in crate::cache) async fn train(&self) {
        let mut is_due = false;
        self.each(|sink| is_due |= sink.is_training_due());
        if !is_due {
            return;
        }
        let _training = self.training.lock().await;
        let mut pace = Pace::begin();
        let all = Arc::clone(&self.sinks.read().all);
        for sink in all.values() {
            // A sink can be dropped during the training.
            let Some(samples) = sink.upgrade().and_then(|sink| sink.samples()) else { continue };
            let dictionary = on_another_thread(move || samples.train()).await;
            if let Some(sink) = sink.upgrade() {
                sink.learn(dictionary);
            }
            while let Some(sink) = sink.upgrade()
                && sink.is_behind()
            {
                sink.catch_up();
                drop(sink);
                pace.steps(PIECE).await;
            }
        }
    }

    /// Records that the API server has sent data about a part.
    pub(in crate::cache) fn heard_of(&self, part: &Part) {
        let (now, mut heard) = (Instant::now(), self.heard.lock());
        match heard.get_mut(part) {
            Some(known) => *known = now,
            None => {
                heard.insert(part.clone(), now);
            }
        }
    }

    /// Returns when the API server last sent data about a part.
    pub(in crate::cache) fn heard(&self, part: &Part) -> Option<Instant> {
        self.heard.lock().get(part).copied()
    }

    /// Returns how long the API server has sent nothing, for the part with the longest silence.
    pub(in crate::cache) fn silence(&self) -> Option<Duration> {
        self.heard.lock().values().map(Instant::elapsed).max()
    }

    /// Records that an own write was recorded in the store of a sink.
    pub(crate) fn note_write(&self) {
        self.wrote.send_modify(|count| *count += 1);
    }

    pub(in crate::cache) fn writes(&self) -> ordered_watch::Receiver<u64> {
        self.wrote.subscribe()
    }

    /// Removes all objects from the sinks, for a cluster that was removed from its manager.
    ///
    /// # Cancellation
    ///
    /// Objects that were removed by then stay removed.
    pub(crate) async fn withdraw(&self) {
        let mut parts = BTreeSet::new();
        self.each(|sink| parts.extend(sink.held()));
        parts.extend(self.heard.lock().keys().cloned());
        for part in parts {
            self.withdraw_part(&part).await;
        }
        self.each(|sink| sink.close());
    }

    async fn withdraw_part(&self, part: &Part) {
        self.heard.lock().remove(part);
        self.each_in_pieces(|sink| sink.withdraw(part)).await;
    }

    /// Lists and watches until the feed has no sinks, or its cluster was removed from the manager: then the sinks have no objects
    /// left.
    ///
    /// Dropping the future stops the requests. Running it again brings the stores up to date.
    pub(crate) async fn run(self: Arc<Self>, client: kube::Client, mut rng: fastrand::Rng) {
        let mut generation = self.generation.subscribe();
        let mut namespaces = self.query.namespaces.subscribe();
        let mut machines: BTreeMap<Part, Arc<Mutex<ListWatch>>> = BTreeMap::new();
        while !self.is_empty() {
            // Marked before the parts are read, so that a change from here on ends the inner loop.
            generation.mark_unchanged();
            for machine in machines.values() {
                machine.lock().restart();
            }
            let form = self.form();
            let mut running: BTreeMap<Part, tokio::task::AbortHandle> = BTreeMap::new();
            let mut tasks = JoinSet::new();
            loop {
                let parts = self.query.parts();
                // Also parts that were removed from the set of namespaces while the feed did not run.
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
                        // The task may be processing a chunk on another thread: wait for its end before its objects are
                        // removed.
                        while !task.is_finished()
                            && let Some(end) = tasks.join_next().await
                        {
                            rethrow(end);
                        }
                    }
                    self.withdraw_part(&part).await;
                }
                if self.query.is_removed() {
                    // Sinks that came meanwhile included.
                    return self.withdraw().await;
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
                    // A new generation first: everything starts again then.
                    biased;
                    changed = generation.changed() => {
                        let _ = changed; // never an error: the sender is in `self`
                        break;
                    }
                    () = namespaces.changed() => {}
                    () = self.query.removed() => {}
                    Some(end) = tasks.join_next() => rethrow(end),
                    () = sleep_until_some(due) => {}
                }
            }
            tasks.shutdown().await;
        }
    }
}

/// Propagates the panic of a list-watch task. Otherwise these tasks end only when they are aborted.
fn rethrow(end: Result<(), JoinError>) {
    if let Err(end) = end
        && let Ok(panic) = end.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

async fn sleep_until_some(due: Option<Instant>) {
    match due {
        // Yield even when overdue, so that other tasks can run.
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
