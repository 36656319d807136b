//! Table columns of builtin kinds, as `kubectl get` prints them.

mod autoscaling;
mod cell_values;
mod event;
mod jobs;
mod network;
mod node_cells;
mod pod;
mod quota;
mod recorded;
mod service_cells;
mod volume_cells;
mod workloads;

use jiff::Timestamp;
use kube_apimachinery::table::Cell;
use kube_apimachinery::table::Column;
use kube_apimachinery::table::age::since_text;
use kube_apimachinery::table::{AGE_DESCRIPTION, name_column};
use serde_json::{Value, json};

type CellFn = fn(&Value, Timestamp) -> Value;

/// Returns the columns of a kind. Kinds without columns of their own show name and creation time.
pub(super) fn of(kind: &str) -> Vec<Column> {
    let mut columns = vec![match kind {
        "IngressClass" => ingress_class_name(),
        "StorageClass" => storage_class_name(),
        _ => name_column(),
    }];
    columns.extend(match kind {
        "ComponentStatus" => component_status(),
        "ConfigMap" => config_map(),
        "ControllerRevision" => controller_revision(),
        "CronJob" => jobs::cron_job(),
        "DaemonSet" => workloads::daemon_set(),
        "Deployment" => workloads::deployment(),
        "Event" => return event::event(),
        "Job" => jobs::job(),
        "Lease" => lease(),
        "Namespace" => namespace(),
        "Pod" => pod::pod(),
        "PodDisruptionBudget" => jobs::disruption_budget(),
        "ReplicaSet" => workloads::replica_set(),
        "Secret" => secret(),
        "ServiceAccount" => vec![age()],
        "StatefulSet" => workloads::stateful_set(),
        other => recorded::of(other).unwrap_or_else(|| vec![created_at()]),
    });
    columns
}

/// Column with the name of a StorageClass, marked if it is the default.
fn storage_class_name() -> Column {
    // kube-apiserver still honors the annotation of the beta version.
    let cell: CellFn =
        |object, _| class_name(object, &["storageclass.kubernetes.io", "storageclass.beta.kubernetes.io"]);
    Column { cell: Cell::Builtin(cell), ..name_column() }
}

/// Column with the name of an IngressClass, marked if it is the default.
fn ingress_class_name() -> Column {
    let cell: CellFn = |object, _| class_name(object, &["ingressclass.kubernetes.io"]);
    Column { cell: Cell::Builtin(cell), ..name_column() }
}

/// Returns the name of a class, with a note if an annotation of one of the domains makes the class the default.
fn class_name(object: &Value, domains: &[&str]) -> Value {
    let annotations = &object["metadata"]["annotations"];
    let is_default = domains.iter().any(|domain| annotations[format!("{domain}/is-default-class")] == "true");
    let name = text_at(object, "/metadata/name").unwrap_or_default();
    json!(if is_default { format!("{name} (default)") } else { name.to_owned() })
}

/// Returns the columns of a `Scale`. Scales of custom resources have slightly different ones.
pub(crate) fn of_scale(custom: bool) -> Vec<Column> {
    let name = if custom { name_column() } else { Column { format: String::new(), ..name_column() } };
    let (desired, available) = if custom {
        ("Number of desired replicas", "Number of actual replicas")
    } else {
        (
            "replicas is the desired number of instances for the scaled object.",
            "replicas is the actual number of observed instances of the scaled object.",
        )
    };
    // kube-apiserver computes the cells for custom kinds from the JSON of the scale, which omits zero replicas.
    let replicas: CellFn = if custom {
        |scale, _| {
            scale["spec"]["replicas"]
                .as_i64()
                .filter(|replicas| *replicas != 0)
                .map_or(Value::Null, Value::from)
        }
    } else {
        |scale, _| json!(scale["spec"]["replicas"].as_i64().unwrap_or(0))
    };
    let age = if custom { Column { kind: "date".to_owned(), ..age() } } else { age() };
    vec![
        name,
        integer("Desired", desired, replicas),
        integer("Available", available, |scale, _| json!(scale["status"]["replicas"].as_i64().unwrap_or(0))),
        age,
    ]
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
        object.pointer("/metadata/creationTimestamp").cloned().unwrap_or_default()
    })
}

