//! Delivery of own writes to the caches.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use kube::core::ApiResource;
use tokio::time::Instant;

use super::{informer::AnyInformer, registry::Cache, store::OwnDeletion};
use crate::{
    cache::{
        objects::{incoming_object::IncomingObject, split::Split},
        watch::shared_watch::SharedWatch,
    },
    client::{Call, Extent, OwnWrites, PresumedDeletion, ReportedDeletion},
    object::meta::{ResourceVersion, Uid},
};

/// Every informer of the resource receives the write, whatever its Rust type, namespaces and selectors: an informer
/// that does not select the object hides or ignores it. A write that the watch has delivered already has no effect,
/// however late it arrives.
///
/// A resource may be cached in one API version and written in another, between which the API server converts. resourceVersions,
/// UIDs and deletions are the same in all API versions, the text of an object is not. So an answer is applied only to informers
/// of its own API version, and the client reads the object once more in each other version that is cached.
impl OwnWrites for Cache {
    fn needs_whole(&self, call: &Call) -> bool {
        let mut needed = false;
        self.for_each_watch_of(&call.kind().resource, |watch, _| {
            needed |= is_of(watch, call) && needs_whole(watch);
        });
        needed
    }

    fn other_versions(&self, call: &Call) -> Vec<(ApiResource, Extent)> {
        let mut others: BTreeMap<String, (ApiResource, Extent)> = BTreeMap::new();
        self.for_each_watch_of(&call.kind().resource, |watch, _| {
            let resource = &watch.query.resource;
            if is_of(watch, call) {
                return;
            }
            let (_, extent) = others
                .entry(resource.api_version.clone())
                .or_insert_with(|| (resource.clone(), Extent::Metadata));
            if needs_whole(watch) {
                *extent = Extent::Whole;
            }
        });
        others.into_values().collect()
    }

    fn record_write(&self, call: &Call, object: &Bytes, extent: Extent) {
        let Ok(object) = Split::whole(object) else { return };
        let now = Instant::now();
        self.for_each_watch_of(&call.kind().resource, |watch, informers| {
            if !is_of(watch, call) {
                return;
            }
            if extent == Extent::Metadata && needs_whole(watch) {
                return; // an informer of whole objects was added during the call
            }
            // Store only the part that the watch requests, so that the state is kept when the watch delivers the same
            // version.
            let metadata = (watch.extent() == Extent::Metadata).then(|| object.metadata_alone()).flatten();
            let incoming =
                metadata.as_ref().map_or_else(|| IncomingObject::from(object.clone()), IncomingObject::new);
            whole_first(informers).for_each(|informer| informer.record_write(&object, &incoming, now));
            watch.note_write();
        });
    }

    fn reached(&self, call: &Call) -> Option<u64> {
        let name = call.name()?;
        let mut reached = None;
        self.for_each_watch_of(&call.kind().resource, |_, informers| {
            let of_each = informers.iter().map(|informer| informer.reached(call.namespace(), name));
            reached = of_each.chain([reached]).max().flatten();
        });
        reached
    }

    fn record_deletion(&self, call: &Call, reported: &ReportedDeletion, after: Option<u64>) {
        let Some(name) = call.name() else { return };
        let version = reported.version.as_deref().and_then(|version| ResourceVersion::from(version).number());
        let (deletion, now) =
            (OwnDeletion { uid: Uid::from(&*reported.uid), version, after }, Instant::now());
        self.for_each_watch_of(&call.kind().resource, |watch, informers| {
            informers
                .iter()
                .for_each(|informer| informer.record_deletion(call.namespace(), name, &deletion, now));
            watch.note_write();
        });
    }

    fn record_presumed_deletion(&self, call: &Call, object: &PresumedDeletion) {
        let now = Instant::now();
        self.for_each_watch_of(&call.kind().resource, |watch, informers| {
            informers.iter().for_each(|informer| informer.record_presumed_deletion(object, now));
            watch.note_write();
        });
    }
}

/// Whether the shared watch is of the API version of the call.
fn is_of(watch: &SharedWatch, call: &Call) -> bool {
    watch.query.resource.api_version == call.kind().resource.api_version
}

/// Whether the shared watch needs whole objects, for its informers or its field selector.
fn needs_whole(watch: &SharedWatch) -> bool {
    watch.extent() == Extent::Whole || !watch.query.selects_by_metadata()
}

/// Orders the informers like a shared watch does: metadata-only ones share the text of those that read whole objects.
fn whole_first(informers: &[Arc<dyn AnyInformer>]) -> impl Iterator<Item = &Arc<dyn AnyInformer>> {
    let of = |form| informers.iter().filter(move |informer| informer.extent() == form);
    of(Extent::Whole).chain(of(Extent::Metadata))
}
