//! One list and watch, shared by several informers.
//!
//! A shared watch is defined by a resource and a selection of its objects. All informers of this selection, whatever their
//! Rust types, are [`WatchSubscriber`]s of the same shared watch, so each object is received once. There is one list and
//! watch per namespace, or one for all namespaces.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Weak},
};

use parking_lot::{Mutex, RwLock};
use tokio::{
    task::{AbortHandle, JoinError, JoinSet, yield_now},
    time::{Duration, Instant, sleep_until},
};
use tracing::Instrument;

use super::{
    list_watch::ListWatch,
    reflector::Reflector,
    subscriber::{ChangeObserver, WatchSubscriber},
};
use crate::{
    cache::{
        objects::incoming_object::IncomingObject,
        query::{Query, WatchScope},
    },
    client::{Extent, WrittenObject},
    ordered_watch,
    pace::{Pace, on_another_thread},
};

/// One resource and selection, and the subscribers that receive its objects.
pub(crate) struct SharedWatch {
    pub(crate) query: Query,
    subscribers: RwLock<Subscribers>,
    /// Incremented when lists and watches must start again.
    generation: ordered_watch::Sender<u64>,
    /// Incremented when an own write is recorded in the store of a subscriber.
    write_count: ordered_watch::Sender<u64>,
    /// Time of the last data from the API server, by scope.
    last_data: Mutex<BTreeMap<WatchScope, Instant>>,
    observer: Option<Arc<dyn ChangeObserver>>,
    /// Held while a dictionary is trained, so that the lists and watches of other scopes wait for it as well.
    training: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Subscribers {
    all: Arc<BTreeMap<SubscriberId, Weak<dyn WatchSubscriber>>>,
    next: u64,
}

impl Subscribers {
    /// Derived from the ids, because a subscriber that leaves may already be dropped.
    fn extent(&self) -> Extent {
        self.all.keys().next().map_or(Extent::Metadata, |(Reverse(extent), _)| *extent)
    }
}

/// Approximate number of objects that a subscriber adds or removes at once. With an index function that takes 20 µs (it
/// decodes the object), this is 0.16 ms.
pub(in crate::cache) const PIECE: u32 = 8;

/// Id of a subscriber in its shared watch. Subscribers that read whole objects come first in the order: metadata-only
/// subscribers then share their text.
pub(crate) type SubscriberId = (Reverse<Extent>, u64);

impl SharedWatch {
    pub(crate) fn new(query: Query, observer: Option<Arc<dyn ChangeObserver>>) -> Self {
        let (generation, write_count) = (ordered_watch::Sender::default(), ordered_watch::Sender::default());
        Self {
            query,
            subscribers: RwLock::default(),
            generation,
            write_count,
            last_data: Mutex::default(),
            observer,
            training: tokio::sync::Mutex::default(),
        }
    }

    /// Adds a subscriber. Lists and watches start again, so that it receives an initial list.
    pub(crate) fn join(&self, subscriber: Weak<dyn WatchSubscriber>, extent: Extent) -> SubscriberId {
        let mut subscribers = self.subscribers.write();
        let id = (Reverse(extent), subscribers.next);
        subscribers.next += 1;
        Arc::make_mut(&mut subscribers.all).insert(id, subscriber);
        self.generation.send_modify(|generation| *generation += 1);
        id
    }

    /// Removes a subscriber; `true` if it was the last one.
    pub(crate) fn leave(&self, id: SubscriberId) -> bool {
        let mut subscribers = self.subscribers.write();
        let before = subscribers.extent();
        Arc::make_mut(&mut subscribers.all).remove(&id);
        let (empty, extent) = (subscribers.all.is_empty(), subscribers.extent());
        drop(subscribers);
        // The remaining subscribers may need only metadata.
        if empty || extent != before {
            self.generation.send_modify(|generation| *generation += 1);
        }
        empty
    }

    fn is_empty(&self) -> bool {
        self.subscribers.read().all.is_empty()
    }

    /// Returns the smallest extent that satisfies all subscribers.
    pub(in crate::cache) fn extent(&self) -> Extent {
        self.subscribers.read().extent()
    }

    /// Calls `visit` for each subscriber.
    pub(in crate::cache) fn for_each(&self, mut visit: impl FnMut(&dyn WatchSubscriber)) {
        // A copy, so that the lock is not held: a subscriber may leave meanwhile, which takes the lock.
        let all = Arc::clone(&self.subscribers.read().all);
        for subscriber in all.values().filter_map(Weak::upgrade) {
            visit(&*subscriber);
        }
    }

