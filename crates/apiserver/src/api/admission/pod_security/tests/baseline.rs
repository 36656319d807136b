//! Checks of level `baseline`.

use serde_json::json;

use super::{check, pod};

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
fn seccomp_profiles_are_confined() {
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
