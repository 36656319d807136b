//! PersistentVolumes.

use kube_apimachinery::go_struct::{internal_diff, internal_text};
use kube_apimachinery::names;
use kube_apimachinery::quantity::Quantity;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::amounts::Amounts;
use super::shared::discouraged::{self, TermUse};
use super::shared::field_checks::{invalid_text, supported};
use super::shared::fields::{list, put, set, set_pointer, text, within};
use super::shared::immutable_fields::{IMMUTABLE, immutable};
use super::shared::label_selector::invalid;
use super::shared::volume_rules::{self, VolumeOwner};
use super::shared::{amounts, pod_spec};
use crate::kind::WriteContext;
use crate::kind::resource::Resource;

/// Finalizer that protects volumes in use.
pub(crate) const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
/// Fields of the spec that are not a volume source.
const NON_SOURCES: [&str; 9] = [
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
/// Volume sources in the order in which kube-apiserver checks them: only the first one is accepted.
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

/// Annotation with mount options.
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
/// Detail of errors about fields that an inline volume must not have.
const NOT_INLINE: &str = "may not be specified in the context of inline volumes";
/// Deprecated annotations, with the fields that replace them.
const DEPRECATED: [(&str, &str); 2] = [
    (
        "volume.beta.kubernetes.io/storage-class",
        "deprecated since v1.8; use \"storageClassName\" attribute instead",
    ),
    (MOUNT_OPTIONS, "deprecated since v1.31; use \"mountOptions\" attribute instead"),
];
/// Volume sources whose drivers were removed, with the text of the warning.
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
            // The client's own time stays, but only if it is new.
            if is_unset || before[TIME] == new["status"][TIME] {
                new["status"][TIME] = json!(context.now_seconds());
            }
        } else if is_unset && !before[TIME].is_null() {
            new["status"][TIME] = before[TIME].clone();
        }
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let validated = || {
            let name = text(&new["metadata"], "name");
            validate_spec(&new["spec"], "spec", VolumeUse::Own(name))
        };
        let mut errors = validated();
        errors.extend(mount_options(new));
        if let Some(old) = old {
            // kube-apiserver validates the spec of an update twice, and reports each error twice.
            errors.extend(validated());
            errors.extend(validate_update(&old["spec"], &new["spec"]));
        }
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
            warnings.extend(discouraged::node_selector_term(term, TermUse::Required, &path));
        }
        for (source, why) in REMOVED {
            if !spec[source].is_null() {
                // kube-apiserver's path spells this source as Go's field does.
                let source = if source == "storageos" { "storageOS" } else { source };
                warnings.push(format!("spec.{source}: {why}"));
            }
        }
        warnings
    }
}

/// Object that contains the spec of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VolumeUse<'a> {
    /// In a PersistentVolume with this name.
    Own(&'a str),
    /// Inline, in a VolumeAttachment.
    Inline,
}

/// Validates the spec of a volume at `path`.
pub(super) fn validate_spec(spec: &Value, path: &str, of: VolumeUse<'_>) -> Vec<FieldError> {
    let place = |field: &str| format!("{path}.{field}");
    let is_inline = of == VolumeUse::Inline;
    let mut errors = Vec::new();
    if is_inline {
        errors.extend(inline_only(spec, path));
    }
    if list(spec, "accessModes").is_empty() {
        errors.push(FieldError::required(place("accessModes"), ""));
    }
    errors.extend(access_modes(spec, path));
    if !is_inline {
        errors.extend(validate_capacity(&spec["capacity"], &place("capacity")));
    }
    let policy = text(spec, "persistentVolumeReclaimPolicy");
    if !is_inline {
        errors.extend(supported(
            spec,
            "persistentVolumeReclaimPolicy",
            path,
            &["Delete", "Recycle", "Retain"],
        ));
    } else if !["", "Retain"].contains(&policy) {
        let why = "may only be Retain in the context of inline volumes";
        errors.push(FieldError::forbidden(place("persistentVolumeReclaimPolicy"), why));
    }
    let affinity = &spec["nodeAffinity"];
    if !affinity.is_null() {
        let field = place("nodeAffinity.required");
        if is_inline {
            errors.push(FieldError::forbidden(place("nodeAffinity"), NOT_INLINE));
        } else if affinity["required"].is_null() {
            errors.push(FieldError::required(field, "must specify required node constraints"));
        } else {
            errors.extend(pod_spec::node_selector(&affinity["required"], &field));
        }
    }
    errors.extend(validate_sources(spec, path, of));
    // Like Go's `path.Clean`, this ignores empty and `.` parts.
    let is_root =
        |path: &str| path.starts_with('/') && path.split('/').all(|part| part.is_empty() || part == ".");
    // Recycling a volume deletes its files, which here are all files of the node.
    if is_root(text(&spec["hostPath"], "path")) && policy == "Recycle" {
        let why = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(FieldError::forbidden(place("persistentVolumeReclaimPolicy"), why));
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        errors.extend(if is_inline {
            vec![FieldError::forbidden(place("storageClassName"), NOT_INLINE)]
        } else {
            invalid(&place("storageClassName"), class, &names::subdomain(class))
        });
    }
    if !is_inline {
        errors.extend(supported(spec, "volumeMode", path, &["Block", "Filesystem"]));
    } else if spec["volumeMode"].as_str().is_some_and(|mode| mode != "Filesystem") {
        let why = "may not specify volumeMode other than Filesystem in the context of inline volumes";
        errors.push(FieldError::forbidden(place("volumeMode"), why));
    }
    // kube-apiserver does not validate the class of an inline volume.
    if let Some(class) = spec["volumeAttributesClassName"].as_str().filter(|_| !is_inline) {
        let field = place("volumeAttributesClassName");
        errors.extend(if class.is_empty() {
            vec![FieldError::required(field, "an empty string is disallowed")]
        } else {
            invalid(&field, class, &names::subdomain(class))
        });
        if spec["csi"].is_null() {
            let why = "has to be specified when using volumeAttributesClassName";
            errors.push(FieldError::required(place("csi"), why));
        }
    }
    errors
}

