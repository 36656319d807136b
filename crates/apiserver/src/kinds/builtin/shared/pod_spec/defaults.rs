//! Defaults of pod templates, from `pkg/apis/core/v1/defaults.go` of Kubernetes.
//!
//! Pods have further defaults that templates lack: service links, and requests derived from limits.

use serde_json::{Value, json};

use super::image_name;
use crate::kinds::builtin::shared::amounts;
use crate::kinds::builtin::shared::fields::{elements, set, set_pointer, text, within};

/// Sets defaults in a pod or a pod template that has all fields of its Go type.
pub(in crate::kinds::builtin) fn default(template: &mut Value) {
    drop_init_annotations(template);
    let Some(spec) = template.get_mut("spec").filter(|spec| spec.is_object()) else {
        return;
    };
    set(spec, "dnsPolicy", json!("ClusterFirst"));
    set(spec, "restartPolicy", json!("Always"));
    set(spec, "securityContext", json!({}));
    set(spec, "terminationGracePeriodSeconds", json!(30));
    set(spec, "schedulerName", json!("default-scheduler"));
    service_account(spec);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        elements(spec, list).for_each(container);
    }
    amounts::round_fields(spec, &["overhead"]);
    within(spec, "resources", amounts::round_resources);
    elements(spec, "volumes").for_each(volume);
}

/// Drops annotations in which early versions of Kubernetes kept init containers, as the conversion to Go's internal type does.
fn drop_init_annotations(template: &mut Value) {
    const PARTS: [&str; 2] = ["init-containers", "init-container-statuses"];
    let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    let count = annotations.len();
    annotations.retain(|key, _| {
        let part = key
            .strip_prefix("pod.beta.kubernetes.io/")
            .or_else(|| key.strip_prefix("pod.alpha.kubernetes.io/"));
        part.is_none_or(|part| !PARTS.contains(&part))
    });
    if annotations.is_empty() && count > 0 {
        metadata.remove("annotations");
    }
}

/// Copies the service account name between the field and its deprecated alias; the field takes precedence.
fn service_account(spec: &mut Value) {
    let name = ["serviceAccountName", "serviceAccount"]
        .into_iter()
        .find_map(|key| spec.get(key)?.as_str().filter(|name| !name.is_empty()))
        .map(str::to_owned);
    if let Some(name) = name {
        spec["serviceAccountName"] = json!(name);
        spec["serviceAccount"] = json!(name);
    }
}

fn container(container: &mut Value) {
    let policy = pull_policy(text(container, "image"));
    set(container, "imagePullPolicy", json!(policy));
    within(container, "resources", amounts::round_resources);
    set(container, "terminationMessagePath", json!("/dev/termination-log"));
    set(container, "terminationMessagePolicy", json!("File"));
    for port in elements(container, "ports") {
        set(port, "protocol", json!("TCP"));
    }
    for variable in elements(container, "env") {
        if let Some(reference) = variable.pointer_mut("/valueFrom/fieldRef") {
            field_reference(reference);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(found) = container.get_mut(name).filter(|probe| probe.is_object()) {
            probe(found);
        }
    }
    for hook in ["/lifecycle/postStart/httpGet", "/lifecycle/preStop/httpGet"] {
        if let Some(get) = container.pointer_mut(hook) {
            http_get(get);
        }
    }
}

/// Returns the default pull policy of an image.
fn pull_policy(image: &str) -> &'static str {
    if image_name::is_latest(image) { "Always" } else { "IfNotPresent" }
}

fn probe(probe: &mut Value) {
    set_number(probe, "timeoutSeconds", 1);
    set_number(probe, "periodSeconds", 10);
    set_number(probe, "successThreshold", 1);
    set_number(probe, "failureThreshold", 3);
    if let Some(get) = probe.get_mut("httpGet").filter(|get| get.is_object()) {
        http_get(get);
    }
    if let Some(grpc) = probe.get_mut("grpc").filter(|grpc| grpc.is_object())
        && grpc.get("service").is_none()
    {
        // In gRPC's health protocol, the empty name asks about the server as a whole.
        grpc["service"] = json!("");
    }
}

/// Sets a number that is absent or zero. In Go, the numbers of probes are not pointers, so zero means absent.
fn set_number(object: &mut Value, key: &str, value: i64) {
    let number = object.get(key).and_then(Value::as_i64);
    if number.unwrap_or_default() == 0 {
        object[key] = json!(value);
    }
}

fn http_get(get: &mut Value) {
    set(get, "path", json!("/"));
    set(get, "scheme", json!("HTTP"));
}

fn field_reference(reference: &mut Value) {
    if reference.is_object() {
        set(reference, "apiVersion", json!("v1"));
    }
}

fn volume(volume: &mut Value) {
    // For kube-apiserver, a volume without a source is an `emptyDir`.
    if volume.as_object().is_some_and(|fields| fields.keys().all(|key| key == "name")) {
        volume["emptyDir"] = json!({});
    }
    within(volume, "image", |image| {
        let policy = pull_policy(text(image, "reference"));
        set(image, "pullPolicy", json!(policy));
    });
    default_volume_sources(volume);
}

