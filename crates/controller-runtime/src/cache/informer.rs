//! All objects of one kind as one Rust type, and who wants to know of their changes.

use std::{
    any::Any,
    collections::{BTreeMap, VecDeque},
    sync::{Arc, OnceLock, Weak},
};

use imbl::OrdMap;
use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{Notify, futures::OwnedNotified, watch},
    time::{Duration, Instant},
};

use super::{
    ResourceVersion, Uid,
    arrival::{Arrival, Intake},
    events::Coalesced,
    feed::{Form, PIECE, Sink, Trouble},
    index::{self, AnyIndex, IndexChange, Table},
    lazy::Lazy,
    mailbox::{InitialList, Mailbox, Place, Room, Subscription, Waiting},
    query::Query,
    read_error::ReadError,
    registry::Seat,
    resync::{Resync, Schedule},
    shelf::{Holding, Shelf},
    split::Split,
    stats::Stats,
    status::Status,
    store::{Change, End, ListInTransit, OutOfOrder, Part, Store},
    tombstones::Tombstones,
};
use crate::{
    client::Presumed,
    event::Event,
    object::{Object, ObjectKey},
};

/// All objects of a query as one Rust type. A [`Feed`](super::feed::Feed) keeps it up to date.
///
/// User code never runs under a lock: predicates and handlers run in the tasks of the subscribers ([`mailbox`](super::mailbox)),
/// index functions between a change of the store and its publication ([`Informer::publish`]).
pub(crate) struct Informer<K: Object> {
    query: Query,
    /// Makes of what the API server sends what the store holds.
    shelf: Shelf<K>,
    store: RwLock<Store<K>>,
    /// Held while the store changes and while mailboxes receive the events, so that every subscriber sees events in one order, and a
    /// late one sees the present first. Taken before `store`, never while it is held.
    writer: Mutex<Writer<K>>,
    status: watch::Sender<Status>,
    /// The objects by owner, once somebody asked.
    owners: OnceLock<Arc<Table<K, Uid>>>,
    /// The place at the feed, given up with the informer.
    seat: OnceLock<Seat>,
    /// Held to read while several indexes are looked at, so that they say the same of each object.
    indexed: RwLock<()>,
    /// Mailboxes that are full.
    room: Arc<Room>,
}

struct Writer<K: Object> {
    /// In the order in which they subscribed.
    subscribers: BTreeMap<u64, Subscriber<K>>,
    next: u64,
    indexes: BTreeMap<u64, KeptIndex<K>>,
    /// Changes of the store that indexes and subscribers have yet to learn of, by number, in the order in which they happened.
    /// As many as there are threads that change the store at this moment.
    unpublished: BTreeMap<u64, Changes<K>>,
    /// Number of the next of them.
    next_changes: u64,
    /// Woken when readers see one object otherwise.
    waiting: BTreeMap<ObjectKey<K>, Weak<Notify>>,
    /// Presents that have not arrived whole.
    arriving: BTreeMap<Part, ListInTransit<K>>,
    /// How far parts that are not watched any more have been removed.
    withdrawn: BTreeMap<Part, Option<ObjectKey<K>>>,
    again: Schedule,
    /// What went, where a manager may begin to lead later.
    tombstones: Option<Tombstones<K>>,
    /// The last object that was told again, while that goes on.
    told_again: Option<ObjectKey<K>>,
}

struct Subscriber<K: Object> {
    mailbox: Arc<Mailbox<K>>,
    /// Number of the first changes that its initial list did not include.
    since: u64,
}

struct KeptIndex<K: Object> {
    index: Weak<dyn AnyIndex<K>>,
    /// Number of the first changes that its snapshot did not include.
    since: u64,
}

/// What happened to the store at once.
struct Changes<K: Object> {
    /// What readers see otherwise.
    of_objects: Arc<[Change<K>]>,
    events: Vec<Event<K>>,
    /// What each index makes of `of_objects`, by the number of the index.
    of_indexes: OfIndexes,
    /// Kept until the lock is released: the last handle of an object runs its destructor.
    _retired: Vec<Lazy<K>>,
}

type OfIndexes = BTreeMap<u64, Vec<Box<dyn IndexChange>>>;

/// How many objects are told again before events get their turn.
const TOLD_AGAIN_AT_ONCE: usize = 256;

/// How long a resync waits for subscribers that have too many events to take.
const RESYNC_AGAIN: Duration = Duration::from_millis(10);

