//! [`AnyInformer`], an informer with its Rust type erased.

use std::{any::Any, sync::Arc};

use futures::future::BoxFuture;
use k8s_openapi::jiff::Timestamp;
use tokio::time::{Duration, Instant};

use super::Informer;
use crate::{
    cache::{
        objects::{incoming_object::IncomingObject, split::Split, stats::Stats},
        state::{store::OwnDeletion, troubled_objects::TroubledObject},
        watch::{subscriber::WatchSubscriber, sync_status::SyncStatus},
    },
    client::PresumedDeletion,
    object::{
        Object,
        meta::{ResourceVersion, Uid},
    },
    ordered_watch,
};

/// An informer, whatever its Rust type.
pub(crate) trait AnyInformer: WatchSubscriber {
    /// The resource and its selection, as messages and metrics name them.
    fn resource(&self) -> String;

    /// Returns the sync status and current failures.
    fn status(&self) -> ordered_watch::Receiver<SyncStatus>;

    /// Returns the number and size of the cached objects.
    fn stats(&self) -> Stats;

    /// Returns how long the API server has sent nothing for these objects, for the longest silent list or watch. `None`
    /// before its first answer.
    fn silence(&self) -> Option<Duration>;

    /// Returns the first objects that are not reconciled as usual.
    fn troubled_objects(&self, deleted_before: Timestamp) -> BoxFuture<'_, Vec<TroubledObject>>;

    /// Records the answer to a write, so that it is visible before the watch delivers it.
    fn record_write(&self, answer: &Split<'_>, object: &IncomingObject<'_>, now: Instant);

    /// Returns a version that the API server has reached, according to the watch or own writes of an object.
    fn reached(&self, namespace: Option<&str>, name: &str) -> Option<u64>;

    /// Hides a deleted object.
    fn record_deletion(&self, namespace: Option<&str>, name: &str, deletion: &OwnDeletion, now: Instant);

    /// Hides an object that was most likely deleted.
    fn record_presumed_deletion(&self, object: &PresumedDeletion, now: Instant);

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<K: Object> AnyInformer for Informer<K> {
    fn resource(&self) -> String {
        self.query.label()
    }

    fn status(&self) -> ordered_watch::Receiver<SyncStatus> {
        Informer::status(self)
    }

    fn stats(&self) -> Stats {
        self.codec.stats()
    }

    fn silence(&self) -> Option<Duration> {
        self.registration.get()?.silence()
    }

    fn troubled_objects(&self, deleted_before: Timestamp) -> BoxFuture<'_, Vec<TroubledObject>> {
        Box::pin(self.find_troubled(deleted_before))
    }

    fn record_write(&self, answer: &Split<'_>, object: &IncomingObject<'_>, now: Instant) {
        if answer.meta().name().is_empty() {
            return; // not an object, such as the `Status` of a deletion
        }
        let selected = self.query.selects(answer);
        let Some(held) = self.codec.ingest(object) else { return };
        let written = held.clone();
        self.update(|_, store| ((), store.record_write(written, selected, now)));
        drop(held); // not under the lock, in case the store did not keep it
    }

    fn reached(&self, namespace: Option<&str>, name: &str) -> Option<u64> {
        self.store.read().reached(&self.key_here(namespace, name)?)
    }

    fn record_deletion(&self, namespace: Option<&str>, name: &str, deletion: &OwnDeletion, now: Instant) {
        let Some(key) = self.key_here(namespace, name) else { return };
        self.update(|_, store| ((), store.record_deletion(&key, deletion.clone(), now)));
    }

    fn record_presumed_deletion(&self, object: &PresumedDeletion, now: Instant) {
        let PresumedDeletion { namespace, name, uid, version } = object;
        let key = self.key_here(namespace.as_deref(), name);
        let (Some(key), Some(version)) = (key, ResourceVersion::from(version.as_str()).number()) else {
            return;
        };
        let uid = Uid::from(uid.as_str());
        self.update(|_, store| ((), store.record_presumed_deletion(&key, uid, version, now)));
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}
