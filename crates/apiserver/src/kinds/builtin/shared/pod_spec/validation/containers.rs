//! Validation of the containers of a pod.

use std::collections::BTreeSet;

use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::container_resources::{self, ResourceOwner};
use super::handlers;
use super::{PULL_POLICIES, PodRules, environment, security, volume_mounts};
use crate::kinds::builtin::shared::field_checks::{
    duplicate, invalid_text, not_found, port_name, port_number, required, supported, too_many,
};
use crate::kinds::builtin::shared::fields::{list, text};
use crate::kinds::builtin::shared::label_selector::invalid;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
/// Fields that ephemeral containers cannot have, in the order of Go's struct, in which kube-apiserver checks them.
const NOT_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Validates the regular containers of a pod.
pub(super) fn regular(pod: &PodRules<'_>, path: &str) -> Vec<FieldError> {
    let containers = list(pod.spec, "containers");
    let path = format!("{path}.containers");
    if containers.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let mut errors = Vec::new();
    let mut names = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let path = format!("{path}[{index}]");
        errors.extend(common(pod, container, &path));
        let name = text(container, "name");
        if !names.insert(name) {
            errors.push(duplicate(format!("{path}.name"), name));
        }
        errors.extend(handlers::validate(pod, container, &path));
        errors.extend(restart_policy(container, &path));
    }
    errors.extend(host_ports(containers, &path));
    errors
}

/// Validates the init containers of a pod.
pub(super) fn init(pod: &PodRules<'_>, path: &str) -> Vec<FieldError> {
    let path = format!("{path}.initContainers");
    let mut names: BTreeSet<&str> =
        list(pod.spec, "containers").iter().map(|container| text(container, "name")).collect();
    let mut errors = Vec::new();
    for (index, container) in list(pod.spec, "initContainers").iter().enumerate() {
        let list_path = &path;
        let path = format!("{path}[{index}]");
        errors.extend(common(pod, container, &path));
        errors.extend(restart_policy(container, &path));
        let name = text(container, "name");
        // As in kube-apiserver, several init containers may lack a name without being duplicates, but not beside a regular container that
        // lacks one.
        if names.contains(name) {
            errors.push(duplicate(format!("{path}.name"), name));
        } else if !name.is_empty() {
            names.insert(name);
        }
        // Init containers run one after the other, so they may share host ports. kube-apiserver passes a list with this container only, so
        // its path always has the index 0.
        errors.extend(host_ports(std::slice::from_ref(container), list_path));
        let restarts = container["restartPolicy"] == "Always";
        if restarts {
            errors.extend(handlers::validate(pod, container, &path));
        } else {
            for field in ["lifecycle"].iter().chain(&PROBES).filter(|field| !container[**field].is_null()) {
                let why = "may not be set for init containers without restartPolicy=Always";
                errors.push(FieldError::forbidden(format!("{path}.{field}"), why));
            }
            for (index, policy) in list(container, "resizePolicy").iter().enumerate() {
                if policy["restartPolicy"] == "RestartContainer" {
                    let field = format!("{path}.resizePolicy[{index}].restartPolicy");
                    let why = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                    errors.push(invalid_text(field, "RestartContainer", why));
                }
            }
        }
    }
    errors
}

/// Validates the ephemeral containers of a pod.
pub(super) fn ephemeral(pod: &PodRules<'_>, path: &str) -> Vec<FieldError> {
    const WHY: &str = "cannot be set for an Ephemeral Container";
    let lists = ["containers", "initContainers"].map(|kind| list(pod.spec, kind));
    let others: BTreeSet<&str> =
        lists.into_iter().flatten().map(|container| text(container, "name")).collect();
    let mut names = others.clone();
    let mut errors = Vec::new();
    for (index, container) in list(pod.spec, "ephemeralContainers").iter().enumerate() {
        let path = format!("{path}.ephemeralContainers[{index}]");
        errors.extend(common(pod, container, &path));
        errors.extend(padded_image(container, &path));
        let name = text(container, "name");
        if !names.insert(name) {
            errors.push(duplicate(format!("{path}.name"), name));
        }
        let target = text(container, "targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.push(not_found(format!("{path}.targetContainerName"), target));
        }
        // In Go the lifecycle is a pointer, so an empty one counts as set, too.
        let is_set = |field: &str| {
            has_content(&container[field]) || field == "lifecycle" && !container[field].is_null()
        };
        for field in NOT_EPHEMERAL.iter().filter(|field| is_set(field)) {
            errors.push(FieldError::forbidden(format!("{path}.{field}"), WHY));
        }
        for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"].iter().filter(|field| !text(mount, field).is_empty()) {
                let field = format!("{path}.volumeMounts[{index}].{field}");
                errors.push(FieldError::forbidden(field, WHY));
            }
        }
    }
    errors
}

/// Whether a field has another value than Go's empty struct.
fn has_content(value: &Value) -> bool {
    match value {
        Value::Object(fields) => !fields.values().all(Value::is_null),
        other => !other.is_null(),
    }
}

/// Checks that an image has no surrounding whitespace. kube-apiserver checks this in pods, but not in templates.
pub(super) fn padded_image(container: &Value, path: &str) -> Option<FieldError> {
    let image = text(container, "image");
    let why = "must not have leading or trailing whitespace";
    (image.trim() != image).then(|| invalid_text(format!("{path}.image"), image, why))
}

