//! Checks of the pod security standards: pure functions of a pod's metadata and spec, in a table by level and version.

use serde_json::Value;

use super::security_policy::{Level, Standard, StandardVersion};
use super::{baseline_checks as baseline, restricted_checks as restricted};

/// A violation of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Violation {
    /// Short reason, such as `hostPort`.
    pub(super) reason: &'static str,
    /// Containers and values that violate the check.
    pub(super) detail: String,
}

/// A function that checks a pod.
type CheckFn = fn(&CheckedPod<'_>) -> Option<Violation>;

/// A check with the minor versions from which each of its forms holds.
struct Check {
    name: &'static str,
    forms: &'static [(u64, CheckFn)],
    /// Check of level `baseline` that this one replaces in level `restricted`.
    replaces: &'static str,
}

/// Minor version of the last change of a check. Later versions are equal to it.
const LAST_CHANGE: u64 = 35;

/// Checks of level `baseline`, by name: violations are reported in this order, and before those of [`RESTRICTED`].
const BASELINE: [Check; 12] = [
    Check { name: "appArmorProfile", forms: &[(0, baseline::app_armor_profile)], replaces: "" },
    Check { name: "capabilities_baseline", forms: &[(0, baseline::capabilities)], replaces: "" },
    Check { name: "hostNamespaces", forms: &[(0, baseline::host_namespaces)], replaces: "" },
    Check { name: "hostPathVolumes", forms: &[(0, baseline::host_path_volumes)], replaces: "" },
    Check { name: "hostPorts", forms: &[(0, baseline::host_ports)], replaces: "" },
    Check { name: "hostProbesAndHostLifecycle", forms: &[(34, baseline::host_probes)], replaces: "" },
    Check { name: "privileged", forms: &[(0, baseline::privileged)], replaces: "" },
    Check {
        name: "procMount",
        forms: &[(0, baseline::proc_mount), (35, baseline::proc_mount_without_user_namespace)],
        replaces: "",
    },
    Check {
        name: "seLinuxOptions",
        forms: &[(0, baseline::se_linux_options), (31, baseline::se_linux_options_with_engine)],
        replaces: "",
    },
    Check {
        name: "seccompProfile_baseline",
        forms: &[(0, baseline::seccomp_annotations), (19, baseline::seccomp_profile)],
        replaces: "",
    },
    Check {
        name: "sysctls",
        forms: &[
            (0, baseline::sysctls),
            (27, baseline::sysctls_with_reserved_ports),
            (29, baseline::sysctls_with_keepalive),
            (32, baseline::sysctls_with_buffers),
        ],
        replaces: "",
    },
    Check { name: "windowsHostProcess", forms: &[(0, baseline::windows_host_process)], replaces: "" },
];

/// Checks that level `restricted` has in addition, by name.
const RESTRICTED: [Check; 7] = [
    Check {
        name: "allowPrivilegeEscalation",
        forms: &[
            (8, restricted::allow_privilege_escalation),
            (25, restricted::allow_privilege_escalation_on_linux),
        ],
        replaces: "",
    },
    Check {
        name: "capabilities_restricted",
        forms: &[(22, restricted::capabilities), (25, restricted::capabilities_on_linux)],
        replaces: "capabilities_baseline",
    },
    Check { name: "procMount_restricted", forms: &[(35, baseline::proc_mount)], replaces: "procMount" },
    Check { name: "restrictedVolumes", forms: &[(0, restricted::volumes)], replaces: "hostPathVolumes" },
    Check {
        name: "runAsNonRoot",
        forms: &[(0, restricted::run_as_non_root), (35, restricted::run_as_non_root_without_user_namespace)],
        replaces: "",
    },
    Check {
        name: "runAsUser",
        forms: &[(23, restricted::run_as_user), (35, restricted::run_as_user_without_user_namespace)],
        replaces: "",
    },
    Check {
        name: "seccompProfile_restricted",
        forms: &[(19, restricted::seccomp_profile), (25, restricted::seccomp_profile_on_linux)],
        replaces: "seccompProfile_baseline",
    },
];

/// Returns the violations of a standard, in the order in which they are reported.
pub(super) fn violations(standard: Standard, pod: &CheckedPod<'_>) -> Vec<Violation> {
    let minor = match standard.version {
        StandardVersion::Minor(minor) => minor.min(LAST_CHANGE),
        StandardVersion::Latest => LAST_CHANGE,
    };
    let form =
        |check: &Check| check.forms.iter().rev().find(|(from, _)| *from <= minor).map(|(_, form)| *form);
    let restricted = RESTRICTED.iter().filter(|_| standard.level == Level::Restricted);
    let replaced: Vec<&str> =
        restricted.clone().filter(|check| form(check).is_some()).map(|check| check.replaces).collect();
    let baseline = BASELINE
        .iter()
        .filter(|check| standard.level != Level::Privileged && !replaced.contains(&check.name));
    baseline.chain(restricted).filter_map(form).filter_map(|check| check(pod)).collect()
}

/// A pod or the pod template of a workload.
#[derive(Clone, Copy)]
pub(super) struct CheckedPod<'a> {
    pub(super) metadata: &'a Value,
    pub(super) spec: &'a Value,
}

impl<'a> CheckedPod<'a> {
    /// Returns the pod in an object with `metadata` and `spec`.
    pub(super) fn of(object: &'a Value) -> Self {
        Self { metadata: &object["metadata"], spec: &object["spec"] }
    }

    /// Iterates over the init containers, the containers, and the ephemeral containers.
    pub(super) fn containers(self) -> impl Iterator<Item = &'a Value> {
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(move |list| elements(self.spec, list))
    }

    /// Returns the names of the containers for which `is_bad` holds.
    pub(super) fn names(self, is_bad: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(|container| is_bad(container)).map(name).collect()
    }

    pub(super) fn is_windows(self) -> bool {
        self.spec["os"]["name"] == "windows"
    }

    /// Whether the users of the pod are not those of the host, so that root has fewer rights.
    pub(super) fn has_user_namespace(self) -> bool {
        self.spec["hostUsers"] == false
    }
}

/// Iterates over a list, which may be absent.
pub(super) fn elements<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object[field].as_array().into_iter().flatten()
}

/// Returns the name of a container or a volume.
pub(super) fn name(object: &Value) -> &str {
    object["name"].as_str().unwrap_or_default()
}

/// Quotes texts without escaping them, and joins them with commas.
pub(super) fn quoted<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| format!("\"{}\"", text.as_ref())).collect();
    texts.join(", ")
}

pub(super) fn plural<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { many }
}

/// Formats `container "a"` or `containers "a", "b"`.
pub(super) fn containers(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names))
}

/// Formats the setters of a value: the pod, containers, or both. `None` if there are none.
pub(super) fn setters(is_pod: bool, names: &[&str]) -> Option<String> {
    let containers = (!names.is_empty()).then(|| containers(names));
    let setters: Vec<String> = is_pod.then(|| "pod".to_owned()).into_iter().chain(containers).collect();
    (!setters.is_empty()).then(|| setters.join(" and "))
}
