//! Columns with recorded names, types and descriptions (`columns.txt`), and their cells.

use jiff::Timestamp;
use kube_apimachinery::metadata;
use kube_apimachinery::selector;
use kube_apimachinery::table::Column;
use kube_apimachinery::table::age::lasting;
use serde::Deserialize;
use serde_json::{Value, json};

use super::cell_values::{NONE, UNSET, array, condition, count, joined, labels, or, plain};
use super::{
    CellFn, age, autoscaling, column, network, node_cells, number, quota, service_cells, text_at,
    volume_cells, workloads,
};
use crate::kinds::builtin::data;

/// A recorded column: name, type, priority, description.
#[derive(Deserialize)]
struct ColumnRow(String, String, i64, String);

/// Returns the recorded columns of a kind, without the one for the name; `None` if the file does not have the kind.
pub(super) fn of(kind: &str) -> Option<Vec<Column>> {
    let rows: Vec<ColumnRow> = serde_json::from_str(data::columns(kind)?).ok()?;
    let columns =
        rows.iter().map(|ColumnRow(name, kind_of_cell, priority, description)| match name.as_str() {
            "Age" => Some(age()),
            name => {
                let column = column(name, kind_of_cell, *priority, description, cell(kind, name)?);
                // Apart from names of objects, only this column has a format.
                let is_name = (kind, name) == ("VolumeAttachment", "Attacher");
                Some(Column { format: if is_name { "name".to_owned() } else { String::new() }, ..column })
            }
        });
    let mut columns: Vec<Column> = columns.collect::<Option<_>>()?;
    if kind == "IPAddress" {
        // kube-apiserver adds a cell with the age, but no definition of its column.
        columns.push(Column { name: String::new(), ..age() });
    }
    Some(columns)
}

/// Returns the function that computes a column's cell; `None` for an unknown column. A pattern without a column's name stands for a kind
/// with one recorded column, or with the same cell in each.
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
            // The controller of flow schemas reports with this condition whether the priority level exists.
            |object, _| json!(condition(object, "Dangling").map_or("?", |(status, _)| status))
        }
        ("HorizontalPodAutoscaler", name) => autoscaling::cell(name)?,
        ("IPAddress", "ParentRef") => parent,
        ("Ingress" | "Service", name) => service_cells::cell(kind, name)?,
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
        ("Node", name) => node_cells::cell(name),
        ("PersistentVolume", name) => volume_cells::volume(name),
        ("PersistentVolumeClaim", name) => volume_cells::claim(name),
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
        ("ReplicationController", "Selector") => |object, _| labels(&object["spec"]["selector"]),
        ("ResourceClaim", "State") => claim_state,
        ("ResourceQuota", name) => quota::cell(name)?,
        ("ResourceSlice", "Node") => |object, _| or(object, "/spec/nodeName", ""),
        ("ResourceSlice", "Driver") => |object, _| or(object, "/spec/driver", ""),
        ("ResourceSlice", "Pool") => |object, _| or(object, "/spec/pool/name", ""),
        ("RuntimeClass", _) => |object, _| or(object, "/handler", ""),
        ("ServiceCIDR", "CIDRs") => |object, _| joined(&object["spec"]["cidrs"], ",", ""),
        ("StorageClass", "Provisioner") => |object, _| or(object, "/provisioner", ""),
        // Like kube-apiserver's printer, the following cells assume the defaults of absent fields.
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

/// Formats the object that uses an address, as `services/default/kubernetes`.
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

/// Formats the states of a ResourceClaim: whether it is deleted, pending or allocated, and reserved.
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

/// Formats the reference to the parameters of a policy: a name, or a selector in the text form of Go's generated `String` method.
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
        // Without a namespace, the parameters are looked up in the namespace of each request.
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

fn available(object: &Value, _: Timestamp) -> Value {
    json!(match condition(object, "Available") {
        Some(("True", _)) => "True".to_owned(),
        Some((status, reason)) => format!("{status} ({reason})"),
        None => "Unknown".to_owned(),
    })
}

/// Formats the state of a CertificateSigningRequest: the decision, and whether it failed or has a certificate.
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

/// Lists the subjects of one kind. Service accounts have their namespace before the name.
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns the cells of an object, without its name and its age.
    pub(in super::super) fn shown(kind: &str, object: &Value) -> Vec<Value> {
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
