//! PersistentVolumes.

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{list, set, set_pointer, within};
use super::shared::immutable_fields::immutable;
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
        old.map(|old| validate_update(&old["spec"], &new["spec"])).unwrap_or_default()
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
            &json!({"spec": {"hostPath": {"path": "/a"}, "capacity": {"storage": "1Gi"}}}),
            &json!({"spec": {"hostPath": {"path": "/b"}, "capacity": {"storage": "2Gi"}}}),
            &[
                "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation",
            ],
        );
    }
}
