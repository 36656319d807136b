//! Immutable fields of builtin kinds other than pods and workloads.
//!
//! Messages equal kube-apiserver's, with two exceptions: the diff of internal structures that some of them end with is
//! omitted, and pod templates are shown as JSON.

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use crate::kind::resource::Resource;

const IMMUTABLE: &str = "field is immutable";

/// Returns an error for each immutable field that `new` changes.
pub(super) fn validate(resource: &Resource, old: &Value, new: &Value) -> Vec<FieldError> {
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "ConfigMap" | "Secret") => data(resource, old, new),
        ("", "Service") => service(&old["spec"], &new["spec"]),
        ("", "PersistentVolumeClaim") => claim(old, new),
        ("", "PersistentVolume") => volume(&old["spec"], &new["spec"]),
        ("batch", "Job") => job(&old["spec"], &new["spec"]),
        ("scheduling.k8s.io", "PriorityClass") => {
            let mut errors = forbidden(old, new, &["value"], "may not be changed in an update.");
            if old["preemptionPolicy"] != new["preemptionPolicy"] {
                errors.extend(immutable("", old, new, &["preemptionPolicy"]));
            }
            errors
        }
        ("storage.k8s.io", "StorageClass") => storage_class(old, new),
        ("networking.k8s.io", "IngressClass") => {
            immutable("spec", &old["spec"], &new["spec"], &["controller"])
        }
        ("node.k8s.io", "RuntimeClass") => immutable("", old, new, &["handler"]),
        ("discovery.k8s.io", "EndpointSlice") => immutable("", old, new, &["addressType"]),
        _ => Vec::new(),
    }
}

fn immutable(path: &str, old: &Value, new: &Value, fields: &[&str]) -> Vec<FieldError> {
    let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
    let changed = fields.iter().filter(|field| old[**field] != new[**field]);
    changed
        .map(|field| FieldError::invalid(format!("{prefix}{field}"), &new[*field].to_string(), IMMUTABLE))
        .collect()
}

fn forbidden(old: &Value, new: &Value, fields: &[&str], why: &str) -> Vec<FieldError> {
    let changed = fields.iter().filter(|field| old[**field] != new[**field]);
    changed.map(|field| FieldError::forbidden(*field, why)).collect()
}

/// Checks the data of an immutable ConfigMap or Secret, and the type of a Secret.
fn data(resource: &Resource, old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if resource.kind == "Secret" {
        errors.extend(immutable("", old, new, &["type"]));
    }
    if old["immutable"] == true {
        let why = "field is immutable when `immutable` is set";
        if new["immutable"] != true {
            errors.push(FieldError::forbidden("immutable", why));
        }
        errors.extend(forbidden(old, new, &["data", "binaryData"], why));
    }
    errors
}

/// Validates a ControllerRevision, which never changes.
pub(super) fn controller_revision(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(number) = new["revision"].as_i64().filter(|number| *number < 0) {
        let why = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("revision", &number.to_string(), why));
    }
    match old {
        None if new["data"].is_null() => errors.push(FieldError::required("data", "data is mandatory")),
        Some(old) if old["data"] != new["data"] || old["revision"] != new["revision"] => {
            errors.push(FieldError::invalid("data", &new["data"].to_string(), "field is immutable"));
        }
        _ => {}
    }
    errors
}

/// Checks the immutable fields of a Job. The scheduling of a suspended Job may change.
fn job(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // An indexed Job may be scaled as long as completions and parallelism stay equal.
    let elastic = new["completionMode"] == "Indexed"
        && !old["completions"].is_null()
        && new["completions"] == new["parallelism"];
    if !elastic {
        errors.extend(immutable("spec", old, new, &["completions"]));
    }
    errors.extend(immutable("spec", old, new, &["selector"]));
    if placed(old, &new["template"]) != new["template"] {
        errors.extend(immutable("spec", old, new, &["template"]));
    }
    errors.extend(immutable(
        "spec",
        old,
        new,
        &["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"],
    ));
    errors
}

