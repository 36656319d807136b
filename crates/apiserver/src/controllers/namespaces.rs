//! Contents of namespaces (profile [`Dev`](crate::Profile::Dev)): empties deleted namespaces, and creates the default objects in all
//! others.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube_apimachinery::metadata;
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use crate::bootstrap;
use crate::kind::registry::ServedKind;
use crate::kind::resource::StorageKey;
use crate::kinds::namespace::{FINALIZER, is_finalized, table};
use crate::state::deletion::{self, Deletion};
use crate::state::writer;
use crate::state::{ClusterState, Subscription, Turns};
use crate::store::{Change, Key, Snapshot};

/// Field manager of the conditions of a terminating namespace.
const MANAGER: &str = "kube-controller-manager";
/// Service account of every namespace.
const ACCOUNT: &str = "default";

/// Storage key of service accounts.
fn accounts() -> StorageKey {
    StorageKey::core("serviceaccounts")
}

/// Storage key of ConfigMaps.
fn maps() -> StorageKey {
    StorageKey::core("configmaps")
}

/// Creates the service account `default` and the ConfigMap with the certificate authority in all namespaces. Empties namespaces
/// that were deleted at least `grace` ago, and then removes them. Runs until its task is aborted.
pub(crate) async fn run(cluster: Arc<ClusterState>, grace: Duration) {
    let mut commits = cluster.commits();
    // Changes of other tables do not affect which namespaces exist, are terminating, or lack a service account.
    let mut tables = [table(), accounts()].map(|table| cluster.changes(&table));
    let mut maps = cluster.changes(&maps());
    let mut authority = None;
    let mut terminating: Vec<Key> = Vec::new();
    // Versions of the contents of terminating namespaces at the last attempt to empty them. Without a change another attempt would
    // do nothing.
    let mut attempted: BTreeMap<Key, u64> = BTreeMap::new();
    loop {
        commits.see();
        let Some(namespaces) = cluster.registry().get("", "v1", "namespaces").cloned() else {
            return;
        };
        let trusted = cluster.authority();
        let is_new = trusted != authority;
        if is_new || tables.iter().any(Subscription::has_news) || (authority.is_some() && maps.has_news()) {
            authority = trusted;
            for table in tables.iter_mut().chain([&mut maps]) {
                table.see_all();
            }
            let snapshot = cluster.read(|store| store.snapshot(&table()));
            create_accounts(&cluster, &snapshot);
            if let Some(authority) = &authority {
                let to = if is_new { AuthorityTargets::All } else { AuthorityTargets::Lacking };
                publish_authority(&cluster, &snapshot, authority, to);
            }
            let leaving = snapshot.range("", None).filter(|(_, stored)| stored.document.is_terminating());
            terminating = leaving.map(|(key, _)| key.clone()).collect();
            attempted.retain(|key, _| terminating.contains(key));
        }
        let now = cluster.clock.now();
        let mut soonest: Option<Duration> = None;
        // Any commit may have removed the last object for which a namespace waited.
        for key in &terminating {
            let Some(stored) = cluster.read(|store| store.get(&table(), key).cloned()) else {
                continue;
            };
            let namespace = namespaces.value(&stored);
            let left = time_left(&namespace, grace, now);
            if left.is_zero() {
                let contents = contents_version(&cluster, key.name(), stored.revision);
                if attempted.get(key) != Some(&contents) {
                    empty_namespace(&cluster, &namespaces, key, stored.revision, &namespace).await;
                    attempted.insert(key.clone(), contents);
                }
            } else {
                soonest = Some(soonest.map_or(left, |other| other.min(left)));
            }
        }
        tokio::select! {
            // A commit and the end of a grace period both start a round.
            biased;
            () = commits.changed() => {}
            () = sleep(soonest.unwrap_or_default()), if soonest.is_some() => {}
        }
    }
}

