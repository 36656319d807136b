//! All objects of one kind, and who wants to know of their changes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use super::{
    lazy::Lazy,
    shelf::{Holding, Shelf},
    store::Store,
};
use crate::{
    event::Event,
    object::{Object, ObjectKey},
};

/// All objects of one kind, kept up to date while [`Informer::run`] runs.
pub(crate) struct Informer<K: Object> {
    /// Makes of what the API server sends what the store holds.
    pub(super) shelf: Shelf<K>,
    store: RwLock<Store<K>>,
    /// Held while events are delivered, so that every subscriber sees them in one order, and a late one sees the
    /// present first. Taken before `store`, never while it is held.
    subscribers: Mutex<Subscribers<K>>,
    status: watch::Sender<Status>,
}

struct Subscribers<K: Object> {
    /// In the order in which they subscribed.
    all: BTreeMap<u64, Subscriber<K>>,
    next: u64,
}

type Subscriber<K> = Box<dyn Fn(&Event<K>) + Send>;

/// Whether an informer knows the present.
#[derive(Debug, Clone, Default)]
pub(crate) struct Status {
    pub(crate) synced: bool,
    /// What last went wrong, until something goes right.
    pub(crate) error: Option<String>,
}

impl<K: Object> Informer<K> {
    /// Of the kind that `info` says.
    pub(crate) fn new(info: &K::DynamicType, holding: Holding, managed_fields: bool) -> Self {
        Self {
            shelf: Shelf::new(info, holding, managed_fields),
            store: RwLock::default(),
            subscribers: Mutex::new(Subscribers { all: BTreeMap::new(), next: 0 }),
            status: watch::Sender::default(),
        }
    }

    pub(crate) fn get(&self, key: &ObjectKey<K>) -> Option<Lazy<K>> {
        self.store.read().get(key).cloned()
    }

    /// The objects that `keep` wants, in key order.
    pub(crate) fn list(&self, keep: impl Fn(&Lazy<K>) -> bool) -> Vec<Lazy<K>> {
        self.store.read().objects().filter(|object| keep(object)).cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.store.read().len()
    }

    pub(crate) fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// Calls `subscriber` with the present, as initial creates in key order, and then with every event, until the
    /// subscription is dropped.
    ///
    /// It is called where events are delivered and must neither block nor panic.
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        subscriber: impl Fn(&Event<K>) + Send + 'static,
    ) -> Subscription {
        let mut subscribers = self.subscribers.lock();
        for object in self.list(|_| true) {
            subscriber(&Event::Create { object, in_initial_list: true });
        }
        let id = subscribers.next;
        subscribers.next += 1;
        subscribers.all.insert(id, Box::new(subscriber));
        // Weak, because a subscriber may hold a handle of the cache that it subscribes to.
        let informer = Arc::downgrade(self);
        Subscription { end: Some(Box::new(move || Self::unsubscribe(&informer, id))) }
    }

    fn unsubscribe(informer: &Weak<Self>, id: u64) {
        if let Some(informer) = informer.upgrade() {
            // What the subscriber holds is dropped after the lock is released.
            let _subscriber = informer.subscribers.lock().all.remove(&id);
        }
    }

    /// Changes the store, then tells everybody.
    pub(super) fn update(&self, change: impl FnOnce(&mut Store<K>) -> Vec<Event<K>>) {
        let subscribers = self.subscribers.lock();
        let events = change(&mut self.store.write());
        for event in &events {
            for subscriber in subscribers.all.values() {
                subscriber(event);
            }
        }
    }

    /// A complete list has been taken over.
    pub(super) fn synced(&self) {
        self.status.send_replace(Status { synced: true, error: None });
    }

    /// The connection works.
    pub(super) fn works(&self) {
        self.status.send_if_modified(|status| status.error.take().is_some());
    }

    /// Something went wrong.
    pub(super) fn failed(&self, error: String) {
        self.status.send_modify(|status| status.error = Some(error));
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