/// Returns the old template of a Job with the mutable fields of `new`.
fn placed(old: &Value, new: &Value) -> Value {
    let mut template = old["template"].clone();
    if old["suspend"] != true {
        return template;
    }
    let mut take = |path: &str| match new.pointer(path) {
        Some(value) => set(&mut template, path, value.clone()),
        None => set(&mut template, path, Value::Null),
    };
    for path in [
        "/metadata/labels",
        "/metadata/annotations",
        "/spec/affinity",
        "/spec/nodeSelector",
        "/spec/tolerations",
        "/spec/schedulingGates",
    ] {
        take(path);
    }
    template
}

/// Sets a field of a field; null removes it.
fn set(value: &mut Value, path: &str, to: Value) {
    let mut names = path.split('/').skip(1);
    let (Some(outer), Some(inner)) = (names.next(), names.next()) else {
        return;
    };
    match value.get_mut(outer).and_then(Value::as_object_mut) {
        Some(fields) if to.is_null() => drop(fields.remove(inner)),
        Some(fields) => drop(fields.insert(inner.to_owned(), to)),
        None if to.is_null() => {}
        None => value[outer] = json!({ inner: to }),
    }
}

/// Checks the cluster IP of a Service, which does not change once set.
fn service(old: &Value, new: &Value) -> Vec<FieldError> {
    let has_none =
        |spec: &Value| spec["type"] == "ExternalName" || spec["clusterIP"].as_str().is_none_or(str::is_empty);
    if has_none(old) || new["type"] == "ExternalName" || old["clusterIP"] == new["clusterIP"] {
        return Vec::new();
    }
    let addresses = match &new["clusterIPs"] {
        Value::Null => json!([new["clusterIP"]]),
        addresses => addresses.clone(),
    };
    vec![FieldError::invalid("spec.clusterIPs[0]", &addresses.to_string(), "may not change once set")]
}

/// Checks the spec of a claim: once bound, only the storage request and the attributes class may change.
fn claim(old: &Value, new: &Value) -> Vec<FieldError> {
    let kept = |object: &Value| {
        let mut spec = object["spec"].clone();
        if let Some(fields) = spec.as_object_mut() {
            // A claim is bound by setting its volume name.
            if old["spec"]["volumeName"].as_str().is_none_or(str::is_empty) {
                fields.remove("volumeName");
            }
            if old["status"]["phase"] == "Bound" {
                fields.remove("volumeAttributesClassName");
                if let Some(requests) = fields["resources"]["requests"].as_object_mut() {
                    requests.remove("storage");
                }
            }
        }
        spec
    };
    if kept(old) == kept(new) {
        return Vec::new();
    }
    let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    vec![FieldError::forbidden("spec", why)]
}

/// Checks the source and the mode of a volume.
fn volume(old: &Value, new: &Value) -> Vec<FieldError> {
    // The fields of a spec other than these are its source.
    const OTHERS: [&str; 11] = [
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
        "resources",
        "selector",
    ];
    let source = |spec: &Value| {
        let mut spec = spec.clone();
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|name, _| !OTHERS.contains(&name.as_str()));
        }
        spec
    };
    let mut errors = Vec::new();
    if source(old) != source(new) {
        let why = "spec.persistentvolumesource is immutable after creation";
        errors.push(FieldError::forbidden("spec.persistentvolumesource", why));
    }
    errors.extend(immutable("", old, new, &["volumeMode"]));
    errors
}

