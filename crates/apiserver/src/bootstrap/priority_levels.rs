//! Default priority levels and flow schemas of kube-apiserver. They classify requests ([`crate::api::flow_control`]) but do not
//! limit them.

use serde_json::{Value, json};

/// A priority level: name, concurrency shares, lendable percentage, and queues (number, hand size, length limit). A level without queues
/// rejects requests.
type DefaultLevel = (&'static str, i64, i64, Option<(i64, i64, i64)>);

const LEVELS: [DefaultLevel; 7] = [
    ("catch-all", 5, 0, None),
    ("system", 30, 33, Some((64, 6, 50))),
    ("node-high", 40, 25, Some((64, 6, 50))),
    ("leader-election", 10, 0, Some((16, 4, 50))),
    ("workload-high", 40, 50, Some((128, 6, 50))),
    ("workload-low", 100, 90, Some((128, 6, 50))),
    ("global-default", 20, 50, Some((128, 6, 50))),
];

pub(super) fn priority_levels() -> Vec<Value> {
    let level = |name: &str, spec: Value| json!({"metadata": metadata(name), "spec": spec, "status": {}});
    let mut levels = vec![level(
        "exempt",
        json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}}),
    )];
    for (name, shares, lendable, queues) in LEVELS {
        let response = match queues {
            None => json!({"type": "Reject"}),
            Some((queues, hand, length)) => json!({
                "type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": length},
            }),
        };
        levels.push(level(
            name,
            json!({"type": "Limited", "limited": {
                "nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response,
            }}),
        ));
    }
    levels
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}})
}

/// Requests that a schema matches.
enum MatchedRequests {
    Everything,
    /// GET of these paths.
    Paths(&'static [&'static str]),
    /// Resource rules: verbs, group, resources, and whether requests at the cluster scope are included.
    Resources(&'static [(&'static [&'static str], &'static str, &'static [&'static str], bool)]),
}

/// Subjects that a schema matches.
enum MatchedSubjects {
    Groups(&'static [&'static str]),
    Users(&'static [&'static str]),
    /// Users, and the service accounts of `kube-system`.
    UsersAndSystem(&'static [&'static str]),
}

