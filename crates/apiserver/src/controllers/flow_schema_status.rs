//! Conditions of FlowSchemas: whether the priority level that a schema names exists.
//!
//! kube-apiserver's priority and fairness writes this condition itself, so this controller runs in every profile. It applies the condition only
//! if it differs, so its own commits cause no further writes.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use kube_apimachinery::go::quote;
use kube_apimachinery::metadata;
use serde_json::{Value, json};

use crate::kind::registry::ServedKind;
use crate::kind::resource::StorageKey;
use crate::state::{ClusterState, CommitsSubscription, Subscription, Turns, writer};
use crate::store::Key;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const SCHEMAS: &str = "flowschemas";
const LEVELS: &str = "prioritylevelconfigurations";
/// Field manager of the condition, as in kube-apiserver.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";
const DANGLING: &str = "Dangling";

/// Updates conditions when a schema or a priority level changes after this call. Runs until the task of the returned future is aborted.
pub(crate) fn follow(cluster: Arc<ClusterState>) -> impl Future<Output = ()> + Send {
    // Subscribed before the task runs, so that no change in between is missed.
    let commits = cluster.commits();
    let changes = [SCHEMAS, LEVELS].map(|plural| {
        let table = StorageKey { group: GROUP.to_owned(), plural: plural.to_owned() };
        let mut changes = cluster.changes(&table);
        changes.see_all();
        changes
    });
    run(cluster, commits, changes)
}

async fn run(cluster: Arc<ClusterState>, mut commits: CommitsSubscription, mut changes: [Subscription; 2]) {
    let served = |plural: &str| cluster.registry().get(GROUP, "v1", plural).cloned();
    let (Some(schemas), Some(levels)) = (served(SCHEMAS), served(LEVELS)) else { return };
    let mut turns = Turns::default();
    loop {
        // Mark before the store is read, so that a commit during this round starts another one.
        commits.see();
        if changes.iter().any(Subscription::has_news) {
            for changes in &mut changes {
                changes.see_all();
            }
            let snapshot = cluster.read(|store| store.snapshot(levels.storage()));
            let known: BTreeSet<String> =
                snapshot.range("", None).map(|(key, _)| key.name().to_owned()).collect();
            let snapshot = cluster.read(|store| store.snapshot(schemas.storage()));
            for (key, stored) in snapshot.range("", None) {
                let schema = schemas.value(stored);
                if let Some(condition) = missing_condition(&schema, &known, &cluster.clock.now_seconds()) {
                    apply(&cluster, &schemas, key, stored.revision, &schema, &condition);
                }
                turns.pass().await;
            }
        }
        commits.changed().await;
    }
}

/// Returns the condition that a schema should have; `None` if it has this condition.
fn missing_condition(schema: &Value, levels: &BTreeSet<String>, now: &str) -> Option<Value> {
    let level = schema["spec"]["priorityLevelConfiguration"]["name"].as_str().unwrap_or_default();
    let named =
        format!("This FlowSchema references the PriorityLevelConfiguration object named {}", quote(level));
    let (status, reason, message) = if levels.contains(level) {
        ("False", "Found", format!("{named} and it exists"))
    } else {
        ("True", "NotFound", format!("{named} but there is no such object"))
    };
    let conditions = schema["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|condition| condition["type"] == DANGLING);
    let is_same = found.is_some_and(|found| {
        found["status"] == status && found["reason"] == reason && found["message"] == message
    });
    (!is_same).then(|| {
        json!({
            "type": DANGLING, "status": status, "lastTransitionTime": now, "reason": reason, "message": message,
        })
    })
}

/// Applies the condition of a schema. On a conflict, the other commit wakes the controller.
fn apply(
    cluster: &ClusterState,
    served: &ServedKind,
    key: &Key,
    revision: u64,
    schema: &Value,
    condition: &Value,
) {
    let applied = json!({
        "apiVersion": served.kind.api_version, "kind": served.kind.kind,
        "metadata": {"name": metadata::text(schema, "name")}, "status": {"conditions": [condition]},
    });
    let applied = writer::apply_as(cluster, served, MANAGER, "status", (key, revision, schema), &applied);
    if let Err(error) = applied {
        tracing::warn!(
            flow_schema = key.name(),
            reason = error.message(),
            "cannot apply the condition of a FlowSchema"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of kube-apiserver v1.36.3.
    #[test]
    fn a_schema_without_its_level_is_dangling() {
        let schema = |conditions: Value| {
            json!({
                "spec": {"priorityLevelConfiguration": {"name": "nope"}}, "status": {"conditions": conditions},
            })
        };
        let none = BTreeSet::new();
        let condition = missing_condition(&schema(Value::Null), &none, "now").unwrap();
        assert_eq!(
            condition,
            json!({
                "type": "Dangling", "status": "True", "lastTransitionTime": "now", "reason": "NotFound",
                "message": "This FlowSchema references the PriorityLevelConfiguration object named \"nope\" but there is no such object",
            })
        );
        let dangling = schema(json!([condition]));
        assert_eq!(missing_condition(&dangling, &none, "later"), None);
        let found = missing_condition(&dangling, &BTreeSet::from(["nope".to_owned()]), "later").unwrap();
        assert_eq!((&found["status"], &found["reason"]), (&json!("False"), &json!("Found")));
        assert_eq!(
            found["message"],
            "This FlowSchema references the PriorityLevelConfiguration object named \"nope\" and it exists"
        );
    }
}
