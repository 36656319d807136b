//! Validation of volume sources that pods and PersistentVolumes share: disks and network storage.

use kube_apimachinery::go;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::field_checks::{csi_driver, in_range, invalid_text, no_backsteps, required, supported};
use super::fields::{list, text};
use super::label_selector::invalid;

const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
/// Check of a name, which returns the reasons why the name is invalid.
type NameCheck = fn(&str) -> Vec<String>;

const MALFORMED: &str = "must be valid format";

/// Object that contains the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kinds::builtin) enum VolumeOwner<'a> {
    Pod,
    /// PersistentVolume with this name. The name is empty for the inline volume of a VolumeAttachment.
    PersistentVolume(&'a str),
}

/// Validates the source at `path`. Sources that only pods have are not checked here.
pub(in crate::kinds::builtin) fn content(
    kind: &str,
    source: &Value,
    path: &str,
    owner: VolumeOwner<'_>,
) -> Vec<FieldError> {
    let is_pod = owner == VolumeOwner::Pod;
    let needs = |fields: &[&str]| -> Vec<FieldError> {
        fields.iter().filter_map(|field| required(source, field, path)).collect()
    };
    let needs_items = |field: &str| {
        list(source, field).is_empty().then(|| FieldError::required(format!("{path}.{field}"), ""))
    };
    match kind {
        "hostPath" => host_path(source, path),
        // kube-apiserver's path uses another name for this source.
        "gcePersistentDisk" => {
            let path = path.replace("gcePersistentDisk", "persistentDisk");
            required(source, "pdName", &path).into_iter().chain(partition(source, &path)).collect()
        }
        "awsElasticBlockStore" => needs(&["volumeID"]).into_iter().chain(partition(source, path)).collect(),
        "glusterfs" => {
            let mut errors = needs(&["endpoints", "path"]);
            if let Some(namespace) = source["endpointsNamespace"].as_str().filter(|_| !is_pod) {
                let field = format!("{path}.endpointsNamespace");
                errors.extend(if namespace.is_empty() {
                    let why = "if the endpointnamespace is set, it must be a valid namespace name";
                    vec![invalid_text(field, namespace, why)]
                } else {
                    invalid(&field, namespace, &names::label(namespace))
                });
            }
            errors
        }
        "flocker" => flocker(source, path),
        "nfs" => {
            let mut errors = needs(&["server", "path"]);
            let given = text(source, "path");
            if !given.starts_with('/') {
                errors.push(invalid_text(format!("{path}.path"), given, "must be an absolute path"));
            }
            errors
        }
        "rbd" => needs_items("monitors").into_iter().chain(needs(&["image"])).collect(),
        "quobyte" => quobyte(source, path),
        "cephfs" => needs_items("monitors").into_iter().collect(),
        "iscsi" => iscsi(source, path, owner),
        "cinder" => needs(&["volumeID"]).into_iter().chain(secret(source, path, !is_pod)).collect(),
        "fc" => fibre_channel(source, path),
        "flexVolume" => needs(&["driver"]).into_iter().chain(flex_options(source, path)).collect(),
        "azureFile" => {
            let mut errors = needs(&["secretName", "shareName"]);
            if !is_pod && source["secretNamespace"] == "" {
                errors.push(FieldError::required(format!("{path}.secretNamespace"), ""));
            }
            errors
        }
        "vsphereVolume" => needs(&["volumePath"]),
        "photonPersistentDisk" => needs(&["pdID"]),
        "portworxVolume" => needs(&["volumeID"]),
        "azureDisk" => azure_disk(source, path),
        "scaleIO" => needs(&["gateway", "system", "volumeName"]),
        "local" => match required(source, "path", path) {
            Some(error) => vec![error],
            None => no_backsteps(text(source, "path"), &format!("{path}.path")).into_iter().collect(),
        },
        "storageos" => storage_os(source, path, is_pod),
        // Pods have rules of their own for inline CSI volumes.
        "csi" if !is_pod => csi(source, path),
        _ => Vec::new(),
    }
}

fn host_path(source: &Value, path: &str) -> Vec<FieldError> {
    if let Some(error) = required(source, "path", path) {
        return vec![error];
    }
    let steps = no_backsteps(text(source, "path"), &format!("{path}.path"));
    steps.into_iter().chain(supported(source, "type", path, &HOST_PATH_TYPES)).collect()
}

