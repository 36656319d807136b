//! Columns with recorded names, types and descriptions (`columns.txt`), and their cells.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kube_apimachinery::metadata;
use kube_apimachinery::selector;
use kube_apimachinery::table::Column;
use kube_apimachinery::table::age::lasting;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{CellFn, age, autoscaling, column, network, number, quota, text_at, workloads};
use crate::kinds::builtin::data;

const NONE: &str = "<none>";
const UNSET: &str = "<unset>";
const UNKNOWN: &str = "<unknown>";
/// Annotation that was once used instead of the field `storageClassName`, and takes precedence.
const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// A recorded column: name, type, priority, description.
#[derive(Deserialize)]
struct ColumnRow(String, String, i64, String);

/// Returns the recorded columns of a kind after its name; `None` if the file has none for the kind.
pub(super) fn of(kind: &str) -> Option<Vec<Column>> {
    let rows: Vec<ColumnRow> = serde_json::from_str(data::columns(kind)?).ok()?;
    let columns =
        rows.iter().map(|ColumnRow(name, kind_of_cell, priority, description)| match name.as_str() {
            "Age" => Some(age()),
            name => {
                let column = column(name, kind_of_cell, *priority, description, cell(kind, name)?);
                // The only column with a format, apart from names of objects.
                let is_name = (kind, name) == ("VolumeAttachment", "Attacher");
                Some(Column { format: if is_name { "name".to_owned() } else { String::new() }, ..column })
            }
        });
    let mut columns: Vec<Column> = columns.collect::<Option<_>>()?;
    if kind == "IPAddress" {
        // kube-apiserver adds the age without a column for it.
        columns.push(Column { name: String::new(), ..age() });
    }
    Some(columns)
}