/// Reading.
impl<K: Object> Informer<K> {
    /// Of the kind that `info` says.
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
            status: watch::Sender::default(),
            owners: OnceLock::new(),
            seat: OnceLock::new(),
            indexed: RwLock::default(),
            room: Arc::default(),
        }
    }

    /// Takes the place at the feed, once.
    pub(super) fn sit(&self, seat: Seat) {
        let _ = self.seat.set(seat);
    }

    pub(crate) fn query(&self) -> &Query {
        &self.query
    }

    pub(crate) fn get(&self, key: &ObjectKey<K>) -> Option<Lazy<K>> {
        self.store.read().get(key).cloned()
    }

    /// Looks at several indexes while no object is in one of them as it is and in another one as it was.
    ///
    /// `look` must not be long: events wait for it.
    pub(super) fn at_one_moment<T>(&self, look: impl FnOnce() -> T) -> T {
        let _indexed = self.indexed.read();
        look()
    }

    /// All objects as of now.
    pub(crate) fn snapshot(&self) -> OrdMap<ObjectKey<K>, Lazy<K>> {
        self.store.read().snapshot()
    }

    pub(crate) fn len(&self) -> usize {
        self.store.read().len()
    }

    pub(crate) fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// Whether it knows the present of all parts that there are now.
    pub(super) fn is_complete(&self) -> bool {
        // One lock at a time.
        let (synced, parts) = (self.status.borrow().synced, self.query.parts());
        let store = self.store.read();
        synced && parts.iter().all(|part| store.knows(part))
    }

    /// Waits until it knows the present of all parts that there are then.
    pub(super) async fn until_complete(&self) {
        let mut status = self.status();
        loop {
            status.mark_unchanged();
            if self.is_complete() {
                return;
            }
            let _ = status.changed().await; // the sender lives in `self`
        }
    }

    /// The version up to which everything has been told.
    pub(crate) fn version(&self) -> Option<ResourceVersion> {
        let is_complete = self.is_complete();
        self.store.read().version().filter(|_| is_complete).map(of_number)
    }

    /// The version up to which everything of each part has been told.
    pub(crate) fn versions(&self) -> BTreeMap<Part, ResourceVersion> {
        let store = self.store.read();
        store.versions().map(|(part, number)| (part.clone(), of_number(number))).collect()
    }

    /// The key of an object, if it may be among these.
    fn key_here(&self, namespace: Option<&str>, name: &str) -> Option<ObjectKey<K>> {
        let here = self.query.namespaces.contain(namespace);
        ObjectKey::from_parts(namespace.map(Arc::from).as_ref(), name).filter(|_| here)
    }

    /// Checks that all objects of the query are known.
    ///
    /// # Errors
    ///
    /// Some of them have not been listed yet.
    pub(super) fn check_synced(&self) -> Result<(), ReadError> {
        if self.has_static_parts_synced() {
            return Ok(());
        }
        // Handlers receive the objects of the last part before the status says that all are known.
        let (parts, store) = (self.query.parts(), self.store.read());
        if parts.iter().all(|part| store.knows(part)) { Ok(()) } else { Err(self.not_synced()) }
    }

    /// Checks that all objects of the query in one namespace are known, or those of a kind without namespaces.
    ///
    /// # Errors
    ///
    /// They have not been listed yet, or are outside the namespaces of the query.
    pub(super) fn check_synced_in(&self, namespace: Option<&str>) -> Result<(), ReadError> {
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

    /// Whether all parts are known, and stay so because there will be no others.
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

/// Being told.
impl<K: Object> Informer<K> {
    /// A mailbox that receives the initial list and every event after it, one an object.
    pub(super) fn subscribe(self: &Arc<Self>) -> Place<K> {
        let mut writer = self.writer.lock();
        let initial = InitialList::superseded(self.store.read().watched());
        self.add_subscriber(&mut writer, Waiting::Coalesced(Box::new(Coalesced::after(initial))))
    }

    /// Like [`Informer::subscribe`] for a controller, which receives every event, and first those of objects that went lately:
    /// while another process led, there was no controller to receive them. They come before the initial list, because
    /// another object may have taken the name since. No index lags behind the initial list.
    ///
    /// User code must not call it: it may call index functions.
    pub(super) fn subscribe_controller(self: &Arc<Self>) -> Subscription<K> {
        let mut expired = Vec::new();
        let mut writer = self.writer.lock();
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

    pub(super) fn unsubscribe(&self, id: u64) {
        // What is in the mailbox is dropped after the lock is released.
        let _subscriber = self.writer.lock().subscribers.remove(&id);
    }

    /// Keeps an index up to date from now on, and fills it with the present.
    pub(super) fn add_index(&self, index: &Arc<dyn AnyIndex<K>>) {
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

    /// The objects by owner.
    pub(super) fn owners(&self) -> &Table<K, Uid> {
        match self.owners.get() {
            Some(owners) => owners,
            None => {
                // Made outside of the `OnceLock`, which is a lock like others: of two made at the same time one is dropped.
                let owners = index::by_owner(self);
                self.owners.get_or_init(|| owners)
            }
        }
    }

    /// Woken whenever readers see the object otherwise.
    pub(super) fn notify(&self, key: &ObjectKey<K>) -> Arc<Notify> {
        let mut writer = self.writer.lock();
        if let Some(notify) = writer.waiting.get(key).and_then(Weak::upgrade) {
            return notify;
        }
        let notify = Arc::new(Notify::new());
        writer.waiting.retain(|_, waiting| waiting.strong_count() > 0);
        writer.waiting.insert(key.clone(), Arc::downgrade(&notify));
        notify
    }

    /// Takes an object that was told. A state that is held already stays the one held.
    fn take(&self, object: &Arrival<'_>) -> Option<Lazy<K>> {
        self.shelf.take_unless(object, |meta| self.store.read().known(meta))
    }

    /// Changes the store, then publishes what has changed.
    fn update<T>(&self, change: impl FnOnce(&mut Writer<K>, &mut Store<K>, &mut Vec<Event<K>>) -> T) -> T {
        let (mut events, mut old_events) = (Vec::new(), Vec::new());
        let mut writer = self.writer.lock();
        let (done, changes, retired) = {
            let mut store = self.store.write();
            let done = change(&mut writer, &mut store, &mut events);
            (done, store.take_changes(), store.take_retired())
        };
        writer.indexes.retain(|_, kept| kept.index.strong_count() > 0);
        let number = writer.next_changes;
        if writer.unpublished.is_empty() && writer.indexes.is_empty() {
            self.apply(&mut writer, number, &changes, &events, &mut BTreeMap::new(), &mut old_events);
            drop(writer);
            // What was replaced is dropped now: the last handle of an object runs its destructor.
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

    /// Publishes the changes of a number and those before them: to indexes first, because a handler may look there for what it
    /// receives.
    ///
    /// Index functions run while no lock is held. A thread that finds changes which an index lacks calls the function, even if
    /// another thread is about to. So no thread waits for user code of another one, and a function that comes back here or
    /// does not return blocks no other thread. The values found are applied once, in the order in which the changes happened.
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
            // All that are ready, up to the first that lacks something.
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
            // What was replaced is dropped now: the last handle of an object runs its destructor.
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

/// Being fed.
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
            // Wakes who waits for the part.
            self.status.send_modify(|status| status.listed(part));
        }
        is_whole
    }

    fn applied(&self, part: &Part, object: &Arrival<'_>) -> Result<Option<ResourceVersion>, OutOfOrder> {
        let Some(object) = self.take(object) else { return Ok(None) };
        let version = object.meta().resource_version().cloned();
        // A handle that outlives the lock, in case that the store does not keep one.
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
            // Wakes who waits for the part.
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
        // A piece at a time, so that what happens meanwhile need not wait for the rest.
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

/// An informer of some type.
pub(crate) trait AnyInformer: Sink {
    /// The resource and its selection, as messages and metrics name them.
    fn resource(&self) -> String;

    /// Whether it knows the present.
    fn status(&self) -> watch::Receiver<Status>;

    /// What it holds.
    fn stats(&self) -> Stats;

    /// For how long the API server has said nothing of its objects: of its lists and watches the longest. `None` before the
    /// first word.
    fn silence(&self) -> Option<Duration>;

    /// Lays the answer to a write over what the watch has told, as the watch will tell it.
    fn wrote(&self, answer: &Split<'_>, object: &Arrival<'_>, now: Instant);

    /// A version that the API server has reached, as far as was told or written of an object.
    fn reached(&self, namespace: Option<&str>, name: &str) -> Option<u64>;

    /// Hides an object that is gone.
    fn gone(&self, namespace: Option<&str>, name: &str, end: &End, now: Instant);

    /// Hides an object that is most likely gone.
    fn presumed_gone(&self, object: &Presumed, now: Instant);

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<K: Object> AnyInformer for Informer<K> {
    fn resource(&self) -> String {
        self.query.label()
    }

    fn status(&self) -> watch::Receiver<Status> {
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
            return; // it is no object
        }
        let selected = self.query.selects(answer);
        let Some(held) = self.shelf.take(object) else { return };
        let written = held.clone();
        self.update(|_, store, _| store.wrote(written, selected, now));
        drop(held); // not under the lock, in case that the store has not taken it
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