fn storage_class(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        if old[field] == new[field] {
            continue;
        }
        if field == "volumeBindingMode" {
            errors.extend(immutable("", old, new, &[field]));
        } else {
            errors.push(FieldError::forbidden(field, &format!("updates to {field} are forbidden.")));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &str, old: &Value, new: &Value, expected: &[&str]) {
        let served = super::super::served();
        let (resource, _) = served.iter().find(|(resource, _)| resource.kind == kind).unwrap();
        let errors: Vec<String> = validate(resource, old, new).iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected, "{kind}: {old} to {new}");
        assert!(validate(resource, old, old).is_empty() && validate(resource, new, new).is_empty());
    }

    #[test]
    fn a_job_keeps_what_it_does() {
        let job = |completions: u32, mode: &str, suspend: bool, zone: &str| {
            json!({"spec": {
                "completions": completions, "parallelism": completions, "completionMode": mode, "suspend": suspend,
                "template": {"spec": {"nodeSelector": {"zone": zone}}},
            }})
        };
        let old = job(1, "NonIndexed", false, "a");
        check(
            "Job",
            &old,
            &job(2, "NonIndexed", true, "a"),
            &["spec.completions: Invalid value: 2: field is immutable"],
        );
        let why = "spec.completionMode: Invalid value: \"Indexed\": field is immutable";
        check("Job", &old, &job(1, "Indexed", false, "a"), &[why]);
        let why = "spec.template: Invalid value: {\"spec\":{\"nodeSelector\":{\"zone\":\"b\"}}}: field is immutable";
        check("Job", &old, &job(1, "NonIndexed", false, "b"), &[why]);
        check("Job", &job(1, "NonIndexed", true, "a"), &job(1, "NonIndexed", true, "b"), &[]);
        check("Job", &job(1, "Indexed", false, "a"), &job(3, "Indexed", false, "a"), &[]);
    }

    #[test]
    fn a_service_keeps_its_address() {
        let service = |kind: &str, address: &str| json!({"spec": {"type": kind, "clusterIP": address}});
        let why = "spec.clusterIPs[0]: Invalid value: [\"10.96.0.2\"]: may not change once set";
        check("Service", &service("ClusterIP", "10.96.0.1"), &service("NodePort", "10.96.0.2"), &[why]);
        check("Service", &service("ClusterIP", ""), &service("ClusterIP", "10.96.0.2"), &[]);
        check("Service", &service("ClusterIP", "10.96.0.1"), &service("ExternalName", ""), &[]);
    }

    #[test]
    fn a_claim_may_grow_once_it_is_bound() {
        let claim = |phase: &str, size: &str, volume: Option<&str>| {
            json!({
                "spec": {"resources": {"requests": {"storage": size}}, "volumeName": volume},
                "status": {"phase": phase},
            })
        };
        let why = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName \
                   for bound claims";
        check(
            "PersistentVolumeClaim",
            &claim("Pending", "1Gi", None),
            &claim("Pending", "2Gi", None),
            &[why],
        );
        check(
            "PersistentVolumeClaim",
            &claim("Bound", "1Gi", Some("v")),
            &claim("Bound", "2Gi", Some("v")),
            &[],
        );
        check(
            "PersistentVolumeClaim",
            &claim("Pending", "1Gi", None),
            &claim("Pending", "1Gi", Some("v")),
            &[],
        );
        check(
            "PersistentVolumeClaim",
            &claim("Bound", "1Gi", Some("v")),
            &claim("Bound", "1Gi", Some("w")),
            &[why],
        );
    }

    #[test]
    fn classes_and_volumes_keep_what_others_rely_on() {
        for (kind, old, new, why) in [
            (
                "PriorityClass",
                json!({"value": 1}),
                json!({"value": 2}),
                "value: Forbidden: may not be changed in an update.",
            ),
            (
                "StorageClass",
                json!({"provisioner": "a"}),
                json!({"provisioner": "b"}),
                "provisioner: Forbidden: updates to provisioner are forbidden.",
            ),
            (
                "PersistentVolume",
                json!({"spec": {"hostPath": {"path": "/a"}, "capacity": {"storage": "1Gi"}}}),
                json!({"spec": {"hostPath": {"path": "/b"}, "capacity": {"storage": "2Gi"}}}),
                "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation",
            ),
            (
                "IngressClass",
                json!({"spec": {"controller": "a"}}),
                json!({"spec": {"controller": "b"}}),
                "spec.controller: Invalid value: \"b\": field is immutable",
            ),
            (
                "EndpointSlice",
                json!({"addressType": "IPv4"}),
                json!({"addressType": "IPv6"}),
                "addressType: Invalid value: \"IPv6\": field is immutable",
            ),
        ] {
            check(kind, &old, &new, &[why]);
        }
    }
}