fn partition(source: &Value, path: &str) -> Option<FieldError> {
    let number = source["partition"].as_i64().filter(|number| !(0..=255).contains(number))?;
    // kube-apiserver's text says 1, but its rule allows 0.
    let why = "must be between 1 and 255, inclusive";
    Some(FieldError::invalid(format!("{path}.partition"), &number.to_string(), why))
}

/// Validates the reference to a Secret. In PersistentVolumes, which have no namespace, the reference names one.
fn secret(source: &Value, path: &str, has_namespace: bool) -> Vec<FieldError> {
    let reference = &source["secretRef"];
    if reference.is_null() {
        return Vec::new();
    }
    let fields: &[&str] = if has_namespace { &["name", "namespace"] } else { &["name"] };
    let path = format!("{path}.secretRef");
    fields.iter().filter_map(|field| required(reference, field, &path)).collect()
}

fn flocker(source: &Value, path: &str) -> Vec<FieldError> {
    let name = text(source, "datasetName");
    let mut errors = Vec::new();
    match (name.is_empty(), text(source, "datasetUUID").is_empty()) {
        (true, true) => {
            errors.push(FieldError::required(path, "one of datasetName and datasetUUID is required"));
        }
        (false, false) => {
            let why = "datasetName and datasetUUID can not be specified simultaneously";
            // kube-apiserver shows this word in place of a value.
            errors.push(invalid_text(path, "resource", why));
        }
        _ => {}
    }
    if name.contains('/') {
        errors.push(invalid_text(format!("{path}.datasetName"), name, "must not contain '/'"));
    }
    errors
}

fn quobyte(source: &Value, path: &str) -> Vec<FieldError> {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    const MAX_TENANT: usize = 64;
    let (registry, field) = (text(source, "registry"), format!("{path}.registry"));
    let mut errors = Vec::new();
    if registry.is_empty() {
        errors.push(FieldError::required(field, PAIRS));
    } else if text(source, "tenant").len() > MAX_TENANT {
        // kube-apiserver gives a tenant that is too long the reason of a missing one.
        let why = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(FieldError::required(format!("{path}.tenant"), why));
    } else {
        let wrong = registry.split(',').filter(|pair| !is_host_and_port(pair));
        errors.extend(wrong.map(|_| invalid_text(&*field, registry, PAIRS)));
    }
    errors.extend(required(source, "volume", path));
    errors
}

/// Whether Go's `net.SplitHostPort` accepts a text: it has the form `HOST:PORT`, and only a host in brackets contains colons.
fn is_host_and_port(pair: &str) -> bool {
    let Some((host, port)) = pair.rsplit_once(':') else { return false };
    let host = match host.strip_prefix('[') {
        Some(inner) => match inner.strip_suffix(']') {
            Some(inner) => return !inner.contains(['[', ']']) && !port.contains(['[', ']']),
            None => return false,
        },
        None => host,
    };
    !host.contains([':', '[', ']']) && !port.contains(['[', ']'])
}

fn iscsi(source: &Value, path: &str, owner: VolumeOwner<'_>) -> Vec<FieldError> {
    const MAX_TARGET: usize = 64;
    let is_pod = owner == VolumeOwner::Pod;
    let place = |field: &str| format!("{path}.{field}");
    let portal = text(source, "targetPortal");
    let initiator = source["initiatorName"].as_str();
    let mut errors: Vec<FieldError> = required(source, "targetPortal", path).into_iter().collect();
    if let (VolumeOwner::PersistentVolume(name), Some(_)) = (owner, initiator)
        && name.len() + 1 + portal.len() > MAX_TARGET
    {
        let why = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        // kube-apiserver spells this path, and that of the initiator's name, in lower case.
        errors.push(invalid_text(place("targetportal"), portal, why));
    }
    let unknown = if is_pod { "must be valid format starting with iqn, eui, or naa" } else { MALFORMED };
    let name = |given: &str, field: String| {
        let why = match given.get(..3) {
            Some("iqn" | "eui" | "naa") => (!is_iscsi_name(given)).then_some(MALFORMED),
            _ => Some(unknown),
        };
        why.map(|why| invalid_text(field, given, why))
    };
    match text(source, "iqn") {
        "" => errors.push(FieldError::required(place("iqn"), "")),
        given => errors.extend(name(given, place("iqn"))),
    }
    errors.extend(in_range(source["lun"].as_i64().unwrap_or_default(), 0, 255, place("lun")));
    let authenticates = source["chapAuthDiscovery"] == true || source["chapAuthSession"] == true;
    if authenticates && source["secretRef"].is_null() {
        errors.push(FieldError::required(place("secretRef"), ""));
    }
    if !is_pod {
        errors.extend(secret(source, path, false));
    }
    errors.extend(initiator.and_then(|given| name(given, place("initiatorname"))));
    errors
}

