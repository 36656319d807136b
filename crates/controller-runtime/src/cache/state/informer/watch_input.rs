//! Input of an informer from the list and watch that it shares with others.

use std::{collections::BTreeMap, sync::Arc};

use tokio::{
    sync::futures::OwnedNotified,
    time::{Duration, Instant},
};

use super::Informer;
use crate::{
    cache::{
        objects::{
            dictionary::{Dictionary, Samples},
            event::Event,
            incoming_object::IncomingObject,
            lazy::Lazy,
        },
        query::WatchScope,
        state::store::{Delta, ListInTransit},
        watch::{
            shared_watch::PIECE,
            subscriber::{
                CompressionWork, OutOfOrder, ReflectorStore, WatchFailure, WatchObserver, WatchSubscriber,
            },
            sync_status::SyncStatus,
        },
    },
    client::Extent,
    object::{Object, meta::ResourceVersion},
};

/// Number of objects that a resync delivers before events are delivered again.
const RESYNC_BATCH: usize = 256;

/// Delay of a resync while the mailbox of a subscriber is full, or indexes and subscribers have not received all changes.
const RESYNC_AGAIN: Duration = Duration::from_millis(10);

impl<K: Object> Informer<K> {
    /// Decodes an object that the watch delivered. If the store has the same version, returns the state in the store.
    fn ingest(&self, object: &IncomingObject<'_>) -> Option<Lazy<K>> {
        self.codec.ingest_unless(object, |meta| self.store.read().stored_version(meta))
    }
}

impl<K: Object> WatchSubscriber for Informer<K> {
    fn extent(&self) -> Extent {
        Extent::of::<K>()
    }

    fn lacks_room(&self) -> Option<OwnedNotified> {
        self.room.lacking()
    }

    fn resync(&self, now: Instant, rng: &mut fastrand::Rng) -> Option<Instant> {
        let mut writer = self.writer.lock();
        let due = writer.resyncs.due(now, rng)?;
        if due > now {
            return Some(due);
        }
        // The store has the unpublished changes already, and subscribers receive them later: an unchanged state must not overtake them.
        if self.room.lacking().is_some() || writer.has_unpublished() {
            return Some(now + RESYNC_AGAIN);
        }
        // Deliver a piece at a time, so that new events need not wait for the whole resync.
        let some = self.store.read().watched_after(writer.resynced_to.as_ref(), RESYNC_BATCH);
        let mut retired = Vec::new();
        for object in &some {
            let event = Event::Update { old: object.clone(), new: object.clone() };
            for (_, subscriber) in &writer.subscribers {
                subscriber.mailbox.push(event.clone(), &mut retired);
            }
        }
        // A short batch is the last one.
        writer.resynced_to = some.last().filter(|_| some.len() == RESYNC_BATCH).map(Lazy::key);
        if writer.resynced_to.is_none() {
            writer.resyncs.done(now, rng);
        }
        let due = writer.resyncs.due(now, rng);
        drop(writer);
        // Dropped without the lock: the last handle of an object runs its destructor.
        drop((some, retired));
        due
    }
}

impl<K: Object> ReflectorStore for Informer<K> {
    fn begin_list(&self, scope: &WatchScope) {
        self.codec.count_list();
        let list = ListInTransit::new(BTreeMap::new());
        // Replaces the objects of a list that broke off.
        let before = self.writer.lock().arriving.insert(scope.clone(), list);
        drop(before); // may hold the last handles of objects
    }

    fn add_listed(&self, scope: &WatchScope, object: &IncomingObject<'_>) {
        if let Some(object) = self.ingest(object) {
            let mut writer = self.writer.lock();
            let before =
                writer.arriving.get_mut(scope).and_then(|list| list.objects.insert(object.key(), object));
            drop(writer);
            drop(before);
        }
    }

    fn remove_listed(&self, scope: &WatchScope, object: &IncomingObject<'_>) {
        if let Some(object) = self.codec.ingest(object) {
            let mut writer = self.writer.lock();
            let before = writer.arriving.get_mut(scope).and_then(|list| list.objects.remove(&object.key()));
            drop(writer);
            drop(before);
        }
    }

