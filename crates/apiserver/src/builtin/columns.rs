//! Table columns of builtin kinds, as `kubectl get` has shown them since the server makes them.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::resource::{Cell, Column};
use crate::selector;
use crate::table::age::since_text;
use crate::table::{AGE_DESCRIPTION, name_column};

type CellFn = fn(&Value, Timestamp) -> Value;

/// The columns of a kind; kinds without columns of their own show when they were created.
pub(super) fn of(kind: &str) -> Vec<Column> {
    let mut columns = vec![name_column()];
    columns.extend(match kind {
        "ConfigMap" => config_map(),
        "ControllerRevision" => controller_revision(),
        "DaemonSet" => daemon_set(),
        "Deployment" => deployment(),
        "Event" => return event(),
        "Lease" => lease(),
        "Namespace" => namespace(),
        "ReplicaSet" => replica_set(),
        "Secret" => secret(),
        "ServiceAccount" => vec![age()],
        "StatefulSet" => stateful_set(),
        _ => vec![created_at()],
    });
    columns
}

fn column(name: &str, kind: &str, priority: i64, description: &str, cell: CellFn) -> Column {
    Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: String::new(),
        description: description.to_owned(),
        priority,
        cell: Cell::Builtin(cell),
    }
}

fn string(name: &str, description: &str, cell: CellFn) -> Column {
    column(name, "string", 0, description, cell)
}

fn integer(name: &str, description: &str, cell: CellFn) -> Column {
    column(name, "integer", 0, description, cell)
}

fn wide(name: &str, description: &str, cell: CellFn) -> Column {
    column(name, "string", 1, description, cell)
}

fn age() -> Column {
    string("Age", AGE_DESCRIPTION, |object, now| {
        json!(since_text(text_at(object, "/metadata/creationTimestamp"), now))
    })
}

fn created_at() -> Column {
    column("Created At", "date", 0, AGE_DESCRIPTION, |object, _| {
        object
            .pointer("/metadata/creationTimestamp")
            .cloned()
            .unwrap_or_default()
    })
}

fn config_map() -> Vec<Column> {
    let data = string(
        "Data",
        "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', '_' or '.'. \
         Values with non-UTF-8 byte sequences must use the BinaryData field. The keys stored in Data must not overlap \
         with the keys in the BinaryData field, this is enforced during validation process.",
        |object, _| json!(length(object, "/data") + length(object, "/binaryData")),
    );
    vec![data, age()]
}

fn secret() -> Vec<Column> {
    vec![
        string(
            "Type",
            "Used to facilitate programmatic handling of secret data. More info: \
             https://kubernetes.io/docs/concepts/configuration/secret/#secret-types",
            |object, _| text(object, "/type"),
        ),
        string(
            "Data",
            "Data contains the secret data. Each key must consist of alphanumeric characters, '-', '_' or '.'. The \
             serialized form of the secret data is a base64 encoded string, representing the arbitrary (possibly \
             non-string) data value here. Described in https://tools.ietf.org/html/rfc4648#section-4",
            |object, _| json!(length(object, "/data")),
        ),
        age(),
    ]
}

fn namespace() -> Vec<Column> {
    let status = string("Status", "The status of the namespace", |object, _| {
        text(object, "/status/phase")
    });
    vec![status, age()]
}

fn lease() -> Vec<Column> {
    let holder = string(
        "Holder",
        "holderIdentity contains the identity of the holder of a current lease. If Coordinated Leader Election is used, \
         the holder identity must be equal to the elected LeaseCandidate.metadata.name field.",
        |object, _| text(object, "/spec/holderIdentity"),
    );
    vec![holder, age()]
}

fn controller_revision() -> Vec<Column> {
    vec![
        string("Controller", "Controller of the object", |object, _| {
            let owners = object
                .pointer("/metadata/ownerReferences")
                .and_then(Value::as_array);
            let controller = owners
                .into_iter()
                .flatten()
                .find(|owner| owner["controller"] == true);
            json!(controller.map_or("<none>".to_owned(), |owner| {
                let kind = owner["kind"].as_str().unwrap_or_default().to_lowercase();
                let group = owner["apiVersion"]
                    .as_str()
                    .and_then(|version| Some(version.split_once('/')?.0));
                let kind = group.map_or(kind.clone(), |group| format!("{kind}.{group}"));
                format!("{kind}/{}", owner["name"].as_str().unwrap_or_default())
            }))
        }),
        string(
            "Revision",
            "Revision indicates the revision of the state represented by Data.",
            |object, _| json!(number(object, "/revision")),
        ),
        age(),
    ]
}