/// Checks the fields that an inline volume must have or must not have.
fn inline_only(spec: &Value, path: &str) -> Vec<FieldError> {
    let place = |field: &str| format!("{path}.{field}");
    let mut errors = Vec::new();
    if !spec["claimRef"].is_null() {
        errors.push(FieldError::forbidden(place("claimRef"), NOT_INLINE));
    }
    if spec["capacity"].as_object().is_some_and(|amounts| !amounts.is_empty()) {
        errors.push(FieldError::forbidden(place("capacity"), NOT_INLINE));
    }
    if spec["csi"].is_null() {
        let why = "has to be specified in the context of inline volumes";
        errors.push(FieldError::required(place("csi"), why));
    }
    errors
}

/// Checks that a volume has exactly one source, and validates it.
fn validate_sources(spec: &Value, path: &str, of: VolumeUse<'_>) -> Vec<FieldError> {
    let owner = VolumeOwner::PersistentVolume(match of {
        VolumeUse::Own(name) => name,
        VolumeUse::Inline => "",
    });
    let mut errors = Vec::new();
    let mut has_source = false;
    for kind in SOURCES.iter().filter(|kind| !spec[**kind].is_null()) {
        // kube-apiserver forgot this check for `flexVolume`, so it is accepted beside another source.
        if has_source && *kind != "flexVolume" {
            // kube-apiserver spells this source differently in the path.
            let name = if *kind == "cephfs" { "cephFS" } else { *kind };
            let why = "may not specify more than 1 volume type";
            errors.push(FieldError::forbidden(format!("{path}.{name}"), why));
            continue;
        }
        has_source = true;
        errors.extend(volume_rules::content(kind, &spec[*kind], &format!("{path}.{kind}"), owner));
        // The scheduler finds the node of a local volume only by its affinity.
        if *kind == "local" && (spec["nodeAffinity"].is_null() || of == VolumeUse::Inline) {
            let why = "Local volume requires node affinity";
            errors.push(FieldError::required(format!("{path}.nodeAffinity"), why));
        }
    }
    if !has_source {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
    errors
}

/// Checks that only a volume whose source supports mount options has the annotation for them.
fn mount_options(volume: &Value) -> Option<FieldError> {
    const SUPPORTED: [&str; 13] = [
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "nfs",
        "rbd",
        "quobyte",
        "iscsi",
        "cinder",
        "cephfs",
        "azureFile",
        "vsphereVolume",
        "azureDisk",
        "photonPersistentDisk",
    ];
    let is_given = volume["metadata"]["annotations"].get(MOUNT_OPTIONS).is_some();
    let is_supported = SUPPORTED.iter().any(|kind| !volume["spec"][*kind].is_null());
    (is_given && !is_supported).then(|| {
        let why = "may not specify mount options for this volume type";
        FieldError::forbidden(format!("metadata.annotations.{MOUNT_OPTIONS}"), why)
    })
}

/// Validates the access modes of a volume or a claim, if it has any.
pub(super) fn access_modes(spec: &Value, path: &str) -> Vec<FieldError> {
    const ONCE: &str = "ReadWriteOncePod";
    let mut errors = Vec::new();
    let modes: Vec<&str> = list(spec, "accessModes").iter().filter_map(Value::as_str).collect();
    let unknown = modes.iter().filter(|mode| !ACCESS_MODES.contains(mode));
    let field = format!("{path}.accessModes");
    errors.extend(unknown.map(|mode| FieldError::not_supported(&*field, mode, &ACCESS_MODES)));
    // Unknown modes do not count: they have an error of their own.
    let has_other = modes.iter().any(|mode| *mode != ONCE && ACCESS_MODES.contains(mode));
    if modes.contains(&ONCE) && has_other {
        let why = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden(field, why));
    }
    errors
}