    fn finish_list(&self, scope: &WatchScope, version: &ResourceVersion) -> bool {
        let is_whole = self.update(|writer, store| {
            let Some(list) = writer.arriving.get_mut(scope) else { return (true, Delta::default()) };
            let (is_whole, delta) = store.replace_some(scope, list, version.number(), PIECE as usize);
            if is_whole {
                writer.arriving.remove(scope); // it is empty
            }
            (is_whole, delta)
        });
        if is_whole {
            // Wakes tasks that wait for the scope.
            self.status.send_modify(|status| status.listed(scope));
        }
        is_whole
    }

    fn upsert(
        &self,
        scope: &WatchScope,
        object: &IncomingObject<'_>,
    ) -> Result<Option<ResourceVersion>, OutOfOrder> {
        let Some(object) = self.ingest(object) else { return Ok(None) };
        let version = object.meta().resource_version().cloned();
        // Keeps a handle until the lock is released, in case the store does not keep one.
        let held = object.clone();
        let result = self.update(|_, store| match store.upsert(scope, object) {
            Ok(delta) => (Ok(version), delta),
            Err(OutOfOrder) => (Err(OutOfOrder), Delta::default()),
        });
        drop(held);
        result
    }

    fn remove(&self, scope: &WatchScope, object: &IncomingObject<'_>) -> Option<ResourceVersion> {
        let object = self.codec.ingest(object)?;
        let version = object.meta().resource_version().cloned();
        // As in `upsert`: the last handle must not be dropped under the lock.
        let held = object.clone();
        self.update(|_, store| ((), store.remove(scope, object)));
        drop(held);
        version
    }

    fn advance(&self, scope: &WatchScope, version: &ResourceVersion) {
        self.update(|_, store| ((), store.advance(scope, version.number())));
    }

    fn stored_scopes(&self) -> Vec<WatchScope> {
        let mut scopes: Vec<_> = self.writer.lock().arriving.keys().cloned().collect();
        scopes.extend(self.store.read().scopes().cloned());
        scopes.extend(self.status.borrow().failing().cloned());
        scopes
    }

    fn withdraw(&self, scope: &WatchScope) -> bool {
        let arriving = self.writer.lock().arriving.remove(scope);
        drop(arriving); // may hold the last handles of objects
        let is_gone = self.update(|writer, store| {
            let reached = writer.withdrawn.entry(scope.clone()).or_default();
            let (is_gone, delta) = store.withdraw_some(scope, reached, PIECE as usize);
            if is_gone {
                writer.withdrawn.remove(scope);
            }
            (is_gone, delta)
        });
        if is_gone {
            // Wakes tasks that wait for the scope.
            self.status.send_modify(|status| {
                status.watch_works(scope);
            });
        }
        is_gone
    }

    fn set_scopes(&self, scopes: &[WatchScope]) {
        let store = self.store.read();
        if scopes.iter().all(|scope| store.knows(scope)) {
            // Never hold the locks of store and status at the same time.
            drop(store);
            self.status.send_if_modified(|status| !std::mem::replace(&mut status.synced, true));
        }
    }

    fn waiting_since(&self, scope: &WatchScope) -> Option<Instant> {
        self.store.read().waiting_since(scope)
    }
}

impl<K: Object> WatchObserver for Informer<K> {
    fn restarted(&self) {
        self.status.send_if_modified(SyncStatus::restarted);
    }

    fn watch_opened(&self) {
        self.codec.count_watch();
    }

    fn watch_works(&self, scope: &WatchScope) {
        self.status.send_if_modified(|status| status.watch_works(scope));
    }

    fn watch_failed(&self, scope: &WatchScope, failure: &WatchFailure) {
        self.codec.count_failure();
        self.status.send_modify(|status| status.watch_failed(scope, failure, Instant::now()));
    }

    fn probe_sent(&self) {
        self.codec.count_probe();
    }

    fn watch_died(&self) {
        self.codec.count_dead_watch();
    }