/// Returns the function that computes a column's value.
fn cell(kind: &str, name: &str) -> Option<CellFn> {
    let cell: CellFn = match (kind, name) {
        ("APIService", "Service") => |object, _| match &object["spec"]["service"] {
            Value::Null => json!("Local"),
            service => json!(format!("{}/{}", plain(&service["namespace"]), plain(&service["name"]))),
        },
        ("APIService", "Available") => available,
        ("ClusterRoleBinding" | "RoleBinding", "Role") => |object, _| {
            json!(format!("{}/{}", plain(&object["roleRef"]["kind"]), plain(&object["roleRef"]["name"])))
        },
        ("ClusterRoleBinding" | "RoleBinding", "Users") => |object, _| subjects(object, "User"),
        ("ClusterRoleBinding" | "RoleBinding", "Groups") => |object, _| subjects(object, "Group"),
        ("ClusterRoleBinding" | "RoleBinding", "ServiceAccounts") => {
            |object, _| subjects(object, "ServiceAccount")
        }
        ("CSIDriver", "AttachRequired") => |object, _| object["spec"]["attachRequired"].clone(),
        ("CSIDriver", "PodInfoOnMount") => |object, _| object["spec"]["podInfoOnMount"].clone(),
        ("CSIDriver", "StorageCapacity") => |object, _| object["spec"]["storageCapacity"].clone(),
        ("CSIDriver", "RequiresRepublish") => |object, _| object["spec"]["requiresRepublish"].clone(),
        ("CSIDriver", "Modes") => |object, _| joined(&object["spec"]["volumeLifecycleModes"], ",", NONE),
        ("CSIDriver", "TokenRequests") => |object, _| {
            let audiences = array(&object["spec"]["tokenRequests"]).iter();
            let audiences: Vec<&str> = audiences.map(|request| plain(&request["audience"])).collect();
            json!(if audiences.is_empty() { UNSET.to_owned() } else { audiences.join(",") })
        },
        ("CSINode", "Drivers") => |object, _| json!(array(&object["spec"]["drivers"]).len()),
        ("CertificateSigningRequest", "SignerName") => |object, _| or(object, "/spec/signerName", NONE),
        ("CertificateSigningRequest", "Requestor") => |object, _| or(object, "/spec/username", ""),
        ("CertificateSigningRequest", "RequestedDuration") => {
            |object, _| json!(object["spec"]["expirationSeconds"].as_i64().map_or(NONE.to_owned(), lasting))
        }
        ("CertificateSigningRequest", "Condition") => decision,
        ("EndpointSlice" | "Endpoints", name) => network::cell(kind, name)?,
        ("FlowSchema", "PriorityLevel") => {
            |object, _| or(object, "/spec/priorityLevelConfiguration/name", NONE)
        }
        ("FlowSchema", "MatchingPrecedence") => |object, _| json!(number(object, "/spec/matchingPrecedence")),
        ("FlowSchema", "DistinguisherMethod") => {
            |object, _| or(object, "/spec/distinguisherMethod/type", NONE)
        }
        ("FlowSchema", "MissingPL") => {
            |object, _| json!(condition(object, "Dangling").map_or("?", |(status, _)| status))
        }
        ("HorizontalPodAutoscaler", name) => autoscaling::cell(name)?,
        ("IPAddress", "ParentRef") => parent,
        ("Ingress", "Class") => |object, _| or(object, "/spec/ingressClassName", NONE),
        ("Ingress", "Hosts") => hosts,
        ("Ingress", "Address") => |object, _| json!(balancers(object)),
        ("Ingress", "Ports") => {
            |object, _| json!(if array(&object["spec"]["tls"]).is_empty() { "80" } else { "80, 443" })
        }
        ("IngressClass", "Controller") => |object, _| or(object, "/spec/controller", ""),
        ("IngressClass", "Parameters") => |object, _| {
            let parameters = &object["spec"]["parameters"];
            if parameters.is_null() {
                return json!(NONE);
            }
            let group = text_at(parameters, "/apiGroup").map_or(String::new(), |group| format!(".{group}"));
            json!(format!("{}{group}/{}", plain(&parameters["kind"]), plain(&parameters["name"])))
        },
        ("MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration", _) => {
            |object, _| json!(array(&object["webhooks"]).len())
        }
        ("MutatingAdmissionPolicy", "Mutations") => {
            |object, _| json!(array(&object["spec"]["mutations"]).len())
        }
        ("NetworkPolicy", _) => |object, _| {
            let selector = selector::label_selector_text(&object["spec"]["podSelector"]);
            json!(if selector.is_empty() { NONE.to_owned() } else { selector })
        },
        ("Node", name) => node(name),
        ("PersistentVolume", name) => volume(name),
        ("PersistentVolumeClaim", name) => claim(name),
        ("PodTemplate", "Containers") => |object, _| containers(object, "name"),
        ("PodTemplate", "Images") => |object, _| containers(object, "image"),
        ("PodTemplate", "Pod Labels") => |object, _| labels(&object["template"]["metadata"]["labels"]),
        ("PriorityClass", "Value") => |object, _| json!(number(object, "/value")),
        ("PriorityClass", "Global-Default") => |object, _| json!(object["globalDefault"] == true),
        ("PriorityClass", "PreemptionPolicy") => |object, _| or(object, "/preemptionPolicy", ""),
        ("PriorityLevelConfiguration", "Type") => |object, _| or(object, "/spec/type", ""),
        ("PriorityLevelConfiguration", "NominalConcurrencyShares") => {
            |object, _| count(object, "/spec/limited/nominalConcurrencyShares")
        }
        ("PriorityLevelConfiguration", "Queues") => {
            |object, _| count(object, "/spec/limited/limitResponse/queuing/queues")
        }
        ("PriorityLevelConfiguration", "HandSize") => {
            |object, _| count(object, "/spec/limited/limitResponse/queuing/handSize")
        }
        ("PriorityLevelConfiguration", "QueueLengthLimit") => {
            |object, _| count(object, "/spec/limited/limitResponse/queuing/queueLengthLimit")
        }
        ("ReplicationController", "Desired") => |object, _| json!(number(object, "/spec/replicas")),
        ("ReplicationController", "Current") => |object, _| json!(number(object, "/status/replicas")),
        ("ReplicationController", "Ready") => |object, _| json!(number(object, "/status/readyReplicas")),
        ("ReplicationController", "Containers") => {
            |object, _| json!(workloads::of_containers(object, "name"))
        }
        ("ReplicationController", "Images") => |object, _| json!(workloads::of_containers(object, "image")),
        ("ReplicationController" | "Service", "Selector") => |object, _| labels(&object["spec"]["selector"]),
        ("ResourceClaim", "State") => claim_state,
        ("ResourceQuota", name) => quota::cell(name)?,
        ("ResourceSlice", "Node") => |object, _| or(object, "/spec/nodeName", ""),
        ("ResourceSlice", "Driver") => |object, _| or(object, "/spec/driver", ""),
        ("ResourceSlice", "Pool") => |object, _| or(object, "/spec/pool/name", ""),
        ("RuntimeClass", _) => |object, _| or(object, "/handler", ""),
        ("Service", "Type") => |object, _| or(object, "/spec/type", ""),
        ("Service", "Cluster-IP") => |object, _| or(object, "/spec/clusterIP", NONE),
        ("Service", "External-IP") => external,
        ("Service", "Port(s)") => ports,
        ("ServiceCIDR", "CIDRs") => |object, _| joined(&object["spec"]["cidrs"], ",", ""),
        ("StorageClass", "Provisioner") => |object, _| or(object, "/provisioner", ""),
        ("StorageClass", "ReclaimPolicy") => |object, _| or(object, "/reclaimPolicy", "Delete"),
        ("StorageClass", "VolumeBindingMode") => |object, _| or(object, "/volumeBindingMode", "Immediate"),
        ("StorageClass", "AllowVolumeExpansion") => |object, _| json!(object["allowVolumeExpansion"] == true),
        ("ValidatingAdmissionPolicy", "Validations") => {
            |object, _| json!(array(&object["spec"]["validations"]).len())
        }
        ("MutatingAdmissionPolicy" | "ValidatingAdmissionPolicy", "ParamKind") => {
            |object, _| match &object["spec"]["paramKind"] {
                Value::Null => json!(UNSET),
                kind => json!(format!("{}/{}", plain(&kind["apiVersion"]), plain(&kind["kind"]))),
            }
        }
        ("MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding", "PolicyName") => {
            |object, _| or(object, "/spec/policyName", "")
        }
        ("MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding", "ParamRef") => {
            |object, _| json!(parameters(&object["spec"]["paramRef"]))
        }
        ("VolumeAttributesClass", "DriverName") => |object, _| or(object, "/driverName", ""),
        ("VolumeAttachment", "Attacher") => |object, _| or(object, "/spec/attacher", ""),
        ("VolumeAttachment", "PV") => |object, _| or(object, "/spec/source/persistentVolumeName", ""),
        ("VolumeAttachment", "Node") => |object, _| or(object, "/spec/nodeName", ""),
        ("VolumeAttachment", "Attached") => |object, _| json!(object["status"]["attached"] == true),
        _ => return None,
    };
    Some(cell)
}

