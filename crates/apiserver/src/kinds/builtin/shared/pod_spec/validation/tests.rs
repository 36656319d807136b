//! Compares errors with answers of kube-apiserver v1.36.3. The pods have their defaults.

use serde_json::{Value, json};

use super::*;
use crate::kinds::builtin::test_helpers::{check, default};

fn errors_of(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Returns the errors of a new pod with this spec.
fn pod_errors(spec: &Value) -> Vec<String> {
    let mut pod = json!({"metadata": {"name": "a"}, "spec": spec});
    default("Pod", &mut pod);
    errors_of(&validate_new_pod(&pod))
}

/// Returns the errors of a new pod with this container. Their fields are relative to the container.
fn container_errors(container: &Value) -> Vec<String> {
    let mut given = json!({"name": "c", "image": "i"});
    given.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    let errors = pod_errors(&json!({"containers": [given]}));
    let short = |error: &String| error.replace("spec.containers[0].", "");
    errors.iter().map(short).collect()
}

#[test]
fn containers_mount_what_the_pod_has() {
    let container = json!({"name": "c", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]});
    assert_eq!(
        pod_errors(&json!({"containers": [container]})),
        ["spec.containers[0].volumeMounts[0].name: Not found: \"v\""]
    );
    assert_eq!(pod_errors(&json!({"containers": [container], "volumes": [{"name": "v"}]})), [""; 0]);
}

#[test]
fn a_pod_without_containers_is_none() {
    assert_eq!(pod_errors(&json!({"containers": null})), ["spec.containers: Required value"]);
    assert_eq!(
        pod_errors(&json!({"containers": [{"name": ""}]})),
        ["spec.containers[0].name: Required value", "spec.containers[0].image: Required value"]
    );
}

#[test]
fn a_missing_name_of_an_init_container_is_a_duplicate_only_beside_a_regular_one() {
    let nameless = json!({"image": "i"});
    let errors = |regular: &Value| {
        let errors = pod_errors(&json!({"containers": [regular], "initContainers": [nameless, nameless]}));
        errors.into_iter().filter(|error| error.contains("Duplicate")).collect::<Vec<_>>()
    };
    assert_eq!(errors(&json!({"name": "c", "image": "i"})), [""; 0]);
    assert_eq!(
        errors(&nameless),
        [0, 1].map(|index| format!("spec.initContainers[{index}].name: Duplicate value: \"\""))
    );
}

