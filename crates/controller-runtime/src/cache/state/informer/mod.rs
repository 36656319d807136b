//! The cached objects of one kind as one Rust type, and the subscribers to their changes.

mod any_informer;
mod publication;
mod watch_input;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use imbl::OrdMap;
use parking_lot::{Mutex, RwLock};

pub(crate) use self::any_informer::AnyInformer;
use self::publication::Writer;
use super::{
    index_table::Table, mailbox::Room, read_error::ReadError, registry::WatchRegistration, store::Store,
    tombstones::DeletionReplay,
};
use crate::{
    cache::{
        objects::{
            incoming_object::IngestOptions,
            lazy::Lazy,
            object_codec::{ObjectCodec, Retention},
        },
        query::{Query, WatchScope, resync::Resync},
        watch::sync_status::SyncStatus,
    },
    object::{
        Object, ObjectKey,
        meta::{ResourceVersion, Uid},
    },
    ordered_watch,
};

/// The objects of a query as one Rust type. A
/// [`SharedWatch`](crate::cache::watch::shared_watch::SharedWatch) keeps it up to date.
///
/// User code never runs under a lock: predicates and handlers run in the tasks of the subscribers
/// ([`mailbox`](crate::cache::state::mailbox)), index functions between a change of the store and its publication
/// ([`publication`]).
///
/// Lock order: `writer` first, then one of `store`, `indexed` and a mailbox at a time.
pub(crate) struct Informer<K: Object> {
    query: Query,
    /// Decodes and compresses incoming objects.
    codec: ObjectCodec<K>,
    store: RwLock<Store<K>>,
    /// Held while the store changes and while mailboxes receive the events, so that every subscriber receives events in
    /// the same order, and a late one receives the initial list first. Taken before `store`, never while `store` is
    /// locked.
    writer: Mutex<Writer<K>>,
    status: ordered_watch::Sender<SyncStatus>,
    /// Index by owner, built on first use.
    owners: OnceLock<Arc<Table<K, Uid>>>,
    /// Registration at the shared watch, dropped with the informer.
    registration: OnceLock<WatchRegistration>,
    /// Locked while several indexes are read, and while a change is applied to them, so that readers find all indexes
    /// in agreement about each object.
    indexed: RwLock<()>,
    /// Signals that a full mailbox has room again.
    room: Arc<Room>,
}

impl<K: Object> Informer<K> {
    /// Creates an informer of the kind that `info` names.
    pub(crate) fn new(
        info: &K::DynamicType,
        query: Query,
        retention: Retention,
        ingest_options: IngestOptions,
        resync: Resync,
        replay: DeletionReplay,
    ) -> Self {
        let store = Store::with_separate_namespaces(query.watched_separately().cloned().collect());
        Self {
            query,
            codec: ObjectCodec::new(info, retention, ingest_options),
            store: RwLock::new(store),
            writer: Mutex::new(Writer::new(resync, replay)),
            status: ordered_watch::Sender::default(),
            owners: OnceLock::new(),
            registration: OnceLock::new(),
            indexed: RwLock::default(),
            room: Arc::default(),
        }
    }

    /// Stores the registration at the shared watch. Called once.
    pub(in crate::cache) fn set_registration(&self, registration: WatchRegistration) {
        let _ = self.registration.set(registration);
    }

    pub(crate) fn query(&self) -> &Query {
        &self.query
    }

    pub(crate) fn get(&self, key: &ObjectKey<K>) -> Option<Lazy<K>> {
        self.store.read().get(key).cloned()
    }

    /// Calls `read` while no change is applied to indexes, so that all indexes that it reads agree on each object.
    ///
    /// `read` must be short: events wait for it.
    pub(in crate::cache) fn with_consistent_indexes<T>(&self, read: impl FnOnce() -> T) -> T {
        let _indexed = self.indexed.read();
        read()
    }

    /// Returns all objects.
    pub(crate) fn snapshot(&self) -> OrdMap<ObjectKey<K>, Lazy<K>> {
        self.store.read().snapshot()
    }

    pub(crate) fn len(&self) -> usize {
        self.store.read().len()
    }

    /// Returns whether an object was unreadable at any time.
    pub(in crate::cache) fn has_met_unreadable(&self) -> bool {
        self.codec.stats().unreadable > 0
    }

    pub(crate) fn status(&self) -> ordered_watch::Receiver<SyncStatus> {
        self.status.subscribe()
    }

    /// Whether the initial lists of all current scopes are complete.
    pub(in crate::cache) fn is_complete(&self) -> bool {
        // Never hold the locks of status, query and store at the same time.
        let (synced, scopes) = (self.status.borrow().synced, self.query.scopes());
        let store = self.store.read();
        synced && !self.query.is_removed() && scopes.iter().all(|scope| store.knows(scope))
    }

    /// Waits until the initial lists of all current scopes are complete, or the cluster was removed and no object is
    /// left.
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

    /// Returns the version up to which each scope has received all changes.
    pub(crate) fn versions(&self) -> BTreeMap<WatchScope, ResourceVersion> {
        let store = self.store.read();
        store.versions().map(|(scope, number)| (scope.clone(), of_number(number))).collect()
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
        if self.has_fixed_scopes_synced() {
            return Ok(());
        }
        // Handlers receive the objects of the last scope before the status says `synced`.
        let scopes = self.query.scopes();
        let is_known = {
            let store = self.store.read();
            scopes.iter().all(|scope| store.knows(scope))
        };
        // The store is unlocked by now, because the error reads the status.
        if is_known { Ok(()) } else { Err(self.not_synced()) }
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
            self.has_fixed_scopes_synced() || self.store.read().knows(&self.query.scope_of(namespace));
        if is_known { Ok(()) } else { Err(self.not_synced()) }
    }

    /// Whether all scopes are complete, and none can be added later.
    fn has_fixed_scopes_synced(&self) -> bool {
        !self.query.namespaces.may_change() && self.status.borrow().synced
    }

    fn not_synced(&self) -> ReadError {
        ReadError::NotSynced { resource: self.query.label(), trouble: self.status.borrow().failure() }
    }
}

fn of_number(number: u64) -> ResourceVersion {
    number.to_string().as_str().into()
}
