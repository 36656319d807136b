//! What tells the caches of our own writes.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    ResourceVersion, Uid,
    arrival::Arrival,
    feed::{Feed, Form},
    informer::AnyInformer,
    registry::Cache,
    split::Split,
    store::End,
};
use crate::client::{Call, Extent, OwnWrites, Presumed, Removed};

/// Every informer of the resource is told, whatever its Rust type, namespaces and selectors: those that are about other
/// objects forget the object, or never take it. A write that the watch has told already changes nothing, however late it
/// comes.
impl OwnWrites for Cache {
    fn needs_whole(&self, call: &Call) -> bool {
        let mut needed = false;
        self.each_of(&call.kind().resource, |feed, _| needed |= needs_whole(feed));
        needed
    }

    fn wrote(&self, call: &Call, object: &Bytes, extent: Extent) {
        let Ok(object) = Split::whole(object) else { return };
        let now = Instant::now();
        self.each_of(&call.kind().resource, |feed, informers| {
            if extent == Extent::Metadata && needs_whole(feed) {
                return; // it began to after the call was made
            }
            // No more of it than the watch asks for: when that tells the same version, the state that is held stays.
            let metadata = (feed.form() == Form::Metadata).then(|| object.metadata_alone()).flatten();
            let held = metadata.as_ref().map_or_else(|| Arrival::from(object.clone()), Arrival::new);
            whole_first(informers).for_each(|informer| informer.wrote(&object, &held, now));
            feed.note_write();
        });
    }

    fn reached(&self, call: &Call) -> Option<u64> {
        let name = call.name()?;
        let mut reached = None;
        self.each_of(&call.kind().resource, |_, informers| {
            let of_each = informers.iter().map(|informer| informer.reached(call.namespace(), name));
            reached = of_each.chain([reached]).max().flatten();
        });
        reached
    }

    fn deleted(&self, call: &Call, object: &Removed, after: Option<u64>) {
        let Some(name) = call.name() else { return };
        let version = object.version.as_deref().and_then(|version| ResourceVersion::from(version).number());
        let (end, now) = (End { uid: Uid::from(&*object.uid), version, after }, Instant::now());
        self.each_of(&call.kind().resource, |feed, informers| {
            informers.iter().for_each(|informer| informer.gone(call.namespace(), name, &end, now));
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

/// Whether metadata alone would tell too little of an object to those whom the feed feeds.
fn needs_whole(feed: &Feed) -> bool {
    feed.form() == Form::Whole || !feed.query.selects_by_metadata()
}

/// As a feed tells them: those that read metadata alone refer to what the others hold.
fn whole_first(informers: &[Arc<dyn AnyInformer>]) -> impl Iterator<Item = &Arc<dyn AnyInformer>> {
    let of = |form| informers.iter().filter(move |informer| informer.form() == form);
    of(Form::Whole).chain(of(Form::Metadata))
}
