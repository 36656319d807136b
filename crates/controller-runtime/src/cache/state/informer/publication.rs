//! Changes of an informer's store, and their publication to indexes and subscribers.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Weak},
};

use parking_lot::MutexGuard;
use tokio::{sync::Notify, time::Instant};

use super::Informer;
use crate::{
    cache::{
        objects::{event::Event, lazy::Lazy},
        query::{
            WatchScope,
            resync::{Resync, Schedule},
        },
        state::{
            coalesced::Coalesced,
            index_table::{self, AnyIndex, IndexChange, Table},
            mailbox::{InitialList, Mailbox, MailboxHandle, Subscription, WaitingEvents},
            store::{Delta, ListInTransit, StateChange, Store},
            tombstones::{DeletionReplay, Tombstones},
        },
    },
    object::{Object, ObjectKey, meta::Uid},
};

/// State that changes together with the store: subscribers, indexes, and work that is in progress.
pub(super) struct Writer<K: Object> {
    /// Subscribers and their numbers, in the order in which they subscribed.
    pub(super) subscribers: Vec<(u64, EventSubscriber<K>)>,
    /// Number of the next subscriber or index.
    next: u64,
    /// Indexes and their numbers, in the order in which they were added.
    indexes: Vec<(u64, KeptIndex<K>)>,
    /// Changes of the store that indexes and subscribers have not received, and their numbers, in the order in which they
    /// happened. At most one per thread that changes the store now.
    unpublished: VecDeque<(u64, PendingChanges<K>)>,
    /// Number of the next changes.
    next_changes: u64,
    /// Tasks that wait for a change of the visible state of one object.
    waiting: BTreeMap<ObjectKey<K>, Weak<Notify>>,
    /// Initial lists that are incomplete, or are being added to the store.
    pub(super) arriving: BTreeMap<WatchScope, ListInTransit<K>>,
    /// Last removed key of each scope that is not watched any more and is being removed.
    pub(super) withdrawn: BTreeMap<WatchScope, Option<ObjectKey<K>>>,
    pub(super) resyncs: Schedule,
    /// Recent deletions, if the manager may become leader later.
    pub(super) tombstones: Option<Tombstones<K>>,
    /// Last object that the current resync delivered; `None` between resyncs.
    pub(super) resynced_to: Option<ObjectKey<K>>,
}

/// A subscriber to the events of an informer.
pub(super) struct EventSubscriber<K: Object> {
    pub(super) mailbox: Arc<Mailbox<K>>,
    /// Number of the first changes that are not part of its initial list.
    since: u64,
}

/// An index that is kept up to date as long as a reader has a handle.
struct KeptIndex<K: Object> {
    index: Weak<dyn AnyIndex<K>>,
    /// Number of the first changes that are not part of the snapshot from which it is filled.
    since: u64,
}

/// Changes of the store that were made under one lock.
struct PendingChanges<K: Object> {
    /// Changes of visible states.
    object_changes: Arc<[StateChange<K>]>,
    events: Vec<Event<K>>,
    /// Changes of indexes computed so far.
    index_changes: IndexChanges,
    /// Dropped after the lock is released: the last handle of an object runs its destructor.
    _retired: Vec<Lazy<K>>,
}

/// Computed changes of indexes, by the number of the index: one change for each changed object.
type IndexChanges = BTreeMap<u64, Vec<Box<dyn IndexChange>>>;

impl<K: Object> Writer<K> {
    pub(super) fn new(resync: Resync, replay: DeletionReplay) -> Self {
        let tombstones = match replay {
            DeletionReplay::Never => None,
            DeletionReplay::AfterElection => Some(Tombstones::default()),
        };
        Self {
            subscribers: Vec::new(),
            next: 0,
            indexes: Vec::new(),
            unpublished: VecDeque::new(),
            next_changes: 0,
            waiting: BTreeMap::new(),
            arriving: BTreeMap::new(),
            withdrawn: BTreeMap::new(),
            resyncs: Schedule::new(resync),
            tombstones,
            resynced_to: None,
        }
    }