/// Formats the owner of an address as `services/default/kubernetes`.
fn parent(address: &Value, _: Timestamp) -> Value {
    let parent = &address["spec"]["parentRef"];
    if parent.is_null() {
        return json!(NONE);
    }
    let part = |field: &str, before: &str| match plain(&parent[field]) {
        "" => String::new(),
        text => format!("{before}{text}"),
    };
    let resource = format!("{}{}", plain(&parent["resource"]), part("group", ".")).to_lowercase();
    json!(format!("{resource}{}/{}", part("namespace", "/"), plain(&parent["name"])))
}

/// Lists a field of the containers of a PodTemplate.
fn containers(object: &Value, field: &str) -> Value {
    let containers = array(&object["template"]["spec"]["containers"]).iter();
    let texts: Vec<&str> = containers.map(|container| plain(&container[field])).collect();
    json!(texts.join(","))
}

/// Formats the state of a ResourceClaim: whether it is deleted, allocated and in use.
fn claim_state(claim: &Value, _: Timestamp) -> Value {
    let (is_deleted, status) = (metadata::is_terminating(claim), &claim["status"]);
    let is_allocated = status["allocation"].is_object();
    let states = [
        (is_deleted, "deleted"),
        (!is_deleted && !is_allocated, "pending"),
        (is_allocated, "allocated"),
        (is_allocated && !array(&status["reservedFor"]).is_empty(), "reserved"),
    ];
    let states: Vec<&str> = states.iter().filter(|(is, _)| *is).map(|(_, state)| *state).collect();
    json!(states.join(","))
}