    fn closed(&self) {
        self.status.send_if_modified(|status| !std::mem::replace(&mut status.closed, true));
    }
}

impl<K: Object> CompressionWork for Informer<K> {
    fn has_backlog(&self) -> bool {
        self.codec.has_backlog()
    }

    fn compress_backlog(&self) {
        self.codec.compress_backlog();
    }

    fn is_training_due(&self) -> bool {
        self.codec.is_training_due()
    }

    fn samples(&self) -> Option<Samples> {
        self.codec.samples()
    }

    fn set_dictionary(&self, dictionary: Option<Arc<Dictionary>>) {
        self.codec.set_dictionary(dictionary);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering::SeqCst},
        },
        task::{Context, Poll, Waker},
        time::Duration,
    };

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ApiResource;

    use super::*;
    use crate::cache::{
        objects::{object_codec::Retention, retain::Retain},
        query::{NamespaceSelection, Query, Selectors, resync::Resync},
        state::{
            index_table::{Table, ValueStorage},
            mailbox::Mailbox,
            tombstones::DeletionReplay,
        },
    };

    fn informer() -> Arc<Informer<ConfigMap>> {
        let query = Query {
            cluster: None,
            resource: ApiResource::erase::<ConfigMap>(&()),
            namespaces: NamespaceSelection::Everywhere,
            selectors: Selectors::default(),
            overrides: BTreeMap::new(),
            floor: None,
        };
        let (retention, resync) = (Retention::of(Retain::Decoded), Resync::Every(Duration::from_secs(1)));
        Arc::new(Informer::new(&(), query, retention, Default::default(), resync, DeletionReplay::Never))
    }

    fn text(version: u64) -> String {
        format!(r#"{{"metadata":{{"name":"a","namespace":"n","uid":"u","resourceVersion":"{version}"}}}}"#)
    }

    /// Versions before and after each waiting update.
    fn updates(mailbox: &Mailbox<ConfigMap>) -> Vec<(u64, u64)> {
        let version = |state: &Lazy<ConfigMap>| {
            state.meta().resource_version().and_then(ResourceVersion::number).expect("a version")
        };
        let mut all = Vec::new();
        while let Poll::Ready(event) = mailbox.poll_pop(&mut Context::from_waker(Waker::noop())) {
            match event {
                Event::Update { old, new } => all.push((version(&old), version(&new))),
                // The initial list.
                Event::Create { .. } => {}
                other => panic!("neither created nor updated: {other:?}"),
            }
        }
        all
    }

    #[tokio::test(start_paused = true)]
    async fn a_resync_does_not_overtake_a_change_that_indexes_have_not_received() {
        let (informer, now) = (informer(), Instant::now());
        let later = now + Duration::from_secs(10);
        informer.begin_list(&None);
        informer.add_listed(&None, &IncomingObject::new(&text(1)));
        assert!(informer.finish_list(&None, &ResourceVersion::from("1")));
        let handle = informer.subscribe();
        assert_eq!(updates(&handle.mailbox), []);
        informer.resync(now, &mut fastrand::Rng::with_seed(1));

        let (resyncs, weak) = (Arc::new(AtomicBool::new(false)), Arc::downgrade(&informer));
        let resyncs_now = Arc::clone(&resyncs);
        let values = move |_: &Lazy<ConfigMap>| {
            if resyncs_now.swap(false, SeqCst) {
                let informer = weak.upgrade().expect("the informer");
                informer.resync(later, &mut fastrand::Rng::with_seed(1));
            }
            BTreeSet::from([1])
        };
        let _index = Table::updated_by(&informer, Box::new(values), ValueStorage::Stored);
        resyncs.store(true, SeqCst);
        assert!(informer.upsert(&None, &IncomingObject::new(&text(2))).is_ok());
        assert!(!resyncs.load(SeqCst), "the index function ran");
        assert_eq!(updates(&handle.mailbox), [(1, 2)]);
        informer.resync(later, &mut fastrand::Rng::with_seed(1));
        assert_eq!(updates(&handle.mailbox), [(2, 2)]);
    }
}