#[test]
fn variables_have_one_source() {
    assert_eq!(
        container_errors(&json!({"env": [
            {"name": "a", "value": "x", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0.5"}}},
            {"name": "", "valueFrom": {}},
            {"name": "a=b", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}},
            {"name": "c", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b/c']"}}},
            {"name": "d", "valueFrom": {"secretKeyRef": {"name": "s", "key": "a/b"}, "configMapKeyRef": {"name": "s", "key": "k"}}},
            {"name": "e", "valueFrom": {"fieldRef": {"fieldPath": "spec.nope"}}},
        ]})),
        [
            "env[0].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource",
            "env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
            "env[1].name: Required value",
            "env[1].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            "env[2].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='",
            "env[2].valueFrom.fieldRef.fieldPath: Unsupported value: \"status.phase\": supported values: \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \"spec.serviceAccountName\", \"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \"status.podIPs\"",
            "env[3].valueFrom.fieldRef: Invalid value: \"a/b/c\": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
            "env[4].valueFrom.secretKeyRef.key: Invalid value: \"a/b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
            "env[4].valueFrom: Invalid value: \"\": may not have more than one field specified at a time",
            "env[5].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.nope\": error converting fieldPath: field label not supported: spec.nope",
        ]
    );
    assert_eq!(
        container_errors(
            &json!({"envFrom": [{"prefix": "="}, {"secretRef": {"name": ""}, "configMapRef": {"name": "B"}}]})
        ),
        [
            "envFrom[0].prefix: Invalid value: \"=\": a valid environment variable name must consist only of printable ASCII characters other than '='",
            "envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
            "envFrom[1].configMapRef.name: Invalid value: \"B\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            "envFrom[1].secretRef.name: Required value",
            "envFrom: Invalid value: \"\": may not have more than one field specified at a time",
        ]
    );
}

#[test]
fn resources_have_known_names_and_valid_amounts() {
    assert_eq!(
        container_errors(&json!({"resources": {
            "limits": {"hugepages-2Mi": "3Mi", "foo": "1", "x.y/z": "1500m", "memory": "1Gi"},
            "requests": {"cpu": "-1", "memory": "2Gi", "x.y/q": "1"},
        }})),
        [
            "resources.limits[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified",
            "resources.limits[foo]: Invalid value: \"foo\": must be a standard resource for containers",
            "resources.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
            "resources.limits[x.y/z]: Invalid value: \"1500m\": must be an integer",
            "resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            "resources.requests[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified",
            "resources.requests[foo]: Invalid value: \"foo\": must be a standard resource for containers",
            "resources.requests[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
            "resources.requests: Invalid value: \"2Gi\": must be less than or equal to memory limit of 1Gi",
            "resources.limits: Required value: Limit must be set for non overcommitable resources",
            "resources.requests[x.y/z]: Invalid value: \"1500m\": must be an integer",
        ]
    );
    assert_eq!(
        container_errors(&json!({"resources": {"claims": [{"name": "a"}]}})),
        [
            "resources.claims[0]: Not found: \"a\": must be one of the names in pod.spec.resourceClaims which is empty"
        ]
    );
}

#[test]
fn ports_probes_and_hooks_are_valid() {
    assert_eq!(
        container_errors(&json!({
            "lifecycle": {"preStop": {"sleep": {"seconds": 100}}}, "livenessProbe": {"successThreshold": 2, "exec": {}},
            "readinessProbe": {"terminationGracePeriodSeconds": 3},
            "ports": [{"containerPort": 0, "name": "A--"}, {"containerPort": 1, "protocol": "X", "hostPort": 70_000}],
            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "X"}],
        })),
        [
            "ports[0].name: Invalid value: \"A--\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
            "ports[0].name: Invalid value: \"A--\": must contain at least one letter (a-z)",
            "ports[0].name: Invalid value: \"A--\": must not contain consecutive hyphens",
            "ports[0].name: Invalid value: \"A--\": must not begin or end with a hyphen",
            "ports[0].containerPort: Required value",
            "ports[1].hostPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
            "ports[1].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            "resizePolicy: Unsupported value: \"X\": supported values: \"NotRequired\", \"RestartContainer\"",
            "lifecycle.preStop.sleep: Invalid value: 100: must be non-negative and less than terminationGracePeriodSeconds (30)",
            "livenessProbe.exec.command: Required value",
            "livenessProbe.successThreshold: Invalid value: 2: must be 1",
            "readinessProbe: Required value: must specify a handler type",
            "readinessProbe.terminationGracePeriodSeconds: Invalid value: 3: must not be set for readinessProbes",
        ]
    );
}

#[test]
fn security_contexts_do_not_contradict_themselves() {
    let context = "{\"Capabilities\":{\"Add\":[\"CAP_SYS_ADMIN\"],\"Drop\":null},\"Privileged\":true,\"SELinuxOptions\":null,\"WindowsOptions\":null,\"RunAsUser\":null,\"RunAsGroup\":null,\"RunAsNonRoot\":null,\"ReadOnlyRootFilesystem\":null,\"AllowPrivilegeEscalation\":false,\"ProcMount\":null,\"SeccompProfile\":{\"Type\":\"RuntimeDefault\",\"LocalhostProfile\":\"x\"},\"AppArmorProfile\":null}";
    assert_eq!(
        container_errors(&json!({"securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"add": ["CAP_SYS_ADMIN"]}, "privileged": true,
            "seccompProfile": {"type": "RuntimeDefault", "localhostProfile": "x"},
        }})),
        [
            "securityContext.seccompProfile.localhostProfile: Invalid value: {\"Type\":\"RuntimeDefault\",\"LocalhostProfile\":\"x\"}: can only be set when seccomp type is Localhost".to_owned(),
            format!("securityContext: Invalid value: {context}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true"),
            format!("securityContext: Invalid value: {context}: cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"),
        ]
    );
}

#[test]
fn init_and_ephemeral_containers_have_fewer_fields() {
    assert_eq!(
        pod_errors(&json!({
            "containers": [{"name": "c", "image": "i"}],
            "initContainers": [{
                "name": "c", "image": " i", "readinessProbe": {"httpGet": {"port": "x--"}}, "restartPolicy": "Never",
                "restartPolicyRules": [{"action": "X"}],
            }],
            "ephemeralContainers": [{
                "name": "c", "image": "i", "ports": [{"containerPort": 1}], "resources": {"limits": {"cpu": "1"}},
                "lifecycle": {}, "targetContainerName": "nope",
            }],
            "schedulingGates": [{"name": "g"}], "nodeName": "n",
        })),
        [
            "spec.initContainers[0].restartPolicyRules[0].action: Unsupported value: \"X\": supported values: \"Restart\", \"RestartAllContainers\"",
            "spec.initContainers[0].restartPolicyRules[0].exitCodes: Required value: must be specified",
            "spec.initContainers[0].name: Duplicate value: \"c\"",
            "spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
            "spec.ephemeralContainers[0].name: Duplicate value: \"c\"",
            "spec.ephemeralContainers[0].targetContainerName: Not found: \"nope\"",
            "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
            "spec.ephemeralContainers[0].resources: Forbidden: cannot be set for an Ephemeral Container",
            "spec.ephemeralContainers[0].lifecycle: Forbidden: cannot be set for an Ephemeral Container",
            "spec.initContainers[0].image: Invalid value: \" i\": must not have leading or trailing whitespace",
            "spec.ephemeralContainers: Forbidden: cannot be set on create",
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
        ]
    );
}

