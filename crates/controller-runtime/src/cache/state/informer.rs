//! The cached objects of one kind as one Rust type, and the subscribers to their changes.

use std::{
    any::Any,
    collections::{BTreeMap, VecDeque},
    sync::{Arc, OnceLock, Weak},
};

use imbl::OrdMap;
use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{Notify, futures::OwnedNotified},
    time::{Duration, Instant},
};

use super::{
    coalesced::Coalesced,
    index_table::{self, AnyIndex, IndexChange, Table},
    mailbox::{InitialList, Mailbox, Place, Room, Subscription, Waiting},
    read_error::ReadError,
    registry::Seat,
    store::{Change, End, ListInTransit, Store},
    tombstones::Tombstones,
};
use crate::{
    cache::{
        objects::{
            arrival::{Arrival, Intake},
            event::Event,
            lazy::Lazy,
            pack::{Dictionary, Samples},
            shelf::{Holding, Shelf},
            split::Split,
            stats::Stats,
        },
        query::{
            Part, Query,
            resync::{Resync, Schedule},
        },
        watch::{
            feed::{Form, OutOfOrder, PIECE, Sink, Trouble},
            status::Status,
        },
    },
    client::Presumed,
    object::{
        Object, ObjectKey,
        meta::{ResourceVersion, Uid},
    },
    ordered_watch,
};

/// The objects of a query as one Rust type. A [`Feed`](crate::cache::watch::feed::Feed) keeps it up to date.
///
/// User code never runs under a lock: predicates and handlers run in the tasks of the subscribers
/// ([`mailbox`](crate::cache::state::mailbox)), index functions between a change of the store and its publication
/// ([`Informer::publish`]).
///
/// Lock order: `writer` first, then one of `store`, `indexed` and a mailbox at a time.
pub(crate) struct Informer<K: Object> {
    query: Query,
    /// Decodes and compresses incoming objects.
    shelf: Shelf<K>,
    store: RwLock<Store<K>>,
    /// Held while the store changes and while mailboxes receive the events, so that every subscriber receives events in
    /// the same order, and a late one receives the initial list first. Taken before `store`, never while `store` is
    /// locked.
    writer: Mutex<Writer<K>>,
    status: ordered_watch::Sender<Status>,
    /// Index by owner, built on first use.
    owners: OnceLock<Arc<Table<K, Uid>>>,
    /// Registration at the feed, dropped with the informer.
    seat: OnceLock<Seat>,
    /// Locked for reading while several indexes are read, so that they agree on each object.
    indexed: RwLock<()>,
    /// Signals that a full mailbox has room again.
    room: Arc<Room>,
}

struct Writer<K: Object> {
    /// By number, in the order in which they subscribed.
    subscribers: BTreeMap<u64, Subscriber<K>>,
    next: u64,
    indexes: BTreeMap<u64, KeptIndex<K>>,
    /// Changes of the store that indexes and subscribers have not received, by number, in the order in which they
    /// happened. At most one per thread that changes the store now.
    unpublished: BTreeMap<u64, Changes<K>>,
    /// Number of the next changes.
    next_changes: u64,
    /// Tasks that wait for a change of the visible state of one object.
    waiting: BTreeMap<ObjectKey<K>, Weak<Notify>>,
    /// Initial lists that are incomplete, or are being added to the store.
    arriving: BTreeMap<Part, ListInTransit<K>>,
    /// Last removed key of each part that is not watched any more and is being removed.
    withdrawn: BTreeMap<Part, Option<ObjectKey<K>>>,
    again: Schedule,
    /// Recent deletions, if the manager may become leader later.
    tombstones: Option<Tombstones<K>>,
    /// Last object that the current resync delivered; `None` between resyncs.
    told_again: Option<ObjectKey<K>>,
}

struct Subscriber<K: Object> {
    mailbox: Arc<Mailbox<K>>,
    /// Number of the first changes that are not part of its initial list.
    since: u64,
}

struct KeptIndex<K: Object> {
    index: Weak<dyn AnyIndex<K>>,
    /// Number of the first changes that are not part of the snapshot from which it is filled.
    since: u64,
}