fn node(name: &str) -> CellFn {
    match name {
        "Status" => |object, _| {
            let ready = match condition(object, "Ready") {
                Some(("True", _)) => "Ready",
                // Also for the status `Unknown`; only a node without the condition is shown as unknown.
                Some(_) => "NotReady",
                None => "Unknown",
            };
            let closed = object["spec"]["unschedulable"] == true;
            json!(if closed { format!("{ready},SchedulingDisabled") } else { ready.to_owned() })
        },
        "Roles" => |object, _| {
            let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
            let mut roles: Vec<&str> = labels
                .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
                    Some(role) => Some(role),
                    // This label has the role as its value, the others have it in their names.
                    None => value.as_str().filter(|_| key == "kubernetes.io/role"),
                })
                .filter(|role| !role.is_empty())
                .collect();
            roles.sort_unstable();
            roles.dedup();
            json!(if roles.is_empty() { NONE.to_owned() } else { roles.join(",") })
        },
        "Version" => |object, _| or(object, "/status/nodeInfo/kubeletVersion", ""),
        "Internal-IP" => |object, _| address(object, "InternalIP"),
        "External-IP" => |object, _| address(object, "ExternalIP"),
        "OS-Image" => |object, _| or(object, "/status/nodeInfo/osImage", UNKNOWN),
        "Kernel-Version" => |object, _| {
            let kernel = or(object, "/status/nodeInfo/kernelVersion", UNKNOWN);
            match text_at(object, "/status/nodeInfo/architecture").filter(|text| !text.is_empty()) {
                Some(architecture) => json!(format!("{} ({architecture})", plain(&kernel))),
                None => kernel,
            }
        },
        _ => |object, _| or(object, "/status/nodeInfo/containerRuntimeVersion", UNKNOWN),
    }
}

fn address(node: &Value, kind: &str) -> Value {
    let found = array(&node["status"]["addresses"]).iter().find(|address| address["type"] == kind);
    json!(found.map_or(NONE, |address| plain(&address["address"])))
}

fn volume(name: &str) -> CellFn {
    match name {
        "Capacity" => |object, _| or(object, "/spec/capacity/storage", "0"),
        "Access Modes" => |object, _| modes(&object["spec"]["accessModes"]),
        "Reclaim Policy" => |object, _| or(object, "/spec/persistentVolumeReclaimPolicy", ""),
        "Status" => phase,
        "Claim" => |object, _| match &object["spec"]["claimRef"] {
            Value::Null => json!(""),
            claim => json!(format!("{}/{}", plain(&claim["namespace"]), plain(&claim["name"]))),
        },
        "Reason" => |object, _| or(object, "/status/reason", ""),
        other => storage(other),
    }
}

fn claim(name: &str) -> CellFn {
    match name {
        "Status" => phase,
        "Volume" => |object, _| or(object, "/spec/volumeName", ""),
        "Capacity" => |object, _| {
            // As in Go, a missing amount is zero.
            if is_bound(object) { or(object, "/status/capacity/storage", "0") } else { json!("") }
        },
        "Access Modes" => {
            |object, _| if is_bound(object) { modes(&object["status"]["accessModes"]) } else { json!("") }
        }
        other => storage(other),
    }
}

/// Returns the cells that volumes and claims share.
fn storage(name: &str) -> CellFn {
    match name {
        "StorageClass" => |object, _| match &object["metadata"]["annotations"][STORAGE_CLASS] {
            Value::String(class) => json!(class),
            _ => or(object, "/spec/storageClassName", ""),
        },
        "VolumeAttributesClass" => |object, _| or(object, "/spec/volumeAttributesClassName", UNSET),
        _ => |object, _| or(object, "/spec/volumeMode", UNSET),
    }
}