#[test]
fn the_spec_as_a_whole_is_valid() {
    let spec = json!({
        "containers": [{"name": "c", "image": "i"}], "resourceClaims": [{"name": "a"}], "restartPolicy": "x", "dnsPolicy": "None",
        "affinity": {
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "k", "matchLabelKeys": ["l"]}]},
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}},
        },
        "topologySpreadConstraints": [{"maxSkew": 0, "minDomains": 0}],
        "tolerations": [{"operator": "Lt", "key": "a"}, {"tolerationSeconds": 1}, {"operator": "Exists", "value": "x", "effect": "foo"}],
        "hostAliases": [{"ip": "x"}], "overhead": {"cpu": "-1"}, "os": {"name": "x"},
    });
    assert_eq!(
        pod_errors(&spec),
        [
            "spec.resourceClaims[0]: Invalid value: {\"Name\":\"a\",\"ResourceClaimName\":null,\"ResourceClaimTemplateName\":null}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            "spec.restartPolicy: Unsupported value: \"x\": supported values: \"Always\", \"OnFailure\", \"Never\"",
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term",
            "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
            "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None",
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
            "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
            "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"",
            "spec.topologySpreadConstraints[0].minDomains: Invalid value: 0: must be greater than zero",
            "spec.topologySpreadConstraints[0].minDomains: Invalid value: 0: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ",
            "spec.tolerations[0].operator: Unsupported value: \"Lt\": supported values: \"Equal\", \"Exists\", \"Lt\", \"Gt\"",
            "spec.tolerations[1].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            "spec.tolerations[1].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
            "spec.tolerations[2].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'",
            "spec.tolerations[2].effect: Unsupported value: \"foo\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
            "spec.hostAliases[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            "spec.overhead.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            "spec.os: Unsupported value: \"x\": supported values: \"linux\", \"windows\"",
        ]
    );
}

#[test]
fn volumes_have_one_source_each() {
    let spec = json!({
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [
            {"name": "a", "configMap": {"name": "", "items": [{"key": "k", "path": "../x"}]}, "secret": {"secretName": "s"}},
            {"name": "B", "hostPath": {"path": "/a/..", "type": "X"}}, {"name": "c"}, {"name": "c", "emptyDir": {}},
            {"name": "d", "nfs": {"server": "s", "path": "p"}}, {"name": "e", "downwardAPI": {"items": [{"path": "/p"}]}},
            {"name": "f", "projected": {"sources": [
                {"secret": {"name": "s", "items": [{"key": "k", "path": "p"}]}, "configMap": {"name": "m", "items": [{"key": "k", "path": "p"}]}},
                {"serviceAccountToken": {"path": "t", "expirationSeconds": 5}},
            ]}},
        ],
    });
    assert_eq!(
        pod_errors(&spec),
        [
            "spec.volumes[0].configMap: Forbidden: may not specify more than 1 volume type",
            "spec.volumes[1].hostPath.path: Invalid value: \"/a/..\": must not contain '..'",
            "spec.volumes[1].hostPath.type: Unsupported value: \"X\": supported values: \"\", \"BlockDevice\", \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"",
            "spec.volumes[1].name: Invalid value: \"B\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            "spec.volumes[3].name: Duplicate value: \"c\"",
            "spec.volumes[4].nfs.path: Invalid value: \"p\": must be an absolute path",
            "spec.volumes[5].downwardAPI.path: Invalid value: \"/p\": must be a relative path",
            "spec.volumes[5].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
            "spec.volumes[6].projected: Invalid value: \"m\": conflicting duplicate paths",
            "spec.volumes[6].projected.sources[0]: Forbidden: may not specify more than 1 volume type per source",
            "spec.volumes[6].projected.sources[1].serviceAccountToken.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes",
            "spec.volumes[6].projected.sources[1].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set",
        ]
    );
}