/// Changes of the store that were made under one lock.
struct Changes<K: Object> {
    /// Changes of visible states.
    of_objects: Arc<[Change<K>]>,
    events: Vec<Event<K>>,
    /// Computed changes of each index, by the number of the index.
    of_indexes: OfIndexes,
    /// Dropped after the lock is released: the last handle of an object runs its destructor.
    _retired: Vec<Lazy<K>>,
}

type OfIndexes = BTreeMap<u64, Vec<Box<dyn IndexChange>>>;

/// Number of objects that a resync delivers before events are delivered again.
const TOLD_AGAIN_AT_ONCE: usize = 256;

/// Delay of a resync while the mailbox of a subscriber is full.
const RESYNC_AGAIN: Duration = Duration::from_millis(10);

/// Reads.
impl<K: Object> Informer<K> {
    /// Creates an informer of the kind that `info` names.
    pub(crate) fn new(
        info: &K::DynamicType,
        query: Query,
        holding: Holding,
        intake: Intake,
        resync: Resync,
        remembers: bool,
    ) -> Self {
        let store = Store::with_apart(query.watched_apart().cloned().collect());
        Self {
            query,
            shelf: Shelf::new(info, holding, intake),
            store: RwLock::new(store),
            writer: Mutex::new(Writer {
                subscribers: BTreeMap::new(),
                next: 0,
                indexes: BTreeMap::new(),
                unpublished: BTreeMap::new(),
                next_changes: 0,
                waiting: BTreeMap::new(),
                arriving: BTreeMap::new(),
                withdrawn: BTreeMap::new(),
                again: Schedule::new(resync),
                told_again: None,
                tombstones: remembers.then(Tombstones::default),
            }),
            status: ordered_watch::Sender::default(),
            owners: OnceLock::new(),
            seat: OnceLock::new(),
            indexed: RwLock::default(),
            room: Arc::default(),
        }
    }

    /// Stores the registration at the feed. Called once.
    pub(in crate::cache) fn sit(&self, seat: Seat) {
        let _ = self.seat.set(seat);
    }

    pub(crate) fn query(&self) -> &Query {
        &self.query
    }

    pub(crate) fn get(&self, key: &ObjectKey<K>) -> Option<Lazy<K>> {
        self.store.read().get(key).cloned()
    }

    /// Reads several indexes while no change is being applied, so that they agree on each object.
    ///
    /// `look` must be short: events wait for it.
    pub(in crate::cache) fn at_one_moment<T>(&self, look: impl FnOnce() -> T) -> T {
        let _indexed = self.indexed.read();
        look()
    }

    /// Returns all objects.
    pub(crate) fn snapshot(&self) -> OrdMap<ObjectKey<K>, Lazy<K>> {
        self.store.read().snapshot()
    }

    pub(crate) fn len(&self) -> usize {
        self.store.read().len()
    }

    pub(crate) fn status(&self) -> ordered_watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// Whether the initial lists of all current parts are complete.
    pub(in crate::cache) fn is_complete(&self) -> bool {
        // Never hold two of these locks at the same time.
        let (synced, parts) = (self.status.borrow().synced, self.query.parts());
        let store = self.store.read();
        synced && !self.query.is_removed() && parts.iter().all(|part| store.knows(part))
    }

    /// Waits until the initial lists of all current parts are complete, or the cluster was removed and no object is left.
    pub(in crate::cache) async fn until_complete(&self) {
        let mut status = self.status();
        loop {
            // Marked before the check, so that a change after the check ends the wait.
            status.mark_unchanged();
            if self.is_complete() || self.status.borrow().closed {
                return;
            }
            let _ = status.changed().await; // the sender lives in `self`
        }
    }

    /// Returns the version up to which the cache has received all changes.
    pub(crate) fn version(&self) -> Option<ResourceVersion> {
        let is_complete = self.is_complete();
        self.store.read().version().filter(|_| is_complete).map(of_number)
    }

    /// Returns the version up to which each part has received all changes.
    pub(crate) fn versions(&self) -> BTreeMap<Part, ResourceVersion> {
        let store = self.store.read();
        store.versions().map(|(part, number)| (part.clone(), of_number(number))).collect()
    }

