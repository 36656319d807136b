//! Validation of security contexts.

use kube_apimachinery::go_struct::internal_text;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::{GatedValues, PodRules, windows_options};
use crate::kinds::builtin::shared::field_checks::{
    descending_path, duplicate, in_range, invalid_text, required, supported, too_long,
};
use crate::kinds::builtin::shared::fields::{list, text};

const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const MAX_ID: i64 = i32::MAX as i64;
/// Maximum length of the path of an AppArmor profile in bytes.
const MAX_PATH: usize = 4095;
/// Maximum length of the name of a kernel parameter in bytes.
const MAX_PARAMETER: usize = 253;
const PARAMETER: &str = "must have at most 253 characters and match regex \
    ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// Validates the security context of a container. Privileged containers are allowed, as in a kube-apiserver with `--allow-privileged`.
pub(super) fn of_container(pod: &PodRules<'_>, container: &Value, path: &str) -> Vec<FieldError> {
    let context = &container["securityContext"];
    let path = format!("{path}.securityContext");
    if context.is_null() {
        return Vec::new();
    }
    let mut errors: Vec<FieldError> = ids(context, &["runAsUser", "runAsGroup"], &path);
    errors.extend(supported(context, "procMount", &path, &["Default", "Unmasked"]));
    if context["procMount"] == "Unmasked" && pod.spec["hostUsers"] != false {
        let why = "`hostUsers` must be false to use `Unmasked`";
        errors.push(invalid_text(format!("{path}.procMount"), "Unmasked", why));
    }
    errors.extend(seccomp(context, &path));
    if context["allowPrivilegeEscalation"] == false {
        let mut refuse = |why: &str| {
            errors.push(FieldError::invalid(&*path, &internal_text("core.SecurityContext", context), why));
        };
        if context["privileged"] == true {
            refuse("cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
        }
        // kube-apiserver compares with this spelling only, and reports each occurrence.
        for _ in list(&context["capabilities"], "add").iter().filter(|name| **name == "CAP_SYS_ADMIN") {
            refuse("cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN");
        }
    }
    errors.extend(windows_options::options(context, &path));
    errors.extend(app_armor(context, &path));
    errors
}

fn ids(context: &Value, fields: &[&str], path: &str) -> Vec<FieldError> {
    let check = |field: &&str| {
        let number = context[*field].as_i64()?;
        in_range(number, 0, MAX_ID, format!("{path}.{field}"))
    };
    fields.iter().filter_map(check).collect()
}

fn seccomp(context: &Value, path: &str) -> Vec<FieldError> {
    let profile = &context["seccompProfile"];
    let path = format!("{path}.seccompProfile");
    if profile.is_null() {
        return Vec::new();
    }
    let mut errors = Vec::new();
    match text(profile, "type") {
        "" => {
            let why = "type is required when seccompProfile is set";
            errors.push(FieldError::required(format!("{path}.type"), why));
        }
        _ => errors.extend(supported(profile, "type", &path, &PROFILES)),
    }
    let field = format!("{path}.localhostProfile");
    match (text(profile, "type"), profile["localhostProfile"].as_str()) {
        ("Localhost", None) => {
            errors.push(FieldError::required(field, "must be set when seccomp type is Localhost"));
        }
        ("Localhost", Some(file)) => errors.extend(descending_path(file, &field)),
        (_, None) => {}
        (_, Some(_)) => {
            let why = "can only be set when seccomp type is Localhost";
            // kube-apiserver shows the whole profile.
            errors.push(FieldError::invalid(field, &internal_text("core.SeccompProfile", profile), why));
        }
    }
    errors
}

fn app_armor(context: &Value, path: &str) -> Vec<FieldError> {
    const MISSING: &str = "must be set when AppArmor type is Localhost";
    let profile = &context["appArmorProfile"];
    let path = format!("{path}.appArmorProfile");
    if profile.is_null() {
        return Vec::new();
    }
    let mut errors = Vec::new();
    let field = format!("{path}.localhostProfile");
    match (text(profile, "type"), profile["localhostProfile"].as_str()) {
        ("Localhost", None) => errors.push(FieldError::required(field, MISSING)),
        ("Localhost", Some(file)) => {
            if file.trim() != file {
                errors.push(invalid_text(&*field, file, "must not be padded with whitespace"));
            } else if file.is_empty() {
                errors.push(FieldError::required(&*field, MISSING));
            }
            if file.len() > MAX_PATH {
                errors.push(too_long(field, MAX_PATH));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(file)) => {
            errors.push(invalid_text(field, file, "can only be set when AppArmor type is Localhost"));
        }
        ("", _) => {
            let why = "type is required when appArmorProfile is set";
            errors.push(FieldError::required(format!("{path}.type"), why));
        }
        _ => errors.extend(supported(profile, "type", &path, &PROFILES)),
    }
    errors
}

/// Validates the security context of a pod.
pub(super) fn of_pod(spec: &Value, path: &str, gated: GatedValues) -> Vec<FieldError> {
    let context = &spec["securityContext"];
    let path = format!("{path}.securityContext");
    let mut errors = ids(context, &["fsGroup", "runAsUser", "runAsGroup"], &path);
    for (index, group) in list(context, "supplementalGroups").iter().enumerate() {
        let number = group.as_i64().unwrap_or_default();
        errors.extend(in_range(number, 0, MAX_ID, format!("{path}.supplementalGroups[{index}]")));
    }
    if spec["shareProcessNamespace"] == true && spec["hostPID"] == true {
        // In Go's internal type, this field is part of the security context.
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(FieldError::invalid(format!("{path}.shareProcessNamespace"), "true", why));
    }
    errors.extend(kernel_parameters(spec, &path));
    errors.extend(supported(context, "fsGroupChangePolicy", &path, &["Always", "OnRootMismatch"]));
    errors.extend(seccomp(context, &path));
    errors.extend(windows_options::options(context, &path));
    errors.extend(app_armor(context, &path));
    errors.extend(supported(context, "supplementalGroupsPolicy", &path, &["Merge", "Strict"]));
    let policies: &[&str] = if gated.mount_option { &["MountOption", "Recursive"] } else { &["Recursive"] };
    errors.extend(supported(context, "seLinuxChangePolicy", &path, policies));
    errors
}

fn kernel_parameters(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut names = std::collections::BTreeSet::new();
    for (index, parameter) in list(&spec["securityContext"], "sysctls").iter().enumerate() {
        let path = format!("{path}.sysctls[{index}]");
        let (name, field) = (text(parameter, "name"), format!("{path}.name"));
        match required(parameter, "name", &path) {
            Some(error) => errors.push(error),
            None if !is_parameter(name) => errors.push(invalid_text(&*field, name, PARAMETER)),
            None if names.contains(name) => errors.push(duplicate(&*field, name)),
            None => {}
        }
        names.insert(name);
        // The parts of a name are separated by dots or slashes.
        let name = name.replace('/', ".");
        let is_of_ipc =
            // These parameters belong to the IPC namespace; those that start with `net.` belong to the network namespace.
            ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|start| name.starts_with(start))
                || name == "kernel.sem";
        if spec["hostNetwork"] == true && name.starts_with("net.") {
            let why = "may not be specified when 'hostNetwork' is true";
            errors.push(invalid_text(field, text(parameter, "name"), why));
        } else if spec["hostIPC"] == true && is_of_ipc {
            let why = "may not be specified when 'hostIPC' is true";
            errors.push(invalid_text(field, text(parameter, "name"), why));
        }
    }
    errors
}

/// Whether a text has the form of a kernel parameter's name.
fn is_parameter(name: &str) -> bool {
    let is_edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(is_edge)
            && bytes.last().is_some_and(is_edge)
            && bytes.iter().all(|byte| is_edge(byte) || b"-_".contains(byte))
    };
    name.len() <= MAX_PARAMETER && name.split(['.', '/']).all(is_part)
}
