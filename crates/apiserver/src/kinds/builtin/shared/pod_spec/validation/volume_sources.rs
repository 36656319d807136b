//! Validation of the volumes of a pod.

use std::collections::{BTreeMap, BTreeSet};

use kube_apimachinery::names;
use kube_apimachinery::quantity::Quantity;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::environment::{ReferenceUse, amount_reference, field_reference};
use super::{Enclosing, PULL_POLICIES};
use crate::kinds::builtin::persistent_volume_claim;
use crate::kinds::builtin::shared::field_checks::{
    csi_driver, descending_path, duplicate, invalid_text, required, supported, template_metadata,
    unreserved_path,
};
use crate::kinds::builtin::shared::fields::{list, text};
use crate::kinds::builtin::shared::label_selector::invalid;
use crate::kinds::builtin::shared::volume_rules::{self, VolumeOwner};

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const CONFLICT: &str = "conflicting duplicate paths";
/// Volume sources in the order in which kube-apiserver checks them, after `emptyDir`, each with its spelling in the error about a second
/// source.
const SOURCES: [(&str, &str); 29] = [
    ("hostPath", "hostPath"),
    ("gitRepo", "gitRepo"),
    ("gcePersistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("secret", "secret"),
    ("nfs", "nfs"),
    ("iscsi", "iscsi"),
    ("glusterfs", "glusterfs"),
    ("flocker", "flocker"),
    ("persistentVolumeClaim", "persistentVolumeClaim"),
    ("rbd", "rbd"),
    ("cinder", "cinder"),
    ("cephfs", "cephFS"),
    ("quobyte", "quobyte"),
    ("downwardAPI", "downwarAPI"),
    ("fc", "fc"),
    ("flexVolume", "flexVolume"),
    ("configMap", "configMap"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("storageos", "storageos"),
    ("projected", "projected"),
    ("scaleIO", "scaleIO"),
    ("csi", "csi"),
    ("ephemeral", "ephemeral"),
    ("image", "image"),
];

/// Validates volumes. Returns the valid ones by name, and the errors about the others.
pub(super) fn validate<'a>(
    spec: &'a Value,
    path: &str,
    enclosing: Enclosing<'_>,
) -> (BTreeMap<&'a str, &'a Value>, Vec<FieldError>) {
    let volumes = list(spec, "volumes");
    let pod = match enclosing {
        Enclosing::Pod(metadata) => text(metadata, "name"),
        Enclosing::Template => "",
    };
    // Names of the claims that a controller creates for ephemeral volumes. No other volume may use them.
    let created: BTreeSet<String> = volumes
        .iter()
        .filter(|volume| !pod.is_empty() && !volume["ephemeral"].is_null())
        .map(|volume| format!("{pod}-{}", text(volume, "name")))
        .collect();
    let (mut valid, mut errors) = (BTreeMap::new(), Vec::new());
    for (index, volume) in volumes.iter().enumerate() {
        let path = format!("{path}.volumes[{index}]");
        let name = text(volume, "name");
        let place = format!("{path}.name");
        let mut own = source(volume, &path, enclosing);
        match required(volume, "name", &path) {
            Some(error) => own.push(error),
            None => own.extend(invalid(&place, name, &names::label(name))),
        }
        if valid.contains_key(name) {
            own.push(duplicate(place, name));
        }
        if own.is_empty() {
            valid.insert(name, volume);
        }
        errors.extend(own);
        let claim = text(&volume["persistentVolumeClaim"], "claimName");
        if created.contains(claim) {
            let why = "must not reference a PVC that gets created for an ephemeral volume";
            errors.push(invalid_text(format!("{path}.persistentVolumeClaim.claimName"), claim, why));
        }
    }
    (valid, errors)
}

/// Checks that a volume has at most one source, and validates it. Defaults have turned a volume without a source into an `emptyDir`.
fn source(volume: &Value, path: &str, enclosing: Enclosing<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut has_source = !volume["emptyDir"].is_null();
    let size = volume["emptyDir"]["sizeLimit"].as_str().and_then(Quantity::read);
    if size.is_some_and(|size| size < Quantity::ZERO) {
        let field = format!("{path}.emptyDir.sizeLimit");
        errors.push(FieldError::forbidden(field, "SizeLimit field must be a valid resource quantity"));
    }
    for (kind, name) in SOURCES {
        let found = &volume[kind];
        if found.is_null() {
            continue;
        }
        if has_source {
            errors.push(FieldError::forbidden(
                format!("{path}.{name}"),
                "may not specify more than 1 volume type",
            ));
            continue;
        }
        has_source = true;
        errors.extend(one_source(kind, found, &format!("{path}.{kind}"), enclosing));
        if kind == "ephemeral"
            && let Enclosing::Pod(metadata) = enclosing
        {
            // The controller of ephemeral volumes builds the claim's name from both names.
            let (pod, own) = (text(metadata, "name"), text(volume, "name"));
            let claim = format!("{pod}-{own}");
            if !pod.is_empty() && !own.is_empty() {
                for why in names::subdomain(&claim) {
                    let why = format!("PVC name {}: {why}", kube_apimachinery::go::quote(&claim));
                    errors.push(invalid_text(format!("{path}.name"), own, &why));
                }
            }
        }
    }
    errors
}

/// Validates the content of one source.
fn one_source(kind: &str, source: &Value, path: &str, enclosing: Enclosing<'_>) -> Vec<FieldError> {
    let needs = |fields: &[&str]| -> Vec<FieldError> {
        fields.iter().filter_map(|field| required(source, field, path)).collect()
    };
    match kind {
        "gitRepo" => {
            let mut errors = needs(&["repository"]);
            errors.extend(descending_path(text(source, "directory"), &format!("{path}.directory")));
            errors
        }
        "secret" => keys("secretName", source, path),
        "configMap" => keys("name", source, path),
        "persistentVolumeClaim" => needs(&["claimName"]),
        "downwardAPI" => {
            let mut errors: Vec<FieldError> = mode(source, "defaultMode", path).into_iter().collect();
            // kube-apiserver's path lacks the index.
            errors.extend(list(source, "items").iter().flat_map(|item| downward_file(item, path)));
            errors
        }
        "projected" => {
            let mut errors: Vec<FieldError> = mode(source, "defaultMode", path).into_iter().collect();
            errors.extend(projected(source, path));
            errors
        }
        "csi" => csi(source, path),
        "ephemeral" => claim_template(&source["volumeClaimTemplate"], &format!("{path}.volumeClaimTemplate")),
        "image" => {
            // A template may omit the reference, which a controller or webhook can fill in.
            let is_pod = matches!(enclosing, Enclosing::Pod(_));
            let reference = if is_pod { required(source, "reference", path) } else { None };
            reference.into_iter().chain(supported(source, "pullPolicy", path, &PULL_POLICIES)).collect()
        }
        _ => volume_rules::content(kind, source, path, VolumeOwner::Pod),
    }
}

/// Validates the claim template of an ephemeral volume.
fn claim_template(template: &Value, path: &str) -> Vec<FieldError> {
    if template.is_null() {
        return vec![FieldError::required(path, "")];
    }
    let mut errors = template_metadata(&template["metadata"], &format!("{path}.metadata"));
    errors.extend(persistent_volume_claim::validate_spec(&template["spec"], &Value::Null).into_iter().map(
        |mut error| {
            error.field.insert_str(0, &format!("{path}."));
            error
        },
    ));
    errors
}

fn mode(source: &Value, field: &str, path: &str) -> Option<FieldError> {
    let mode = source[field].as_i64().filter(|mode| !(0..=0o777).contains(mode))?;
    Some(FieldError::invalid(format!("{path}.{field}"), &mode.to_string(), MODE))
}

/// Validates a volume with the keys of a Secret or a ConfigMap. `name` is the field with the object's name.
fn keys(name: &str, source: &Value, path: &str) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> =
        required(source, name, path).into_iter().chain(mode(source, "defaultMode", path)).collect();
    for (index, item) in list(source, "items").iter().enumerate() {
        errors.extend(key_file(item, &format!("{path}.items[{index}]")));
    }
    errors
}