    /// Whether the store has changes that indexes and subscribers have not received.
    pub(super) fn has_unpublished(&self) -> bool {
        !self.unpublished.is_empty()
    }
}

impl<K: Object> Informer<K> {
    /// Subscribes with a mailbox that receives the initial list, then at most one waiting event per object.
    pub(in crate::cache) fn subscribe(self: &Arc<Self>) -> MailboxHandle<K> {
        let mut writer = self.writer.lock();
        // Copied under the lock of the registration, so that no event is lost or delivered twice.
        let initial = InitialList::superseded(self.store.read().watched_snapshot());
        self.add_subscriber(&mut writer, WaitingEvents::Coalesced(Box::new(Coalesced::after(initial))))
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
        while let Some((last, _)) = writer.unpublished.back() {
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
        let initial = InitialList::new(self.store.read().watched_snapshot());
        let handle = self.add_subscriber(&mut writer, WaitingEvents::Queue(VecDeque::new()));
        drop(writer);
        drop(expired);
        Subscription::new(deletions, initial, handle)
    }

    fn add_subscriber(
        self: &Arc<Self>,
        writer: &mut Writer<K>,
        waiting: WaitingEvents<K>,
    ) -> MailboxHandle<K> {
        let (id, since) = (writer.next, writer.next_changes);
        writer.next += 1;
        let mailbox = Arc::new(Mailbox::new(waiting, &self.room));
        writer.subscribers.push((id, EventSubscriber { mailbox: Arc::clone(&mailbox), since }));
        MailboxHandle { informer: Arc::clone(self), id, mailbox }
    }

    pub(in crate::cache) fn unsubscribe(&self, id: u64) {
        let mut writer = self.writer.lock();
        let place = writer.subscribers.binary_search_by_key(&id, |(id, _)| *id).ok();
        let subscriber = place.map(|place| writer.subscribers.remove(place));
        drop(writer);
        // After the lock is released: the events of the mailbox may hold the last handles of objects.
        drop(subscriber);
    }

    /// Adds an index, which receives all changes from now on, and fills it with the current objects.
    pub(in crate::cache) fn add_index(&self, index: &Arc<dyn AnyIndex<K>>) {
        let snapshot = {
            let mut writer = self.writer.lock();
            writer.indexes.retain(|(_, known)| known.index.strong_count() > 0);
            let (id, since) = (writer.next, writer.next_changes);
            writer.next += 1;
            writer.indexes.push((id, KeptIndex { index: Arc::downgrade(index), since }));
            // Under the lock, so that the changes from `since` on are exactly those that the snapshot lacks.
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
    pub(in crate::cache) fn change_notify(&self, key: &ObjectKey<K>) -> Arc<Notify> {
        let mut writer = self.writer.lock();
        if let Some(notify) = writer.waiting.get(key).and_then(Weak::upgrade) {
            return notify;
        }
        let notify = Arc::new(Notify::new());
        writer.waiting.retain(|_, waiting| waiting.strong_count() > 0);
        writer.waiting.insert(key.clone(), Arc::downgrade(&notify));
        notify
    }

    /// Changes the store, then publishes the changes.
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut Writer<K>, &mut Store<K>) -> (T, Delta<K>)) -> T {
        let mut writer = self.writer.lock();
        // The store is locked for this line only. The writer stays locked, so that changes are published in
        // their order.
        let (done, delta) = change(&mut writer, &mut self.store.write());
        self.publish_delta(writer, delta);
        done
    }

    /// Publishes changes that the store has just undergone under the lock. A function of its own, so that the compiler does not copy it for
    /// each change of the store.
    fn publish_delta(&self, mut writer: MutexGuard<'_, Writer<K>>, delta: Delta<K>) {
        let mut old_events = Vec::new();
        let Delta { events, changes, retired, .. } = delta.joined();
        // An index without handles would cost a call of its function for each change.
        writer.indexes.retain(|(_, kept)| kept.index.strong_count() > 0);
        let number = writer.next_changes;
        // Without indexes there is no user code to run: publish under the same lock. Otherwise the changes are queued,
        // and the index functions run after the lock is released.
        if writer.unpublished.is_empty() && writer.indexes.is_empty() {
            self.apply(&mut writer, number, &changes, &events, &mut BTreeMap::new(), &mut old_events);
            drop(writer);
            // Replaced states are dropped now, without the lock: the last handle of an object runs its destructor.
            drop((changes, events, old_events, retired));
            return;
        }
        writer.next_changes += 1;
        let changes = PendingChanges {
            object_changes: changes.into(),
            events,
            index_changes: BTreeMap::new(),
            _retired: retired,
        };
        writer.unpublished.push_back((number, changes));
        drop(writer);
        self.publish(number);
    }

    /// Publishes queued changes up to `number`: to indexes first, because a handler may look up the object that it
    /// receives.
    ///
    /// Index functions run while no lock is held. A thread that finds changes which lack the result of an index
    /// function calls the function itself, even if another thread is already doing so. So no thread waits for user code
    /// of another one, and a function that calls back or never returns blocks no other thread. The first result is
    /// applied, in the order in which the changes happened.
    fn publish(&self, number: u64) {
        let mut found: Option<(u64, IndexChanges)> = None;
        loop {
            let (mut published, mut old_events) = (Vec::new(), Vec::new());
            let mut guard = self.writer.lock();
            let writer = &mut *guard;
            if let Some((number, index_changes)) = &mut found
                && let Ok(place) = writer.unpublished.binary_search_by_key(number, |(number, _)| *number)
            {
                let (_, changes) = &mut writer.unpublished[place];
                for (id, object_changes) in std::mem::take(index_changes) {
                    changes.index_changes.entry(id).or_insert(object_changes);
                }
            }
            // Publish all changes that are ready, up to the first that lacks the result of an index function.
            let lacking = loop {
                let Some((first, changes)) = writer.unpublished.front() else { break None };
                // Later changes are published by the threads that made them.
                if *first > number {
                    break None;
                }
                let lacking: Vec<_> = writer
                    .indexes
                    .iter()
                    .filter(|(id, kept)| kept.since <= *first && !changes.index_changes.contains_key(id))
                    .filter_map(|(id, kept)| Some((*id, kept.index.upgrade()?)))
                    .collect();
                // Without changes of visible states there is nothing for an index function to compute.
                if !lacking.is_empty() && !changes.object_changes.is_empty() {
                    break Some((*first, Arc::clone(&changes.object_changes), lacking));
                }
                let Some((first, mut changes)) = writer.unpublished.pop_front() else { break None };
                let PendingChanges { object_changes, events, index_changes, .. } = &mut changes;
                self.apply(writer, first, object_changes, events, index_changes, &mut old_events);
                published.push(changes);
            };
            drop(guard);
            // Replaced states are dropped now, without the lock: the last handle of an object runs its destructor.
            drop((published, old_events, found.take()));
            let Some((first, changes, lacking)) = lacking else { return };
            let index_change = |(id, index): (u64, Arc<dyn AnyIndex<K>>)| {
                (id, changes.iter().map(|change| Arc::clone(&index).change(change)).collect())
            };
            found = Some((first, lacking.into_iter().map(index_change).collect()));
        }
    }

    /// Applies changes to the indexes, and appends the events to the mailboxes.
    fn apply(
        &self,
        writer: &mut Writer<K>,
        number: u64,
        object_changes: &[StateChange<K>],
        events: &[Event<K>],
        index_changes: &mut IndexChanges,
        old_events: &mut Vec<Event<K>>,
    ) {
        for (place, change) in object_changes.iter().enumerate() {
            if !index_changes.is_empty() {
                // Locked per object, so that readers of several indexes wait only shortly.
                let _indexed = self.indexed.write();
                for index_change in index_changes.values_mut() {
                    index_change[place].apply();
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
            for (_, subscriber) in
                writer.subscribers.iter().filter(|(_, subscriber)| subscriber.since <= number)
            {
                subscriber.mailbox.push(event.clone(), old_events);
            }
        }
    }
}