/// Sets defaults of volume sources in pods and in PersistentVolumes. The mode 420 is octal 0644.
pub(in crate::kinds::builtin) fn default_volume_sources(volume: &mut Value) {
    let Some(fields) = volume.as_object_mut() else {
        return;
    };
    for (kind, source) in fields.iter_mut().filter(|(_, source)| source.is_object()) {
        match kind.as_str() {
            "secret" | "configMap" => set(source, "defaultMode", json!(420)),
            "downwardAPI" => {
                set(source, "defaultMode", json!(420));
                downward_items(source);
            }
            "projected" => projected(source),
            // With the empty type, the kubelet does not check the path.
            "hostPath" if source.get("type").is_none() => source["type"] = json!(""),
            "iscsi" => set(source, "iscsiInterface", json!("default")),
            "rbd" => {
                set(source, "pool", json!("rbd"));
                set(source, "user", json!("admin"));
                set(source, "keyring", json!("/etc/ceph/keyring"));
            }
            "azureDisk" => {
                // These fields are pointers in Go, so an empty text from the client stays.
                set_pointer(source, "cachingMode", json!("ReadWrite"));
                set_pointer(source, "kind", json!("Shared"));
                set_pointer(source, "fsType", json!("ext4"));
                set_pointer(source, "readOnly", json!(false));
            }
            "scaleIO" => {
                set(source, "storageMode", json!("ThinProvisioned"));
                set(source, "fsType", json!("xfs"));
            }
            "ephemeral" => {
                // The embedded claim gets the defaults of PersistentVolumeClaims.
                if let Some(spec) = source.pointer_mut("/volumeClaimTemplate/spec") {
                    set_pointer(spec, "volumeMode", json!("Filesystem"));
                    within(spec, "resources", amounts::round_resources);
                }
            }
            _ => {}
        }
    }
}

fn projected(source: &mut Value) {
    set(source, "defaultMode", json!(420));
    for part in elements(source, "sources") {
        if let Some(token) = part.get_mut("serviceAccountToken") {
            set(token, "expirationSeconds", json!(3600));
        }
        if let Some(downward) = part.get_mut("downwardAPI") {
            downward_items(downward);
        }
    }
}

fn downward_items(source: &mut Value) {
    for item in elements(source, "items") {
        if let Some(reference) = item.get_mut("fieldRef") {
            field_reference(reference);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(spec: &Value, expected: &Value) {
        let mut template = json!({ "spec": spec });
        default(&mut template);
        let got = template["spec"].as_object_mut().unwrap();
        for key in [
            "dnsPolicy",
            "restartPolicy",
            "securityContext",
            "terminationGracePeriodSeconds",
            "schedulerName",
        ] {
            assert!(got.remove(key).is_some(), "{key} has a default");
        }
        assert_eq!(template["spec"], *expected);
    }

    #[test]
    fn containers_probes_and_ports_have_defaults() {
        check(
            &json!({"containers": [{
                "name": "c", "image": "x:1", "ports": [{"containerPort": 80}],
                "env": [{"name": "A", "value": "b"}, {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 5},
            }]}),
            &json!({"containers": [{
                "name": "c", "image": "x:1", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "env": [
                    {"name": "A", "value": "b"},
                    {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}},
                ],
                "livenessProbe": {
                    "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "periodSeconds": 5, "timeoutSeconds": 1,
                    "successThreshold": 1, "failureThreshold": 3,
                },
                "imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }]}),
        );
    }

    #[test]
    fn volumes_have_defaults() {
        check(
            &json!({"volumes": [
                {"name": "a"}, {"name": "b", "secret": {"secretName": "s"}}, {"name": "c", "hostPath": {"path": "/"}},
                {"name": "d", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
                {"name": "e", "image": {"reference": "model"}}, {"name": "f", "image": {"reference": "model:1"}},
                {"name": "g", "image": {"reference": "model", "pullPolicy": "Never"}},
            ]}),
            &json!({"volumes": [
                {"name": "a", "emptyDir": {}}, {"name": "b", "secret": {"secretName": "s", "defaultMode": 420}},
                {"name": "c", "hostPath": {"path": "/", "type": ""}},
                {"name": "d", "projected": {
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}], "defaultMode": 420,
                }},
                {"name": "e", "image": {"reference": "model", "pullPolicy": "Always"}},
                {"name": "f", "image": {"reference": "model:1", "pullPolicy": "IfNotPresent"}},
                {"name": "g", "image": {"reference": "model", "pullPolicy": "Never"}},
            ]}),
        );
    }

    #[test]
    fn amounts_are_rounded_to_thousandths() {
        check(
            &json!({
                "volumes": [{"name": "a", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1u"}}}}}}],
                "overhead": {"cpu": "1u"}, "resources": {"limits": {"cpu": "1u"}, "requests": {"cpu": "1n"}},
            }),
            &json!({
                "volumes": [{"name": "a", "ephemeral": {"volumeClaimTemplate": {
                    "spec": {"resources": {"requests": {"storage": "1m"}}, "volumeMode": "Filesystem"},
                }}}],
                "overhead": {"cpu": "1m"}, "resources": {"limits": {"cpu": "1m"}, "requests": {"cpu": "1m"}},
            }),
        );
    }

    #[test]
    fn the_old_name_of_the_service_account_follows_the_new() {
        let both = json!({"serviceAccount": "a", "serviceAccountName": "a"});
        check(&json!({"serviceAccount": "a"}), &both);
        check(&json!({"serviceAccountName": "a"}), &both);
    }
}