/// Formats the reference to the parameters of a policy: a name, or the selector in the text form of Go's type.
fn parameters(reference: &Value) -> String {
    let selector = &reference["selector"];
    match (plain(&reference["namespace"]), plain(&reference["name"])) {
        (_, "") if selector.is_null() => UNSET.to_owned(),
        (_, "") => {
            let labels = selector["matchLabels"].as_object().into_iter().flatten();
            let labels: String = labels.map(|(key, value)| format!("{key}: {},", plain(value))).collect();
            let requirement = |requirement: &Value| {
                let values: Vec<&str> = array(&requirement["values"]).iter().map(plain).collect();
                format!(
                    "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                    plain(&requirement["key"]),
                    plain(&requirement["operator"]),
                    values.join(" ")
                )
            };
            let requirements: String = array(&selector["matchExpressions"]).iter().map(requirement).collect();
            format!(
                "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:\
                 []LabelSelectorRequirement{{{requirements}}},}}"
            )
        }
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

fn is_bound(claim: &Value) -> bool {
    text_at(claim, "/spec/volumeName").is_some_and(|volume| !volume.is_empty())
}

fn phase(object: &Value, _: Timestamp) -> Value {
    if metadata::is_terminating(object) { json!("Terminating") } else { or(object, "/status/phase", "") }
}

/// Formats access modes as `RWO,ROX`.
fn modes(list: &Value) -> Value {
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    // As in Go, neither the order nor the repetitions of the list matter.
    let has = |mode: &str| array(list).iter().any(|given| given == mode);
    let short: Vec<&str> = known.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| *short).collect();
    json!(short.join(","))
}

fn available(object: &Value, _: Timestamp) -> Value {
    json!(match condition(object, "Available") {
        Some(("True", _)) => "True".to_owned(),
        Some((status, reason)) => format!("{status} ({reason})"),
        None => "Unknown".to_owned(),
    })
}

/// Formats the state of a CertificateSigningRequest: its decision, and whether it has a certificate.
fn decision(object: &Value, _: Timestamp) -> Value {
    let mut words = Vec::new();
    // A denial takes precedence over an approval.
    for (kind, word) in [("Denied", "Denied"), ("Approved", "Approved")] {
        if words.is_empty() && condition(object, kind).is_some() {
            words.push(word);
        }
    }
    if words.is_empty() {
        words.push("Pending");
    }
    if condition(object, "Failed").is_some() {
        words.push("Failed");
    }
    if text_at(object, "/status/certificate").is_some_and(|certificate| !certificate.is_empty()) {
        words.push("Issued");
    }
    json!(words.join(","))
}

/// Lists three hosts, and the number of rules but three. Rules without a host are not listed, but counted.
fn hosts(object: &Value, _: Timestamp) -> Value {
    const SHOWN: usize = 3;
    let rules = array(&object["spec"]["rules"]);
    let mut hosts: Vec<&str> = Vec::new();
    for rule in rules {
        if hosts.len() == SHOWN {
            return json!(format!("{} + {} more...", hosts.join(","), rules.len() - SHOWN));
        }
        hosts.extend(Some(plain(&rule["host"])).filter(|host| !host.is_empty()));
    }
    json!(if hosts.is_empty() { "*".to_owned() } else { hosts.join(",") })
}

/// Lists the addresses of load balancers, sorted and each once.
fn balancers(object: &Value) -> String {
    let places = array(&object["status"]["loadBalancer"]["ingress"]).iter();
    let first =
        |place: &'_ Value| ["ip", "hostname"].into_iter().find(|field| !plain(&place[field]).is_empty());
    let places: BTreeSet<&str> = places.filter_map(|place| Some(plain(&place[first(place)?]))).collect();
    places.into_iter().collect::<Vec<_>>().join(",")
}

/// Lists the external addresses of a service.
fn external(object: &Value, _: Timestamp) -> Value {
    let given = joined(&object["spec"]["externalIPs"], ",", "");
    let given = plain(&given);
    let none = |text: &str, none: &str| json!(if text.is_empty() { none } else { text });
    match object["spec"]["type"].as_str().unwrap_or_default() {
        "ExternalName" => or(object, "/spec/externalName", ""),
        "LoadBalancer" => {
            let balancers = balancers(object);
            let all: Vec<&str> =
                [balancers.as_str(), given].into_iter().filter(|text| !text.is_empty()).collect();
            none(&all.join(","), "<pending>")
        }
        _ => none(given, NONE),
    }
}

/// Formats as `80:30080/TCP,53/UDP`.
fn ports(object: &Value, _: Timestamp) -> Value {
    let ports = array(&object["spec"]["ports"]).iter().map(|port| {
        let node = port["nodePort"].as_i64().filter(|port| *port > 0);
        let node = node.map_or(String::new(), |node| format!(":{node}"));
        format!("{}{node}/{}", port["port"], plain(&port["protocol"]))
    });
    let ports: Vec<String> = ports.collect();
    json!(if ports.is_empty() { NONE.to_owned() } else { ports.join(",") })
}

/// Lists the subjects of one kind; service accounts with their namespace.
fn subjects(binding: &Value, kind: &str) -> Value {
    let subjects = array(&binding["subjects"]).iter().filter(|subject| subject["kind"] == kind);
    let names: Vec<String> = subjects
        .map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", plain(&subject["namespace"]), plain(&subject["name"])),
            _ => plain(&subject["name"]).to_owned(),
        })
        .collect();
    json!(names.join(", "))
}

