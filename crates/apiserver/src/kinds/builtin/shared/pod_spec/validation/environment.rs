//! Validation of environment variables, and of references to fields of a pod and to amounts of a container.

use kube_apimachinery::names;
use kube_apimachinery::quantity::Quantity;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use crate::kinds::builtin::shared::field_checks::{
    data_key, invalid_text, no_backsteps, required, variable_name,
};
use crate::kinds::builtin::shared::fields::{list, text};
use crate::kinds::builtin::shared::label_selector::invalid;

const TOO_MANY: &str = "may not have more than one field specified at a time";
/// Fields of a pod that a variable can contain.
const OF_VARIABLE: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields of a pod that a file can contain.
const OF_FILE: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// Field labels of pods that kube-apiserver can convert. A reference to any other field is an error of the conversion.
const LABELS: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Amounts of a container that a variable or a file can contain.
const AMOUNTS: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const HUGE_PAGES: [&str; 2] = ["limits.hugepages-", "requests.hugepages-"];

/// Use of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReferenceUse {
    /// The value of an environment variable.
    Variable,
    /// A file in a volume.
    File,
}

/// Validates the variables of a container.
pub(super) fn variables(container: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, variable) in list(container, "env").iter().enumerate() {
        let path = format!("{path}.env[{index}]");
        let name = text(variable, "name");
        match required(variable, "name", &path) {
            Some(error) => errors.push(error),
            None => errors.extend(invalid(&format!("{path}.name"), name, &variable_name(name))),
        }
        errors.extend(value_from(variable, &format!("{path}.valueFrom")));
    }
    errors
}

fn value_from(variable: &Value, path: &str) -> Vec<FieldError> {
    let source = &variable["valueFrom"];
    if source.is_null() {
        return Vec::new();
    }
    let mut errors = Vec::new();
    let mut count = 0;
    let mut found = |kind: &str, check: &dyn Fn(&Value, &str) -> Vec<FieldError>| {
        if !source[kind].is_null() {
            count += 1;
            errors.extend(check(&source[kind], &format!("{path}.{kind}")));
        }
    };
    found("fieldRef", &|reference, path| field_reference(reference, ReferenceUse::Variable, path));
    found("resourceFieldRef", &|reference, path| amount_reference(reference, ReferenceUse::Variable, path));
    found("configMapKeyRef", &key_reference);
    found("secretKeyRef", &key_reference);
    found("fileKeyRef", &file_reference);
    // kube-apiserver reports only the first of these errors.
    let why = match count {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if !text(variable, "value").is_empty() => "may not be specified when `value` is not empty",
        1 => return errors,
        _ => TOO_MANY,
    };
    errors.push(invalid_text(path, "", why));
    errors
}

/// Validates the ConfigMaps and Secrets from which a container takes all variables.
pub(super) fn variable_sources(container: &Value, path: &str) -> Vec<FieldError> {
    let list_path = format!("{path}.envFrom");
    let mut errors = Vec::new();
    for (index, source) in list(container, "envFrom").iter().enumerate() {
        let path = format!("{list_path}[{index}]");
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            errors.extend(invalid(&format!("{path}.prefix"), prefix, &variable_name(prefix)));
        }
        let mut count = 0;
        for kind in ["configMapRef", "secretRef"] {
            let reference = &source[kind];
            if reference.is_null() {
                continue;
            }
            count += 1;
            let (name, path) = (text(reference, "name"), format!("{path}.{kind}"));
            match required(reference, "name", &path) {
                Some(error) => errors.push(error),
                None => {
                    // kube-apiserver checks the name like the start of one, so it may end with a hyphen.
                    let wrong = names::name_prefix(names::NameRule::Subdomain, name);
                    errors.extend(invalid(&format!("{path}.name"), name, &wrong));
                }
            }
        }
        match count {
            // kube-apiserver's path lacks the index.
            0 => {
                let why = "must specify one of: `configMapRef` or `secretRef`";
                errors.push(invalid_text(&*list_path, "", why));
            }
            1 => {}
            _ => errors.push(invalid_text(&*list_path, "", TOO_MANY)),
        }
    }
    errors
}

