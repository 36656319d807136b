//! Checks of level `baseline`, which prevent known ways to gain privileges.

use std::collections::BTreeSet;

use kube_apimachinery::go;
use serde_json::Value;

use super::security_checks::{CheckedPod, Violation, containers, elements, name, plural, quoted, setters};

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
/// Types of SELinux contexts that containers may have, the last one from version 1.31 on.
const SE_LINUX_TYPES: [&str; 5] =
    ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];
/// Sysctls that are separate for each pod, in the order in which versions added them.
const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    // From version 1.27 on.
    "net.ipv4.ip_local_reserved_ports",
    // From version 1.29 on.
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    // From version 1.32 on.
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

pub(super) fn app_armor_profile(pod: &CheckedPod<'_>) -> Option<Violation> {
    let forbidden = |profile: &Value| {
        profile.is_object() && !["RuntimeDefault", "Localhost"].contains(&text(&profile["type"]))
    };
    let mut values = BTreeSet::new();
    let (is_pod, names) = by_setter(pod, "appArmorProfile", |profile| {
        let is_forbidden = forbidden(profile);
        if is_forbidden {
            values.insert(text(&profile["type"]).to_owned());
        }
        is_forbidden
    });
    let is_allowed =
        |profile: &str| matches!(profile, "" | "runtime/default") || profile.starts_with("localhost/");
    let annotations: BTreeSet<String> = pod.metadata["annotations"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, value)| key.starts_with(APP_ARMOR) && !is_allowed(text(value)))
        .map(|(key, value)| format!("{key}={}", go::quote(text(value))))
        .collect();
    let annotated =
        (!annotations.is_empty()).then(|| plural("annotation", "annotations", annotations.len()).to_owned());
    let setters: Vec<String> = setters(is_pod, &names).into_iter().chain(annotated).collect();
    if setters.is_empty() {
        return None;
    }
    let values: Vec<String> = values.into_iter().chain(annotations).collect();
    Some(Violation {
        reason: plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len()),
        detail: format!("{} must not set AppArmor profile type to {}", setters.join(" and "), quoted(values)),
    })
}

pub(super) fn capabilities(pod: &CheckedPod<'_>) -> Option<Violation> {
    let mut values = BTreeSet::new();
    let names = added_capabilities(pod, &CAPABILITIES, &mut values);
    (!names.is_empty()).then(|| Violation {
        reason: "non-default capabilities",
        detail: format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&names),
            quoted(values)
        ),
    })
}

/// Returns the containers that add other capabilities than the allowed ones, and collects these capabilities.
pub(super) fn added_capabilities<'a>(
    pod: &CheckedPod<'a>,
    allowed: &[&str],
    values: &mut BTreeSet<&'a str>,
) -> Vec<&'a str> {
    let mut names = Vec::new();
    for container in pod.containers() {
        let added = elements(&container["securityContext"]["capabilities"], "add").map(text);
        let forbidden: Vec<&str> = added.filter(|capability| !allowed.contains(capability)).collect();
        if !forbidden.is_empty() {
            names.push(name(container));
            values.extend(forbidden);
        }
    }
    names
}

pub(super) fn host_namespaces(pod: &CheckedPod<'_>) -> Option<Violation> {
    let fields = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|field| pod.spec[field] == true);
    let fields: Vec<String> = fields.map(|field| format!("{field}=true")).collect();
    (!fields.is_empty()).then(|| Violation { reason: "host namespaces", detail: fields.join(", ") })
}

pub(super) fn host_path_volumes(pod: &CheckedPod<'_>) -> Option<Violation> {
    let volumes = elements(pod.spec, "volumes").filter(|volume| !volume["hostPath"].is_null());
    let names: Vec<&str> = volumes.map(name).collect();
    (!names.is_empty()).then(|| Violation {
        reason: "hostPath volumes",
        detail: format!("{} {}", plural("volume", "volumes", names.len()), quoted(&names)),
    })
}