/// Returns status and reason of a condition.
fn condition<'a>(object: &'a Value, kind: &str) -> Option<(&'a str, &'a str)> {
    let found = array(&object["status"]["conditions"]).iter().find(|condition| condition["type"] == kind)?;
    Some((plain(&found["status"]), plain(&found["reason"])))
}

fn labels(labels: &Value) -> Value {
    let pairs =
        labels.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", plain(value)));
    let pairs: Vec<String> = pairs.collect();
    json!(if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") })
}

fn joined(list: &Value, separator: &str, none: &str) -> Value {
    let texts: Vec<&str> = array(list).iter().map(plain).collect();
    json!(if texts.is_empty() { none.to_owned() } else { texts.join(separator) })
}

fn count(object: &Value, pointer: &str) -> Value {
    let found = object.pointer(pointer).and_then(Value::as_i64);
    found.map_or(json!(NONE), |count| json!(count))
}

fn or(object: &Value, pointer: &str, none: &str) -> Value {
    json!(text_at(object, pointer).filter(|text| !text.is_empty()).unwrap_or(none))
}

pub(super) fn array(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn plain(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the cells of an object after its name, without ages.
    fn shown(kind: &str, object: &Value) -> Vec<Value> {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let columns = of(kind).unwrap().into_iter().filter(|column| column.name != "Age");
        let cells = columns.map(|column| match column.cell {
            kube_apimachinery::table::Cell::Builtin(cell) => cell(object, now),
            kube_apimachinery::table::Cell::Path(_) => unreachable!("builtin columns have no paths"),
        });
        cells.collect()
    }

    #[test]
    fn every_column_of_the_data_has_its_cell() {
        for (kind, rows) in data::all_columns() {
            let rows: Vec<ColumnRow> = serde_json::from_str(rows).unwrap();
            for ColumnRow(name, ..) in rows.iter().filter(|row| row.0 != "Age") {
                assert!(cell(kind, name).is_some(), "{kind} {name}");
            }
        }
    }

    #[test]
    fn services_show_their_addresses_and_ports() {
        let service =
            |spec: &Value, status: &Value| shown("Service", &json!({"spec": spec, "status": status}));
        assert_eq!(
            service(
                &json!({"type": "ClusterIP", "clusterIP": "None", "ports": [{"port": 80, "protocol": "TCP"}], "selector": {"a": "b"}}),
                &json!({})
            ),
            ["ClusterIP", "None", "<none>", "80/TCP", "a=b"]
        );
        let balanced = json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1", "ports": [
            {"port": 80, "protocol": "TCP", "nodePort": 30_000}, {"port": 53, "protocol": "UDP"},
        ]});
        let places =
            json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "lb.example.com"}]}});
        assert_eq!(
            service(&balanced, &places),
            ["LoadBalancer", "10.0.0.1", "1.2.3.4,lb.example.com", "80:30000/TCP,53/UDP", "<none>"]
        );
        assert_eq!(service(&balanced, &json!({}))[2], "<pending>");
        assert_eq!(
            service(&json!({"type": "ExternalName", "externalName": "example.com"}), &json!({})),
            ["ExternalName", "<none>", "example.com", "<none>", "<none>"]
        );
    }

    #[test]
    fn nodes_show_whether_they_are_ready_and_schedulable() {
        let mut node = json!({"metadata": {"labels": {
            "kubernetes.io/role": "extra", "node-role.kubernetes.io/worker": "",
        }}});
        assert_eq!(
            shown("Node", &node),
            ["Unknown", "extra,worker", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"]
        );
        node["spec"] = json!({"unschedulable": true});
        node["status"] = json!({
            "conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.36.0", "kernelVersion": "6.1", "architecture": "amd64", "osImage": "Linux"},
        });
        assert_eq!(
            shown("Node", &node),
            [
                "Ready,SchedulingDisabled",
                "extra,worker",
                "v1.36.0",
                "10.0.0.1",
                "<none>",
                "Linux",
                "6.1 (amd64)",
                "<unknown>"
            ]
        );
    }

    #[test]
    fn an_unknown_kernel_has_an_architecture() {
        let node = json!({"status": {"nodeInfo": {"architecture": "arm64"}}});
        assert_eq!(shown("Node", &node)[6], "<unknown> (arm64)");
    }

    #[test]
    fn volumes_and_claims_show_their_capacity_and_binding() {
        let volume = json!({"spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {"namespace": "x", "name": "y"}, "storageClassName": "fast", "volumeMode": "Filesystem",
        }, "status": {"phase": "Bound", "reason": "r"}});
        assert_eq!(
            shown("PersistentVolume", &volume),
            ["1Gi", "RWO", "Delete", "Bound", "x/y", "fast", "<unset>", "r", "Filesystem"]
        );
        let claim = json!({"spec": {"storageClassName": "manual", "volumeMode": "Filesystem"}, "status": {"phase": "Pending"}});
        assert_eq!(
            shown("PersistentVolumeClaim", &claim),
            ["Pending", "", "", "", "manual", "<unset>", "Filesystem"]
        );
        let annotated = json!({
            "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}},
            "spec": {"storageClassName": "manual", "volumeName": "v"}, "status": {"phase": "Bound"},
        });
        assert_eq!(
            shown("PersistentVolumeClaim", &annotated),
            ["Bound", "v", "0", "", "old", "<unset>", "<unset>"]
        );
        let cells = shown("PersistentVolume", &annotated);
        assert_eq!((&cells[0], &cells[5]), (&json!("0"), &json!("old")));
    }

    #[test]
    fn ingresses_show_three_hosts() {
        let rules: Vec<Value> = ["a", "b", "c", "d"].iter().map(|host| json!({"host": host})).collect();
        let ingress = json!({"spec": {"ingressClassName": "nginx", "rules": rules, "tls": [{}]}});
        assert_eq!(shown("Ingress", &ingress), ["nginx", "a,b,c + 1 more...", "", "80, 443"]);
        assert_eq!(shown("Ingress", &json!({"spec": {}})), ["<none>", "*", "", "80"]);
        // Rules without hosts count too.
        for (hosts, expected) in [
            (&["", "a", "", "b"][..], "a,b"),
            (&["", "a", "b", "c"], "a,b,c"),
            (&["", "a", "b", "c", ""], "a,b,c + 2 more..."),
        ] {
            let rules: Vec<Value> = hosts.iter().map(|host| json!({"host": host})).collect();
            assert_eq!(shown("Ingress", &json!({"spec": {"rules": rules}}))[1], expected);
        }
        let places = json!([{"ip": "b"}, {"hostname": "a"}, {"ip": "", "hostname": "c"}, {"ip": "a", "hostname": "d"}, {}]);
        let ingress = json!({"status": {"loadBalancer": {"ingress": places}}});
        assert_eq!(shown("Ingress", &ingress)[2], "a,b,c");
    }

    #[test]
    fn claims_of_devices_and_addresses_show_their_state() {
        let state = |claim: Value| shown("ResourceClaim", &claim)[0].clone();
        assert_eq!(state(json!({})), "pending");
        assert_eq!(
            state(json!({"status": {"allocation": {}, "reservedFor": [{"name": "p"}]}})),
            "allocated,reserved"
        );
        assert_eq!(state(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})), "deleted");
        let parent = json!({"resource": "services", "namespace": "default", "name": "kubernetes"});
        assert_eq!(
            shown("IPAddress", &json!({"spec": {"parentRef": parent}})),
            ["services/default/kubernetes", "<unknown>"]
        );
    }

    #[test]
    fn certificate_requests_show_their_decision() {
        let mut request =
            json!({"spec": {"signerName": "a/b", "username": "jane", "expirationSeconds": 3600}});
        assert_eq!(shown("CertificateSigningRequest", &request), ["a/b", "jane", "60m", "Pending"]);
        request["status"] = json!({"conditions": [{"type": "Approved"}], "certificate": "eA=="});
        assert_eq!(shown("CertificateSigningRequest", &request)[3], "Approved,Issued");
    }

    #[test]
    fn an_empty_object_of_any_kind_has_cells() {
        for (kind, _) in data::all_columns() {
            let cells = shown(kind, &json!({}));
            assert!(cells.iter().all(|cell| !cell.is_object() && !cell.is_array()), "{kind}: {cells:?}");
        }
    }
}