fn deployment() -> Vec<Column> {
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

fn replica_set() -> Vec<Column> {
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

fn stateful_set() -> Vec<Column> {
    let ready = string("Ready", "Number of the pod with ready state", ready_of_replicas);
    vec![ready, age(), containers(), images()]
}

fn daemon_set() -> Vec<Column> {
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
                json!(if labels.is_empty() {
                    "<none>".to_owned()
                } else {
                    labels.join(",")
                })
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

/// Events are told by what happened; the name comes last.
fn event() -> Vec<Column> {
    vec![
        string(
            "Last Seen",
            "The time at which the most recent occurrence of this event was recorded.",
            |event, now| json!(last_seen(event, now)),
        ),
        string(
            "Type",
            "Type of this event (Normal, Warning), new types could be added in the future",
            |event, _| text(event, "/type"),
        ),
        string(
            "Reason",
            "This should be a short, machine understandable string that gives the reason for the transition into the \
             object's current status.",
            |event, _| text(event, "/reason"),
        ),
        string("Object", "The object that this event is about.", |event, _| {
            let regarding = &event[if event.get("regarding").is_some() {
                "regarding"
            } else {
                "involvedObject"
            }];
            let kind = regarding["kind"].as_str().unwrap_or_default().to_lowercase();
            json!(match regarding["name"].as_str().unwrap_or_default() {
                "" => kind,
                name => format!("{kind}/{name}"),
            })
        }),
        wide(
            "Subobject",
            "If referring to a piece of an object instead of an entire object, this string should contain a valid \
             JSON/Go field access statement, such as desiredState.manifest.containers[2]. For example, if the object \
             reference is to a container within a pod, this would take on a value like: \"spec.containers{name}\" \
             (where \"name\" refers to the name of the container that triggered the event) or if no container name is \
             specified \"spec.containers[2]\" (container with index 2 in this pod). This syntax is chosen only to have \
             some well-defined way of referencing a part of an object.",
            |event, _| first_text(event, &["/involvedObject/fieldPath", "/regarding/fieldPath"]),
        ),
        wide(
            "Source",
            "The component reporting this event. Should be a short machine understandable string.",
            |event, _| {
                let component = [
                    "/source/component",
                    "/deprecatedSource/component",
                    "/reportingComponent",
                    "/reportingController",
                ];
                let host = ["/source/host", "/deprecatedSource/host", "/reportingInstance"];
                let (component, host) = (first_text(event, &component), first_text(event, &host));
                let (component, host) = (
                    component.as_str().unwrap_or_default(),
                    host.as_str().unwrap_or_default(),
                );
                json!(if host.is_empty() {
                    component.to_owned()
                } else {
                    format!("{component}, {host}")
                })
            },
        ),
        string(
            "Message",
            "A human-readable description of the status of this operation.",
            |event, _| {
                let message = first_text(event, &["/message", "/note"]);
                json!(message.as_str().unwrap_or_default().trim())
            },
        ),
        wide(
            "First Seen",
            "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)",
            |event, now| json!(first_seen(event, now)),
        ),
        wide(
            "Count",
            "The number of times this event has occurred.",
            |event, _| {
                let count = if event["series"].is_object() {
                    number(event, "/series/count")
                } else {
                    // Events of the new API happen once and do not count.
                    number(event, "/count")
                        .max(number(event, "/deprecatedCount"))
                        .max(1)
                };
                json!(count)
            },
        ),
        wide("Name", "", |event, _| text(event, "/metadata/name")),
    ]
}

fn first_seen(event: &Value, now: Timestamp) -> String {
    let time = first_text(
        event,
        &["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"],
    );
    since_text(time.as_str(), now)
}

fn last_seen(event: &Value, now: Timestamp) -> String {
    if event["series"].is_object() {
        return since_text(text_at(event, "/series/lastObservedTime"), now);
    }
    match first_text(event, &["/lastTimestamp", "/deprecatedLastTimestamp"]).as_str() {
        None | Some("") => first_seen(event, now),
        time => since_text(time, now),
    }
}

fn containers() -> Column {
    wide(
        "Containers",
        "Names of each container in the template.",
        |object, _| json!(of_containers(object, "name")),
    )
}

fn images() -> Column {
    wide(
        "Images",
        "Images referenced by each container in the template.",
        |object, _| json!(of_containers(object, "image")),
    )
}

fn of_containers(object: &Value, key: &str) -> String {
    let list = object
        .pointer("/spec/template/spec/containers")
        .and_then(Value::as_array);
    let values: Vec<&str> = list
        .into_iter()
        .flatten()
        .map(|container| container[key].as_str().unwrap_or_default())
        .collect();
    values.join(",")
}

fn ready_of_replicas(object: &Value, _: Timestamp) -> Value {
    let (ready, desired) = (
        number(object, "/status/readyReplicas"),
        number(object, "/spec/replicas"),
    );
    json!(format!("{ready}/{desired}"))
}

fn selector_text(object: &Value) -> String {
    object
        .pointer("/spec/selector")
        .map(selector::label_selector_text)
        .unwrap_or_default()
}

fn selector_or_none(object: &Value, _: Timestamp) -> Value {
    match selector_text(object) {
        none if none.is_empty() => json!("<none>"),
        some => json!(some),
    }
}

fn text_at<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer)?.as_str()
}

fn text(object: &Value, pointer: &str) -> Value {
    json!(text_at(object, pointer).unwrap_or_default())
}

fn first_text(object: &Value, pointers: &[&str]) -> Value {
    let texts = pointers.iter().filter_map(|pointer| text_at(object, pointer));
    json!(
        texts
            .into_iter()
            .find(|text| !text.is_empty())
            .unwrap_or_default()
    )
}

fn number(object: &Value, pointer: &str) -> i64 {
    object
        .pointer(pointer)
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

fn length(object: &Value, pointer: &str) -> usize {
    object
        .pointer(pointer)
        .and_then(Value::as_object)
        .map_or(0, serde_json::Map::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &str, object: &Value, expected: &[(&str, Value)]) {
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        let cells: Vec<(String, Value)> = of(kind)
            .into_iter()
            .map(|column| match column.cell {
                Cell::Builtin(cell) => (column.name, cell(object, now)),
                Cell::Path(_) => unreachable!("builtin columns have no paths"),
            })
            .collect();
        let cells: Vec<(&str, Value)> = cells.iter().map(|(name, cell)| (&**name, cell.clone())).collect();
        assert_eq!(cells, expected);
    }

    #[test]
    fn a_deployment_shows_its_replicas_and_containers() {
        check(
            "Deployment",
            &json!({
                "metadata": {"name": "web", "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {
                    "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                    "template": {"spec": {"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y"}]}},
                },
                "status": {"readyReplicas": 1, "updatedReplicas": 2},
            }),
            &[
                ("Name", json!("web")),
                ("Ready", json!("1/3")),
                ("Up-to-date", json!(2)),
                ("Available", json!(0)),
                ("Age", json!("60s")),
                ("Containers", json!("a,b")),
                ("Images", json!("x:1,y")),
                ("Selector", json!("app=web")),
            ],
        );
    }

    #[test]
    fn config_maps_and_secrets_count_their_keys() {
        check(
            "ConfigMap",
            &json!({"metadata": {"name": "a"}, "data": {"x": "", "y": ""}, "binaryData": {"z": ""}}),
            &[
                ("Name", json!("a")),
                ("Data", json!(3)),
                ("Age", json!("<unknown>")),
            ],
        );
        check(
            "Secret",
            &json!({"metadata": {"name": "a"}, "type": "Opaque", "data": {"x": ""}}),
            &[
                ("Name", json!("a")),
                ("Type", json!("Opaque")),
                ("Data", json!(1)),
                ("Age", json!("<unknown>")),
            ],
        );
    }

    #[test]
    fn an_event_of_either_api_shows_what_happened() {
        let expected = |last: &str, count: i64| {
            [
                ("Last Seen", json!(last)),
                ("Type", json!("Normal")),
                ("Reason", json!("Up")),
                ("Object", json!("pod/p")),
                ("Subobject", json!("")),
                ("Source", json!("c, h")),
                ("Message", json!("started")),
                ("First Seen", json!("60s")),
                ("Count", json!(count)),
                ("Name", json!("e")),
            ]
        };
        check(
            "Event",
            &json!({
                "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p"}, "type": "Normal",
                "reason": "Up", "message": "started\n", "source": {"component": "c", "host": "h"}, "count": 4,
                "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:50Z",
            }),
            &expected("10s", 4),
        );
        check(
            "Event",
            &json!({
                "metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p"}, "type": "Normal",
                "reason": "Up", "note": "started", "reportingController": "c", "reportingInstance": "h",
                "eventTime": "2026-01-01T00:00:00.000000Z",
            }),
            &expected("60s", 1),
        );
    }

    #[test]
    fn a_kind_without_columns_shows_when_it_was_created() {
        check(
            "CustomResourceDefinition",
            &json!({"metadata": {"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z"}}),
            &[
                ("Name", json!("x")),
                ("Created At", json!("2026-01-01T00:00:00Z")),
            ],
        );
    }
}