/// Whether a name that starts with `iqn`, `eui` or `naa` has the form that its prefix requires.
fn is_iscsi_name(name: &str) -> bool {
    let is_identifier = |length: usize| {
        // The dot of Go's pattern is not escaped, so any character may follow the prefix.
        let mut chars = name.chars().skip(4);
        chars.clone().count() == length && chars.all(|c| c.is_ascii_alphanumeric())
    };
    if name.starts_with("eui") {
        return is_identifier(16);
    }
    if name.starts_with("naa") {
        return is_identifier(32);
    }
    let Some((authority, unique)) = name.split_once(':') else { return false };
    let (Some(date), Some(host)) = (authority.get(3..12), authority.get(12..)) else { return false };
    let is_date = date.bytes().zip(*b".0000-00.").all(|(given, expected)| match expected {
        b'0' => given.is_ascii_digit(),
        sign => given == sign,
    });
    let is_host = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b));
    let is_allowed = |c: char| !",;*&$|".contains(c) && !matches!(c, ' ' | '\t' | '\n' | '\x0c' | '\r');
    is_date && is_host && !unique.is_empty() && unique.chars().all(is_allowed)
}

fn fibre_channel(source: &Value, path: &str) -> Vec<FieldError> {
    let field = format!("{path}.targetWWNs");
    let (targets, ids) = (list(source, "targetWWNs"), list(source, "wwids"));
    let mut errors = Vec::new();
    if targets.is_empty() && ids.is_empty() {
        errors.push(FieldError::required(field, "must specify either targetWWNs or wwids, but not both"));
        return errors;
    }
    if !targets.is_empty() && !ids.is_empty() {
        let why = "targetWWNs and wwids can not be specified simultaneously";
        errors.push(FieldError::invalid(field, &go::json(&source["targetWWNs"]), why));
    }
    if !targets.is_empty() {
        // A target has several volumes, but a WWID identifies a single one.
        let lun = format!("{path}.lun");
        match source["lun"].as_i64() {
            None => errors.push(FieldError::required(lun, "lun is required if targetWWNs is specified")),
            Some(number) => errors.extend(in_range(number, 0, 255, lun)),
        }
    }
    errors
}

/// Checks that options do not use Kubernetes' own namespaces.
fn flex_options(source: &Value, path: &str) -> Vec<FieldError> {
    let options = source["options"].as_object().into_iter().flat_map(serde_json::Map::keys);
    let reserved = options.filter(|option| {
        let namespace = option.split_once('/').map_or(option.as_str(), |(namespace, _)| namespace);
        let namespace = format!(".{}", namespace.to_lowercase());
        namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io")
    });
    let why = "kubernetes.io and k8s.io namespaces are reserved";
    reserved.map(|option| invalid_text(format!("{path}.options[{option}]"), option, why)).collect()
}

fn azure_disk(source: &Value, path: &str) -> Vec<FieldError> {
    const MODES: [&str; 3] = ["None", "ReadOnly", "ReadWrite"];
    const KINDS: [&str; 3] = ["Dedicated", "Managed", "Shared"];
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    let mut errors: Vec<FieldError> =
        ["diskName", "diskURI"].iter().filter_map(|field| required(source, field, path)).collect();
    errors.extend(supported(source, "cachingMode", path, &MODES));
    errors.extend(supported(source, "kind", path, &KINDS));
    let address = text(source, "diskURI");
    let expected = match source["kind"].as_str() {
        Some("Managed") => (!address.starts_with("/subscriptions/")).then_some(MANAGED),
        // Disks of other kinds are blobs in a storage account.
        Some(_) => (!address.starts_with("https://")).then_some(BLOB),
        None => None,
    };
    errors.extend(
        expected.map(|expected| FieldError::not_supported(format!("{path}.diskURI"), address, &[expected])),
    );
    errors
}

fn storage_os(source: &Value, path: &str, is_pod: bool) -> Vec<FieldError> {
    let label = |field: &str| {
        let name = text(source, field);
        invalid(&format!("{path}.{field}"), name, &names::label(name))
    };
    let mut errors = match required(source, "volumeName", path) {
        Some(error) => vec![error],
        None => label("volumeName"),
    };
    if !text(source, "volumeNamespace").is_empty() {
        errors.extend(label("volumeNamespace"));
    }
    errors.extend(secret(source, path, !is_pod));
    errors
}