/// Creates the service account `default` in each namespace that lacks it, also after a client deleted it. Pods that name no service
/// account use it.
fn create_accounts(cluster: &ClusterState, namespaces: &Snapshot) {
    let accounts = accounts();
    let living = namespaces.range("", None).filter(|(_, stored)| !stored.document.is_terminating());
    let without: Vec<&str> = cluster.read(|store| {
        let has_none = |name: &&str| store.get(&accounts, &Key::new(name, ACCOUNT)).is_none();
        living.map(|(key, _)| key.name()).filter(has_none).collect()
    });
    for namespace in without {
        let account = json!({"metadata": {"name": ACCOUNT, "namespace": namespace}});
        bootstrap::put(cluster, "", "serviceaccounts", account);
    }
}

/// Namespaces in which the certificate authority is published.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AuthorityTargets {
    /// All, because the authority is new.
    All,
    /// Those without the ConfigMap.
    Lacking,
}

/// Publishes the certificate authority as a ConfigMap.
fn publish_authority(cluster: &ClusterState, namespaces: &Snapshot, authority: &str, to: AuthorityTargets) {
    let maps = maps();
    let living = namespaces.range("", None).filter(|(_, stored)| !stored.document.is_terminating());
    let without: Vec<&str> = cluster.read(|store| {
        let needs_it = |name: &&str| {
            to == AuthorityTargets::All || store.get(&maps, &Key::new(name, bootstrap::ROOT)).is_none()
        };
        living.map(|(key, _)| key.name()).filter(needs_it).collect()
    });
    for namespace in without {
        bootstrap::publish_root(cluster, namespace, authority);
    }
}

/// Returns the time until the contents of a deleted namespace may be deleted.
fn time_left(namespace: &Value, grace: Duration, now: Timestamp) -> Duration {
    let deleted: Option<Timestamp> = metadata::text(namespace, "deletionTimestamp").parse().ok();
    let begin = deleted.and_then(|deleted| deleted.checked_add(grace).ok());
    // A negative duration fails to convert; the period is over then.
    begin.and_then(|begin| begin.duration_since(now).try_into().ok()).unwrap_or_default()
}

