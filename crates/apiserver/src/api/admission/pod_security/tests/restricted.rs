//! Checks of level `restricted`.

use serde_json::json;

use super::{check, pod};

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn a_plain_pod_is_not_restricted() {
    check("restricted:latest", &pod(&json!({})), "");
    check(
        "restricted:latest",
        &json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}),
        r#"allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#,
    );
    check("baseline:latest", &json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}), "");
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn seccomp_profiles_are_required() {
    check(
        "restricted:latest",
        &pod(&json!({"spec": {"securityContext": {"seccompProfile": null}}})),
        r#"seccompProfile (pod or containers "a", "b" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#,
    );
    check(
        "restricted:latest",
        &pod(
            &json!({"spec": {"securityContext": {"seccompProfile": null}}, "a": {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "x"}}}}),
        ),
        r#"seccompProfile (pod or container "b" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#,
    );
    check(
        "restricted:latest",
        &pod(
            &json!({"spec": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "a": {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}}),
        ),
        r#"seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")"#,
    );
    check(
        "restricted:latest",
        &pod(&json!({"b": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}})),
        r#"seccompProfile (container "b" must not set securityContext.seccompProfile.type to "Unconfined")"#,
    );
    check("restricted:v1.18", &pod(&json!({"spec": {"securityContext": {"seccompProfile": null}}})), "");
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn escalation_must_be_off() {
    check(
        "restricted:latest",
        &pod(
            &json!({"a": {"securityContext": {"allowPrivilegeEscalation": true}}, "b": {"securityContext": {"allowPrivilegeEscalation": null}}}),
        ),
        r#"allowPrivilegeEscalation != false (containers "a", "b" must set securityContext.allowPrivilegeEscalation=false)"#,
    );
    check(
        "restricted:latest",
        &pod(
            &json!({"a": {"securityContext": {"allowPrivilegeEscalation": null}}, "init": {"name": "i", "image": "i", "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}}),
        ),
        r#"allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false)"#,
    );
    check(
        "restricted:v1.7",
        &pod(&json!({"a": {"securityContext": {"allowPrivilegeEscalation": null}}})),
        "",
    );
    check(
        "restricted:v1.8",
        &pod(&json!({"a": {"securityContext": {"allowPrivilegeEscalation": null}}})),
        r#"allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false)"#,
    );
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn all_capabilities_must_be_dropped() {
    check(
        "restricted:latest",
        &pod(
            &json!({"a": {"securityContext": {"capabilities": {"drop": ["NET_RAW"], "add": ["CHOWN"]}}}, "b": {"securityContext": {"capabilities": null}}}),
        ),
        r#"unrestricted capabilities (containers "a", "b" must set securityContext.capabilities.drop=["ALL"]; container "a" must not include "CHOWN" in securityContext.capabilities.add)"#,
    );
    check(
        "restricted:latest",
        &pod(
            &json!({"a": {"securityContext": {"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE", "SYS_TIME", "CHOWN"]}}}, "b": {"securityContext": {"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}}}),
        ),
        r#"unrestricted capabilities (containers "a", "b" must not include "CHOWN", "SYS_TIME" in securityContext.capabilities.add)"#,
    );
    check(
        "restricted:v1.21",
        &pod(&json!({"a": {"securityContext": {"capabilities": {"add": ["CHOWN", "SYS_TIME"]}}}})),
        r#"non-default capabilities (container "a" must not include "SYS_TIME" in securityContext.capabilities.add)"#,
    );
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn volumes_have_a_source_without_host() {
    check(
        "restricted:latest",
        &pod(
            &json!({"spec": {"volumes": [{"name": "x", "hostPath": {"path": "/x"}}, {"name": "n", "nfs": {"server": "s", "path": "/p"}}, {"name": "g", "gitRepo": {"repository": "r"}}, {"name": "e", "emptyDir": {}}, {"name": "im", "image": {"reference": "r"}}]}}),
        ),
        r#"restricted volume types (volumes "x", "n", "g" use restricted volume types "gitRepo", "hostPath", "nfs")"#,
    );
    check(
        "restricted:latest",
        &pod(&json!({"spec": {"volumes": [{"name": "f", "fc": {"targetWWNs": ["a"], "lun": 1}}]}})),
        r#"restricted volume types (volume "f" uses restricted volume type "fc")"#,
    );
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn containers_must_not_run_as_root() {
    check(
        "restricted:latest",
        &pod(&json!({"spec": {"securityContext": {"runAsNonRoot": null}}})),
        r#"runAsNonRoot != true (pod or containers "a", "b" must set securityContext.runAsNonRoot=true)"#,
    );
    check(
        "restricted:latest",
        &pod(
            &json!({"spec": {"securityContext": {"runAsNonRoot": null}}, "a": {"securityContext": {"runAsNonRoot": true}}}),
        ),
        r#"runAsNonRoot != true (pod or container "b" must set securityContext.runAsNonRoot=true)"#,
    );
    check(
        "restricted:latest",
        &pod(
            &json!({"spec": {"securityContext": {"runAsNonRoot": false}}, "a": {"securityContext": {"runAsNonRoot": false}}, "b": {"securityContext": {"runAsNonRoot": false}}}),
        ),
        r#"runAsNonRoot != true (pod and containers "a", "b" must not set securityContext.runAsNonRoot=false)"#,
    );
    check(
        "restricted:latest",
        &pod(&json!({"a": {"securityContext": {"runAsNonRoot": false}}})),
        r#"runAsNonRoot != true (container "a" must not set securityContext.runAsNonRoot=false)"#,
    );
    check(
        "restricted:latest",
        &pod(&json!({"spec": {"hostUsers": false, "securityContext": {"runAsNonRoot": null}}})),
        "",
    );
    check(
        "restricted:v1.34",
        &pod(&json!({"spec": {"hostUsers": false, "securityContext": {"runAsNonRoot": null}}})),
        r#"runAsNonRoot != true (pod or containers "a", "b" must set securityContext.runAsNonRoot=true)"#,
    );
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn the_user_must_not_be_root() {
    check(
        "restricted:latest",
        &pod(
            &json!({"spec": {"securityContext": {"runAsUser": 0}}, "a": {"securityContext": {"runAsUser": 0}}, "b": {"securityContext": {"runAsUser": 1}}}),
        ),
        r#"runAsUser=0 (pod and container "a" must not set runAsUser=0)"#,
    );
    check(
        "restricted:v1.23",
        &pod(&json!({"a": {"securityContext": {"runAsUser": 0}}})),
        r#"runAsUser=0 (container "a" must not set runAsUser=0)"#,
    );
    check("restricted:v1.22", &pod(&json!({"a": {"securityContext": {"runAsUser": 0}}})), "");
    check(
        "restricted:latest",
        &pod(&json!({"spec": {"hostUsers": false}, "a": {"securityContext": {"runAsUser": 0}}})),
        "",
    );
    check(
        "restricted:v1.99",
        &pod(&json!({"spec": {"hostUsers": false}, "a": {"securityContext": {"runAsUser": 0}}})),
        "",
    );
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn pods_with_windows_need_no_hardening_of_linux() {
    let windows = json!({"spec": {
        "os": {"name": "windows"}, "securityContext": {"runAsNonRoot": true}, "containers": [{"name": "c", "image": "i"}],
    }});
    check("restricted:latest", &windows, "");
    check(
        "restricted:v1.24",
        &windows,
        r#"allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#,
    );
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn violations_of_baseline_come_first() {
    let changes = json!({
        "spec": {
            "hostNetwork": true, "hostPID": true, "volumes": [{"name": "x", "hostPath": {"path": "/x"}}],
            "securityContext": {
                "runAsNonRoot": null, "seccompProfile": null, "runAsUser": 0,
                "sysctls": [{"name": "kernel.msgmax", "value": "1"}],
            },
        },
        "a": {"securityContext": {"allowPrivilegeEscalation": true, "capabilities": {"add": ["SYS_TIME"]}}},
    });
    check(
        "restricted:latest",
        &pod(&changes),
        r#"host namespaces (hostNetwork=true, hostPID=true), forbidden sysctls (kernel.msgmax), allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "a" must not include "SYS_TIME" in securityContext.capabilities.add), restricted volume types (volume "x" uses restricted volume type "hostPath"), runAsNonRoot != true (pod or containers "a", "b" must set securityContext.runAsNonRoot=true), runAsUser=0 (pod must not set runAsUser=0), seccompProfile (pod or containers "a", "b" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#,
    );
}