/// Validates a file with the value of a key.
fn key_file(item: &Value, path: &str) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> =
        ["key", "path"].iter().filter_map(|field| required(item, field, path)).collect();
    errors.extend(unreserved_path(text(item, "path"), &format!("{path}.path")));
    errors.extend(mode(item, "mode", path));
    errors
}

/// Validates a file with the value of a pod's field or a container's amount.
fn downward_file(item: &Value, path: &str) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = required(item, "path", path).into_iter().collect();
    errors.extend(unreserved_path(text(item, "path"), &format!("{path}.path")));
    let (field, amount) = (&item["fieldRef"], &item["resourceFieldRef"]);
    if !field.is_null() {
        errors.extend(field_reference(field, ReferenceUse::File, &format!("{path}.fieldRef")));
        if !amount.is_null() {
            let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
            // kube-apiserver shows this word in place of a value.
            errors.push(invalid_text(path, "resource", why));
        }
    } else if amount.is_null() {
        errors.push(FieldError::required(path, "one of fieldRef and resourceFieldRef is required"));
    } else {
        errors.extend(amount_reference(amount, ReferenceUse::File, &format!("{path}.resourceFieldRef")));
    }
    errors.extend(mode(item, "mode", path));
    errors
}

/// Validates the sources of a projected volume, whose files must have different paths. The paths of tokens are not compared.
fn projected(volume: &Value, path: &str) -> Vec<FieldError> {
    let mut paths = BTreeSet::new();
    let mut errors = Vec::new();
    for (index, source) in list(volume, "sources").iter().enumerate() {
        let place = format!("{path}.sources[{index}]");
        // The other kinds of sources are behind feature gates that are off by default, so they have been dropped.
        let mut count = 0;
        for kind in ["secret", "configMap"] {
            let found = &source[kind];
            if found.is_null() {
                continue;
            }
            count += 1;
            let place = format!("{place}.{kind}");
            errors.extend(required(found, "name", &place));
            for (index, item) in list(found, "items").iter().enumerate() {
                errors.extend(key_file(item, &format!("{place}.items[{index}]")));
                let file = text(item, "path");
                if !file.is_empty() && !paths.insert(file) {
                    errors.push(invalid_text(path, text(found, "name"), CONFLICT));
                }
            }
        }
        if !source["downwardAPI"].is_null() {
            count += 1;
            for item in list(&source["downwardAPI"], "items") {
                errors.extend(downward_file(item, &format!("{place}.downwardAPI")));
                let file = text(item, "path");
                if !file.is_empty() && !paths.insert(file) {
                    errors.push(invalid_text(path, file, CONFLICT));
                }
            }
        }
        let token = &source["serviceAccountToken"];
        if !token.is_null() {
            count += 1;
            errors.extend(token_file(token, &format!("{place}.serviceAccountToken"), path));
        }
        if count > 1 {
            errors.push(FieldError::forbidden(place, "may not specify more than 1 volume type per source"));
        }
    }
    errors
}