fn component_status() -> Vec<Column> {
    let status = string("Status", "Status of the component conditions", |object, _| {
        let healthy = object["conditions"][0]["status"] == "True";
        json!(if healthy { "Healthy" } else { "Unhealthy" })
    });
    let message = string("Message", "Message of the component conditions", |object, _| {
        text(object, "/conditions/0/message")
    });
    let error =
        string("Error", "Error of the component conditions", |object, _| text(object, "/conditions/0/error"));
    vec![status, message, error]
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
    let status = string("Status", "The status of the namespace", |object, _| text(object, "/status/phase"));
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
            let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            let controller = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
            json!(controller.map_or("<none>".to_owned(), |owner| {
                let kind = owner["kind"].as_str().unwrap_or_default().to_lowercase();
                // The core group has no name, so its kinds have no suffix.
                let group = owner["apiVersion"].as_str().and_then(|version| Some(version.split_once('/')?.0));
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

fn text_at<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer)?.as_str()
}

fn text(object: &Value, pointer: &str) -> Value {
    json!(text_at(object, pointer).unwrap_or_default())
}

fn first_text(object: &Value, pointers: &[&str]) -> Value {
    let texts = pointers.iter().filter_map(|pointer| text_at(object, pointer));
    json!(texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default())
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

fn length(object: &Value, pointer: &str) -> usize {
    object.pointer(pointer).and_then(Value::as_object).map_or(0, serde_json::Map::len)
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
    fn the_default_storage_class_is_marked() {
        let class = json!({
            "metadata": {"name": "s", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "x/y",
        });
        check(
            "StorageClass",
            &class,
            &[
                ("Name", json!("s (default)")),
                ("Provisioner", json!("x/y")),
                ("ReclaimPolicy", json!("Delete")),
                ("VolumeBindingMode", json!("Immediate")),
                ("AllowVolumeExpansion", json!(false)),
                ("Age", json!("<unknown>")),
            ],
        );
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn the_default_ingress_class_is_marked() {
        let class = json!({
            "metadata": {"name": "i", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
            "spec": {"controller": "a.b/c"},
        });
        check(
            "IngressClass",
            &class,
            &[
                ("Name", json!("i (default)")),
                ("Controller", json!("a.b/c")),
                ("Parameters", json!("<none>")),
                ("Age", json!("<unknown>")),
            ],
        );
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn a_binding_shows_the_name_or_the_selector_of_its_parameters() {
        let binding = |parameters: Value, shown: &str| {
            check(
                "ValidatingAdmissionPolicyBinding",
                &json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "paramRef": parameters}}),
                &[
                    ("Name", json!("b")),
                    ("PolicyName", json!("p")),
                    ("ParamRef", json!(shown)),
                    ("Age", json!("<unknown>")),
                ],
            );
        };
        binding(Value::Null, "<unset>");
        binding(json!({"name": "x", "namespace": "n"}), "n/x");
        binding(json!({"name": "x"}), "*/x");
        binding(
            json!({"selector": {"matchLabels": {"a": "b"}}}),
            "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}",
        );
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn an_address_has_an_age_without_a_column() {
        let parent = json!({"group": "", "resource": "services", "namespace": "n", "name": "s"});
        check(
            "IPAddress",
            &json!({"metadata": {"name": "10.0.0.1"}, "spec": {"parentRef": parent}}),
            &[("Name", json!("10.0.0.1")), ("ParentRef", json!("services/n/s")), ("", json!("<unknown>"))],
        );
    }

    #[test]
    fn config_maps_and_secrets_count_their_keys() {
        check(
            "ConfigMap",
            &json!({"metadata": {"name": "a"}, "data": {"x": "", "y": ""}, "binaryData": {"z": ""}}),
            &[("Name", json!("a")), ("Data", json!(3)), ("Age", json!("<unknown>"))],
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
    fn endpoints_show_three_addresses() {
        let endpoints = |subsets: &Value, shown: &str| {
            check(
                "Endpoints",
                &json!({"metadata": {"name": "a"}, "subsets": subsets}),
                &[("Name", json!("a")), ("Endpoints", json!(shown)), ("Age", json!("<unknown>"))],
            );
        };
        endpoints(&Value::Null, "<none>");
        let addresses = json!([{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]);
        endpoints(&json!([{"addresses": addresses}]), "10.0.0.1,fd00::1");
        let ports = json!([{"port": 80}, {"port": 81}]);
        endpoints(
            &json!([{"addresses": addresses, "ports": ports}, {"notReadyAddresses": addresses, "ports": ports}]),
            "10.0.0.1:80,[fd00::1]:80,10.0.0.1:81 + 1 more...",
        );
        let slice = |ports: &Value, addresses: &Value, shown: [&str; 2]| {
            check(
                "EndpointSlice",
                &json!({
                    "metadata": {"name": "a"}, "addressType": "IPv4", "ports": ports,
                    "endpoints": [{"addresses": addresses}],
                }),
                &[
                    ("Name", json!("a")),
                    ("AddressType", json!("IPv4")),
                    ("Ports", json!(shown[0])),
                    ("Endpoints", json!(shown[1])),
                    ("Age", json!("<unknown>")),
                ],
            );
        };
        slice(&Value::Null, &Value::Null, ["<unset>", "<unset>"]);
        slice(
            &json!([{"port": 80}, {"name": "dns"}, {}]),
            &json!(["1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"]),
            ["80,dns,*", "1.1.1.1,2.2.2.2,3.3.3.3 + 1 more..."],
        );
    }

    #[test]
    fn a_kind_without_columns_shows_when_it_was_created() {
        check(
            "CustomResourceDefinition",
            &json!({"metadata": {"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z"}}),
            &[("Name", json!("x")), ("Created At", json!("2026-01-01T00:00:00Z"))],
        );
    }
}