    /// Calls `piece` for each subscriber until it returns `true`, and yields between the calls.
    ///
    /// # Cancellation
    ///
    /// Completed pieces stay completed.
    pub(in crate::cache) async fn for_each_in_pieces(
        &self,
        mut piece: impl FnMut(&dyn WatchSubscriber) -> bool + Send,
    ) {
        let mut pace = Pace::begin();
        let all = Arc::clone(&self.subscribers.read().all);
        for subscriber in all.values() {
            while let Some(subscriber) = subscriber.upgrade()
                && !piece(&*subscriber)
            {
                let lacks_room = subscriber.lacks_room();
                // Dropped before the waits, which must not keep an informer alive that has no other owner.
                drop(subscriber);
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
    pub(in crate::cache) async fn wait_for_room(&self) {
        loop {
            let mut lacks_room = None;
            self.for_each(|subscriber| lacks_room = lacks_room.take().or_else(|| subscriber.lacks_room()));
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
        self.for_each(|subscriber| is_due |= subscriber.is_training_due());
        if !is_due {
            return;
        }
        // If another scope trains, this waits for it, and `samples` then finds nothing due.
        let _training = self.training.lock().await;
        let mut pace = Pace::begin();
        let all = Arc::clone(&self.subscribers.read().all);
        for subscriber in all.values() {
            // A subscriber can be dropped during the training.
            let Some(samples) = subscriber.upgrade().and_then(|subscriber| subscriber.samples()) else {
                continue;
            };
            let dictionary = on_another_thread(move || samples.train()).await;
            if let Some(subscriber) = subscriber.upgrade() {
                subscriber.set_dictionary(dictionary);
            }
            // Upgraded for each piece: the waits in between must not keep an informer alive.
            while let Some(subscriber) = subscriber.upgrade()
                && subscriber.has_backlog()
            {
                subscriber.compress_backlog();
                drop(subscriber);
                pace.steps(PIECE).await;
            }
        }
    }

    /// Notifies the observer of a changed object, if it is of interest.
    pub(in crate::cache) fn report_change(&self, object: &IncomingObject<'_>) {
        let Some(observer) = &self.observer else { return };
        // The UID is checked first, because decoding the object costs more.
        if observer.is_interested_in(&object.split.meta().uid)
            && let Some(object) = WrittenObject::of(object.split.json())
        {
            observer.changed(&object);
        }
    }

    /// Notifies the observer of a deleted object.
    pub(in crate::cache) fn report_deletion(&self, object: &IncomingObject<'_>) {
        if let Some(observer) = &self.observer {
            observer.deleted(&object.split.meta().uid);
        }
    }

    /// Records that the API server has sent data about a scope.
    pub(in crate::cache) fn note_data(&self, scope: &WatchScope) {
        let (now, mut last_data) = (Instant::now(), self.last_data.lock());
        // The usual case does not clone the scope.
        match last_data.get_mut(scope) {
            Some(known) => *known = now,
            None => {
                last_data.insert(scope.clone(), now);
            }
        }
    }

    /// Returns when the API server last sent data about a scope.
    pub(in crate::cache) fn last_data(&self, scope: &WatchScope) -> Option<Instant> {
        self.last_data.lock().get(scope).copied()
    }

    /// Returns how long the API server has sent nothing, for the scope with the longest silence.
    pub(in crate::cache) fn silence(&self) -> Option<Duration> {
        self.last_data.lock().values().map(Instant::elapsed).max()
    }

    /// Records that an own write was recorded in the store of a subscriber.
    pub(crate) fn note_write(&self) {
        self.write_count.send_modify(|count| *count += 1);
    }

    pub(in crate::cache) fn writes(&self) -> ordered_watch::Receiver<u64> {
        self.write_count.subscribe()
    }

    /// Removes all objects from the subscribers, for a cluster that was removed from its manager.
    ///
    /// # Cancellation
    ///
    /// Objects that were removed by then stay removed.
    pub(crate) async fn withdraw(&self) {
        let mut scopes = BTreeSet::new();
        self.for_each(|subscriber| scopes.extend(subscriber.stored_scopes()));
        // A scope may have been watched although no store has objects of it.
        scopes.extend(self.last_data.lock().keys().cloned());
        for scope in scopes {
            self.withdraw_scope(&scope).await;
        }
        self.for_each(|subscriber| subscriber.closed());
    }

    async fn withdraw_scope(&self, scope: &WatchScope) {
        self.last_data.lock().remove(scope);
        self.for_each_in_pieces(|subscriber| subscriber.withdraw(scope)).await;
    }

    /// Lists and watches until the shared watch has no subscribers, or its cluster was removed from the manager: then the
    /// subscribers have no objects left.
    ///
    /// Dropping the future stops the requests. Running it again brings the stores up to date.
    pub(crate) async fn run(self: Arc<Self>, client: kube::Client, mut rng: fastrand::Rng) {
        let mut generation = self.generation.subscribe();
        let mut namespaces = self.query.namespaces.subscribe();
        let mut machines = BTreeMap::new();
        loop {
            // Marked before subscribers are counted and scopes are read, so that a change from here on ends the inner loop.
            generation.mark_unchanged();
            if self.is_empty() {
                return;
            }
            let mut reflectors = Reflectors::restart(&self, &client, machines);
            loop {
                let scopes = self.query.scopes();
                reflectors.stop_all_but(&scopes).await;
                if self.query.is_removed() {
                    // Includes subscribers that joined meanwhile.
                    return self.withdraw().await;
                }
                reflectors.start_missing(&scopes, &mut rng);
                self.for_each(|subscriber| subscriber.set_scopes(&scopes));
                let mut due: Option<Instant> = None;
                self.for_each(|subscriber| {
                    due = due.into_iter().chain(subscriber.resync(Instant::now(), &mut rng)).min();
                });
                tokio::select! {
                    // A new generation is checked first, because then everything starts again.
                    biased;
                    changed = generation.changed() => {
                        let _ = changed; // never an error: the sender is in `self`
                        break;
                    }
                    () = namespaces.changed() => {}
                    // The next round has no scopes: it stops all tasks and withdraws the objects.
                    () = self.query.removed() => {}
                    Some(end) = reflectors.tasks.join_next() => rethrow(end),
                    () = sleep_until_some(due) => {}
                }
            }
            machines = reflectors.stop().await;
        }
    }
}

/// State machines of the lists and watches by scope. They outlive the tasks, so that a list and watch that starts again continues from
/// the version that it had reached.
type Machines = BTreeMap<WatchScope, Arc<Mutex<ListWatch>>>;

/// Tasks of one generation of a shared watch: a list and watch for each scope.
struct Reflectors<'w> {
    shared: &'w Arc<SharedWatch>,
    client: &'w kube::Client,
    extent: Extent,
    machines: Machines,
    running: BTreeMap<WatchScope, AbortHandle>,
    tasks: JoinSet<()>,
}

impl<'w> Reflectors<'w> {
    /// Begins a generation, with the machines of the previous one.
    fn restart(shared: &'w Arc<SharedWatch>, client: &'w kube::Client, machines: Machines) -> Self {
        for machine in machines.values() {
            machine.lock().restart();
        }
        let extent = shared.extent();
        Self { shared, client, extent, machines, running: BTreeMap::new(), tasks: JoinSet::new() }
    }

    /// Ends the lists and watches of scopes that are not selected any more, and removes their objects. There may be objects of scopes
    /// without a task: those that were removed from the set of namespaces while the shared watch did not run.
    async fn stop_all_but(&mut self, scopes: &[WatchScope]) {
        let mut gone: BTreeSet<_> = self.machines.keys().cloned().collect();
        gone.extend(self.shared.last_data.lock().keys().cloned());
        self.shared.for_each(|subscriber| gone.extend(subscriber.stored_scopes()));
        for scope in scopes {
            gone.remove(scope);
        }
        for scope in gone {
            self.machines.remove(&scope);
            if let Some(task) = self.running.remove(&scope) {
                task.abort();
                // The task may be processing a chunk on another thread: wait for its end before its objects are removed.
                while !task.is_finished()
                    && let Some(end) = self.tasks.join_next().await
                {
                    rethrow(end);
                }
            }
            self.shared.withdraw_scope(&scope).await;
        }
    }

    /// Starts the lists and watches of scopes that have none.
    fn start_missing(&mut self, scopes: &[WatchScope], rng: &mut fastrand::Rng) {
        for scope in scopes {
            let machine = self.machines.entry(scope.clone()).or_insert_with(|| {
                Arc::new(Mutex::new(ListWatch::new(self.shared.query.floor.clone(), rng.fork())))
            });
            self.running.entry(scope.clone()).or_insert_with(|| {
                let (shared, machine) = (Arc::clone(self.shared), Arc::clone(machine));
                let (client, scope, extent) = (self.client.clone(), scope.clone(), self.extent);
                let reflects = async move {
                    Reflector { shared: &shared, client, scope, extent }.run(&machine).await;
                };
                self.tasks.spawn(reflects.in_current_span())
            });
        }
    }

    /// Ends all tasks.
    async fn stop(mut self) -> Machines {
        // Waits for the tasks, so that none of them writes to the stores after the next generation has begun.
        self.tasks.shutdown().await;
        self.machines
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

impl fmt::Debug for SharedWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedWatch").field("query", &self.query).finish_non_exhaustive()
    }
}
