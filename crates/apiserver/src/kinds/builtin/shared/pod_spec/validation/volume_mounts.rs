//! Validation of volume mounts and block devices of containers.

use std::collections::{BTreeMap, BTreeSet};

use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::PodRules;
use crate::kinds::builtin::shared::field_checks::{
    descending_path, invalid_text, no_backsteps, not_found, required,
};
use crate::kinds::builtin::shared::fields::{list, text};

const PROPAGATIONS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
const UNIQUE: &str = "must be unique";

/// Validates the mounts and the devices of a container.
pub(super) fn validate(pod: &PodRules<'_>, container: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = mounts(pod, container, path);
    errors.extend(devices(pod, container, path));
    errors
}

/// Returns the paths of mounts or devices by the name of their volume. As in a Go map, the last path of a name counts.
fn paths_by_volume<'a>(list: &'a [Value], field: &str) -> BTreeMap<&'a str, &'a str> {
    list.iter().map(|entry| (text(entry, "name"), text(entry, field))).collect()
}

fn mounts(pod: &PodRules<'_>, container: &Value, path: &str) -> Vec<FieldError> {
    let list_path = format!("{path}.volumeMounts");
    let devices = paths_by_volume(list(container, "volumeDevices"), "devicePath");
    let mut used = BTreeSet::new();
    let mut errors = Vec::new();
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        let path = format!("{list_path}[{index}]");
        let (name, place) = (text(mount, "name"), text(mount, "mountPath"));
        errors.extend(required(mount, "name", &path));
        if !pod.volumes.contains_key(name) {
            errors.push(not_found(format!("{path}.name"), name));
        }
        errors.extend(required(mount, "mountPath", &path));
        if !used.insert(place) {
            errors.push(invalid_text(format!("{path}.mountPath"), place, UNIQUE));
        }
        // A volume is either mounted as a file system or attached as a block device.
        if devices.contains_key(name) {
            let why = "must not already exist in volumeDevices";
            errors.push(invalid_text(format!("{path}.name"), name, why));
        }
        if devices.values().any(|device| *device == place) {
            let why = "must not already exist as a path in volumeDevices";
            errors.push(invalid_text(format!("{path}.mountPath"), place, why));
        }
        // kube-apiserver's paths of the following fields lack the index, except for one error.
        let (part, template) = (text(mount, "subPath"), text(mount, "subPathExpr"));
        if !part.is_empty() {
            errors.extend(descending_path(part, &format!("{list_path}.subPath")));
        }
        if !template.is_empty() {
            if !part.is_empty() {
                let why = "subPathExpr and subPath are mutually exclusive";
                errors.push(invalid_text(format!("{path}.subPathExpr"), template, why));
            }
            errors.extend(descending_path(template, &format!("{list_path}.subPathExpr")));
        }
        errors.extend(propagation(mount, container, &format!("{list_path}.mountPropagation")));
        errors.extend(recursive_read_only(mount, &format!("{list_path}.recursiveReadOnly")));
    }
    errors
}

fn propagation(mount: &Value, container: &Value, field: &str) -> Option<FieldError> {
    let propagation = mount["mountPropagation"].as_str()?;
    if !PROPAGATIONS.contains(&propagation) {
        return Some(FieldError::not_supported(field, propagation, &PROPAGATIONS));
    }
    let is_privileged = container["securityContext"]["privileged"] == true;
    (propagation == "Bidirectional" && !is_privileged).then(|| {
        let why = "Bidirectional mount propagation is available only to privileged containers";
        FieldError::forbidden(field, why)
    })
}

fn recursive_read_only(mount: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match mount["recursiveReadOnly"].as_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount["readOnly"] != true {
                errors.push(FieldError::forbidden(field, "may only be specified when readOnly is true"));
            }
            if mount["mountPropagation"].as_str().is_some_and(|propagation| propagation != "None") {
                let why = "may only be specified when mountPropagation is None or not specified";
                errors.push(FieldError::forbidden(field, why));
            }
        }
        Some(other) => {
            errors.push(FieldError::not_supported(field, other, &["Disabled", "Enabled", "IfPossible"]));
        }
    }
    errors
}

fn devices(pod: &PodRules<'_>, container: &Value, path: &str) -> Vec<FieldError> {
    let mounts = paths_by_volume(list(container, "volumeMounts"), "mountPath");
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    let mut errors = Vec::new();
    for (index, device) in list(container, "volumeDevices").iter().enumerate() {
        let path = format!("{path}.volumeDevices[{index}]");
        let (name_field, path_field) = (format!("{path}.name"), format!("{path}.devicePath"));
        let (name, place) = (text(device, "name"), text(device, "devicePath"));
        errors.extend(required(device, "name", &path));
        if names.contains(name) {
            errors.push(invalid_text(&*name_field, name, UNIQUE));
        }
        match pod.volumes.get(name) {
            None => errors.push(not_found(&*name_field, name)),
            Some(volume) if volume["persistentVolumeClaim"].is_null() && volume["ephemeral"].is_null() => {
                let why =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.push(invalid_text(&*name_field, name, why));
            }
            Some(_) => {}
        }
        errors.extend(required(device, "devicePath", &path));
        if paths.contains(place) {
            errors.push(invalid_text(&*path_field, place, UNIQUE));
        }
        // The text differs from that about mounts.
        if no_backsteps(place, "").is_some() {
            errors.push(invalid_text(&*path_field, place, "can not contain backsteps ('..')"));
        } else {
            // kube-apiserver records only valid paths, so it reports no repetition of an invalid one.
            paths.insert(place);
        }
        if mounts.contains_key(name) {
            errors.push(invalid_text(&*name_field, name, "must not already exist in volumeMounts"));
        }
        if mounts.values().any(|mount| *mount == place) {
            let why = "must not already exist as a path in volumeMounts";
            errors.push(invalid_text(&*path_field, place, why));
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
    errors
}