pub(super) fn host_ports(pod: &CheckedPod<'_>) -> Option<Violation> {
    // kube-apiserver sorts the ports as strings.
    let mut ports = BTreeSet::new();
    let mut names = Vec::new();
    for container in pod.containers() {
        let own = elements(container, "ports").filter_map(|port| port["hostPort"].as_i64());
        let own: Vec<String> = own.filter(|port| *port != 0).map(|port| port.to_string()).collect();
        if !own.is_empty() {
            names.push(name(container));
            ports.extend(own);
        }
    }
    (!names.is_empty()).then(|| Violation {
        reason: "hostPort",
        detail: format!(
            "{} {} {} {}",
            containers(&names),
            plural("uses", "use", names.len()),
            plural("hostPort", "hostPorts", ports.len()),
            ports.into_iter().collect::<Vec<_>>().join(", ")
        ),
    })
}

pub(super) fn host_probes(pod: &CheckedPod<'_>) -> Option<Violation> {
    const HANDLERS: [&str; 5] =
        ["/livenessProbe", "/readinessProbe", "/startupProbe", "/lifecycle/postStart", "/lifecycle/preStop"];
    // Containers are sorted here, too.
    let (mut names, mut hosts) = (BTreeSet::new(), BTreeSet::new());
    for container in pod.containers() {
        for handler in HANDLERS.iter().filter_map(|path| container.pointer(path)) {
            let set = ["httpGet", "tcpSocket"].map(|kind| text(&handler[kind]["host"]));
            for host in set.into_iter().filter(|host| !host.is_empty()) {
                names.insert(name(container));
                hosts.insert(host);
            }
        }
    }
    let names: Vec<&str> = names.into_iter().collect();
    (!names.is_empty()).then(|| Violation {
        reason: "probe or lifecycle host",
        detail: format!(
            "{} {} {} {}",
            containers(&names),
            plural("uses", "use", names.len()),
            plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len()),
            quoted(hosts)
        ),
    })
}

pub(super) fn privileged(pod: &CheckedPod<'_>) -> Option<Violation> {
    let names = pod.names(|container| container["securityContext"]["privileged"] == true);
    (!names.is_empty()).then(|| Violation {
        reason: "privileged",
        detail: format!("{} must not set securityContext.privileged=true", containers(&names)),
    })
}

pub(super) fn proc_mount(pod: &CheckedPod<'_>) -> Option<Violation> {
    let mut values = BTreeSet::new();
    let mut names = Vec::new();
    for container in pod.containers() {
        let mount = container["securityContext"]["procMount"].as_str();
        if let Some(mount) = mount.filter(|mount| *mount != "Default") {
            names.push(name(container));
            values.insert(mount);
        }
    }
    (!names.is_empty()).then(|| Violation {
        reason: "procMount",
        detail: format!(
            "{} must not set securityContext.procMount to {}",
            containers(&names),
            quoted(values)
        ),
    })
}

pub(super) fn proc_mount_without_user_namespace(pod: &CheckedPod<'_>) -> Option<Violation> {
    if pod.has_user_namespace() { None } else { proc_mount(pod) }
}

pub(super) fn se_linux_options(pod: &CheckedPod<'_>) -> Option<Violation> {
    check_se_linux_options(pod, &SE_LINUX_TYPES[..4])
}

pub(super) fn se_linux_options_with_engine(pod: &CheckedPod<'_>) -> Option<Violation> {
    check_se_linux_options(pod, &SE_LINUX_TYPES)
}

fn check_se_linux_options(pod: &CheckedPod<'_>, allowed: &[&str]) -> Option<Violation> {
    let mut types = BTreeSet::new();
    let (mut sets_user, mut sets_role) = (false, false);
    let (is_pod, names) = by_setter(pod, "seLinuxOptions", |options| {
        let kind = text(&options["type"]);
        let is_forbidden = !allowed.contains(&kind);
        if is_forbidden {
            types.insert(kind.to_owned());
        }
        let (user, role) = (!text(&options["user"]).is_empty(), !text(&options["role"]).is_empty());
        sets_user |= user;
        sets_role |= role;
        is_forbidden || user || role
    });
    let setters = setters(is_pod, &names)?;
    let types =
        (!types.is_empty()).then(|| format!("{} {}", plural("type", "types", types.len()), quoted(&types)));
    let user = sets_user.then(|| "user may not be set".to_owned());
    let role = sets_role.then(|| "role may not be set".to_owned());
    let data: Vec<String> = [types, user, role].into_iter().flatten().collect();
    Some(Violation {
        reason: "seLinuxOptions",
        detail: format!("{setters} set forbidden securityContext.seLinuxOptions: {}", data.join("; ")),
    })
}

