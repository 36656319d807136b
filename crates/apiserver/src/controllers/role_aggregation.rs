//! Computes the rules of aggregated ClusterRoles (profile [`Dev`](crate::Profile::Dev)).
//!
//! As in kube-controller-manager, the rules are written by server-side apply, so that this controller owns them. Its own commits wake it
//! again, because aggregated roles can select each other. It stops when no rules differ.

use std::future::Future;
use std::sync::Arc;

use kube_apimachinery::metadata;
use kube_apimachinery::rbac::{GROUP, Kind, PolicyRule, aggregate};
use serde_json::{Value, json};

use crate::kind::registry::ServedKind;
use crate::kind::resource::StorageKey;
use crate::state::{ClusterState, CommitsSubscription, Subscription, Turns, writer};
use crate::store::{Key, Store};

/// Field manager of the rules, as in kube-controller-manager.
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Number of rounds at start. Each round passes rules on to the next role: from `view` to `edit`, from `edit` to `admin`.
const ROUNDS: usize = 8;

/// Updates aggregated roles at start, so that a server without clients does not change after it is ready.
pub(crate) fn complete(cluster: &ClusterState) {
    let Some(served) = cluster.registry().get(GROUP, "v1", Kind::ClusterRole.plural()).cloned() else {
        return;
    };
    for _ in 0..ROUNDS {
        let before = cluster.read(Store::revision);
        let snapshot = cluster.read(|store| store.snapshot(served.storage()));
        let stored: Vec<_> = snapshot.range("", None).collect();
        let roles: Vec<Value> = stored.iter().map(|(_, stored)| served.value(stored)).collect();
        for (role, (key, stored)) in roles.iter().zip(&stored) {
            update(cluster, &served, key, stored.revision, role, &roles);
        }
        // No role has changed in this round, so another one would find nothing to pass on.
        if cluster.read(Store::revision) == before {
            return;
        }
    }
}

/// Updates aggregated roles when a role changes after this call. [`complete`] must have run before. Runs until the task of the returned
/// future is aborted.
pub(crate) fn follow(cluster: Arc<ClusterState>) -> impl Future<Output = ()> + Send {
    // Subscribed before the task runs, so that no change in between is missed.
    let commits = cluster.commits();
    let table = StorageKey { group: GROUP.to_owned(), plural: Kind::ClusterRole.plural().to_owned() };
    let mut changes = cluster.changes(&table);
    changes.see_all();
    run(cluster, commits, changes)
}

async fn run(cluster: Arc<ClusterState>, mut commits: CommitsSubscription, mut changes: Subscription) {
    let Some(served) = cluster.registry().get(GROUP, "v1", Kind::ClusterRole.plural()).cloned() else {
        return;
    };
    let mut turns = Turns::default();
    loop {
        commits.see();
        if changes.has_news() {
            changes.see_all();
            let snapshot = cluster.read(|store| store.snapshot(served.storage()));
            let mut roles = Vec::new();
            let mut versions: Vec<(Key, u64)> = Vec::new();
            for (key, stored) in snapshot.range("", None) {
                roles.push(served.value(stored));
                versions.push((key.clone(), stored.revision));
                turns.pass().await;
            }
            for (role, (key, revision)) in roles.iter().zip(&versions) {
                if update(&cluster, &served, key, *revision, role, &roles) {
                    turns.pass().await;
                }
            }
        }
        commits.changed().await;
    }
}

/// Applies the rules of an aggregated role if they differ. Returns whether they differed.
fn update(
    cluster: &ClusterState,
    served: &ServedKind,
    key: &Key,
    revision: u64,
    role: &Value,
    roles: &[Value],
) -> bool {
    match aggregate(role, roles) {
        Some(rules) if rules != PolicyRule::list(&role["rules"]) => {
            apply(cluster, served, key, revision, role, &rules);
            true
        }
        _ => false,
    }
}

/// Applies the rules of a role. On a conflict, the other commit wakes the controller.
fn apply(
    cluster: &ClusterState,
    served: &ServedKind,
    key: &Key,
    revision: u64,
    role: &Value,
    rules: &[PolicyRule],
) {
    let rules: Vec<Value> = rules.iter().map(PolicyRule::to_value).collect();
    let applied = json!({
        "apiVersion": served.kind.api_version, "kind": served.kind.kind,
        "metadata": {"name": metadata::text(role, "name")}, "rules": rules,
    });
    let applied = writer::apply_as(cluster, served, MANAGER, "", (key, revision, role), &applied);
    if let Err(error) = applied {
        tracing::warn!(
            role = key.name(),
            reason = error.message(),
            "cannot apply the rules of an aggregated role"
        );
    }
}
