//! Cells of PersistentVolumes and PersistentVolumeClaims.

use jiff::Timestamp;
use kube_apimachinery::metadata;
use serde_json::{Value, json};

use super::cell_values::{UNSET, array, or, plain};
use super::{CellFn, text_at};

/// Annotation that named the storage class before the field `storageClassName` existed. It takes precedence over the field.
const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) fn volume(name: &str) -> CellFn {
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

pub(super) fn claim(name: &str) -> CellFn {
    match name {
        "Status" => phase,
        "Volume" => |object, _| or(object, "/spec/volumeName", ""),
        "Capacity" => |object, _| {
            // A missing amount is Go's zero quantity.
            if is_bound(object) { or(object, "/status/capacity/storage", "0") } else { json!("") }
        },
        "Access Modes" => {
            |object, _| if is_bound(object) { modes(&object["status"]["accessModes"]) } else { json!("") }
        }
        other => storage(other),
    }
}

/// Returns a cell that volumes and claims share.
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
    // Go collects the modes in a set and prints them in this order.
    let has = |mode: &str| array(list).iter().any(|given| given == mode);
    let short: Vec<&str> = known.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| *short).collect();
    json!(short.join(","))
}

#[cfg(test)]
mod tests {
    use super::super::recorded::tests::shown;
    use super::*;

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
}
