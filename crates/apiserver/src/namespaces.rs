//! Namespaces: those that always exist, how one is deleted, and the controller that empties it (profile
//! [`Dev`](crate::Profile::Dev)).

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use crate::bootstrap;
use crate::registry::Served;
use crate::resource::StorageKey;
use crate::server::{Server, Subscription};
use crate::status::ApiError;
use crate::store::{Change, Key, Snapshot};
use crate::verbs::delete::{self, Deletion};
use crate::verbs::{create, metadata, update};

/// The finalizer in `spec.finalizers` that keeps a namespace until it is empty.
const FINALIZER: &str = "kubernetes";
/// Who owns the conditions of a namespace that is being deleted.
const MANAGER: &str = "kube-controller-manager";
/// The service account that every namespace has.
const ACCOUNT: &str = "default";
/// Namespaces that every cluster has.
const DEFAULTS: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// Namespaces that nobody can delete.
const PROTECTED: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The table of namespaces.
pub(crate) fn table() -> StorageKey {
    StorageKey { group: String::new(), plural: "namespaces".to_owned() }
}

/// The table of service accounts.
fn accounts() -> StorageKey {
    StorageKey { group: String::new(), plural: "serviceaccounts".to_owned() }
}

/// The table of ConfigMaps.
fn maps() -> StorageKey {
    StorageKey { group: String::new(), plural: "configmaps".to_owned() }
}

pub(crate) fn is_table(storage: &StorageKey) -> bool {
    storage.group.is_empty() && storage.plural == "namespaces"
}

/// Creates the namespaces that every cluster has.
pub(crate) fn create_defaults(server: &Server) {
    let Some(served) = server.registry().get("", "v1", "namespaces").cloned() else {
        return;
    };
    for name in DEFAULTS {
        let mut namespace = json!({
            "metadata": {"name": name, "uid": server.uid(), "creationTimestamp": server.clock.now_seconds()},
        });
        default(&mut namespace);
        update::track_as(server, &served, "kube-apiserver", "", None, &mut namespace);
        prepare_create(&mut namespace);
        create::put_if_absent(server, &served, &Key::new("", name), &namespace);
    }
}

/// A namespace is labelled with its name, once it has one.
pub(crate) fn default(namespace: &mut Value) {
    let name = metadata::text(namespace, "name").to_owned();
    if name.is_empty() {
        return;
    }
    let labels = metadata::of(namespace).entry("labels").or_insert_with(|| json!({}));
    if !labels.is_object() {
        *labels = json!({});
    }
    labels["kubernetes.io/metadata.name"] = json!(name);
}

/// A new namespace is active, kept by its finalizer, and labelled with its name, which may have been generated since
/// the defaults were set.
pub(crate) fn prepare_create(namespace: &mut Value) {
    default(namespace);
    namespace["status"] = json!({"phase": "Active"});
    let mut finalizers = namespace["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.contains(&json!(FINALIZER)) {
        finalizers.push(json!(FINALIZER));
    }
    namespace["spec"] = json!({"finalizers": finalizers});
}

/// `spec.finalizers` is written by `/finalize` alone, which writes nothing else.
pub(crate) fn prepare_update(old: &Value, new: &mut Value, subresource: &str) {
    if subresource != "finalize" {
        new["spec"] = old["spec"].clone();
        return;
    }
    let mut finalized = old.clone();
    finalized["spec"] = new["spec"].clone();
    match new["metadata"].get("managedFields") {
        Some(entries) => finalized["metadata"]["managedFields"] = entries.clone(),
        None => {
            metadata::of(&mut finalized).remove("managedFields");
        }
    }
    *new = finalized;
}