/// A flow schema: name, priority level, precedence, distinguisher, subjects and requests.
type DefaultSchema = (&'static str, &'static str, i64, &'static str, MatchedSubjects, MatchedRequests);

const ALL_USERS: MatchedSubjects =
    MatchedSubjects::Groups(&["system:unauthenticated", "system:authenticated"]);
/// Field manager of the status.
const CONSUMER: &str = "api-priority-and-fairness-config-consumer-v1";
/// Field manager of the objects.
pub(super) const PRODUCER: &str = "api-priority-and-fairness-config-producer-v1";
const MANAGER: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";

const SCHEMAS: [DefaultSchema; 11] = [
    ("exempt", "exempt", 1, "", MatchedSubjects::Groups(&["system:masters"]), MatchedRequests::Everything),
    ("probes", "exempt", 2, "", ALL_USERS, MatchedRequests::Paths(&["/healthz", "/readyz", "/livez"])),
    (
        "system-leader-election",
        "leader-election",
        100,
        "ByUser",
        MatchedSubjects::UsersAndSystem(&[MANAGER, SCHEDULER]),
        MatchedRequests::Resources(&[(
            &["get", "create", "update"],
            "coordination.k8s.io",
            &["leases"],
            false,
        )]),
    ),
    (
        "system-node-high",
        "node-high",
        400,
        "ByUser",
        MatchedSubjects::Groups(&["system:nodes"]),
        MatchedRequests::Resources(&[
            (&["*"], "", &["nodes", "nodes/status"], true),
            (&["*"], "coordination.k8s.io", &["leases"], false),
        ]),
    ),
    (
        "system-nodes",
        "system",
        500,
        "ByUser",
        MatchedSubjects::Groups(&["system:nodes"]),
        MatchedRequests::Everything,
    ),
    (
        "kube-controller-manager",
        "workload-high",
        800,
        "ByNamespace",
        MatchedSubjects::Users(&[MANAGER]),
        MatchedRequests::Everything,
    ),
    (
        "kube-scheduler",
        "workload-high",
        800,
        "ByNamespace",
        MatchedSubjects::Users(&[SCHEDULER]),
        MatchedRequests::Everything,
    ),
    (
        "kube-system-service-accounts",
        "workload-high",
        900,
        "ByNamespace",
        MatchedSubjects::UsersAndSystem(&[]),
        MatchedRequests::Everything,
    ),
    (
        "service-accounts",
        "workload-low",
        9000,
        "ByUser",
        MatchedSubjects::Groups(&["system:serviceaccounts"]),
        MatchedRequests::Everything,
    ),
    ("global-default", "global-default", 9900, "ByUser", ALL_USERS, MatchedRequests::Everything),
    ("catch-all", "catch-all", 10000, "ByUser", ALL_USERS, MatchedRequests::Everything),
];

pub(super) fn flow_schemas(now: &str) -> Vec<Value> {
    let schema = |(name, level, precedence, distinguisher, subjects, requests): &DefaultSchema| {
        let mut rules = requests.rules();
        rules["subjects"] = subjects.to_json();
        let mut spec = json!({
            "priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": [rules],
        });
        if !distinguisher.is_empty() {
            spec["distinguisherMethod"] = json!({"type": distinguisher});
        }
        let message = format!(
            "This FlowSchema references the PriorityLevelConfiguration object named \"{level}\" and it exists"
        );
        let condition = json!({
            "type": "Dangling", "status": "False", "lastTransitionTime": now, "reason": "Found", "message": message,
        });
        let mut metadata = metadata(name);
        let fields: serde_json::Map<String, Value> =
            [".", "f:lastTransitionTime", "f:message", "f:reason", "f:status", "f:type"]
                .iter()
                .map(|field| ((*field).to_owned(), json!({})))
                .collect();
        metadata["managedFields"] = json!([{
            "manager": CONSUMER, "operation": "Apply", "subresource": "status", "time": now,
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": {"f:conditions": {"k:{\"type\":\"Dangling\"}": fields}}},
        }]);
        json!({"metadata": metadata, "spec": spec, "status": {"conditions": [condition]}})
    };
    SCHEMAS.iter().map(schema).collect()
}

impl MatchedSubjects {
    fn to_json(&self) -> Value {
        let user = |name: &&str| json!({"kind": "User", "user": {"name": name}});
        let system =
            json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"}});
        match self {
            Self::Groups(names) => {
                names.iter().map(|name| json!({"kind": "Group", "group": {"name": name}})).collect()
            }
            Self::Users(names) => names.iter().map(user).collect(),
            Self::UsersAndSystem(names) => names.iter().map(user).chain([system]).collect(),
        }
    }
}

impl MatchedRequests {
    fn rules(&self) -> Value {
        let of = |verbs: &[&str], group: &str, resources: &[&str], everywhere: bool| {
            let mut rule =
                json!({"verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"]});
            if everywhere {
                rule["clusterScope"] = json!(true);
            }
            rule
        };
        match self {
            Self::Everything => json!({
                "resourceRules": [of(&["*"], "*", &["*"], true)],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }),
            Self::Paths(paths) => json!({"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": paths}]}),
            Self::Resources(rules) => {
                let rules: Vec<Value> = rules
                    .iter()
                    .map(|(verbs, group, resources, everywhere)| of(verbs, group, resources, *everywhere))
                    .collect();
                json!({"resourceRules": rules})
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two levels and two schemas have a spec that the validation compares with a fixed one.
    #[test]
    fn default_levels_and_schemas_are_valid() {
        let registry = crate::kinds::builtin::registry();
        let check = |kind: &str, objects: Vec<Value>| {
            let served = registry.all().find(|served| served.resource.kind == kind).unwrap();
            for object in objects {
                let errors = served.strategy.validate_create(served, &object);
                assert!(errors.is_empty(), "{}: {errors:?}", object["metadata"]["name"]);
            }
        };
        check("PriorityLevelConfiguration", priority_levels());
        check("FlowSchema", flow_schemas("2026-01-01T00:00:00Z"));
    }
}