/// Validates a reference to a field of the pod.
pub(super) fn field_reference(reference: &Value, of: ReferenceUse, path: &str) -> Vec<FieldError> {
    for field in ["apiVersion", "fieldPath"] {
        if let Some(error) = required(reference, field, path) {
            return vec![error];
        }
    }
    let (version, label) = (text(reference, "apiVersion"), text(reference, "fieldPath"));
    let field = format!("{path}.fieldPath");
    if version != "v1" {
        let why = format!("error converting fieldPath: unsupported pod version: {version}");
        return vec![invalid_text(field, label, &why)];
    }
    // A subscript selects one entry: `metadata.labels['KEY']`.
    let parts = label.strip_suffix("']").and_then(|start| start.split_once("['"));
    let parts = parts.filter(|(name, _)| !name.is_empty());
    let name = match (label, parts) {
        (_, Some((name, _))) => name,
        // The conversion maps this old name of the field to the new one.
        ("spec.host", None) => "spec.nodeName",
        (name, None) => name,
    };
    let is_known = match parts {
        Some((name, _)) => ["metadata.annotations", "metadata.labels"].contains(&name),
        None => LABELS.contains(&name),
    };
    if !is_known {
        let why = match parts {
            Some(_) => format!("error converting fieldPath: field label does not support subscript: {label}"),
            None => format!("error converting fieldPath: field label not supported: {label}"),
        };
        return vec![invalid_text(field, label, &why)];
    }
    if let Some((name, key)) = parts {
        // Like in annotations themselves, the case of a key does not matter.
        let key = if name == "metadata.annotations" { key.to_lowercase() } else { key.to_owned() };
        return invalid(path, &key, &names::qualified(&key));
    }
    let expressions: &[&str] = match of {
        ReferenceUse::Variable => &OF_VARIABLE,
        ReferenceUse::File => &OF_FILE,
    };
    if expressions.contains(&name) {
        return Vec::new();
    }
    vec![FieldError::not_supported(field, name, expressions)]
}

/// Validates a reference to an amount of a container. In a file, which belongs to the pod, it must name the container.
pub(super) fn amount_reference(reference: &Value, of: ReferenceUse, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let resource = text(reference, "resource");
    let is_huge = HUGE_PAGES.iter().any(|prefix| resource.starts_with(prefix));
    if of == ReferenceUse::File && text(reference, "containerName").is_empty() {
        errors.push(FieldError::required(format!("{path}.containerName"), ""));
    } else if resource.is_empty() {
        errors.push(FieldError::required(format!("{path}.resource"), ""));
    } else if !is_huge && !AMOUNTS.contains(&resource) {
        errors.push(FieldError::not_supported(format!("{path}.resource"), resource, &AMOUNTS));
    }
    errors.extend(divisor(reference, resource, is_huge, path));
    errors
}

fn divisor(reference: &Value, resource: &str, is_huge: bool, path: &str) -> Option<FieldError> {
    const OF_CPU: [&str; 2] = ["1m", "1"];
    const OF_BYTES: [&str; 13] =
        ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    // Zero is Go's absent quantity, and means the default divisor 1.
    let divisor = Quantity::read(reference["divisor"].as_str()?).filter(|divisor| !divisor.is_zero())?;
    let (allowed, of): (&[&str], &str) = match resource.split_once('.').map_or("", |(_, name)| name) {
        "cpu" => (&OF_CPU, "cpu"),
        "memory" => (&OF_BYTES, "memory"),
        "ephemeral-storage" => (&OF_BYTES, "local ephemeral storage"),
        _ if is_huge => (&OF_BYTES, "hugepages"),
        _ => return None,
    };
    if allowed.contains(&divisor.to_string().as_str()) {
        return None;
    }
    let values = if of == "cpu" { "1m and 1".to_owned() } else { OF_BYTES.join(", ") };
    let why = format!("only divisor's values {values} are supported with the {of} resource");
    Some(invalid_text(format!("{path}.divisor"), resource, &why))
}

/// Validates a reference to a key of a ConfigMap or a Secret.
fn key_reference(reference: &Value, path: &str) -> Vec<FieldError> {
    let (name, key) = (text(reference, "name"), text(reference, "key"));
    let mut errors = invalid(&format!("{path}.name"), name, &names::subdomain(name));
    match required(reference, "key", path) {
        Some(error) => errors.push(error),
        None => errors.extend(invalid(&format!("{path}.key"), key, &data_key(key))),
    }
    errors
}

/// Validates a reference to a variable in a file.
fn file_reference(reference: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut check =
        |field: &str, check: &dyn Fn(&str, &str) -> Vec<FieldError>| match required(reference, field, path) {
            Some(error) => errors.push(error),
            None => errors.extend(check(text(reference, field), &format!("{path}.{field}"))),
        };
    check("key", &|key, field| invalid(field, key, &variable_name(key)));
    check("volumeName", &|name, field| invalid(field, name, &names::label(name)));
    check("path", &|file, field| no_backsteps(file, field).into_iter().collect());
    errors
}
