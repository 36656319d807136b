//! Checks that level `restricted` has in addition: current best practice for the hardening of pods.

use std::collections::BTreeSet;

use super::baseline_checks::{self, added_capabilities, by_setter};
use super::security_checks::{CheckedPod, Violation, containers, elements, name, plural, quoted, setters};

/// Volumes that every pod may have.
const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];
/// Other volumes; the first one that is set counts.
const RESTRICTED_VOLUMES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

pub(super) fn allow_privilege_escalation(pod: &CheckedPod<'_>) -> Option<Violation> {
    let names = pod.names(|container| container["securityContext"]["allowPrivilegeEscalation"] != false);
    (!names.is_empty()).then(|| Violation {
        reason: "allowPrivilegeEscalation != false",
        detail: format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&names)),
    })
}

pub(super) fn allow_privilege_escalation_on_linux(pod: &CheckedPod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { allow_privilege_escalation(pod) }
}

pub(super) fn capabilities(pod: &CheckedPod<'_>) -> Option<Violation> {
    let keeping = pod.names(|container| {
        let mut dropped = elements(&container["securityContext"]["capabilities"], "drop");
        !dropped.any(|capability| capability == "ALL")
    });
    let mut values = BTreeSet::new();
    let adding = added_capabilities(pod, &["NET_BIND_SERVICE"], &mut values);
    let kept = (!keeping.is_empty())
        .then(|| format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keeping)));
    let added = (!adding.is_empty()).then(|| {
        format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&adding),
            quoted(values)
        )
    });
    let details: Vec<String> = [kept, added].into_iter().flatten().collect();
    (!details.is_empty())
        .then(|| Violation { reason: "unrestricted capabilities", detail: details.join("; ") })
}

pub(super) fn capabilities_on_linux(pod: &CheckedPod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { capabilities(pod) }
}

pub(super) fn volumes(pod: &CheckedPod<'_>) -> Option<Violation> {
    let mut kinds = BTreeSet::new();
    let mut names = Vec::new();
    for volume in elements(pod.spec, "volumes") {
        let has = |kind: &&str| !volume[*kind].is_null();
        if !VOLUMES.iter().any(has) {
            names.push(name(volume));
            // A pod cannot have volumes without a source; a template of an older release may.
            kinds.insert(RESTRICTED_VOLUMES.into_iter().find(has).unwrap_or("unknown"));
        }
    }
    (!names.is_empty()).then(|| Violation {
        reason: "restricted volume types",
        detail: format!(
            "{} {} {} {} {}",
            plural("volume", "volumes", names.len()),
            quoted(&names),
            plural("uses", "use", names.len()),
            plural("restricted volume type", "restricted volume types", kinds.len()),
            quoted(kinds)
        ),
    })
}

pub(super) fn run_as_non_root(pod: &CheckedPod<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    let (is_pod, names) = by_setter(pod, "runAsNonRoot", |value| *value == false);
    if let Some(setters) = setters(is_pod, &names) {
        let detail = format!("{setters} must not set securityContext.runAsNonRoot=false");
        return Some(Violation { reason: REASON, detail });
    }
    if pod.spec["securityContext"]["runAsNonRoot"] == true {
        return None;
    }
    let names = pod.names(|container| container["securityContext"]["runAsNonRoot"].is_null());
    (!names.is_empty()).then(|| Violation {
        reason: REASON,
        detail: format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&names)),
    })
}

pub(super) fn run_as_non_root_without_user_namespace(pod: &CheckedPod<'_>) -> Option<Violation> {
    if pod.has_user_namespace() { None } else { run_as_non_root(pod) }
}

pub(super) fn run_as_user(pod: &CheckedPod<'_>) -> Option<Violation> {
    let (is_pod, names) = by_setter(pod, "runAsUser", |value| *value == 0);
    let setters = setters(is_pod, &names)?;
    Some(Violation { reason: "runAsUser=0", detail: format!("{setters} must not set runAsUser=0") })
}

pub(super) fn run_as_user_without_user_namespace(pod: &CheckedPod<'_>) -> Option<Violation> {
    if pod.has_user_namespace() { None } else { run_as_user(pod) }
}

/// A profile must be set. If there are forbidden profiles, they are reported as in level
/// `baseline`, without missing ones.
pub(super) fn seccomp_profile(pod: &CheckedPod<'_>) -> Option<Violation> {
    if let Some(forbidden) = baseline_checks::seccomp_profile(pod) {
        return Some(forbidden);
    }
    if !pod.spec["securityContext"]["seccompProfile"].is_null() {
        return None;
    }
    let names = pod.names(|container| container["securityContext"]["seccompProfile"].is_null());
    (!names.is_empty()).then(|| Violation {
        reason: "seccompProfile",
        detail: format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            containers(&names)
        ),
    })
}

pub(super) fn seccomp_profile_on_linux(pod: &CheckedPod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { seccomp_profile(pod) }
}