/// Versions before 1.19 check annotations, because the fields of profiles did not exist.
pub(super) fn seccomp_annotations(pod: &CheckedPod<'_>) -> Option<Violation> {
    let is_allowed = |profile: &str| {
        matches!(profile, "runtime/default" | "docker/default") || profile.starts_with("localhost/")
    };
    let of_containers =
        pod.containers().map(|container| format!("{SECCOMP_OF_CONTAINER}{}", name(container)));
    let forbidden: BTreeSet<String> = [SECCOMP_OF_POD.to_owned()]
        .into_iter()
        .chain(of_containers)
        .filter_map(|key| {
            let profile = pod.metadata["annotations"][&key].as_str()?;
            (!is_allowed(profile)).then(|| format!("{key}={}", go::quote(profile)))
        })
        .collect();
    (!forbidden.is_empty()).then(|| Violation {
        reason: "seccompProfile",
        detail: format!(
            "forbidden {} {}",
            plural("annotation", "annotations", forbidden.len()),
            forbidden.into_iter().collect::<Vec<_>>().join(", ")
        ),
    })
}

pub(super) fn seccomp_profile(pod: &CheckedPod<'_>) -> Option<Violation> {
    let mut values = BTreeSet::new();
    let (is_pod, names) = by_setter(pod, "seccompProfile", |profile| {
        let kind = text(&profile["type"]);
        let is_forbidden = !["Localhost", "RuntimeDefault"].contains(&kind);
        if is_forbidden {
            values.insert(kind.to_owned());
        }
        is_forbidden
    });
    let setters = setters(is_pod, &names)?;
    Some(Violation {
        reason: "seccompProfile",
        detail: format!("{setters} must not set securityContext.seccompProfile.type to {}", quoted(values)),
    })
}

pub(super) fn sysctls(pod: &CheckedPod<'_>) -> Option<Violation> {
    check_sysctls(pod, &SYSCTLS[..5])
}

pub(super) fn sysctls_with_reserved_ports(pod: &CheckedPod<'_>) -> Option<Violation> {
    check_sysctls(pod, &SYSCTLS[..6])
}

pub(super) fn sysctls_with_keepalive(pod: &CheckedPod<'_>) -> Option<Violation> {
    check_sysctls(pod, &SYSCTLS[..10])
}

pub(super) fn sysctls_with_buffers(pod: &CheckedPod<'_>) -> Option<Violation> {
    check_sysctls(pod, &SYSCTLS)
}

fn check_sysctls(pod: &CheckedPod<'_>, allowed: &[&str]) -> Option<Violation> {
    let sysctls = elements(&pod.spec["securityContext"], "sysctls").map(name);
    let forbidden: Vec<&str> = sysctls.filter(|sysctl| !allowed.contains(sysctl)).collect();
    (!forbidden.is_empty()).then(|| Violation { reason: "forbidden sysctls", detail: forbidden.join(", ") })
}

pub(super) fn windows_host_process(pod: &CheckedPod<'_>) -> Option<Violation> {
    let (is_pod, names) = by_setter(pod, "windowsOptions", |options| options["hostProcess"] == true);
    let setters = setters(is_pod, &names)?;
    Some(Violation {
        reason: "hostProcess",
        detail: format!("{setters} must not set securityContext.windowsOptions.hostProcess=true"),
    })
}

/// Applies a condition to a field of the security contexts of the pod and of its containers. Returns whether it holds for the pod, and the
/// containers for which it holds.
pub(super) fn by_setter<'a>(
    pod: &CheckedPod<'a>,
    field: &str,
    mut is_bad: impl FnMut(&Value) -> bool,
) -> (bool, Vec<&'a str>) {
    let mut holds = |object: &Value| {
        let value = &object["securityContext"][field];
        !value.is_null() && is_bad(value)
    };
    let is_pod = holds(pod.spec);
    (is_pod, pod.containers().filter(|container| holds(container)).map(name).collect())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
