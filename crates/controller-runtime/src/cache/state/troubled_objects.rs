//! Objects of a cache that are not reconciled as usual: unreadable ones, and ones with a deletion that takes long.

use std::{error::Error as StdError, sync::Arc};

use k8s_openapi::jiff::Timestamp;
use kube::core::ApiResource;

use super::informer::Informer;
use crate::{
    cache::objects::{decode_error::DecodeError, lazy::Lazy},
    object::{
        Object,
        meta::{ResourceVersion, Uid},
    },
    pace::Pace,
};

/// An object that is not reconciled as usual.
#[derive(Debug, Clone)]
pub(crate) struct TroubledObject {
    pub(crate) resource: Arc<ApiResource>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) uid: Option<Uid>,
    pub(crate) version: Option<ResourceVersion>,
    pub(crate) trouble: Trouble,
}

/// Reason why an object is not reconciled as usual.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It does not fit its Rust type.
    Unreadable {
        /// Path of the field, or `.` for the object as a whole.
        path: String,
        error: String,
        /// Number of objects in the cache, including this one.
        objects: usize,
    },
    /// It was deleted at this time, and waits for these finalizers.
    Deleting { since: Timestamp, finalizers: Vec<String> },
}

impl TroubledObject {
    /// Whether `other` is the same object with the same trouble.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.uid == other.uid && self.name == other.name && self.trouble == other.trouble
    }

    /// Returns kind and key, such as `Deployment shop/web`.
    pub(crate) fn subject(&self) -> String {
        format!("{} {}", self.resource.kind, self.name())
    }

    /// Returns kind and group, such as `Deployment.apps`.
    pub(crate) fn kind(&self) -> String {
        let ApiResource { kind, group, .. } = &*self.resource;
        if group.is_empty() { kind.clone() } else { format!("{kind}.{group}") }
    }

    /// Returns the key, such as `shop/web`.
    pub(crate) fn name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// Maximum number of unreadable objects, and of objects with a stuck deletion, that are returned of a cache.
const RETURNED: usize = 16;

impl<K: Object> Informer<K> {
    /// Returns the first unreadable objects, then the first objects that were deleted before this time and still have
    /// finalizers. An object counts as unreadable only after an attempt to decode it.
    ///
    /// Visits every object and yields in between.
    pub(super) async fn find_troubled(&self, deleted_before: Timestamp) -> Vec<TroubledObject> {
        let (objects, resource) = (self.snapshot(), Arc::new(self.query().resource.clone()));
        // The counter includes all unreadable objects since the start. If it is zero, no state needs to be locked.
        let any_unreadable = self.has_met_unreadable();
        let (mut unreadable, mut deleting, mut pace) = (Vec::new(), Vec::new(), Pace::begin());
        for object in objects.values() {
            if any_unreadable
                && unreadable.len() < RETURNED
                && let Some(error) = object.decode_error()
            {
                unreadable.push(of(object, &resource, unreadable_because(&error, objects.len())));
            }
            if object.meta().is_deleting() && deleting.len() < RETURNED {
                deleting
                    .extend(deletion(object, deleted_before).map(|trouble| of(object, &resource, trouble)));
            }
            pace.step().await;
        }
        unreadable.append(&mut deleting);
        unreadable
    }
}

fn of<K: Object>(object: &Lazy<K>, resource: &Arc<ApiResource>, trouble: Trouble) -> TroubledObject {
    let meta = object.meta();
    TroubledObject {
        resource: Arc::clone(resource),
        namespace: meta.namespace().map(str::to_owned),
        name: meta.name().to_owned(),
        uid: meta.uid().cloned(),
        version: meta.resource_version().cloned(),
        trouble,
    }
}

fn deletion<K: Object>(object: &Lazy<K>, before: Timestamp) -> Option<Trouble> {
    let since = object.meta().deletion_timestamp()?.0;
    let finalizers: Vec<_> = object.meta().finalizers().map(str::to_owned).collect();
    (since < before && !finalizers.is_empty()).then_some(Trouble::Deleting { since, finalizers })
}

fn unreadable_because(error: &DecodeError, objects: usize) -> Trouble {
    let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    // The position in the stored text means nothing to users.
    let cause = cause.rsplit_once(" at line ").map_or(&*cause, |(cause, _)| cause);
    Trouble::Unreadable { path: error.path().to_owned(), error: cause.to_owned(), objects }
}
