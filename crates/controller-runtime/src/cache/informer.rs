//! All objects of one kind as one Rust type, and who wants to know of their changes.

use std::{
    any::Any,
    collections::BTreeMap,
    sync::{Arc, OnceLock, Weak},
};

use imbl::OrdMap;
use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{Notify, watch},
    time::{Duration, Instant},
};

use super::{
    ResourceVersion, Uid,
    arrival::{Arrival, Intake},
    feed::{Form, Sink, Trouble},
    hints::Hints,
    index::{self, AnyIndex, Table},
    lazy::Lazy,
    query::Query,
    registry::Seat,
    resync::{Resync, Schedule},
    shelf::{Holding, Shelf},
    split::Split,
    stats::Stats,
    status::Status,
    store::{End, OutOfOrder, Part, Store},
    tombstones::Tombstones,
};
use crate::{
    client::Presumed,
    event::Event,
    object::{Object, ObjectKey},
};

/// All objects of a query as one Rust type. A [`Feed`](super::feed::Feed) keeps it up to date.
pub(crate) struct Informer<K: Object> {
    query: Query,
    /// Makes of what the API server sends what the store holds.
    shelf: Shelf<K>,
    store: RwLock<Store<K>>,
    /// Held while the store changes and while that is told, so that every subscriber sees events in one order, and a late
    /// one sees the present first. Taken before `store`, never while it is held.
    writer: Mutex<Writer<K>>,
    status: watch::Sender<Status>,
    /// The objects by owner, once somebody asked.
    owners: OnceLock<Arc<Table<K, Uid>>>,
    /// The place at the feed, given up with the informer.
    seat: OnceLock<Seat>,
    /// Held to read while several indexes are looked at, so that they say the same of each object.
    indexed: RwLock<()>,
    hints: Hints,
}

struct Writer<K: Object> {
    /// In the order in which they subscribed.
    subscribers: BTreeMap<u64, Subscriber<K>>,
    next: u64,
    indexes: Vec<Weak<dyn AnyIndex<K>>>,
    /// Woken when readers see one object otherwise.
    waiting: BTreeMap<ObjectKey<K>, Weak<Notify>>,
    /// Presents that have not arrived whole.
    arriving: BTreeMap<Part, BTreeMap<ObjectKey<K>, Lazy<K>>>,
    again: Schedule,
    /// What went, where a manager may begin to lead later.
    tombstones: Option<Tombstones<K>>,
    /// The last object that was told again, while that goes on.
    told_again: Option<ObjectKey<K>>,
}

/// How many objects are told again before events get their turn.
const TOLD_AGAIN_AT_ONCE: usize = 256;

type Subscriber<K> = Box<dyn Fn(&Event<K>) + Send>;

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
        let (subscribers, waiting, arriving) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let store = Store::with_apart(query.watched_apart().cloned().collect());
        Self {
            query,
            shelf: Shelf::new(info, holding, intake),
            store: RwLock::new(store),
            writer: Mutex::new(Writer {
                subscribers,
                next: 0,
                indexes: Vec::new(),
                waiting,
                arriving,
                again: Schedule::new(resync),
                told_again: None,
                tombstones: remembers.then(Tombstones::default),
            }),
            status: watch::Sender::default(),
            owners: OnceLock::new(),
            seat: OnceLock::new(),
            indexed: RwLock::default(),
            hints: Hints::default(),
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

    /// Says, once, that somebody looks where this is not, which looks as if nothing was there.
    pub(crate) fn look_outside(&self, namespace: Option<&str>) {
        self.hints.looked_into(namespace, &self.query);
    }

    /// Says, once, that somebody looks before the present is known, which looks as if nothing was there.
    pub(crate) fn look_early(&self) {
        self.hints.looked(|| self.status.borrow().synced, &self.query);
    }
}

fn of_number(number: u64) -> ResourceVersion {
    number.to_string().as_str().into()
}