/// Deletes the contents of a terminating namespace once, and then the namespace if nothing remains. A namespace without finalizers in its
/// spec was finalized by a client, which must also delete it.
async fn empty_namespace(
    cluster: &ClusterState,
    namespaces: &ServedKind,
    key: &Key,
    revision: u64,
    namespace: &Value,
) {
    if is_finalized(namespace) {
        return;
    }
    let waits_for_contents = has_finalizer(namespace);
    let mut remaining = Vec::new();
    if waits_for_contents {
        for served in cluster.registry().one_per_table() {
            if served.resource.namespaced {
                let snapshot = cluster.read(|store| store.snapshot(served.storage()));
                remaining.extend(delete_contents(cluster, &served, &snapshot, key.name()).await);
            }
        }
    }
    let mut next = namespace.clone();
    set_conditions(cluster, &mut next, &remaining);
    writer::track_as(cluster, namespaces, MANAGER, "status", Some(namespace), &mut next);
    if waits_for_contents && remaining.is_empty() {
        let rest: Vec<Value> = next["spec"]["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|finalizer| **finalizer != FINALIZER)
            .cloned()
            .collect();
        next["spec"] = if rest.is_empty() { json!({}) } else { json!({"finalizers": rest}) };
    }
    let is_complete = is_finalized(&next) && metadata::finalizers(&next).is_empty();
    let change = if is_complete {
        Change::Delete
    } else if next == *namespace {
        return;
    } else {
        Change::Put(namespaces.document(&next))
    };
    // On a conflict another commit has changed the namespace. That commit starts the next iteration.
    let _ = cluster.commit_unguarded(&table(), key, Some(revision), change);
}

fn has_finalizer(namespace: &Value) -> bool {
    namespace["spec"]["finalizers"].as_array().is_some_and(|list| list.contains(&json!(FINALIZER)))
}

/// Objects of one resource that remain in a namespace, because they have finalizers or were changed during the deletion.
struct RemainingObjects {
    resource: String,
    count: usize,
    finalizers: Vec<String>,
}

/// Deletes the objects of one resource in a namespace, as a snapshot shows them. Returns those that remain.
async fn delete_contents(
    cluster: &ClusterState,
    served: &ServedKind,
    snapshot: &Snapshot,
    namespace: &str,
) -> Option<RemainingObjects> {
    let mut turns = Turns::default();
    let resource = &served.resource;
    // The core group is shown as `pods.`, as in kube-controller-manager.
    let resource = format!("{}.{}", resource.plural, resource.group);
    let mut remaining = RemainingObjects { resource, count: 0, finalizers: Vec::new() };
    for (key, stored) in snapshot.range(namespace, None) {
        let object = served.value(stored);
        let finalizers = metadata::owned_finalizers(&object);
        let deletion = deletion::begin_deletion(cluster, served, key, stored, &object, &finalizers);
        // An object that another commit changed still exists. That commit starts the next iteration.
        if deletion != Deletion::Gone {
            remaining.count += 1;
            remaining.finalizers.extend(finalizers);
        }
        turns.pass().await;
    }
    (remaining.count > 0).then_some(remaining)
}

/// Returns a number that identifies the contents of a namespace, computed from the revisions of the namespace and its objects without
/// parsing them.
fn contents_version(cluster: &ClusterState, namespace: &str, revision: u64) -> u64 {
    let tables = cluster.registry().one_per_table();
    let namespaced = tables.iter().filter(|served| served.resource.namespaced);
    let mut version = revision;
    for served in namespaced {
        let snapshot = cluster.read(|store| store.snapshot(served.storage()));
        for (_, stored) in snapshot.range(namespace, None) {
            // As in FNV-1a, but over whole revisions, which are unique.
            version = (version ^ stored.revision).wrapping_mul(0x0100_0000_01b3);
        }
    }
    version
}

/// A condition that reports the progress of a deletion.
struct ProgressCondition {
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl ProgressCondition {
    /// Condition of a step without problems.
    fn passed(kind: &'static str, reason: &'static str, message: &str) -> Self {
        Self { kind, status: "False", reason, message: message.to_owned() }
    }

    /// Condition of contents that remain.
    fn pending(kind: &'static str, reason: &'static str, message: String) -> Self {
        Self { kind, status: "True", reason, message }
    }
}

/// Returns the five conditions that report the progress of a deletion.
fn progress(remaining: &[RemainingObjects]) -> [ProgressCondition; 5] {
    let mut resources: Vec<String> = remaining
        .iter()
        .map(|held| format!("{} has {} resource instances", held.resource, held.count))
        .collect();
    resources.sort();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for finalizer in remaining.iter().flat_map(|held| &held.finalizers) {
        *counts.entry(finalizer).or_default() += 1;
    }
    let finalizers: Vec<String> = counts
        .iter()
        .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"))
        .collect();
    [
        ProgressCondition::passed(
            "NamespaceDeletionDiscoveryFailure",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        ProgressCondition::passed(
            "NamespaceDeletionGroupVersionParsingFailure",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        ProgressCondition::passed(
            "NamespaceDeletionContentFailure",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        if resources.is_empty() {
            ProgressCondition::passed(
                "NamespaceContentRemaining",
                "ContentRemoved",
                "All content successfully removed",
            )
        } else {
            let message = format!("Some resources are remaining: {}", resources.join(", "));
            ProgressCondition::pending("NamespaceContentRemaining", "SomeResourcesRemain", message)
        },
        if finalizers.is_empty() {
            ProgressCondition::passed(
                "NamespaceFinalizersRemaining",
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            )
        } else {
            let message =
                format!("Some content in the namespace has finalizers remaining: {}", finalizers.join(", "));
            ProgressCondition::pending("NamespaceFinalizersRemaining", "SomeFinalizersRemain", message)
        },
    ]
}

/// Sets the conditions that report the progress of a deletion. Conditions of clients stay.
fn set_conditions(cluster: &ClusterState, namespace: &mut Value, remaining: &[RemainingObjects]) {
    let mut conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
    for ProgressCondition { kind, status, reason, message } in progress(remaining) {
        let known = conditions.iter().position(|condition| condition["type"] == kind);
        let unchanged = known.map(|at| &conditions[at]).filter(|condition| condition["status"] == status);
        let time = match unchanged {
            Some(condition) => condition["lastTransitionTime"].clone(),
            None => json!(cluster.clock.now_seconds()),
        };
        let condition = json!({
            "type": kind, "status": status, "lastTransitionTime": time, "reason": reason, "message": message,
        });
        match known {
            Some(at) => conditions[at] = condition,
            None => conditions.push(condition),
        }
    }
    namespace["status"]["conditions"] = Value::Array(conditions);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn an_object_that_changed_during_the_deletion_is_kept_for_the_next_pass() {
        const MAPS: &str = "/api/v1/namespaces/default/configmaps";
        let server = testing::server();
        let map = |name: &str| json!({"metadata": {"name": name}});
        testing::create(&server, MAPS, &map("changed")).unwrap();
        testing::create(&server, MAPS, &map("same")).unwrap();
        let served = testing::call(&server, MAPS).served;
        let before = server.read(|store| store.snapshot(served.storage()));
        testing::delete(&server, &format!("{MAPS}/changed")).unwrap();
        testing::create(&server, MAPS, &map("changed")).unwrap();

        let left = delete_contents(&server, &served, &before, "default").await.unwrap();
        assert_eq!((left.count, left.finalizers.len()), (1, 0));
        let now = server.read(|store| store.snapshot(served.storage()));
        assert!(now.range("default", None).map(|(key, _)| key.name()).eq(["changed"]));
        assert!(delete_contents(&server, &served, &now, "default").await.is_none());
    }

    #[tokio::test]
    async fn conditions_of_clients_stay_and_resources_are_sorted() {
        let server = testing::server();
        let mut namespace = json!({"status": {"conditions": [
            {"type": "Mine", "status": "True"},
            {"type": "NamespaceContentRemaining", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"},
        ]}});
        let remaining = ["pods.", "deployments.apps", "configmaps."].map(|resource| RemainingObjects {
            resource: resource.to_owned(),
            count: 1,
            finalizers: Vec::new(),
        });
        set_conditions(&server, &mut namespace, &remaining);
        let conditions = namespace["status"]["conditions"].as_array().unwrap();
        assert_eq!(conditions.len(), 6);
        assert_eq!(conditions[0], json!({"type": "Mine", "status": "True"}));
        let message = "Some resources are remaining: configmaps. has 1 resource instances, deployments.apps has 1 resource \
                       instances, pods. has 1 resource instances";
        assert_eq!(
            conditions[1],
            json!({
                "type": "NamespaceContentRemaining", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z",
                "reason": "SomeResourcesRemain", "message": message,
            })
        );
    }

    #[tokio::test]
    async fn changed_contents_of_a_namespace_have_another_version() {
        const MAPS: &str = "/api/v1/namespaces/default/configmaps";
        let server = testing::server();
        testing::create(&server, MAPS, &json!({"metadata": {"name": "a"}})).unwrap();
        let before = contents_version(&server, "default", 1);
        testing::create(
            &server,
            "/api/v1/namespaces/kube-system/configmaps",
            &json!({"metadata": {"name": "b"}}),
        )
        .unwrap();
        assert_eq!(contents_version(&server, "default", 1), before, "another namespace");
        assert_ne!(contents_version(&server, "default", 2), before, "the namespace itself");
        testing::delete(&server, &format!("{MAPS}/a")).unwrap();
        assert_ne!(contents_version(&server, "default", 1), before);
    }
}
