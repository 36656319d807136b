//! Validation of Windows pods: options for Windows, and fields that only Linux pods may have.

use kube_apimachinery::go_struct::internal_text;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::CONTAINERS;
use crate::kinds::builtin::shared::field_checks::invalid_text;
use crate::kinds::builtin::shared::fields::list;

const MAX_CREDENTIALS_KIB: usize = 64;
/// Length that the domain of a user name must stay below. The next constant is the maximum length of the user's own name.
const MAX_DOMAIN: usize = 256;
const MAX_USER: usize = 104;
const MAX_NET_BIOS_DOMAIN: usize = 15;
const MAX_LABEL: usize = 63;
/// Fields that only Linux pods may have, each with its parent. kube-apiserver checks those of the spec and of the security context in this
/// order.
const POD_FIELDS: [(&str, &str); 15] = [
    ("securityContext.", "appArmorProfile"),
    ("securityContext.", "seLinuxOptions"),
    ("", "hostUsers"),
    ("", "hostPID"),
    ("", "hostIPC"),
    ("securityContext.", "seccompProfile"),
    ("securityContext.", "fsGroup"),
    ("securityContext.", "fsGroupChangePolicy"),
    ("securityContext.", "sysctls"),
    ("", "shareProcessNamespace"),
    ("securityContext.", "runAsUser"),
    ("securityContext.", "runAsGroup"),
    ("securityContext.", "supplementalGroups"),
    ("securityContext.", "supplementalGroupsPolicy"),
    ("securityContext.", "seLinuxChangePolicy"),
];
const CONTAINER_FIELDS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Returns all containers with their paths.
fn containers<'a>(spec: &'a Value, path: &'a str) -> impl Iterator<Item = (&'a Value, String)> {
    CONTAINERS.into_iter().flat_map(move |kind| {
        let containers = list(spec, kind).iter().enumerate();
        containers.map(move |(index, container)| (container, format!("{path}.{kind}[{index}]")))
    })
}

/// Refuses fields in the spec of a Windows pod that only Linux pods may have.
pub(super) fn linux_fields(spec: &Value, path: &str) -> Vec<FieldError> {
    let refuse = |field: String| FieldError::forbidden(field, "cannot be set for a windows pod");
    // In Go, these fields are not pointers, so false and the empty list mean absent.
    let is_set = |field: &str, value: &Value| match field {
        "hostPID" | "hostIPC" => *value == true,
        "sysctls" => value.as_array().is_some_and(|list| !list.is_empty()),
        _ => !value.is_null(),
    };
    let mut errors = Vec::new();
    for (parent, field) in POD_FIELDS {
        let fields = if parent.is_empty() { spec } else { &spec["securityContext"] };
        if is_set(field, &fields[field]) {
            errors.push(refuse(format!("{path}.{parent}{field}")));
        }
    }
    for (container, path) in containers(spec, path) {
        let set = CONTAINER_FIELDS.iter().filter(|field| !container["securityContext"][**field].is_null());
        errors.extend(set.map(|field| refuse(format!("{path}.securityContext.{field}"))));
    }
    errors
}

/// Checks that either all containers are host processes, or none is.
pub(super) fn host_processes(spec: &Value, path: &str) -> Vec<FieldError> {
    let of = |object: &Value| object["securityContext"]["windowsOptions"]["hostProcess"].as_bool();
    let of_pod = of(spec);
    let mut errors = Vec::new();
    let (mut count, mut processes) = (0, 0);
    for (container, path) in containers(spec, path) {
        count += 1;
        let own = of(container);
        if let (Some(of_pod), Some(own)) = (of_pod, own)
            && of_pod != own
        {
            let why = format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
            let field = format!("{path}.securityContext.windowsOptions.hostProcess");
            errors.push(FieldError::invalid(field, &own.to_string(), &why));
        }
        // A container inherits the pod's value.
        processes += usize::from(own.or(of_pod) == Some(true));
    }
    if processes == 0 {
        return errors;
    }
    if processes != count {
        let why =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(invalid_text(path, "", why));
    }
    if spec["hostNetwork"] != true {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(FieldError::invalid(format!("{path}.hostNetwork"), "false", why));
    }
    errors
}

/// Validates the options for Windows in the security context at `path`.
pub(super) fn options(context: &Value, path: &str) -> Vec<FieldError> {
    let options = &context["windowsOptions"];
    let given = |field: &str| options[field].as_str();
    // The fields are pointers, which Go's messages show as JSON.
    let refuse = |field: &str, why: &str| {
        let shown = internal_text("string", &options[field]);
        FieldError::invalid(format!("{path}.windowsOptions.{field}"), &shown, why)
    };
    let mut errors = Vec::new();
    if let Some(name) = given("gmsaCredentialSpecName") {
        errors.extend(names::subdomain(name).iter().map(|why| refuse("gmsaCredentialSpecName", why)));
    }
    if let Some(credentials) = given("gmsaCredentialSpec") {
        if credentials.is_empty() {
            errors.push(refuse("gmsaCredentialSpec", "gmsaCredentialSpec cannot be an empty string"));
        } else if credentials.len() > MAX_CREDENTIALS_KIB << 10 {
            let why = format!("gmsaCredentialSpec size must be under {MAX_CREDENTIALS_KIB} KiB");
            errors.push(refuse("gmsaCredentialSpec", &why));
        }
    }
    if let Some(name) = given("runAsUserName") {
        errors.extend(user_name(name).iter().map(|why| refuse("runAsUserName", why)));
    }
    errors
}

