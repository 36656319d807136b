//! Validation of PersistentVolumes.

use super::*;
use crate::kinds::builtin::test_helpers::check_update;

/// Rules of kube-apiserver v1.36.3, read in its source; the value was observed.
#[test]
fn the_affinity_of_a_volume_changes_only_to_newer_labels() {
    let term = |key: &str, value: &str| {
        json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]},
        ]}}})
    };
    let texts = |old: &Value, new: &Value| -> Vec<String> {
        validate_update(old, new).iter().map(ToString::to_string).collect()
    };
    let (beta, ga) = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone");
    assert!(texts(&term(beta, "a"), &term(ga, "a")).is_empty());
    assert!(texts(&json!({}), &term(ga, "a")).is_empty());
    assert_eq!(texts(&term(ga, "a"), &term(beta, "a")).len(), 1);
    // Observed: the error about the missing key is the only one.
    assert!(texts(&term("k", "v"), &term("", "v")).is_empty());
    assert_eq!(texts(&term(beta, "v"), &term("", "v")).len(), 1);
    assert_eq!(texts(&term(beta, "a"), &term(ga, "b")).len(), 1);
    assert_eq!(
        texts(&term("k", "v"), &json!({"nodeAffinity": {"required": {}}})),
        [
            "nodeAffinity: Invalid value: {\"Required\":{\"NodeSelectorTerms\":null}}: field is immutable, except for updating from beta label to GA"
        ]
    );
    let class = json!({"volumeAttributesClassName": "a"});
    assert_eq!(
        texts(&class, &json!({})),
        ["spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden"]
    );
}

#[test]
fn the_source_is_immutable() {
    check_update(
        "PersistentVolume",
        &json!({"spec": {"accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}, "capacity": {"storage": "1Gi"}}}),
        &json!({"spec": {"accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/b"}, "capacity": {"storage": "2Gi"}}}),
        &[
            "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n@@ -2,7 +2,7 \
             @@\n  \"GCEPersistentDisk\": null,\n  \"AWSElasticBlockStore\": null,\n  \"HostPath\": {\n-  \"Path\": \
             \"/a\",\n+  \"Path\": \"/b\",\n   \"Type\": null\n  },\n  \"Glusterfs\": null,\n",
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