    /// Returns the key of an object, or `None` if the query does not cover its namespace.
    fn key_here(&self, namespace: Option<&str>, name: &str) -> Option<ObjectKey<K>> {
        let here = self.query.namespaces.contain(namespace);
        ObjectKey::from_parts(namespace.map(Arc::from).as_ref(), name).filter(|_| here)
    }

    /// Checks that the cluster is still one of the manager's.
    ///
    /// # Errors
    ///
    /// It was removed.
    pub(in crate::cache) fn check_cluster(&self) -> Result<(), ReadError> {
        match self.query.cluster.as_ref().filter(|cluster| cluster.is_removed()) {
            None => Ok(()),
            Some(cluster) => Err(ReadError::ClusterRemoved {
                resource: self.query.label(),
                cluster: cluster.name().to_string(),
            }),
        }
    }

    /// Checks that all objects of the query have been listed.
    ///
    /// # Errors
    ///
    /// Some have not been listed yet, or the cluster was removed.
    pub(in crate::cache) fn check_synced(&self) -> Result<(), ReadError> {
        self.check_cluster()?;
        if self.has_static_parts_synced() {
            return Ok(());
        }
        // Handlers receive the objects of the last part before the status says `synced`.
        let (parts, store) = (self.query.parts(), self.store.read());
        if parts.iter().all(|part| store.knows(part)) { Ok(()) } else { Err(self.not_synced()) }
    }

    /// Checks that all objects of the query in one namespace have been listed, or all objects of a kind without
    /// namespaces.
    ///
    /// # Errors
    ///
    /// They have not been listed yet, the namespace is not part of the query, or the cluster was removed.
    pub(in crate::cache) fn check_synced_in(&self, namespace: Option<&str>) -> Result<(), ReadError> {
        self.check_cluster()?;
        if !self.query.namespaces.contain(namespace) {
            return Err(ReadError::OutsideNamespaces {
                resource: self.query.label(),
                namespace: namespace.map(str::to_owned),
                may_change: self.query.namespaces.may_change(),
            });
        }
        let is_known =
            self.has_static_parts_synced() || self.store.read().knows(&self.query.part_of(namespace));
        if is_known { Ok(()) } else { Err(self.not_synced()) }
    }

    /// Whether all parts are complete, and no parts can be added later.
    fn has_static_parts_synced(&self) -> bool {
        !self.query.namespaces.may_change() && self.status.borrow().synced
    }

    fn not_synced(&self) -> ReadError {
        ReadError::NotSynced { resource: self.query.label(), trouble: self.status.borrow().trouble() }
    }
}

fn of_number(number: u64) -> ResourceVersion {
    number.to_string().as_str().into()
}

/// Subscriptions and publication of changes.
impl<K: Object> Informer<K> {
    /// Subscribes with a mailbox that receives the initial list, then at most one waiting event per object.
    pub(in crate::cache) fn subscribe(self: &Arc<Self>) -> Place<K> {
        let mut writer = self.writer.lock();
        let initial = InitialList::superseded(self.store.read().watched());
        self.add_subscriber(&mut writer, Waiting::Coalesced(Box::new(Coalesced::after(initial))))
    }

    /// Subscribes a controller, which receives every event. Like [`Informer::subscribe`], but first replays recent
    /// deletions, which may have happened while another replica was leading. They precede the initial objects, since a
    /// name may have been reused. Indexes are at least as new as the initial list.
    ///
    /// Must not be called by user code, because it may call index functions.
    pub(in crate::cache) fn subscribe_controller(self: &Arc<Self>) -> Subscription<K> {
        let mut expired = Vec::new();
        let mut writer = self.writer.lock();
        // Publish pending changes first, so that no index lags behind the initial list.
        while let Some((last, _)) = writer.unpublished.last_key_value() {
            let last = *last;
            drop(writer);
            self.publish(last);
            writer = self.writer.lock();
        }
        let deletions = match &mut writer.tombstones {
            Some(tombstones) => {
                tombstones.expire(Instant::now(), &mut expired);
                tombstones.deletes().cloned().collect()
            }
            None => Vec::new(),
        };
        let initial = InitialList::new(self.store.read().watched());
        let place = self.add_subscriber(&mut writer, Waiting::Queue(VecDeque::new()));
        drop(writer);
        drop(expired);
        Subscription::new(deletions, initial, place)
    }

