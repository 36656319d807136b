//! PersistentVolumes.

use kube_apimachinery::names;
use kube_apimachinery::quantity::Quantity;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::amounts::Amounts;
use super::shared::field_checks::{invalid_text, supported};
use super::shared::fields::{list, set, set_pointer, text, within};
use super::shared::immutable_fields::immutable;
use super::shared::label_selector::invalid;
use super::shared::{amounts, discouraged, pod_spec};
use crate::kind::WriteContext;
use crate::kind::resource::Resource;

/// Finalizer that protects volumes in use.
pub(crate) const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
/// Fields of the spec other than the source of the volume.
const OTHERS: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// Sources in the order of kube-apiserver.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

/// Deprecated annotations, with the fields that replace them.
const DEPRECATED: [(&str, &str); 2] = [
    (
        "volume.beta.kubernetes.io/storage-class",
        "deprecated since v1.8; use \"storageClassName\" attribute instead",
    ),
    (
        "volume.beta.kubernetes.io/mount-options",
        "deprecated since v1.31; use \"mountOptions\" attribute instead",
    ),
];
/// Sources of volumes that were removed.
const REMOVED: [(&str, &str); 6] = [
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

#[derive(Debug)]
pub(super) struct PersistentVolume;

impl BuiltinKind for PersistentVolume {
    fn default(&self, volume: &mut Value) {
        within(volume, "status", |status| set(status, "phase", json!("Pending")));
        within(volume, "spec", |spec| {
            set(spec, "persistentVolumeReclaimPolicy", json!("Retain"));
            set_pointer(spec, "volumeMode", json!("Filesystem"));
            pod_spec::default_volume_sources(spec);
            amounts::round_fields(spec, &["capacity"]);
        });
    }

    fn prepare_create(&self, _context: &WriteContext<'_>, volume: &mut Value) {
        let now = volume["metadata"]["creationTimestamp"].clone();
        volume["status"]["lastPhaseTransitionTime"] = now;
    }

    fn prepare_subresource(
        &self,
        context: &WriteContext<'_>,
        subresource: &str,
        old: &Value,
        new: &mut Value,
    ) {
        if subresource != "status" {
            return;
        }
        const TIME: &str = "lastPhaseTransitionTime";
        let before = &old["status"];
        let is_unset = new["status"][TIME].is_null();
        if before["phase"] != new["status"]["phase"] {
            // A client that changes the phase can also set the time.
            if is_unset || before[TIME] == new["status"][TIME] {
                new["status"][TIME] = json!(context.now_seconds());
            }
        } else if is_unset && !before[TIME].is_null() {
            new["status"][TIME] = before[TIME].clone();
        }
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = validate_spec(&new["spec"]);
        errors.extend(old.into_iter().flat_map(|old| validate_update(&old["spec"], &new["spec"])));
        errors
    }

    fn warnings(&self, _resource: &Resource, volume: &Value, _old: Option<&Value>) -> Vec<String> {
        let spec = &volume["spec"];
        let mut warnings = Vec::new();
        for (name, why) in
            DEPRECATED.iter().filter(|(name, _)| volume["metadata"]["annotations"].get(name).is_some())
        {
            warnings.push(format!("metadata.annotations[{name}]: {why}"));
        }
        if spec["persistentVolumeReclaimPolicy"] == "Recycle" {
            let why = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
            warnings.push(format!("spec.persistentVolumeReclaimPolicy: {why}"));
        }
        for (index, term) in list(&spec["nodeAffinity"]["required"], "nodeSelectorTerms").iter().enumerate() {
            let path = format!("spec.nodeAffinity.required.nodeSelectorTerms[{index}]");
            warnings.extend(discouraged::node_selector_term(term, false, &path));
        }
        for (source, why) in REMOVED {
            if !spec[source].is_null() {
                // The path has the name of Go's field.
                let source = if source == "storageos" { "storageOS" } else { source };
                warnings.push(format!("spec.{source}: {why}"));
            }
        }
        warnings
    }
}

/// Validates the spec of a volume, except for the content of its source.
fn validate_spec(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if list(spec, "accessModes").is_empty() {
        errors.push(FieldError::required("spec.accessModes", ""));
    }
    errors.extend(access_modes(spec));
    errors.extend(validate_capacity(&spec["capacity"]));
    errors.extend(supported(spec, "persistentVolumeReclaimPolicy", "spec", &["Delete", "Recycle", "Retain"]));
    let affinity = &spec["nodeAffinity"];
    if !affinity.is_null() {
        let field = "spec.nodeAffinity.required";
        if affinity["required"].is_null() {
            errors.push(FieldError::required(field, "must specify required node constraints"));
        } else {
            errors.extend(pod_spec::node_selector(&affinity["required"], field));
        }
    }
    let sources: Vec<&String> = spec
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, value)| !OTHERS.contains(&name.as_str()) && !value.is_null())
        .map(|(name, _)| name)
        .collect();
    let ordered = SOURCES.iter().filter(|source| sources.iter().any(|name| name == *source));
    errors.extend(ordered.skip(1).map(|source| {
        // kube-apiserver's path has another spelling.
        let source = if *source == "cephfs" { "cephFS" } else { *source };
        FieldError::forbidden(format!("spec.{source}"), "may not specify more than 1 volume type")
    }));
    if sources.is_empty() {
        errors.push(FieldError::required("spec", "must specify a volume type"));
    }
    let is_root =
        |path: &str| path.starts_with('/') && path.split('/').all(|part| part.is_empty() || part == ".");
    if is_root(text(&spec["hostPath"], "path")) && spec["persistentVolumeReclaimPolicy"] == "Recycle" {
        let why = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(FieldError::forbidden("spec.persistentVolumeReclaimPolicy", why));
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        errors.extend(invalid("spec.storageClassName", class, &names::subdomain(class)));
    }
    errors.extend(supported(spec, "volumeMode", "spec", &["Block", "Filesystem"]));
    errors
}