fn validate_capacity(capacity: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let amounts = Amounts::read(capacity);
    if amounts.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    if amounts.get("storage").is_none() || amounts.names().count() > 1 {
        errors.push(FieldError {
            reason: "FieldValueNotSupported",
            field: path.to_owned(),
            message: format!("Unsupported value: {capacity}: supported values: \"storage\""),
        });
    }
    for (name, amount) in amounts.iter() {
        let field = format!("{path}[{name}]");
        if amount < Quantity::ZERO {
            let number = amount.rounded_up().to_string();
            errors.push(FieldError::invalid(&*field, &number, "must be a valid resource quantity"));
        }
        // A negative amount causes both errors, like in kube-apiserver.
        if amount <= Quantity::ZERO {
            errors.push(invalid_text(field, &amount.to_string(), "must be greater than zero"));
        }
    }
    errors
}

/// Checks that source, mode and affinity do not change, and that the attributes class is not removed.
fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    const EXPAND_SECRET: &str = "controllerExpandSecretRef";
    const ATTRIBUTES: &str = "volumeAttributesClassName";
    let source = |spec: &Value| {
        let mut spec = spec.clone();
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|name, _| !NON_SOURCES.contains(&name.as_str()));
        }
        spec
    };
    let mut errors = Vec::new();
    let (before, mut after) = (source(old), source(new));
    // An update may add the secret for expansions, but not change it.
    if before["csi"].is_object() && after["csi"].is_object() && before["csi"][EXPAND_SECRET].is_null() {
        put(&mut after["csi"], EXPAND_SECRET, Value::Null);
    }
    if before != after {
        let diff = internal_diff("core.PersistentVolumeSource", &before, &after);
        let why = format!("spec.persistentvolumesource is immutable after creation\n{diff}");
        errors.push(FieldError::forbidden("spec.persistentvolumesource", &why));
    }
    // kube-apiserver's paths lack `spec` in this error and the next one.
    errors.extend(immutable("", old, new, &["volumeMode"]));
    let (affinity, affinity_now) = (&old["nodeAffinity"], &new["nodeAffinity"]);
    if !affinity.is_null() && !has_equal_terms(affinity, affinity_now) {
        let shown = internal_text("*core.VolumeNodeAffinity", affinity_now);
        let why = format!("{IMMUTABLE}, except for updating from beta label to GA");
        errors.push(FieldError::invalid("nodeAffinity", &shown, &why));
    }
    if !old[ATTRIBUTES].is_null() && new[ATTRIBUTES].is_null() {
        let why = "update from non-nil value to nil is forbidden";
        errors.push(FieldError::forbidden(format!("spec.{ATTRIBUTES}"), why));
    }
    errors
}

/// Whether two affinities of a volume are equal, apart from beta labels that the new one replaces with their successors.
fn has_equal_terms(old: &Value, new: &Value) -> bool {
    const SUCCESSORS: [(&str, &str); 5] = [
        ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
        ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
        ("beta.kubernetes.io/os", "kubernetes.io/os"),
        ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
        ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
    ];
    // A key without a successor may be removed: kube-apiserver takes the absence of both for equality.
    let is_successor = |name: &str, key: &Value, now: &Value| {
        let successor = SUCCESSORS.iter().find(|(beta, _)| *key == **beta).map_or("", |(_, ga)| ga);
        name == "key" && now.as_str().unwrap_or_default() == successor
    };
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let is_equal = |(name, value): (&String, &Value)| {
                let now = new.get(name).unwrap_or(&Value::Null);
                is_successor(name, value, now) || has_equal_terms(value, now)
            };
            old.iter().all(is_equal)
                && new.iter().all(|(name, value)| old.contains_key(name) || is_none(value))
        }
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| has_equal_terms(old, new))
        }
        _ => old == new || is_none(old) && is_none(new),
    }
}

/// Whether a value is null or an empty list.
fn is_none(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests;