    fn add_subscriber(self: &Arc<Self>, writer: &mut Writer<K>, waiting: Waiting<K>) -> Place<K> {
        let (id, since) = (writer.next, writer.next_changes);
        writer.next += 1;
        let mailbox = Arc::new(Mailbox::new(waiting, &self.room));
        writer.subscribers.insert(id, Subscriber { mailbox: Arc::clone(&mailbox), since });
        Place { informer: Arc::clone(self), id, mailbox }
    }

    pub(in crate::cache) fn unsubscribe(&self, id: u64) {
        // The mailbox is dropped after the lock is released: its events may hold the last handles of objects.
        let _subscriber = self.writer.lock().subscribers.remove(&id);
    }

    /// Adds an index, which receives all changes from now on, and fills it with the current objects.
    pub(in crate::cache) fn add_index(&self, index: &Arc<dyn AnyIndex<K>>) {
        let snapshot = {
            let mut writer = self.writer.lock();
            writer.indexes.retain(|_, known| known.index.strong_count() > 0);
            let (id, since) = (writer.next, writer.next_changes);
            writer.next += 1;
            writer.indexes.insert(id, KeptIndex { index: Arc::downgrade(index), since });
            self.snapshot()
        };
        index.fill(&snapshot);
    }

    /// Returns the index by owner.
    pub(in crate::cache) fn owners(&self) -> &Table<K, Uid> {
        match self.owners.get() {
            Some(owners) => owners,
            None => {
                // Built outside of `OnceLock`, which would block other threads while index functions run. If two
                // threads build it at the same time, one index is dropped.
                let owners = index_table::by_owner(self);
                self.owners.get_or_init(|| owners)
            }
        }
    }

    /// Returns a handle that is notified whenever the visible state of the object changes.
    pub(in crate::cache) fn notify(&self, key: &ObjectKey<K>) -> Arc<Notify> {
        let mut writer = self.writer.lock();
        if let Some(notify) = writer.waiting.get(key).and_then(Weak::upgrade) {
            return notify;
        }
        let notify = Arc::new(Notify::new());
        writer.waiting.retain(|_, waiting| waiting.strong_count() > 0);
        writer.waiting.insert(key.clone(), Arc::downgrade(&notify));
        notify
    }

    /// Decodes an object that the watch delivered. If the store has the same version, returns the state in the store.
    fn take(&self, object: &Arrival<'_>) -> Option<Lazy<K>> {
        self.shelf.take_unless(object, |meta| self.store.read().known(meta))
    }

    /// Changes the store, then publishes the changes.
    fn update<T>(&self, change: impl FnOnce(&mut Writer<K>, &mut Store<K>, &mut Vec<Event<K>>) -> T) -> T {
        let (mut events, mut old_events) = (Vec::new(), Vec::new());
        let mut writer = self.writer.lock();
        let (done, changes, retired) = {
            let mut store = self.store.write();
            let done = change(&mut writer, &mut store, &mut events);
            events.extend(store.take_missed());
            (done, store.take_changes(), store.take_retired())
        };
        writer.indexes.retain(|_, kept| kept.index.strong_count() > 0);
        let number = writer.next_changes;
        // Without indexes there is no user code to run: publish under the same lock. Otherwise the changes are queued,
        // and the index functions run after the lock is released.
        if writer.unpublished.is_empty() && writer.indexes.is_empty() {
            self.apply(&mut writer, number, &changes, &events, &mut BTreeMap::new(), &mut old_events);
            drop(writer);
            // Replaced states are dropped now, without the lock: the last handle of an object runs its destructor.
            drop((changes, events, old_events, retired));
            return done;
        }
        writer.next_changes += 1;
        let changes =
            Changes { of_objects: changes.into(), events, of_indexes: BTreeMap::new(), _retired: retired };
        writer.unpublished.insert(number, changes);
        drop(writer);
        self.publish(number);
        done
    }

