//! Writes of the collector. Each expects the revision that was read: if another write changed the object meanwhile, nothing happens, because
//! the commit of that write queues the object again.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_apimachinery::metadata;
use serde_json::{Value, json};

use super::graph::Place;
use super::{owners, text};
use crate::kind::registry::ServedKind;
use crate::state::ClusterState;
use crate::state::deletion::{FOREGROUND, begin_deletion};
use crate::state::writer;
use crate::store::{Change, Key, Stored};

/// Field manager of the collector's writes.
const MANAGER: &str = "kube-controller-manager";

/// An object that was read in order to be changed.
pub(crate) struct ReadObject {
    pub(super) served: Arc<ServedKind>,
    pub(super) place: Place,
    pub(super) stored: Arc<Stored>,
    /// Value of `stored`. If a webhook converts the kind, only the metadata is used.
    pub(super) object: Value,
}

impl ReadObject {
    pub(crate) fn new(served: &Arc<ServedKind>, key: &Key, stored: &Arc<Stored>, object: Value) -> Self {
        let place = Place { table: served.storage().clone(), key: key.clone() };
        Self { served: Arc::clone(served), place, stored: Arc::clone(stored), object }
    }
}

/// Removes the references to these owners. Returns `false` if another write changed the dependent.
pub(super) fn drop_references(cluster: &ClusterState, dependent: &ReadObject, uids: &[String]) -> bool {
    let mut object = dependent.object.clone();
    let dropped: BTreeSet<&str> = uids.iter().map(String::as_str).collect();
    let kept = owners(&dependent.object).iter().filter(|owner| !dropped.contains(text(owner, "uid")));
    let rest: Vec<Value> = kept.cloned().collect();
    let fields = metadata::of(&mut object);
    if rest.is_empty() {
        fields.remove("ownerReferences");
    } else {
        fields.insert("ownerReferences".to_owned(), Value::Array(rest));
    }
    put_tracked(cluster, dependent, object)
}

/// Removes a finalizer as kube-controller-manager does, and deletes the object if nothing else keeps it. If another write changed the
/// object, nothing happens: the commit of that write queues the object again.
pub(crate) fn remove_finalizer(cluster: &ClusterState, read: &ReadObject, finalizer: &str) {
    let mut object = read.object.clone();
    let mut rest = metadata::owned_finalizers(&read.object);
    rest.retain(|known| known != finalizer);
    metadata::set_finalizers(&mut object, &rest);
    // An object with a grace period is deleted later.
    let granted = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
    if rest.is_empty() && granted == 0 && read.served.strategy.deletable(&object) {
        commit(cluster, read, Change::Delete);
    } else {
        put_tracked(cluster, read, object);
    }
}

/// Changes a dependent so that it does not block its owners. Returns `false` if it blocks none. Otherwise the commit of this change queues
/// it again.
pub(super) fn unblock(cluster: &ClusterState, read: &ReadObject) -> bool {
    let mut object = read.object.clone();
    let owners = object["metadata"]["ownerReferences"].as_array_mut();
    let blocking = owners.into_iter().flatten().filter(|owner| owner["blockOwnerDeletion"] == true);
    let mut any = false;
    for owner in blocking {
        owner["blockOwnerDeletion"] = json!(false);
        any = true;
    }
    if any {
        put_tracked(cluster, read, object);
    }
    any
}

/// Order in which the collector deletes an object and its dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeletionOrder {
    OwnerFirst,
    /// The object waits for its dependents: a deletion in the foreground.
    DependentsFirst,
}

/// Deletes a dependent like a client. If its kind or its finalizers keep the object, it is only marked as deleted.
pub(super) fn delete(cluster: &ClusterState, read: &ReadObject, order: DeletionOrder) {
    // The checks keep protected objects, such as the namespace `default`.
    let (served, name) = (&read.served, read.place.key.name());
    let strategy = served.strategy;
    if strategy.admit_delete(name).is_err() || strategy.admit_delete_by_name(served, name).is_err() {
        return;
    }
    let mut finalizers = metadata::owned_finalizers(&read.object);
    if order == DeletionOrder::DependentsFirst && !finalizers.iter().any(|finalizer| finalizer == FOREGROUND)
    {
        finalizers.push(FOREGROUND.to_owned());
    }
    begin_deletion(cluster, &read.served, &read.place.key, &read.stored, &read.object, &finalizers);
}

/// Stores a changed object with the collector as field manager.
fn put_tracked(cluster: &ClusterState, read: &ReadObject, mut object: Value) -> bool {
    writer::track_as(cluster, &read.served, MANAGER, "", Some(&read.object), &mut object);
    commit(cluster, read, Change::Put(read.served.document_with_metadata(&read.stored, &object)))
}

/// Commits a change. Returns `false` if another write changed the object. The commit of that write queues the object again.
fn commit(cluster: &ClusterState, read: &ReadObject, change: Change) -> bool {
    let (storage, key, expected) = (read.served.storage(), &read.place.key, Some(read.stored.revision));
    cluster.commit_unguarded(storage, key, expected, change).is_ok()
}
