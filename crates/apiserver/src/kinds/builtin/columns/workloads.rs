//! Columns of Deployments, ReplicaSets, StatefulSets and DaemonSets, and cells that other workloads share.

use jiff::Timestamp;
use kube_apimachinery::selector;
use kube_apimachinery::table::Column;
use serde_json::{Value, json};

use super::{age, integer, number, string, wide};

pub(super) fn deployment() -> Vec<Column> {
    vec![
        string("Ready", "Number of the pod with ready state", ready_of_replicas),
        string(
            "Up-to-date",
            "Total number of non-terminating pods targeted by this deployment that have the desired template spec.",
            |object, _| json!(number(object, "/status/updatedReplicas")),
        ),
        string(
            "Available",
            "Total number of available non-terminating pods (ready for at least minReadySeconds) targeted by this \
             deployment.",
            |object, _| json!(number(object, "/status/availableReplicas")),
        ),
        age(),
        containers(),
        images(),
        wide(
            "Selector",
            "Label selector for pods. Existing ReplicaSets whose pods are selected by this will be the ones affected by \
             this deployment. It must match the pod template's labels.",
            |object, _| json!(selector_text(object)),
        ),
    ]
}

pub(super) fn replica_set() -> Vec<Column> {
    vec![
        integer(
            "Desired",
            "Replicas is the number of desired pods. This is a pointer to distinguish between explicit zero and \
             unspecified. Defaults to 1. More info: \
             https://kubernetes.io/docs/concepts/workloads/controllers/replicaset",
            |object, _| json!(number(object, "/spec/replicas")),
        ),
        integer(
            "Current",
            "Replicas is the most recently observed number of non-terminating pods. More info: \
             https://kubernetes.io/docs/concepts/workloads/controllers/replicaset",
            |object, _| json!(number(object, "/status/replicas")),
        ),
        integer(
            "Ready",
            "The number of non-terminating pods targeted by this ReplicaSet with a Ready Condition.",
            |object, _| json!(number(object, "/status/readyReplicas")),
        ),
        age(),
        containers(),
        images(),
        wide(
            "Selector",
            "Selector is a label query over pods that should match the replica count. Label keys and values that must \
             match in order to be controlled by this replica set. It must match the pod template's labels. More info: \
             https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
            selector_or_none,
        ),
    ]
}

pub(super) fn stateful_set() -> Vec<Column> {
    let ready = string("Ready", "Number of the pod with ready state", ready_of_replicas);
    vec![ready, age(), containers(), images()]
}

pub(super) fn daemon_set() -> Vec<Column> {
    const MORE: &str = "More info: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/";
    vec![
        integer(
            "Desired",
            &format!(
                "The total number of nodes that should be running the daemon pod (including nodes correctly running \
                 the daemon pod). {MORE}"
            ),
            |object, _| json!(number(object, "/status/desiredNumberScheduled")),
        ),
        integer(
            "Current",
            &format!(
                "The number of nodes that are running at least 1 daemon pod and are supposed to run the daemon pod. \
                 {MORE}"
            ),
            |object, _| json!(number(object, "/status/currentNumberScheduled")),
        ),
        integer(
            "Ready",
            "numberReady is the number of nodes that should be running the daemon pod and have one or more of the \
             daemon pod running with a Ready Condition.",
            |object, _| json!(number(object, "/status/numberReady")),
        ),
        integer(
            "Up-to-date",
            "The total number of nodes that are running updated daemon pod",
            |object, _| json!(number(object, "/status/updatedNumberScheduled")),
        ),
        integer(
            "Available",
            "The number of nodes that should be running the daemon pod and have one or more of the daemon pod running \
             and available (ready for at least spec.minReadySeconds)",
            |object, _| json!(number(object, "/status/numberAvailable")),
        ),
        string(
            "Node Selector",
            "NodeSelector is a selector which must be true for the pod to fit on a node. Selector which must match a \
             node's labels for the pod to be scheduled on that node. More info: \
             https://kubernetes.io/docs/concepts/configuration/assign-pod-node/",
            |object, _| {
                let labels = object.pointer("/spec/template/spec/nodeSelector");
                let labels = labels.and_then(Value::as_object).into_iter().flatten();
                let labels: Vec<String> = labels
                    .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
                    .collect();
                json!(if labels.is_empty() { "<none>".to_owned() } else { labels.join(",") })
            },
        ),
        age(),
        containers(),
        images(),
        wide(
            "Selector",
            "A label query over pods that are managed by the daemon set. Must match in order to be controlled. It must \
             match the pod template's labels. More info: \
             https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
            selector_or_none,
        ),
    ]
}

pub(super) fn containers() -> Column {
    wide("Containers", "Names of each container in the template.", |object, _| {
        json!(of_containers(object, "name"))
    })
}

pub(super) fn images() -> Column {
    wide("Images", "Images referenced by each container in the template.", |object, _| {
        json!(of_containers(object, "image"))
    })
}

/// Lists a field of the containers in the pod template.
pub(super) fn of_containers(object: &Value, key: &str) -> String {
    let list = object.pointer("/spec/template/spec/containers").and_then(Value::as_array);
    let values: Vec<&str> =
        list.into_iter().flatten().map(|container| container[key].as_str().unwrap_or_default()).collect();
    values.join(",")
}

fn ready_of_replicas(object: &Value, _: Timestamp) -> Value {
    let (ready, desired) = (number(object, "/status/readyReplicas"), number(object, "/spec/replicas"));
    json!(format!("{ready}/{desired}"))
}

fn selector_text(object: &Value) -> String {
    object.pointer("/spec/selector").map(selector::label_selector_text).unwrap_or_default()
}

pub(super) fn selector_or_none(object: &Value, _: Timestamp) -> Value {
    match selector_text(object) {
        none if none.is_empty() => json!("<none>"),
        some => json!(some),
    }
}