    /// Publishes queued changes up to `number`: to indexes first, because a handler may look up the object that it
    /// receives.
    ///
    /// Index functions run while no lock is held. A thread that finds changes which lack the result of an index
    /// function calls the function itself, even if another thread is already doing so. So no thread waits for user code
    /// of another one, and a function that calls back or never returns blocks no other thread. The first result is
    /// applied, in the order in which the changes happened.
    fn publish(&self, number: u64) {
        let mut found: Option<(u64, OfIndexes)> = None;
        loop {
            let (mut published, mut old_events) = (Vec::new(), Vec::new());
            let mut guard = self.writer.lock();
            let writer = &mut *guard;
            if let Some((number, of_indexes)) = &mut found
                && let Some(changes) = writer.unpublished.get_mut(number)
            {
                for (id, of_objects) in std::mem::take(of_indexes) {
                    changes.of_indexes.entry(id).or_insert(of_objects);
                }
            }
            // Publish all changes that are ready, up to the first that lacks the result of an index function.
            let lacking = loop {
                let Some((first, changes)) = writer.unpublished.first_key_value() else { break None };
                if *first > number {
                    break None;
                }
                let lacking: Vec<_> = writer
                    .indexes
                    .iter()
                    .filter(|(id, kept)| kept.since <= *first && !changes.of_indexes.contains_key(id))
                    .filter_map(|(id, kept)| Some((*id, kept.index.upgrade()?)))
                    .collect();
                if !lacking.is_empty() && !changes.of_objects.is_empty() {
                    break Some((*first, Arc::clone(&changes.of_objects), lacking));
                }
                let Some((first, mut changes)) = writer.unpublished.pop_first() else { break None };
                let Changes { of_objects, events, of_indexes, .. } = &mut changes;
                self.apply(writer, first, of_objects, events, of_indexes, &mut old_events);
                published.push(changes);
            };
            drop(guard);
            // Replaced states are dropped now, without the lock: the last handle of an object runs its destructor.
            drop((published, old_events, found.take()));
            let Some((first, changes, lacking)) = lacking else { return };
            let of_index = |(id, index): (u64, Arc<dyn AnyIndex<K>>)| {
                (id, changes.iter().map(|change| Arc::clone(&index).change(change)).collect())
            };
            found = Some((first, lacking.into_iter().map(of_index).collect()));
        }
    }

    /// Applies changes to the indexes, and appends the events to the mailboxes.
    fn apply(
        &self,
        writer: &mut Writer<K>,
        number: u64,
        of_objects: &[Change<K>],
        events: &[Event<K>],
        of_indexes: &mut OfIndexes,
        old_events: &mut Vec<Event<K>>,
    ) {
        for (place, change) in of_objects.iter().enumerate() {
            if !of_indexes.is_empty() {
                // Locked per object, so that readers of several indexes wait only shortly.
                let _indexed = self.indexed.write();
                for of_index in of_indexes.values_mut() {
                    of_index[place].apply();
                }
            }
            if let Some(waiting) = writer.waiting.get(&change.key).and_then(Weak::upgrade) {
                waiting.notify_waiters();
            }
        }
        if let Some(tombstones) = &mut writer.tombstones {
            let now = Instant::now();
            tombstones.expire(now, old_events);
            for event in events {
                tombstones.note(event, now, old_events);
            }
        }
        for event in events {
            for subscriber in writer.subscribers.values().filter(|subscriber| subscriber.since <= number) {
                subscriber.mailbox.push(event.clone(), old_events);
            }
        }
    }
}

/// Input from the feed.
impl<K: Object> Sink for Informer<K> {
    fn form(&self) -> Form {
        if K::metadata_api() { Form::Metadata } else { Form::Whole }
    }

    fn begin(&self, part: &Part) {
        self.shelf.count_list();
        let list = ListInTransit::new(BTreeMap::new());
        let before = self.writer.lock().arriving.insert(part.clone(), list);
        drop(before); // may hold the last handles of objects
    }

    fn arrived(&self, part: &Part, object: &Arrival<'_>) {
        if let Some(object) = self.take(object) {
            let mut writer = self.writer.lock();
            let before =
                writer.arriving.get_mut(part).and_then(|list| list.objects.insert(object.key(), object));
            drop(writer);
            drop(before);
        }
    }