/// Returns the reasons why the name of a user, such as `domain\user`, is invalid.
fn user_name(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string".to_owned()];
    }
    // The first three rules exclude the others.
    if name.contains(|c: char| c.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters".to_owned()];
    }
    let (domain, user) = match name.split_once('\\') {
        Some((_, user)) if user.contains('\\') => {
            return vec!["runAsUserName cannot contain more than one backslash".to_owned()];
        }
        Some((domain, user)) => (Some(domain), user),
        None => (None, name),
    };
    let mut wrong = Vec::new();
    if let Some(domain) = domain {
        if domain.len() >= MAX_DOMAIN {
            wrong.push(format!("runAsUserName's Domain length must be under {MAX_DOMAIN} characters"));
        }
        if !is_net_bios_domain(domain) && !domain.split('.').all(is_label) {
            wrong.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned());
        }
    }
    if user.is_empty() {
        wrong.push("runAsUserName's User cannot be empty".to_owned());
    } else if user.len() > MAX_USER {
        wrong.push(format!("runAsUserName's User length must not be longer than {MAX_USER} characters"));
    }
    if !user.is_empty() && user.bytes().all(|byte| b". ".contains(&byte)) {
        wrong.push("runAsUserName's User cannot contain only periods or spaces".to_owned());
    }
    if user.contains(|c: char| "\"/\\:;|=,+*?<>@[]".contains(c)) {
        wrong.push(
            "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]".to_owned(),
        );
    }
    wrong
}

fn is_net_bios_domain(domain: &str) -> bool {
    let count = domain.chars().count();
    (1..=MAX_NET_BIOS_DOMAIN).contains(&count)
        && !domain.starts_with('.')
        && !domain.contains(|c: char| "\\/:*?\"<>|".contains(c))
}

/// Whether a text is a DNS label in upper or lower case.
fn is_label(label: &str) -> bool {
    let bytes = label.as_bytes();
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= MAX_LABEL
        && is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(errors: &[FieldError], expected: &[&str]) {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected);
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn names_of_users_are_validated() {
        let long = format!("{}\\u", "d".repeat(256));
        for (name, expected) in [
            ("", vec!["runAsUserName cannot be an empty string"]),
            ("a\u{1}", vec!["runAsUserName cannot contain control characters"]),
            ("a\\b\\c", vec!["runAsUserName cannot contain more than one backslash"]),
            ("a/b", vec!["runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"]),
            ("...", vec!["runAsUserName's User cannot contain only periods or spaces"]),
            ("d\\", vec!["runAsUserName's User cannot be empty"]),
            ("\\u", vec!["runAsUserName's Domain doesn't match the NetBios nor the DNS format"]),
            (
                &long,
                vec![
                    "runAsUserName's Domain length must be under 256 characters",
                    "runAsUserName's Domain doesn't match the NetBios nor the DNS format",
                ],
            ),
            ("dom.ain\\user", vec![]),
            ("d$\\u", vec![]),
        ] {
            assert_eq!(user_name(name), expected, "{name:?}");
        }
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn options_are_shown_as_json() {
        check(
            &options(&json!({"windowsOptions": {"runAsUserName": "a\u{1}"}}), "spec.securityContext"),
            &[
                "spec.securityContext.windowsOptions.runAsUserName: Invalid value: \"a\\u0001\": runAsUserName cannot contain control \
                 characters",
            ],
        );
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn pods_with_windows_have_no_fields_of_linux() {
        check(
            &linux_fields(
                &json!({
                    "hostPID": true, "hostIPC": false, "securityContext": {"fsGroup": 1},
                    "containers": [{"securityContext": {"runAsUser": 1}}],
                }),
                "spec.template.spec",
            ),
            &[
                "spec.template.spec.hostPID: Forbidden: cannot be set for a windows pod",
                "spec.template.spec.securityContext.fsGroup: Forbidden: cannot be set for a windows pod",
                "spec.template.spec.containers[0].securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
            ],
        );
    }

    /// Recorded from kube-apiserver v1.36.3, except for the error about the policy of the cluster.
    #[test]
    fn all_containers_are_processes_of_the_host_or_none() {
        check(
            &host_processes(
                &json!({
                    "hostNetwork": true,
                    "securityContext": {"windowsOptions": {"hostProcess": true}},
                    "initContainers": [{"securityContext": {"windowsOptions": {"hostProcess": false}}}],
                    "containers": [{}],
                }),
                "spec",
            ),
            &[
                "spec.initContainers[0].securityContext.windowsOptions.hostProcess: Invalid value: false: pod hostProcess value must \
                 be identical if both are specified, was true",
                "spec: Invalid value: \"\": If pod contains any hostProcess containers then all containers must be HostProcess \
                 containers",
            ],
        );
        check(
            &host_processes(
                &json!({"containers": [{"securityContext": {"windowsOptions": {"hostProcess": true}}}]}),
                "spec",
            ),
            &[
                "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers",
            ],
        );
    }
}
