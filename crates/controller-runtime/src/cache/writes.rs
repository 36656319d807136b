//! What tells the caches of our own writes.

use bytes::Bytes;
use tokio::time::Instant;

use super::{arrival::Arrival, registry::Cache, split::Split};
use crate::client::{Call, OwnWrites, Presumed};

/// Every informer of the resource is told, whatever its Rust type, namespaces and selectors: those that are about other
/// objects forget the object, or never take it. A write that the watch has told already changes nothing, however late it
/// comes.
impl OwnWrites for Cache {
    fn wrote(&self, call: &Call, object: &Bytes) {
        let Ok(object) = Split::whole(object) else { return };
        let now = Instant::now();
        self.each_of(&call.kind().resource, |feed, informers| {
            let object = Arrival::from(object.clone());
            informers.iter().for_each(|informer| informer.wrote(&object, now));
            feed.note_write();
        });
    }

    fn deleted(&self, call: &Call, uid: Option<&str>) {
        let (Some(name), Some(uid)) = (call.name(), uid) else { return };
        let now = Instant::now();
        self.each_of(&call.kind().resource, |feed, informers| {
            informers.iter().for_each(|informer| informer.gone(call.namespace(), name, uid, now));
            feed.note_write();
        });
    }

    fn presumed_deleted(&self, call: &Call, object: &Presumed) {
        let now = Instant::now();
        self.each_of(&call.kind().resource, |feed, informers| {
            informers.iter().for_each(|informer| informer.presumed_gone(object, now));
            feed.note_write();
        });
    }
}