/// Whether nothing in `spec.finalizers` keeps the namespace.
pub(crate) fn is_finalized(namespace: &Value) -> bool {
    namespace["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty)
}

/// Whether a DELETE leaves the namespace there: the first always does, later ones do until nothing keeps it.
pub(crate) fn stays(namespace: &Value) -> bool {
    !metadata::is_terminating(namespace) || !is_finalized(namespace)
}

/// 403 for the namespaces that must stay.
pub(crate) fn admit_delete(name: &str) -> Result<(), ApiError> {
    if PROTECTED.contains(&name) {
        return Err(create::forbidden("", "namespaces", name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// A deleted namespace terminates.
pub(crate) fn mark_deleted(namespace: &mut Value) {
    metadata::of(namespace).remove("deletionGracePeriodSeconds");
    namespace["status"]["phase"] = json!("Terminating");
}

/// Gives namespaces their service account. Empties them once they have been deleted for `grace`, then lets them go. Ends when
/// its task is aborted.
pub(crate) async fn run(server: Arc<Server>, grace: Duration) {
    let mut commits = server.commits();
    // Only these say which namespaces there are, which of them go, and which lack what every one has.
    let mut tables = [table(), accounts()].map(|table| server.changes(&table));
    let mut maps = server.changes(&maps());
    let mut authority = None;
    let mut terminating: Vec<Key> = Vec::new();
    loop {
        commits.borrow_and_update();
        let Some(namespaces) = server.registry().get("", "v1", "namespaces").cloned() else {
            return;
        };
        let trusted = server.authority();
        let is_new = trusted != authority;
        if is_new || tables.iter().any(Subscription::has_news) || (authority.is_some() && maps.has_news()) {
            authority = trusted;
            for table in tables.iter_mut().chain([&mut maps]) {
                // Before reading, so that what happens meanwhile is news.
                table.see(table.latest());
            }
            let snapshot = server.read(|store| store.snapshot(&table()));
            create_accounts(&server, &snapshot);
            if let Some(authority) = &authority {
                publish_authority(&server, &snapshot, authority, is_new);
            }
            let leaving = snapshot.range("", None).filter(|(_, stored)| stored.document.is_terminating());
            terminating = leaving.map(|(key, _)| key.clone()).collect();
        }
        let now = server.clock.now();
        let mut soonest: Option<Duration> = None;
        // Whatever is committed may be the last thing that one of these waited for.
        for key in &terminating {
            let Some(stored) = server.read(|store| store.get(&table(), key).cloned()) else {
                continue;
            };
            let namespace = namespaces.value(&stored);
            let left = time_left(&namespace, grace, now);
            if left.is_zero() {
                empty(&server, &namespaces, key, stored.revision, &namespace);
            } else {
                soonest = Some(soonest.map_or(left, |other| other.min(left)));
            }
        }
        tokio::select! {
            changed = commits.changed() => if changed.is_err() {
                return;
            },
            () = sleep(soonest.unwrap_or_default()), if soonest.is_some() => {}
        }
    }
}

/// Gives every namespace the account under which its pods run unless they name another, also one whose account was deleted.
fn create_accounts(server: &Server, namespaces: &Snapshot) {
    let accounts = accounts();
    let living = namespaces.range("", None).filter(|(_, stored)| !stored.document.is_terminating());
    let without: Vec<&str> = server.read(|store| {
        let has_none = |name: &&str| store.get(&accounts, &Key::new(name, ACCOUNT)).is_none();
        living.map(|(key, _)| key.name()).filter(has_none).collect()
    });
    for namespace in without {
        let account = json!({"metadata": {"name": ACCOUNT, "namespace": namespace}});
        bootstrap::put(server, "", "serviceaccounts", account);
    }
}

/// Has every namespace tell its pods whom to trust: those that do not, or all where it changed.
fn publish_authority(server: &Server, namespaces: &Snapshot, authority: &str, is_new: bool) {
    let maps = maps();
    let living = namespaces.range("", None).filter(|(_, stored)| !stored.document.is_terminating());
    let without: Vec<&str> = server.read(|store| {
        let has_none = |name: &&str| is_new || store.get(&maps, &Key::new(name, bootstrap::ROOT)).is_none();
        living.map(|(key, _)| key.name()).filter(has_none).collect()
    });
    for namespace in without {
        bootstrap::publish_root(server, namespace, authority);
    }
}

/// How long a deleted namespace is still left alone.
fn time_left(namespace: &Value, grace: Duration, now: Timestamp) -> Duration {
    let deleted: Option<Timestamp> = metadata::text(namespace, "deletionTimestamp").parse().ok();
    let begin = deleted.and_then(|deleted| deleted.checked_add(grace).ok());
    // A time that has passed is a negative one.
    begin.and_then(|begin| begin.duration_since(now).try_into().ok()).unwrap_or_default()
}

/// One look at a terminating namespace: deletes what can go, and the namespace if nothing is left. One that nothing keeps was
/// let go by somebody else, and is for them to delete.
fn empty(server: &Server, namespaces: &Served, key: &Key, revision: u64, namespace: &Value) {
    if is_finalized(namespace) {
        return;
    }
    let held = has_finalizer(namespace);
    let mut left = Vec::new();
    if held {
        for served in server.registry().one_per_table() {
            if served.resource.namespaced {
                let snapshot = server.read(|store| store.snapshot(served.storage()));
                left.extend(delete_contents(server, &served, &snapshot, key.name()));
            }
        }
    }
    let mut next = namespace.clone();
    set_conditions(server, &mut next, &left);
    update::track_as(server, namespaces, MANAGER, "status", Some(namespace), &mut next);
    if held && left.is_empty() {
        let rest: Vec<Value> = next["spec"]["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|finalizer| **finalizer != FINALIZER)
            .cloned()
            .collect();
        next["spec"] = if rest.is_empty() { json!({}) } else { json!({"finalizers": rest}) };
    }
    let gone = is_finalized(&next) && metadata::finalizers(&next).is_empty();
    let change = if gone {
        Change::Delete
    } else if next == *namespace {
        return;
    } else {
        Change::Put(namespaces.document(&next))
    };
    // A namespace that changed meanwhile is looked at again, because that was a commit.
    let _ = server.commit(&table(), key, Some(revision), change, |_| Ok::<(), std::convert::Infallible>(()));
}

fn has_finalizer(namespace: &Value) -> bool {
    namespace["spec"]["finalizers"].as_array().is_some_and(|list| list.contains(&json!(FINALIZER)))
}

/// What finalizers hold in a namespace.
struct Left {
    resource: String,
    count: usize,
    finalizers: Vec<String>,
}

/// Deletes the objects of a namespace as they were when the snapshot was taken; what is left of them.
fn delete_contents(server: &Server, served: &Served, snapshot: &Snapshot, namespace: &str) -> Option<Left> {
    let resource = &served.resource;
    // The core group is shown as `pods.`.
    let resource = format!("{}.{}", resource.plural, resource.group);
    let mut left = Left { resource, count: 0, finalizers: Vec::new() };
    for (key, stored) in snapshot.range(namespace, None) {
        let object = served.value(stored);
        let finalizers = metadata::owned_finalizers(&object);
        let deletion = delete::begin_deletion(server, served, key, stored.revision, &object, &finalizers);
        if deletion != Deletion::Changed {
            crate::crd::after_write(server, served.storage());
        }
        // What somebody changed meanwhile is still there, and that change brings us here again.
        if deletion != Deletion::Gone {
            left.count += 1;
            left.finalizers.extend(finalizers);
        }
    }
    (left.count > 0).then_some(left)
}

/// The five conditions that say how far the deletion is.
fn set_conditions(server: &Server, namespace: &mut Value, left: &[Left]) {
    let remaining: Vec<String> =
        left.iter().map(|held| format!("{} has {} resource instances", held.resource, held.count)).collect();
    let mut counts: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    for finalizer in left.iter().flat_map(|held| &held.finalizers) {
        *counts.entry(finalizer).or_default() += 1;
    }
    let finalizers: Vec<String> = counts
        .iter()
        .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"))
        .collect();
    let rows = [
        (
            "NamespaceDeletionDiscoveryFailure",
            false,
            "ResourcesDiscovered",
            "All resources successfully discovered".to_owned(),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".to_owned(),
        ),
        (
            "NamespaceDeletionContentFailure",
            false,
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization".to_owned(),
        ),
        if remaining.is_empty() {
            (
                "NamespaceContentRemaining",
                false,
                "ContentRemoved",
                "All content successfully removed".to_owned(),
            )
        } else {
            let message = format!("Some resources are remaining: {}", remaining.join(", "));
            ("NamespaceContentRemaining", true, "SomeResourcesRemain", message)
        },
        if finalizers.is_empty() {
            (
                "NamespaceFinalizersRemaining",
                false,
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished".to_owned(),
            )
        } else {
            let message =
                format!("Some content in the namespace has finalizers remaining: {}", finalizers.join(", "));
            ("NamespaceFinalizersRemaining", true, "SomeFinalizersRemain", message)
        },
    ];
    let old = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let conditions: Vec<Value> = rows
        .into_iter()
        .map(|(kind, status, reason, message)| {
            let status = if status { "True" } else { "False" };
            let time = old
                .iter()
                .find(|condition| condition["type"] == kind && condition["status"] == status)
                .map_or_else(|| json!(server.clock.now_seconds()), |condition| condition["lastTransitionTime"].clone());
            json!({
                "type": kind, "status": status, "lastTransitionTime": time, "reason": reason, "message": message,
            })
        })
        .collect();
    namespace["status"]["conditions"] = Value::Array(conditions);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn an_object_that_changed_meanwhile_is_left() {
        const MAPS: &str = "/api/v1/namespaces/default/configmaps";
        let server = testing::server();
        let map = |name: &str| json!({"metadata": {"name": name}});
        testing::create(&server, MAPS, &map("changed")).unwrap();
        testing::create(&server, MAPS, &map("same")).unwrap();
        let served = testing::call(&server, MAPS).served;
        let before = server.read(|store| store.snapshot(served.storage()));
        testing::delete(&server, &format!("{MAPS}/changed")).unwrap();
        testing::create(&server, MAPS, &map("changed")).unwrap();

        let left = delete_contents(&server, &served, &before, "default").unwrap();
        assert_eq!((left.count, left.finalizers.len()), (1, 0));
        let now = server.read(|store| store.snapshot(served.storage()));
        assert!(now.range("default", None).map(|(key, _)| key.name()).eq(["changed"]));
        assert!(delete_contents(&server, &served, &now, "default").is_none());
    }
}
