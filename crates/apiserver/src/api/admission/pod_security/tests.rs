//! Checks of the pod security standards, and warnings about existing pods.

use serde_json::{Value, json};

use super::*;

/// A pod that level `restricted` allows, with containers `a` and `b`, and with changes: of its `spec`, of its containers by name, and an
/// init container.
fn pod(changes: &Value) -> Value {
    let container = |name: &str| {
        let context = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
        json!({"name": name, "image": "i", "securityContext": context})
    };
    let mut spec = json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container("a"), container("b")],
    });
    merge(&mut spec, &changes["spec"]);
    merge(&mut spec["containers"][0], &changes["a"]);
    merge(&mut spec["containers"][1], &changes["b"]);
    if changes["init"].is_object() {
        spec["initContainers"] = json!([changes["init"]]);
    }
    json!({"metadata": {"annotations": changes["annotations"]}, "spec": spec})
}

/// Merges objects; null removes a field.
fn merge(into: &mut Value, changes: &Value) {
    for (name, change) in changes.as_object().into_iter().flatten() {
        match (change, into.get_mut(name)) {
            (Value::Null, _) => _ = into.as_object_mut().unwrap().remove(name),
            (Value::Object(_), Some(part @ Value::Object(_))) => merge(part, change),
            _ => into[name] = change.clone(),
        }
    }
}

/// Checks that a standard, such as `restricted:latest`, has these violations.
fn check(standard: &str, pod: &Value, expected: &str) {
    assert_eq!(details(&violations(parsed(standard), &CheckedPod::of(pod))), expected, "{standard} {pod}");
}

fn parsed(standard: &str) -> Standard {
    let (level, version) = standard.split_once(':').unwrap();
    let label = |name: &str| format!("pod-security.kubernetes.io/{name}");
    let labels = json!({label("enforce"): level, label("enforce-version"): version});
    let (policy, errors) = PodSecurityPolicy::of(&json!({"metadata": {"labels": labels}}));
    assert_eq!(errors, []);
    policy.enforce
}

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