    fn left(&self, part: &Part, object: &Arrival<'_>) {
        if let Some(object) = self.shelf.take(object) {
            let mut writer = self.writer.lock();
            let before = writer.arriving.get_mut(part).and_then(|list| list.objects.remove(&object.key()));
            drop(writer);
            drop(before);
        }
    }

    fn complete(&self, part: &Part, version: &ResourceVersion) -> bool {
        let is_whole = self.update(|writer, store, events| {
            let Some(list) = writer.arriving.get_mut(part) else { return true };
            let is_whole = store.replace_some(part, list, version.number(), PIECE as usize, events);
            if is_whole {
                writer.arriving.remove(part); // it is empty
            }
            is_whole
        });
        if is_whole {
            // Wakes tasks that wait for the part.
            self.status.send_modify(|status| status.listed(part));
        }
        is_whole
    }

    fn applied(&self, part: &Part, object: &Arrival<'_>) -> Result<Option<ResourceVersion>, OutOfOrder> {
        let Some(object) = self.take(object) else { return Ok(None) };
        let version = object.meta().resource_version().cloned();
        // Keeps a handle until the lock is released, in case the store does not keep one.
        let held = object.clone();
        let taken = self.update(|_, store, events| store.upsert(part, object).map(|new| *events = new));
        drop(held);
        taken.map(|()| version)
    }

    fn deleted(&self, part: &Part, object: &Arrival<'_>) -> Option<ResourceVersion> {
        let object = self.shelf.take(object)?;
        let version = object.meta().resource_version().cloned();
        let held = object.clone();
        self.update(|_, store, events| *events = store.remove(part, object));
        drop(held);
        version
    }

    fn passed(&self, part: &Part, version: &ResourceVersion) {
        self.update(|_, store, _| store.passed(part, version.number()));
    }

    fn lacks_room(&self) -> Option<OwnedNotified> {
        self.room.lacking()
    }

    fn held(&self) -> Vec<Part> {
        let mut parts: Vec<_> = self.writer.lock().arriving.keys().cloned().collect();
        parts.extend(self.store.read().parts().cloned());
        parts.extend(self.status.borrow().in_trouble().cloned());
        parts
    }

    fn withdraw(&self, part: &Part) -> bool {
        let arriving = self.writer.lock().arriving.remove(part);
        drop(arriving); // may hold the last handles of objects
        let is_gone = self.update(|writer, store, events| {
            let reached = writer.withdrawn.entry(part.clone()).or_default();
            let is_gone = store.withdraw_some(part, reached, PIECE as usize, events);
            if is_gone {
                writer.withdrawn.remove(part);
            }
            is_gone
        });
        if is_gone {
            // Wakes tasks that wait for the part.
            self.status.send_modify(|status| {
                status.works(part);
            });
        }
        is_gone
    }

    fn parts(&self, parts: &[Part]) {
        let store = self.store.read();
        if parts.iter().all(|part| store.knows(part)) {
            drop(store);
            self.status.send_if_modified(|status| !std::mem::replace(&mut status.synced, true));
        }
    }

    fn close(&self) {
        self.status.send_if_modified(|status| !std::mem::replace(&mut status.closed, true));
    }

    fn begin_anew(&self) {
        self.status.send_if_modified(Status::begin);
    }

    fn watching(&self) {
        self.shelf.count_watch();
    }

    fn watch_died(&self) {
        self.shelf.count_dead_watch();
    }

    fn probing(&self) {
        self.shelf.count_probe();
    }

    fn works(&self, part: &Part) {
        self.status.send_if_modified(|status| status.works(part));
    }

    fn is_behind(&self) -> bool {
        self.shelf.is_behind()
    }

    fn catch_up(&self) {
        self.shelf.catch_up();
    }

    fn is_training_due(&self) -> bool {
        self.shelf.is_training_due()
    }

    fn samples(&self) -> Option<Samples> {
        self.shelf.samples()
    }

    fn learn(&self, dictionary: Option<Arc<Dictionary>>) {
        self.shelf.learn(dictionary);
    }