#[test]
fn mounts_and_devices_do_not_overlap() {
    let spec = json!({
        "volumes": [{"name": "v"}, {"name": "p", "persistentVolumeClaim": {"claimName": "c"}}],
        "containers": [{
            "name": "c", "image": "i",
            "volumeMounts": [
                {"name": "v", "mountPath": "/a", "subPath": "/x", "mountPropagation": "Bidirectional"},
                {"name": "p", "mountPath": "/a", "recursiveReadOnly": "Enabled"},
            ],
            "volumeDevices": [{"name": "p", "devicePath": "/a"}, {"name": "v", "devicePath": "../b"}],
        }],
    });
    let errors = pod_errors(&spec);
    let short: Vec<String> = errors.iter().map(|error| error.replace("spec.containers[0].", "")).collect();
    assert_eq!(
        short,
        [
            "volumeMounts[0].name: Invalid value: \"v\": must not already exist in volumeDevices",
            "volumeMounts[0].mountPath: Invalid value: \"/a\": must not already exist as a path in volumeDevices",
            "volumeMounts.subPath: Invalid value: \"/x\": must be a relative path",
            "volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
            "volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique",
            "volumeMounts[1].name: Invalid value: \"p\": must not already exist in volumeDevices",
            "volumeMounts[1].mountPath: Invalid value: \"/a\": must not already exist as a path in volumeDevices",
            "volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true",
            "volumeDevices[0].name: Invalid value: \"p\": must not already exist in volumeMounts",
            "volumeDevices[0].devicePath: Invalid value: \"/a\": must not already exist as a path in volumeMounts",
            "volumeDevices[1].name: Invalid value: \"v\": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            "volumeDevices[1].devicePath: Invalid value: \"../b\": can not contain backsteps ('..')",
            "volumeDevices[1].name: Invalid value: \"v\": must not already exist in volumeMounts",
        ]
    );
}

/// An object of this kind with these fields in its pod spec.
fn with_fields(kind: &str, fields: &Value) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    if kind == "CronJob" {
        spec["restartPolicy"] = "Never".into();
    }
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": spec});
    let mut object = match kind {
        "PodTemplate" => json!({"template": template}),
        "CronJob" => {
            json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}}})
        }
        _ => json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}),
    };
    object["metadata"] = json!({"name": "x"});
    default(kind, &mut object);
    object
}

/// Rule of kube-apiserver's `useOnlyRecursiveSELinuxChangePolicy`: any policy in the old spec permits all policies.
#[test]
fn an_update_may_choose_any_policy_for_selinux_labels_if_the_old_spec_has_one() {
    for (kind, path) in [
        ("Deployment", "spec.template.spec"),
        ("DaemonSet", "spec.template.spec"),
        ("ReplicaSet", "spec.template.spec"),
        ("StatefulSet", "spec.template.spec"),
        ("CronJob", "spec.jobTemplate.spec.template.spec"),
        ("PodTemplate", "template.spec"),
    ] {
        let of =
            |policy: &str| with_fields(kind, &json!({"securityContext": {"seLinuxChangePolicy": policy}}));
        let refused = |policy: &str, supported: &str| {
            let field = format!("{path}.securityContext.seLinuxChangePolicy");
            format!("{field}: Unsupported value: \"{policy}\": supported values: {supported}")
        };
        let (plain, recursive, option) = (with_fields(kind, &json!({})), of("Recursive"), of("MountOption"));
        let gated = refused("MountOption", "\"Recursive\"");
        check(kind, &option, None, &[&gated]);
        check(kind, &option, Some(&plain), &[&gated]);
        check(kind, &option, Some(&recursive), &[]);
        check(kind, &of("x"), Some(&option), &[&refused("x", "\"MountOption\", \"Recursive\"")]);
    }
}

/// Rule of kube-apiserver's `allowTaintTolerationComparisonOperators`.
#[test]
fn an_update_may_have_tolerations_that_compare_if_the_old_spec_has_one() {
    let of = |operator: &str, value: &str| {
        let toleration = json!({"key": "a", "operator": operator, "value": value});
        with_fields("Deployment", &json!({"tolerations": [toleration]}))
    };
    let less = of("Lt", "-5");
    check(
        "Deployment",
        &less,
        Some(&of("Equal", "5")),
        &[
            "spec.template.spec.tolerations[0].operator: Unsupported value: \"Lt\": supported values: \"Equal\", \"Exists\", \"Lt\", \"Gt\"",
        ],
    );
    check("Deployment", &less, Some(&of("Gt", "5")), &[]);
    for wrong in ["05", "-0", "+5", "5.0", "9223372036854775808"] {
        let field = "spec.template.spec.tolerations[0].value";
        let why = "must be a valid decimal integer in canonical form";
        let error = format!("{field}: Invalid value: \"{wrong}\": {why}");
        check("Deployment", &of("Gt", wrong), Some(&less), &[&error]);
    }
}
