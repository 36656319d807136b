//! Delivery of own writes to the caches.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use kube::core::ApiResource;
use tokio::time::Instant;

use super::{informer::AnyInformer, registry::Cache, store::End};
use crate::{
    cache::{
        objects::{arrival::Arrival, split::Split},
        watch::feed::{Feed, Form},
    },
    client::{Call, Extent, OwnWrites, Presumed, Removed},
    object::meta::{ResourceVersion, Uid},
};

/// Every informer of the resource receives the write, whatever its Rust type, namespaces and selectors: an informer
/// that does not select the object hides or ignores it. A write that the watch has delivered already has no effect,
/// however late it arrives.
///
/// A resource may be cached in one API version and written in another, between which the API server converts. resourceVersions,
/// UIDs and deletions are the same in all API versions, the text of an object is not. So an answer is laid only over informers
/// of its own API version, and the client reads the object once more in each other version that is cached.
impl OwnWrites for Cache {
    fn needs_whole(&self, call: &Call) -> bool {
        let mut needed = false;
        self.each_of(&call.kind().resource, |feed, _| needed |= is_of(feed, call) && needs_whole(feed));
        needed
    }

    fn other_versions(&self, call: &Call) -> Vec<(ApiResource, Extent)> {
        let mut others: BTreeMap<String, (ApiResource, Extent)> = BTreeMap::new();
        self.each_of(&call.kind().resource, |feed, _| {
            let resource = &feed.query.resource;
            if is_of(feed, call) {
                return;
            }
            let (_, extent) = others
                .entry(resource.api_version.clone())
                .or_insert_with(|| (resource.clone(), Extent::Metadata));
            if needs_whole(feed) {
                *extent = Extent::Whole;
            }
        });
        others.into_values().collect()
    }

    fn wrote(&self, call: &Call, object: &Bytes, extent: Extent) {
        let Ok(object) = Split::whole(object) else { return };
        let now = Instant::now();
        self.each_of(&call.kind().resource, |feed, informers| {
            if !is_of(feed, call) {
                return;
            }
            if extent == Extent::Metadata && needs_whole(feed) {
                return; // an informer of whole objects was added during the call
            }
            // Store only the part that the watch requests, so that the state is kept when the watch delivers the same
            // version.
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

/// Whether the feed is of the API version of the call.
fn is_of(feed: &Feed, call: &Call) -> bool {
    feed.query.resource.api_version == call.kind().resource.api_version
}

/// Whether the feed needs whole objects, for its informers or its field selector.
fn needs_whole(feed: &Feed) -> bool {
    feed.form() == Form::Whole || !feed.query.selects_by_metadata()
}

/// Orders the informers like a feed does: metadata-only ones share the text of those that read whole objects.
fn whole_first(informers: &[Arc<dyn AnyInformer>]) -> impl Iterator<Item = &Arc<dyn AnyInformer>> {
    let of = |form| informers.iter().filter(move |informer| informer.form() == form);
    of(Form::Whole).chain(of(Form::Metadata))
}