/// Validates the fields that all kinds of containers share.
fn common(pod: &PodRules<'_>, container: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = text(container, "name");
    match required(container, "name", path) {
        Some(error) => errors.push(error),
        None => errors.extend(invalid(&format!("{path}.name"), name, &names::label(name))),
    }
    errors.extend(required(container, "image", path));
    errors.extend(supported(container, "terminationMessagePolicy", path, &["File", "FallbackToLogsOnError"]));
    errors.extend(ports(container, path));
    errors.extend(environment::variables(container, path));
    errors.extend(environment::variable_sources(container, path));
    errors.extend(volume_mounts::validate(pod, container, path));
    errors.extend(supported(container, "imagePullPolicy", path, &PULL_POLICIES));
    let field = format!("{path}.resources");
    errors.extend(container_resources::validate(
        &container["resources"],
        ResourceOwner::Container,
        &pod.claims,
        &field,
    ));
    errors.extend(resize_policies(pod, container, &format!("{path}.resizePolicy")));
    errors.extend(security::of_container(pod, container, path));
    errors
}

fn ports(container: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut names = BTreeSet::new();
    for (index, port) in list(container, "ports").iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        let name = text(port, "name");
        if !name.is_empty() {
            let wrong = port_name(name);
            let field = format!("{path}.name");
            if wrong.is_empty() && !names.insert(name) {
                errors.push(duplicate(&*field, name));
            }
            errors.extend(invalid(&field, name, &wrong));
        }
        let field = format!("{path}.containerPort");
        // In Go, the number is not a pointer, so zero means absent.
        match port["containerPort"].as_i64().unwrap_or_default() {
            0 => errors.push(FieldError::required(field, "")),
            number => errors.extend(port_number(number, field)),
        }
        let on_host = port["hostPort"].as_i64().filter(|number| *number != 0);
        errors.extend(on_host.and_then(|number| port_number(number, format!("{path}.hostPort"))));
        errors.extend(supported(port, "protocol", &path, &PROTOCOLS));
    }
    errors
}

/// Checks that containers use different host ports.
fn host_ports(containers: &[Value], path: &str) -> Vec<FieldError> {
    let mut used = BTreeSet::new();
    let mut errors = Vec::new();
    for (container, value) in containers.iter().enumerate() {
        for (index, port) in list(value, "ports").iter().enumerate() {
            let Some(number) = port["hostPort"].as_i64().filter(|number| *number != 0) else { continue };
            // kube-apiserver shows this text as the repeated value.
            let key = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
            if !used.insert(key.clone()) {
                errors.push(duplicate(format!("{path}[{container}].ports[{index}].hostPort"), &key));
            }
        }
    }
    errors
}

fn resize_policies(pod: &PodRules<'_>, container: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut names = BTreeSet::new();
    for (index, policy) in list(container, "resizePolicy").iter().enumerate() {
        let (resource, restart) = (text(policy, "resourceName"), text(policy, "restartPolicy"));
        if !names.insert(resource) {
            errors.push(duplicate(format!("{path}[{index}]"), resource));
        }
        // kube-apiserver's paths lack the index.
        let mut check = |value: &str, supported: &[&str]| match value {
            "" => errors.push(FieldError::required(path, "")),
            value if supported.contains(&value) => {}
            value => errors.push(FieldError::not_supported(path, value, supported)),
        };
        check(resource, &["cpu", "memory"]);
        check(restart, &["NotRequired", "RestartContainer"]);
        if pod.spec["restartPolicy"] == "Never" && restart != "NotRequired" {
            let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(invalid_text(path, restart, why));
        }
    }
    errors
}

/// Validates the restart policy of a container, and the rules that refine it.
fn restart_policy(container: &Value, path: &str) -> Vec<FieldError> {
    let field = format!("{path}.restartPolicy");
    let rules = list(container, "restartPolicyRules");
    let mut errors = Vec::new();
    if container["restartPolicy"].is_null() {
        if rules.is_empty() {
            return errors;
        }
        errors.push(FieldError::required(field, "must specify restartPolicy when restart rules are used"));
        // For init containers, kube-apiserver stops here.
        if path.contains(".initContainers[") {
            return errors;
        }
    }
    errors.extend(supported(container, "restartPolicy", path, &["Always", "Never", "OnFailure"]));
    if rules.len() > 20 {
        errors.push(too_many(format!("{path}.restartPolicyRules"), rules.len(), 20));
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("{path}.restartPolicyRules[{index}]");
        let actions = ["Restart", "RestartAllContainers"];
        if !actions.contains(&text(rule, "action")) {
            let field = format!("{path}.action");
            errors.push(FieldError::not_supported(field, text(rule, "action"), &actions));
        }
        let codes = &rule["exitCodes"];
        let path = format!("{path}.exitCodes");
        if codes.is_null() {
            errors.push(FieldError::required(path, "must be specified"));
            continue;
        }
        let operators = ["In", "NotIn"];
        if !operators.contains(&text(codes, "operator")) {
            let field = format!("{path}.operator");
            errors.push(FieldError::not_supported(field, text(codes, "operator"), &operators));
        }
        let count = list(codes, "values").len();
        if count > 255 {
            errors.push(too_many(format!("{path}.values"), count, 255));
        }
    }
    errors
}