/// Validates a file with a token of the service account.
fn token_file(token: &Value, place: &str, volume: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let seconds = token["expirationSeconds"].as_i64().unwrap_or(3600);
    let wrong = match seconds {
        ..600 => Some("may not specify a duration less than 10 minutes"),
        // 2^32 itself is valid.
        0x1_0000_0001.. => Some("may not specify a duration larger than 2^32 seconds"),
        _ => None,
    };
    errors.extend(
        wrong.map(|why| FieldError::invalid(format!("{place}.expirationSeconds"), &seconds.to_string(), why)),
    );
    // kube-apiserver reports the path of the volume instead of that of the source.
    match required(token, "path", volume) {
        Some(error) => errors.push(error),
        None => errors.extend(unreserved_path(text(token, "path"), &format!("{volume}.path"))),
    }
    errors
}

fn csi(source: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = csi_driver(text(source, "driver"), &format!("{path}.driver"));
    let secret = &source["nodePublishSecretRef"];
    if !secret.is_null() {
        match required(secret, "name", &format!("{path}.nodePublishSecretRef")) {
            Some(error) => errors.push(error),
            None => {
                let name = text(secret, "name");
                // kube-apiserver's path lacks the name of the reference.
                errors.extend(invalid(&format!("{path}.name"), name, &names::subdomain(name)));
            }
        }
    }
    errors
}