/// Validates the CSI volume of a PersistentVolume.
fn csi(source: &Value, path: &str) -> Vec<FieldError> {
    const SECRETS: [&str; 4] = [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ];
    const RULES: [(&str, NameCheck); 2] = [("name", names::subdomain), ("namespace", names::label)];
    let mut errors = csi_driver(text(source, "driver"), &format!("{path}.driver"));
    errors.extend(required(source, "volumeHandle", path));
    // kube-apiserver does not validate `nodeStageSecretRef`.
    for secret in SECRETS.iter().filter(|secret| !source[**secret].is_null()) {
        let path = format!("{path}.{secret}");
        for (field, rule) in RULES {
            let name = text(&source[*secret], field);
            errors.extend(match required(&source[*secret], field, &path) {
                Some(error) => vec![error],
                None => invalid(&format!("{path}.{field}"), name, &rule(name)),
            });
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "`json!` returns values")]
    fn check(kind: &str, owner: VolumeOwner<'_>, source: Value, expected: &[&str]) {
        let errors: Vec<String> =
            content(kind, &source, "v", owner).iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected, "{kind} {source}");
    }

    /// Texts of kube-apiserver v1.36.3, observed or read in its source.
    #[test]
    fn disks_have_addresses_and_names() {
        let volume = VolumeOwner::PersistentVolume("pv");
        check(
            "azureDisk",
            VolumeOwner::Pod,
            json!({"diskName": "d", "diskURI": "u", "kind": "Shared", "cachingMode": "X"}),
            &[
                "v.cachingMode: Unsupported value: \"X\": supported values: \"None\", \"ReadOnly\", \"ReadWrite\"",
                "v.diskURI: Unsupported value: \"u\": supported values: \"https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd\"",
            ],
        );
        check(
            "fc",
            VolumeOwner::Pod,
            json!({"targetWWNs": ["a"], "wwids": ["b"], "lun": 256}),
            &[
                "v.targetWWNs: Invalid value: [\"a\"]: targetWWNs and wwids can not be specified simultaneously",
                "v.lun: Invalid value: 256: must be between 0 and 255, inclusive",
            ],
        );
        check(
            "local",
            volume,
            json!({"path": "/a/../b"}),
            &["v.path: Invalid value: \"/a/../b\": must not contain '..'"],
        );
        check(
            "flexVolume",
            VolumeOwner::Pod,
            json!({"driver": "d", "options": {"a.k8s.io/x": "", "y": ""}}),
            &[
                "v.options[a.k8s.io/x]: Invalid value: \"a.k8s.io/x\": kubernetes.io and k8s.io namespaces are reserved",
            ],
        );
        check(
            "csi",
            volume,
            json!({"driver": "d", "nodePublishSecretRef": {"name": "s"}}),
            &["v.volumeHandle: Required value", "v.nodePublishSecretRef.namespace: Required value"],
        );
    }

    #[test]
    fn targets_of_iscsi_have_names() {
        for (name, is_valid) in [
            ("iqn.2001-04.com.example:storage.disk2.sys1.xyz", true),
            ("eui.02004567A425678D", true),
            ("naa.62004567BA64678D0123456789ABCDEF", true),
            ("iqn.2001-04.com.example", false),
            ("iqn.2001-4.com.example:x", false),
            ("iqn.2001-04.com.example:x,y", false),
            ("eui.02004567A425678", false),
            ("naa.6", false),
        ] {
            assert_eq!(is_iscsi_name(name), is_valid, "{name}");
        }
        check(
            "iscsi",
            VolumeOwner::Pod,
            json!({"iqn": "x", "lun": 300, "chapAuthSession": true}),
            &[
                "v.targetPortal: Required value",
                "v.iqn: Invalid value: \"x\": must be valid format starting with iqn, eui, or naa",
                "v.lun: Invalid value: 300: must be between 0 and 255, inclusive",
                "v.secretRef: Required value",
            ],
        );
    }

    #[test]
    fn a_registry_has_a_port() {
        for (pair, is_valid) in
            [("a:1", true), ("[::1]:2", true), ("a", false), ("a:b:c", false), (":1", true), ("[a:1", false)]
        {
            assert_eq!(is_host_and_port(pair), is_valid, "{pair}");
        }
    }
}