    fn failed(&self, part: &Part, trouble: &Trouble) {
        self.shelf.count_failure();
        self.status.send_modify(|status| status.failed(part, trouble, Instant::now()));
    }

    fn resync(&self, now: Instant, rng: &mut fastrand::Rng) -> Option<Instant> {
        let mut writer = self.writer.lock();
        let due = writer.again.due(now, rng)?;
        if due > now {
            return Some(due);
        }
        if self.room.lacking().is_some() {
            return Some(now + RESYNC_AGAIN);
        }
        // Deliver a piece at a time, so that new events need not wait for the whole resync.
        let some = self.store.read().told_after(writer.told_again.as_ref(), TOLD_AGAIN_AT_ONCE);
        let mut retired = Vec::new();
        for object in &some {
            let event = Event::Update { old: object.clone(), new: object.clone() };
            for subscriber in writer.subscribers.values() {
                subscriber.mailbox.push(event.clone(), &mut retired);
            }
        }
        writer.told_again = some.last().filter(|_| some.len() == TOLD_AGAIN_AT_ONCE).map(Lazy::key);
        if writer.told_again.is_none() {
            writer.again.done(now, rng);
        }
        let due = writer.again.due(now, rng);
        drop(writer);
        drop((some, retired));
        due
    }

    fn waiting_since(&self, part: &Part) -> Option<Instant> {
        self.store.read().waiting_since(part)
    }
}

/// An informer, whatever its Rust type.
pub(crate) trait AnyInformer: Sink {
    /// The resource and its selection, as messages and metrics name them.
    fn resource(&self) -> String;

    /// Returns the sync status and current failures.
    fn status(&self) -> ordered_watch::Receiver<Status>;

    /// Returns the number and size of the cached objects.
    fn stats(&self) -> Stats;

    /// Returns how long the API server has sent nothing for these objects, for the longest silent list or watch. `None`
    /// before its first answer.
    fn silence(&self) -> Option<Duration>;

    /// Records the answer to a write, so that it is visible before the watch delivers it.
    fn wrote(&self, answer: &Split<'_>, object: &Arrival<'_>, now: Instant);

    /// Returns a version that the API server has reached, according to the watch or own writes of an object.
    fn reached(&self, namespace: Option<&str>, name: &str) -> Option<u64>;

    /// Hides a deleted object.
    fn gone(&self, namespace: Option<&str>, name: &str, end: &End, now: Instant);

    /// Hides an object that was most likely deleted.
    fn presumed_gone(&self, object: &Presumed, now: Instant);

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<K: Object> AnyInformer for Informer<K> {
    fn resource(&self) -> String {
        self.query.label()
    }

    fn status(&self) -> ordered_watch::Receiver<Status> {
        Informer::status(self)
    }

    fn stats(&self) -> Stats {
        self.shelf.stats()
    }

    fn silence(&self) -> Option<Duration> {
        self.seat.get()?.silence()
    }

    fn wrote(&self, answer: &Split<'_>, object: &Arrival<'_>, now: Instant) {
        if answer.meta().name().is_empty() {
            return; // not an object, such as the `Status` of a deletion
        }
        let selected = self.query.selects(answer);
        let Some(held) = self.shelf.take(object) else { return };
        let written = held.clone();
        self.update(|_, store, _| store.wrote(written, selected, now));
        drop(held); // not under the lock, in case the store did not keep it
    }

    fn reached(&self, namespace: Option<&str>, name: &str) -> Option<u64> {
        self.store.read().reached(&self.key_here(namespace, name)?)
    }

    fn gone(&self, namespace: Option<&str>, name: &str, end: &End, now: Instant) {
        let Some(key) = self.key_here(namespace, name) else { return };
        self.update(|_, store, _| store.deleted(&key, end.clone(), now));
    }

    fn presumed_gone(&self, object: &Presumed, now: Instant) {
        let Presumed { namespace, name, uid, version } = object;
        let key = self.key_here(namespace.as_deref(), name);
        let (Some(key), Some(version)) = (key, ResourceVersion::from(version.as_str()).number()) else {
            return;
        };
        self.update(|_, store, _| store.presumed_deleted(&key, Uid::from(uid.as_str()), version, now));
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}