/// Validates the access modes of a volume or a claim, if it has any.
pub(super) fn access_modes(spec: &Value) -> Vec<FieldError> {
    const ONCE: &str = "ReadWriteOncePod";
    let mut errors = Vec::new();
    let modes: Vec<&str> = list(spec, "accessModes").iter().filter_map(Value::as_str).collect();
    let unknown = modes.iter().filter(|mode| !ACCESS_MODES.contains(mode));
    errors.extend(unknown.map(|mode| FieldError::not_supported("spec.accessModes", mode, &ACCESS_MODES)));
    let has_other = modes.iter().any(|mode| *mode != ONCE && ACCESS_MODES.contains(mode));
    if modes.contains(&ONCE) && has_other {
        let why = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden("spec.accessModes", why));
    }
    errors
}

fn validate_capacity(capacity: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let amounts = Amounts::read(capacity);
    if amounts.is_empty() {
        errors.push(FieldError::required("spec.capacity", ""));
    }
    if amounts.get("storage").is_none() || amounts.names().count() > 1 {
        errors.push(FieldError {
            reason: "FieldValueNotSupported",
            field: "spec.capacity".to_owned(),
            message: format!("Unsupported value: {capacity}: supported values: \"storage\""),
        });
    }
    for (name, amount) in amounts.iter() {
        let field = format!("spec.capacity[{name}]");
        if amount < Quantity::ZERO {
            let number = amount.rounded_up().to_string();
            errors.push(FieldError::invalid(&*field, &number, "must be a valid resource quantity"));
        }
        if amount <= Quantity::ZERO {
            errors.push(invalid_text(field, &amount.to_string(), "must be greater than zero"));
        }
    }
    errors
}

/// Checks that the source and the mode do not change.
fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::check_update;

    #[test]
    fn the_source_is_immutable() {
        check_update(
            "PersistentVolume",
            &json!({"spec": {"accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}, "capacity": {"storage": "1Gi"}}}),
            &json!({"spec": {"accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/b"}, "capacity": {"storage": "2Gi"}}}),
            &[
                "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation",
            ],
        );
    }

    #[test]
    fn a_volume_has_one_source_and_a_capacity() {
        let check = |spec: Value, expected: &[&str]| {
            crate::kinds::builtin::test_helpers::check(
                "PersistentVolume",
                &json!({ "spec": spec }),
                None,
                expected,
            );
        };
        check(
            json!({}),
            &[
                "spec.accessModes: Required value",
                "spec.capacity: Required value",
                "spec.capacity: Unsupported value: null: supported values: \"storage\"",
                "spec: Required value: must specify a volume type",
            ],
        );
        check(
            json!({
                "accessModes": ["ReadWriteOncePod", "ReadWriteOnce", "X"], "capacity": {"storage": "0"}, "nfs": {}, "hostPath": {"path": "/"},
                "persistentVolumeReclaimPolicy": "Recycle", "volumeMode": "Y", "storageClassName": "fast",
            }),
            &[
                "spec.accessModes: Unsupported value: \"X\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
                "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
                "spec.capacity[storage]: Invalid value: \"0\": must be greater than zero",
                "spec.nfs: Forbidden: may not specify more than 1 volume type",
                "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
                "spec.volumeMode: Unsupported value: \"Y\": supported values: \"Block\", \"Filesystem\"",
            ],
        );
    }
}
