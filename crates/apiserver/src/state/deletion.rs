//! Deletion of an object: its grace period, its finalizers, and the commits that mark and remove it.

use std::convert::Infallible;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube_apimachinery::{go, metadata};
use serde_json::{Value, json};

use super::{ClusterState, Refused};
use crate::kind::registry::ServedKind;
use crate::store::{Change, Document, Key, StoreEvent, Stored};

/// Finalizer that keeps an object until no dependent refers to it.
pub(crate) const ORPHAN: &str = "orphan";
/// Finalizer that keeps an object until its blocking dependents are deleted.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// Result of a deletion by the server itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deletion {
    Gone,
    /// The object is marked, by this or an earlier deletion, and kept by finalizers, its kind or its grace period.
    Held,
    /// The object is not in the state that was read. Nothing was changed.
    Changed,
}

/// Effect of a deletion on an object that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// The deletion removes the object.
    AtOnce,
    /// Finalizers, the kind or a grace period keep the object, which is only marked.
    Later,
}

/// Deletes an object on behalf of the server, with default options. `object` is the value of `stored`; `finalizers` replace its finalizers.
/// The object is removed at once, or marked if its kind, its grace period or the finalizers keep it.
pub(crate) fn begin_deletion(
    cluster: &ClusterState,
    served: &ServedKind,
    key: &Key,
    stored: &Stored,
    object: &Value,
    finalizers: &[String],
) -> Deletion {
    let grace = grace_period(served, None, object);
    if grace == Grace::Pending {
        return Deletion::Held;
    }
    let (marked, removal) = begin(cluster, served, object, finalizers, &grace);
    // An unchanged object is not committed, because its watches would receive an event without news.
    if removal == Removal::Later && marked == *object {
        return Deletion::Held;
    }
    let document = || served.document_with_metadata(stored, &marked);
    match carry_out(cluster, served, key, stored.revision, document, removal, &grace) {
        Err(Refused::Conflict) => Deletion::Changed,
        _ if removal == Removal::Later => Deletion::Held,
        _ => Deletion::Gone,
    }
}

/// Commits a deletion. If something keeps the object, the marked object is stored in the form that `document` returns; otherwise the
/// object is deleted.
///
/// An object of a kind with grace periods is marked in a commit of its own before it is deleted, even with a grace period of 0: watches
/// receive MODIFIED with the deletion timestamp, then DELETED. If the object changes in between, the result is a conflict.
pub(crate) fn carry_out(
    cluster: &ClusterState,
    served: &ServedKind,
    key: &Key,
    revision: u64,
    document: impl FnOnce() -> Document,
    removal: Removal,
    grace: &Grace,
) -> Result<Arc<StoreEvent>, Refused<Infallible>> {
    if removal == Removal::Later {
        return mark_only(cluster, served, key, revision, document());
    }
    let marked = if *grace == Grace::None {
        revision
    } else {
        mark_only(cluster, served, key, revision, document())?.revision
    };
    cluster.commit(served.storage(), key, Some(marked), Change::Delete, |_| Ok(()))
}

/// Commits the first part of a deletion: stores the marked object.
pub(crate) fn mark_only(
    cluster: &ClusterState,
    served: &ServedKind,
    key: &Key,
    revision: u64,
    document: Document,
) -> Result<Arc<StoreEvent>, Refused<Infallible>> {
    cluster.commit(served.storage(), key, Some(revision), Change::Put(document), |_| Ok(()))
}

/// Returns the object with these finalizers as it is when its deletion starts, and whether the deletion removes it at once.
pub(crate) fn begin(
    cluster: &ClusterState,
    served: &ServedKind,
    old: &Value,
    finalizers: &[String],
    grace: &Grace,
) -> (Value, Removal) {
    let mut new = old.clone();
    metadata::set_finalizers(&mut new, finalizers);
    let is_held = !finalizers.is_empty() || served.strategy.held(old) || matches!(grace, Grace::Seconds(1..));
    let removal = if is_held { Removal::Later } else { Removal::AtOnce };
    // An object that is removed at once is not marked.
    if is_held || *grace != Grace::None {
        let first = !metadata::is_terminating(old);
        // The strategies of Namespaces and definitions set the timestamp themselves when the deletion begins.
        if !(first && served.strategy.marks_itself()) {
            mark(cluster, &mut new, grace);
        }
        served.strategy.mark_deleted(&cluster.clock.now_seconds(), &mut new, first);
    }
    (new, removal)
}

/// Grace period of a deletion.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Grace {
    /// The kind has no grace period.
    None,
    /// This many seconds from the start of the deletion.
    Seconds(i64),
    /// The object is being deleted already, and this request does not shorten its grace period.
    Pending,
}

/// Determines the grace period. Another deletion can only shorten it.
pub(crate) fn grace_period(served: &ServedKind, asked: Option<i64>, old: &Value) -> Grace {
    let Some(seconds) = served.strategy.grace_period(served, old, asked) else {
        return Grace::None;
    };
    if !metadata::is_terminating(old) {
        return Grace::Seconds(seconds);
    }
    match (asked, old["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default()) {
        // The grace period is over.
        (_, ..=0) => Grace::None,
        (Some(asked), granted) if asked < granted => Grace::Seconds(asked),
        _ => Grace::Pending,
    }
}

/// Marks an object that stays as being deleted, or shortens its grace period.
fn mark(cluster: &ClusterState, object: &mut Value, grace: &Grace) {
    let first = !metadata::is_terminating(object);
    let Grace::Seconds(seconds) = *grace else { return mark_now(cluster, object, first) };
    let granted = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
    // A shorter grace period counts from the start of the deletion, which is the old deadline minus the old grace period.
    let begun: Option<Timestamp> = metadata::text(object, "deletionTimestamp")
        .parse()
        .ok()
        .map(|end: Timestamp| end.checked_sub(SignedDuration::from_secs(granted)).unwrap_or(end));
    let begun = begun.unwrap_or_else(|| cluster.clock.now());
    let end = begun.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(begun);
    let fields = metadata::of(object);
    fields.insert("deletionTimestamp".to_owned(), json!(go::format_seconds(end)));
    fields.insert("deletionGracePeriodSeconds".to_owned(), json!(seconds));
    if first {
        raise_generation(object);
    }
}

/// Marks an object without a grace period that its finalizers keep. An object that a client created with a deletion timestamp is marked
/// too.
fn mark_now(cluster: &ClusterState, object: &mut Value, first: bool) {
    if first {
        raise_generation(object);
    }
    let now = cluster.clock.now();
    let is_later = |text: &str| text.parse().is_ok_and(|end: Timestamp| end > now);
    let is_pending = first || is_later(metadata::text(object, "deletionTimestamp"));
    let fields = metadata::of(object);
    if is_pending {
        fields.insert("deletionTimestamp".to_owned(), json!(go::format_seconds(now)));
    }
    fields.insert("deletionGracePeriodSeconds".to_owned(), json!(0));
}

/// Increments the generation, because the start of a deletion counts as a change of the desired state. Generations below 1 stay.
fn raise_generation(object: &mut Value) {
    if object["metadata"]["generation"].as_i64().is_some_and(|generation| generation > 0) {
        metadata::raise_generation(object);
    }
}