/// Recorded from kube-apiserver v1.36.3, which turns annotations of a pod into profiles before its admission.
#[test]
fn app_armor_profiles_are_restricted() {
    check(
        "baseline:latest",
        &pod(&json!({"spec": {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}})),
        r#"forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")"#,
    );
    check(
        "baseline:latest",
        &pod(
            &json!({"a": {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}, "b": {"securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}}}}),
        ),
        r#"forbidden AppArmor profile (container "a" must not set AppArmor profile type to "Unconfined")"#,
    );
    check(
        "baseline:latest",
        &pod(
            &json!({"spec": {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}, "a": {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}, "b": {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}}),
        ),
        r#"forbidden AppArmor profile (pod and containers "a", "b" must not set AppArmor profile type to "Unconfined")"#,
    );
    check(
        "baseline:latest",
        &pod(
            &json!({"a": {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}, "annotations": {"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}}),
        ),
        r#"forbidden AppArmor profiles (container "a" and annotation must not set AppArmor profile type to "Unconfined", "container.apparmor.security.beta.kubernetes.io/a="unconfined"")"#,
    );
    check(
        "baseline:latest",
        &pod(
            &json!({"a": {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}, "b": {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}, "annotations": {"container.apparmor.security.beta.kubernetes.io/a": "unconfined", "container.apparmor.security.beta.kubernetes.io/b": "unconfined"}}),
        ),
        r#"forbidden AppArmor profiles (containers "a", "b" and annotations must not set AppArmor profile type to "Unconfined", "container.apparmor.security.beta.kubernetes.io/a="unconfined"", "container.apparmor.security.beta.kubernetes.io/b="unconfined"")"#,
    );
    check(
        "baseline:latest",
        &pod(&json!({"annotations": {"container.apparmor.security.beta.kubernetes.io/a": "localhost/x"}})),
        "",
    );
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn capabilities_are_those_of_container_runtimes() {
    check(
        "baseline:latest",
        &pod(
            &json!({"a": {"securityContext": {"capabilities": {"add": ["NET_ADMIN", "CHOWN", "SYS_TIME"]}}}, "b": {"securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}}}),
        ),
        r#"non-default capabilities (containers "a", "b" must not include "NET_ADMIN", "SYS_TIME" in securityContext.capabilities.add)"#,
    );
    check(
        "baseline:latest",
        &pod(&json!({"a": {"securityContext": {"capabilities": {"add": ["CHOWN", "MKNOD"]}}}})),
        "",
    );
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn host_namespaces_are_refused() {
    check(
        "baseline:latest",
        &pod(&json!({"spec": {"hostNetwork": true, "hostPID": true, "hostIPC": true}})),
        "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
    );
    check("baseline:latest", &pod(&json!({"spec": {"hostPID": true}})), "host namespaces (hostPID=true)");
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn host_path_volumes_are_refused() {
    check(
        "baseline:latest",
        &pod(
            &json!({"spec": {"volumes": [{"name": "x", "hostPath": {"path": "/x"}}, {"name": "y", "hostPath": {"path": "/y"}}, {"name": "z", "emptyDir": {}}]}}),
        ),
        r#"hostPath volumes (volumes "x", "y")"#,
    );
    check(
        "baseline:latest",
        &pod(&json!({"spec": {"volumes": [{"name": "x", "hostPath": {"path": "/x"}}]}})),
        r#"hostPath volumes (volume "x")"#,
    );
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn host_ports_are_refused() {
    check(
        "baseline:latest",
        &pod(
            &json!({"a": {"ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 9, "hostPort": 9}]}, "b": {"ports": [{"containerPort": 1000, "hostPort": 1000}]}}),
        ),
        r#"hostPort (containers "a", "b" use hostPorts 1000, 80, 9)"#,
    );
    check(
        "baseline:latest",
        &pod(&json!({"a": {"ports": [{"containerPort": 80, "hostPort": 80}]}})),
        r#"hostPort (container "a" uses hostPort 80)"#,
    );
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn probes_name_no_host() {
    check(
        "baseline:latest",
        &pod(
            &json!({"a": {"livenessProbe": {"httpGet": {"port": 80, "host": "h"}}, "readinessProbe": {"tcpSocket": {"port": 80, "host": "g"}}}, "b": {"lifecycle": {"postStart": {"httpGet": {"port": 80, "host": "h"}}, "preStop": {"tcpSocket": {"port": 1, "host": "z"}}}}}),
        ),
        r#"probe or lifecycle host (containers "a", "b" use probe or lifecycle hosts "g", "h", "z")"#,
    );
    check(
        "baseline:latest",
        &pod(&json!({"b": {"startupProbe": {"httpGet": {"port": 80, "host": "127.0.0.1"}}}})),
        r#"probe or lifecycle host (container "b" uses probe or lifecycle host "127.0.0.1")"#,
    );
    check(
        "baseline:v1.33",
        &pod(&json!({"b": {"startupProbe": {"httpGet": {"port": 80, "host": "127.0.0.1"}}}})),
        "",
    );
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn the_mount_of_proc_is_masked() {
    check(
        "baseline:latest",
        &pod(&json!({"spec": {"hostUsers": false}, "a": {"securityContext": {"procMount": "Unmasked"}}})),
        "",
    );
    check(
        "baseline:v1.34",
        &pod(&json!({"spec": {"hostUsers": false}, "a": {"securityContext": {"procMount": "Unmasked"}}})),
        r#"procMount (container "a" must not set securityContext.procMount to "Unmasked")"#,
    );
    check(
        "restricted:latest",
        &pod(&json!({"spec": {"hostUsers": false}, "a": {"securityContext": {"procMount": "Unmasked"}}})),
        r#"procMount (container "a" must not set securityContext.procMount to "Unmasked")"#,
    );
    check(
        "restricted:v1.34",
        &pod(
            &json!({"spec": {"hostUsers": false}, "a": {"securityContext": {"procMount": "Unmasked"}}, "b": {"securityContext": {"procMount": "Unmasked"}}}),
        ),
        r#"procMount (containers "a", "b" must not set securityContext.procMount to "Unmasked")"#,
    );
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn contexts_of_se_linux_are_restricted() {
    check(
        "baseline:latest",
        &pod(
            &json!({"spec": {"securityContext": {"seLinuxOptions": {"type": "x", "user": "u", "role": "r"}}}, "a": {"securityContext": {"seLinuxOptions": {"type": "y"}}}, "b": {"securityContext": {"seLinuxOptions": {"type": "container_t"}}}}),
        ),
        r#"seLinuxOptions (pod and container "a" set forbidden securityContext.seLinuxOptions: types "x", "y"; user may not be set; role may not be set)"#,
    );
    check(
        "baseline:latest",
        &pod(
            &json!({"a": {"securityContext": {"seLinuxOptions": {"user": "u"}}}, "b": {"securityContext": {"seLinuxOptions": {"role": "r"}}}}),
        ),
        r#"seLinuxOptions (containers "a", "b" set forbidden securityContext.seLinuxOptions: user may not be set; role may not be set)"#,
    );
    check(
        "baseline:latest",
        &pod(&json!({"a": {"securityContext": {"seLinuxOptions": {"type": "container_engine_t"}}}})),
        "",
    );
    check(
        "baseline:v1.30",
        &pod(&json!({"a": {"securityContext": {"seLinuxOptions": {"type": "container_engine_t"}}}})),
        r#"seLinuxOptions (container "a" set forbidden securityContext.seLinuxOptions: type "container_engine_t")"#,
    );
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn seccomp_profiles_are_required() {
    check(
        "baseline:latest",
        &pod(
            &json!({"spec": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "a": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}}),
        ),
        r#"seccompProfile (pod and container "a" must not set securityContext.seccompProfile.type to "Unconfined")"#,
    );
    check(
        "baseline:latest",
        &pod(
            &json!({"a": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "b": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}}),
        ),
        r#"seccompProfile (containers "a", "b" must not set securityContext.seccompProfile.type to "Unconfined")"#,
    );
    check(
        "baseline:v1.0",
        &pod(&json!({"annotations": {"container.seccomp.security.alpha.kubernetes.io/a": "unconfined"}})),
        r#"seccompProfile (forbidden annotation container.seccomp.security.alpha.kubernetes.io/a="unconfined")"#,
    );
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
fn sysctls_are_those_of_a_pod() {
    check(
        "baseline:latest",
        &pod(
            &json!({"spec": {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}, {"name": "net.ipv4.tcp_rmem", "value": "1"}, {"name": "net.ipv4.tcp_fin_timeout", "value": "1"}, {"name": "net.ipv4.ip_local_reserved_ports", "value": "1"}, {"name": "net.core.somaxconn", "value": "1"}]}}}),
        ),
        "forbidden sysctls (kernel.msgmax, net.core.somaxconn)",
    );
    check(
        "baseline:v1.26",
        &pod(
            &json!({"spec": {"securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}, {"name": "net.ipv4.tcp_rmem", "value": "1"}, {"name": "net.ipv4.tcp_fin_timeout", "value": "1"}, {"name": "net.ipv4.ip_local_reserved_ports", "value": "1"}]}}}),
        ),
        "forbidden sysctls (net.ipv4.tcp_rmem, net.ipv4.tcp_fin_timeout, net.ipv4.ip_local_reserved_ports)",
    );
    check(
        "baseline:v1.27",
        &pod(
            &json!({"spec": {"securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}, {"name": "net.ipv4.tcp_rmem", "value": "1"}, {"name": "net.ipv4.tcp_fin_timeout", "value": "1"}, {"name": "net.ipv4.ip_local_reserved_ports", "value": "1"}]}}}),
        ),
        "forbidden sysctls (net.ipv4.tcp_rmem, net.ipv4.tcp_fin_timeout)",
    );
    check(
        "baseline:v1.29",
        &pod(
            &json!({"spec": {"securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}, {"name": "net.ipv4.tcp_rmem", "value": "1"}, {"name": "net.ipv4.tcp_fin_timeout", "value": "1"}, {"name": "net.ipv4.ip_local_reserved_ports", "value": "1"}]}}}),
        ),
        "forbidden sysctls (net.ipv4.tcp_rmem)",
    );
    check(
        "baseline:v1.31",
        &pod(
            &json!({"spec": {"securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}, {"name": "net.ipv4.tcp_rmem", "value": "1"}, {"name": "net.ipv4.tcp_fin_timeout", "value": "1"}, {"name": "net.ipv4.ip_local_reserved_ports", "value": "1"}]}}}),
        ),
        "forbidden sysctls (net.ipv4.tcp_rmem)",
    );
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

/// Texts of kube-apiserver v1.36.3, which refuses such pods before its admission unless it runs with `--allow-privileged`.
#[test]
fn privileged_containers_are_refused() {
    let privileged = json!({"securityContext": {"privileged": true, "allowPrivilegeEscalation": true}});
    check(
        "baseline:latest",
        &pod(&json!({"a": privileged})),
        r#"privileged (container "a" must not set securityContext.privileged=true)"#,
    );
    check(
        "baseline:v1.0",
        &pod(&json!({"a": privileged, "b": privileged})),
        r#"privileged (containers "a", "b" must not set securityContext.privileged=true)"#,
    );
}

/// Texts of kube-apiserver v1.36.3, which refuses such pods before its admission unless it runs with `--allow-privileged`.
#[test]
fn host_processes_are_refused() {
    let process = json!({"securityContext": {"windowsOptions": {"hostProcess": true}}});
    check(
        "baseline:latest",
        &pod(&json!({"spec": process, "a": process})),
        r#"hostProcess (pod and container "a" must not set securityContext.windowsOptions.hostProcess=true)"#,
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

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn existing_pods_share_a_warning_by_reason() {
    let plain = |name: &str, changes: Value| {
        let mut pod =
            json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        merge(&mut pod["spec"], &changes);
        pod
    };
    let host = plain("q", json!({"hostNetwork": true}));
    let pods = [host, plain("p2", json!({})), plain("p0", json!({})), plain("p1", json!({}))];
    let hardening =
        "allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile";
    assert_eq!(
        existing_pods("n", parsed("restricted:latest"), &pods),
        [
            "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"restricted:latest\"".to_owned(),
            format!("p0 (and 2 other pods): {hardening}"),
            format!("q: host namespaces, {hardening}"),
        ]
    );
    assert_eq!(
        existing_pods("n", parsed("baseline:v1.20"), &pods),
        [
            "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:v1.20\"",
            "q: host namespaces",
        ]
    );
    assert!(existing_pods("n", parsed("baseline:latest"), &pods[1..]).is_empty());
}

#[test]
fn a_pod_of_each_controller_is_checked_before_the_others() {
    let pod = |name: &str, controller: &str| json!({"metadata": {"name": name, "ownerReferences": [{"controller": true, "uid": controller}]}});
    let free = json!({"metadata": {"name": "d"}});
    let pods = [pod("a", "1"), pod("b", "1"), pod("c", "2"), free];
    let names: Vec<&str> = by_controller(&pods).into_iter().map(|pod| metadata::text(pod, "name")).collect();
    assert_eq!(names, ["a", "c", "d", "b"]);
}

#[test]
fn an_update_without_another_image_is_not_checked() {
    let pod = |image: &str, ephemeral: Value| json!({"spec": {"containers": [{"name": "c", "image": image}], "ephemeralContainers": ephemeral}});
    let old = pod("i", Value::Null);
    assert!(!is_significant(&old, &old));
    assert!(is_significant(&old, &pod("j", Value::Null)));
    let debugged = pod("i", json!([{"name": "e", "image": "k"}]));
    assert!(is_significant(&old, &debugged));
    assert!(!is_significant(&debugged, &debugged));
}
