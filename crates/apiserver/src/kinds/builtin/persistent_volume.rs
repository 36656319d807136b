//! PersistentVolumes.

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{set, within};
use super::shared::immutable_fields::immutable;
use super::shared::pod_spec;
use crate::kind::WriteContext;
use crate::kind::resource::Resource;

/// Finalizer that protects volumes in use.
pub(crate) const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
/// Fields of the spec other than the source of the volume.
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

#[derive(Debug)]
pub(super) struct PersistentVolume;

impl BuiltinKind for PersistentVolume {
    fn default(&self, volume: &mut Value) {
        within(volume, "status", |status| set(status, "phase", json!("Pending")));
        within(volume, "spec", |spec| {
            set(spec, "persistentVolumeReclaimPolicy", json!("Retain"));
            set(spec, "volumeMode", json!("Filesystem"));
            pod_spec::default_volume_sources(spec);
        });
    }

    fn prepare_create(&self, _context: &WriteContext<'_>, volume: &mut Value) {
        let now = volume["metadata"]["creationTimestamp"].clone();
        volume["status"]["lastPhaseTransitionTime"] = now;
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        old.map(|old| validate_update(&old["spec"], &new["spec"])).unwrap_or_default()
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