/// Being told.
impl<K: Object> Informer<K> {
    /// Calls `subscriber` with what the watch has told, as initial creates in key order, and then with every event, until
    /// the subscription is dropped, which keeps the informer going.
    ///
    /// It is called where events are delivered and must neither block nor panic.
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        subscriber: impl Fn(&Event<K>) + Send + 'static,
    ) -> Subscription {
        let mut writer = self.writer.lock();
        self.tell_present(&subscriber);
        self.add_subscriber(&mut writer, subscriber)
    }

    /// The same for a controller, which is told of what went lately as well, because it may be the first one that is told of
    /// it: as long as another process led, nobody was here. That comes first: what took the name of what went is there.
    pub(crate) fn subscribe_controller(
        self: &Arc<Self>,
        subscriber: impl Fn(&Event<K>) + Send + 'static,
    ) -> Subscription {
        let mut writer = self.writer.lock();
        if let Some(tombstones) = &mut writer.tombstones {
            tombstones.expire(Instant::now());
            tombstones.deletes().for_each(&subscriber);
        }
        self.tell_present(&subscriber);
        self.add_subscriber(&mut writer, subscriber)
    }

    fn tell_present(&self, subscriber: &impl Fn(&Event<K>)) {
        let told: Vec<_> = self.store.read().told().collect();
        for object in told {
            subscriber(&Event::Create { object, in_initial_list: true });
        }
    }

    fn add_subscriber(
        self: &Arc<Self>,
        writer: &mut Writer<K>,
        subscriber: impl Fn(&Event<K>) + Send + 'static,
    ) -> Subscription {
        let id = writer.next;
        writer.next += 1;
        writer.subscribers.insert(id, Box::new(subscriber));
        let informer = Arc::clone(self);
        Subscription { end: Some(Box::new(move || informer.unsubscribe(id))) }
    }

    fn unsubscribe(&self, id: u64) {
        // What the subscriber holds is dropped after the lock is released.
        let _subscriber = self.writer.lock().subscribers.remove(&id);
    }

    /// Keeps an index up to date from now on, and fills it with the present.
    pub(super) fn add_index(&self, index: &Arc<dyn AnyIndex<K>>) {
        let mut writer = self.writer.lock();
        for (key, object) in &self.snapshot() {
            index.change(key, None, Some(object))();
        }
        writer.indexes.retain(|known| known.strong_count() > 0);
        writer.indexes.push(Arc::downgrade(index));
    }

    /// The objects by owner.
    pub(super) fn owners(&self) -> &Table<K, Uid> {
        self.owners.get_or_init(|| {
            let table = Arc::new(index::by_owner());
            let index: Arc<dyn AnyIndex<K>> = Arc::clone(&table) as _;
            self.add_index(&index);
            table
        })
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

    /// Changes the store, then tells everybody.
    fn update(&self, writer: &mut Writer<K>, change: impl FnOnce(&mut Store<K>) -> Vec<Event<K>>) {
        let events = {
            let mut store = self.store.write();
            change(&mut store)
        };
        self.tell(writer, &events);
    }

    /// Changes much of the store at once: a copy of it, so that readers wait for nothing but its taking the place of the
    /// old one.
    fn update_much(&self, writer: &mut Writer<K>, change: impl FnOnce(&mut Store<K>) -> Vec<Event<K>>) {
        let mut store = self.store.read().clone();
        let events = change(&mut store);
        let old = std::mem::replace(&mut *self.store.write(), store);
        drop(old);
        self.tell(writer, &events);
    }

    /// Tells of what has changed in the store, indexes first: who is told of a change may look for it.
    fn tell(&self, writer: &mut Writer<K>, events: &[Event<K>]) {
        let changes = self.store.write().take_changes();
        let indexes: Vec<_> = writer.indexes.iter().filter_map(Weak::upgrade).collect();
        for change in changes {
            let of_each = indexes
                .iter()
                .map(|index| index.change(&change.key, change.old.as_ref(), change.new.as_ref()));
            let of_each: Vec<_> = of_each.collect();
            if !of_each.is_empty() {
                let _indexed = self.indexed.write();
                of_each.into_iter().for_each(|take_over| take_over());
            }
            if let Some(waiting) = writer.waiting.get(&change.key).and_then(Weak::upgrade) {
                waiting.notify_waiters();
            }
        }
        if let Some(tombstones) = &mut writer.tombstones {
            let now = Instant::now();
            tombstones.expire(now);
            events.iter().for_each(|event| tombstones.note(event, now));
        }
        for event in events {
            for subscriber in writer.subscribers.values() {
                subscriber(event);
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
        self.writer.lock().arriving.insert(part.clone(), BTreeMap::new());
    }

    fn arrived(&self, part: &Part, object: &Arrival<'_>) {
        if let Some(object) = self.take(object) {
            self.writer.lock().arriving.entry(part.clone()).or_default().insert(object.key(), object);
        }
    }

    fn left(&self, part: &Part, object: &Arrival<'_>) {
        if let Some(object) = self.shelf.take(object) {
            self.writer.lock().arriving.entry(part.clone()).or_default().remove(&object.key());
        }
    }

    fn complete(&self, part: &Part, version: &ResourceVersion) {
        let mut writer = self.writer.lock();
        let list = writer.arriving.remove(part).unwrap_or_default();
        self.update_much(&mut writer, |store| store.replace(part, list.into_values(), version.number()));
        drop(writer);
        // Wakes who waits for the part.
        self.status.send_modify(|status| status.listed(part));
    }

    fn applied(&self, part: &Part, object: &Arrival<'_>) -> Result<Option<ResourceVersion>, OutOfOrder> {
        let Some(object) = self.take(object) else { return Ok(None) };
        let mut taken = Ok(object.meta().resource_version().cloned());
        self.update(&mut self.writer.lock(), |store| {
            store.upsert(part, object).unwrap_or_else(|out_of_order| {
                taken = Err(out_of_order);
                Vec::new()
            })
        });
        taken
    }

    fn deleted(&self, part: &Part, object: &Arrival<'_>) -> Option<ResourceVersion> {
        let object = self.shelf.take(object)?;
        let version = object.meta().resource_version().cloned();
        self.update(&mut self.writer.lock(), |store| store.remove(part, object));
        version
    }

    fn passed(&self, part: &Part, version: &ResourceVersion) {
        self.update(&mut self.writer.lock(), |store| {
            store.passed(part, version.number());
            Vec::new()
        });
    }

    fn held(&self) -> Vec<Part> {
        let mut parts: Vec<_> = self.writer.lock().arriving.keys().cloned().collect();
        parts.extend(self.store.read().parts().cloned());
        parts.extend(self.status.borrow().in_trouble().cloned());
        parts
    }

    fn withdraw(&self, part: &Part) {
        let mut writer = self.writer.lock();
        writer.arriving.remove(part);
        self.update_much(&mut writer, |store| store.withdraw(part));
        drop(writer);
        // Wakes who waits for the part.
        self.status.send_modify(|status| {
            status.works(part);
        });
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
        // A piece at a time, so that what happens meanwhile need not wait for the rest.
        let some = self.store.read().told_after(writer.told_again.as_ref(), TOLD_AGAIN_AT_ONCE);
        for object in &some {
            let event = Event::Update { old: object.clone(), new: object.clone() };
            writer.subscribers.values().for_each(|subscriber| subscriber(&event));
        }
        writer.told_again = some.last().filter(|_| some.len() == TOLD_AGAIN_AT_ONCE).map(Lazy::key);
        if writer.told_again.is_none() {
            writer.again.done(now, rng);
        }
        writer.again.due(now, rng)
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
        self.update(&mut self.writer.lock(), |store| {
            store.wrote(held, selected, now);
            Vec::new()
        });
    }

    fn reached(&self, namespace: Option<&str>, name: &str) -> Option<u64> {
        self.store.read().reached(&self.key_here(namespace, name)?)
    }

    fn gone(&self, namespace: Option<&str>, name: &str, end: &End, now: Instant) {
        let Some(key) = self.key_here(namespace, name) else { return };
        self.update(&mut self.writer.lock(), |store| {
            store.deleted(&key, end.clone(), now);
            Vec::new()
        });
    }

    fn presumed_gone(&self, object: &Presumed, now: Instant) {
        let Presumed { namespace, name, uid, version } = object;
        let key = self.key_here(namespace.as_deref(), name);
        let (Some(key), Some(version)) = (key, ResourceVersion::from(version.as_str()).number()) else {
            return;
        };
        self.update(&mut self.writer.lock(), |store| {
            store.presumed_deleted(&key, Uid::from(uid.as_str()), version, now);
            Vec::new()
        });
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// A place among the subscribers, given up when it is dropped.
#[must_use = "dropping it ends the subscription"]
pub(crate) struct Subscription {
    end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end();
        }
    }
}
