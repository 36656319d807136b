//! Pods. The rules of the spec, which pod templates share, are in `shared/pod_spec`.

mod app_armor_annotations;
mod constraints;
mod pod_status;
mod pod_status_devices;
mod pod_update;
mod qos;
mod resize;
pub(crate) mod resources;
mod scheduling_defaults;

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{elements, put, set, within};
use super::shared::{amounts, discouraged, pod_spec};
use crate::kind::WriteContext;
use crate::kind::resource::Resource;
pub(super) use qos::qos_class;

/// Path of the pod spec.
const SPEC: &str = "spec";

#[derive(Debug)]
pub(super) struct Pod;

impl BuiltinKind for Pod {
    fn default(&self, pod: &mut Value) {
        default(pod);
    }

    /// True, because [`prepare_create`](Self::prepare_create) reads the QoS class from the status before it replaces the status.
    fn keeps_new_status(&self) -> bool {
        true
    }

    /// Sets the status of a new pod: its phase, its QoS class and whether gates block its scheduling. As in kube-apiserver, a QoS class
    /// from the client is kept.
    fn prepare_create(&self, context: &WriteContext<'_>, pod: &mut Value) {
        let sent = pod["status"]["qosClass"].as_str().filter(|class| !class.is_empty());
        let class = sent.map_or_else(|| qos_class(&pod["spec"]).to_owned(), str::to_owned);
        pod["status"] = json!({"phase": "Pending", "qosClass": class});
        if let Some(conditions) = scheduling_defaults::conditions(&pod["spec"], &context.now_seconds()) {
            pod["status"]["conditions"] = conditions;
        }
        scheduling_defaults::merge_label_keys(pod);
        context.warnings.borrow_mut().extend(app_armor_annotations::copy(pod));
    }

    fn prepare_subresource(
        &self,
        _context: &WriteContext<'_>,
        subresource: &str,
        old: &Value,
        new: &mut Value,
    ) {
        match subresource {
            "resize" => resize::keep_all_but_resources(old, new),
            "ephemeralcontainers" => pod_update::keep_all_but_ephemeral_containers(old, new),
            // Older kubelets omit these fields.
            "status" => within(new, "status", |status| {
                for field in ["observedGeneration", "qosClass"] {
                    if !old["status"][field].is_null() {
                        set(status, field, old["status"][field].clone());
                    }
                }
            }),
            _ => {}
        }
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        match old {
            None => pod_spec::validate_new_pod(new),
            Some(old) => {
                let mut errors = pod_spec::validate_pod(new, Some(old));
                errors.extend(pod_spec::pod_annotation_updates(old, new));
                errors.extend(pod_update::validate(old, new));
                errors
            }
        }
    }

    fn validate_subresource(&self, subresource: &str, old: &Value, new: &Value) -> Vec<FieldError> {
        match subresource {
            "resize" => resize::validate(old, new),
            "ephemeralcontainers" => {
                // The kubelet runs static pods from local files and ignores changes of their mirror pods.
                if pod_spec::is_mirror(old) {
                    let why = "static pods do not support ephemeral containers";
                    return vec![FieldError::forbidden("", why)];
                }
                let mut errors = pod_spec::validate_pod(new, Some(old));
                errors.extend(pod_spec::pod_annotation_updates(old, new));
                errors.extend(pod_update::validate_ephemeral_containers(old, new));
                errors
            }
            "status" => pod_status::validate(old, new),
            _ => Vec::new(),
        }
    }

    fn pod_spec(&self) -> Option<&'static str> {
        Some(SPEC)
    }

    fn warnings(&self, _resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
        // kube-apiserver has no warnings for updates of pods: they come from controllers, often and rarely from people.
        if old.is_some() {
            return Vec::new();
        }
        let name = discouraged::name_of_pods(object, "the Pod's hostname");
        name.into_iter().chain(pod_spec::warnings(object, SPEC)).collect()
    }

    fn status_keeps(&self) -> &'static [&'static str] {
        &["ownerReferences", "deletionTimestamp"]
    }

    fn resets(&self, subresource: &str) -> Option<&'static [&'static str]> {
        (subresource == "status").then_some(&[
            "spec",
            "metadata.deletionTimestamp",
            "metadata.ownerReferences",
        ])
    }

    fn grace_period(&self, pod: &Value, asked: Option<i64>) -> Option<i64> {
        Some(grace_period(pod, asked))
    }
}

fn default(pod: &mut Value) {
    within(pod, "status", default_status);
    pod_spec::default(pod);
    let Some(spec) = pod.get_mut("spec").filter(|spec| spec.is_object()) else {
        return;
    };
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        // This applies to pods only: a template keeps the negative number.
        spec["terminationGracePeriodSeconds"] = json!(1);
    }
    set(spec, "enableServiceLinks", json!(true));
    let on_host = spec["hostNetwork"] == true;
    for list in ["initContainers", "containers"] {
        for container in elements(spec, list) {
            // This applies to pods only: a template keeps its missing requests.
            request_limits(container);
            // In the host's network, container ports are host ports.
            if on_host {
                for port in elements(container, "ports") {
                    let number = port["containerPort"].clone();
                    set(port, "hostPort", number);
                }
            }
        }
    }
    resources::default_pod_level(pod);
}

fn default_status(status: &mut Value) {
    default_addresses(status);
    amounts::round_fields(status, &["allocatedResources"]);
    within(status, "resources", amounts::round_resources);
    for list in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        for container in elements(status, list) {
            amounts::round_fields(container, &["allocatedResources"]);
            within(container, "resources", amounts::round_resources);
        }
    }
}

/// Makes `podIP` and `podIPs` agree: Go's internal type has only the list. If they differ, `podIP` takes precedence, because older
/// kubelets write only that field.
fn default_addresses(status: &mut Value) {
    let first = status["podIPs"][0]["ip"].as_str().unwrap_or_default().to_owned();
    match status["podIP"].as_str().unwrap_or_default().to_owned() {
        address if address.is_empty() => {
            put(status, "podIP", if first.is_empty() { Value::Null } else { first.into() });
        }
        address if address != first => status["podIPs"] = json!([{ "ip": address }]),
        _ => {}
    }
}

/// Sets missing requests of a container to its limits.
fn request_limits(container: &mut Value) {
    let Some(limits) = container["resources"]["limits"].as_object().cloned() else {
        return;
    };
    let resources = &mut container["resources"];
    if resources["requests"].is_null() {
        resources["requests"] = json!({});
    }
    for (name, limit) in limits {
        set(&mut resources["requests"], &name, limit);
    }
}

/// Returns the grace period of a deleted pod in seconds. It is zero if no kubelet runs the pod, and one instead of a negative number.
fn grace_period(pod: &Value, asked: Option<i64>) -> i64 {
    let runs = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let ended = ["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap_or_default());
    let seconds = asked.or_else(|| pod["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(0);
    match seconds {
        // No kubelet has to stop anything, so the pod can go at once.
        _ if !runs || ended => 0,
        negative if negative < 0 => 1,
        seconds => seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_requests_are_set_to_the_limits() {
        let mut pod = json!({"spec": {"containers": [
            {"resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}}, {"resources": {}},
        ]}});
        default(&mut pod);
        assert_eq!(
            pod["spec"]["containers"][0]["resources"]["requests"],
            json!({"cpu": "1", "memory": "1Gi"})
        );
        assert_eq!(pod["spec"]["containers"][1]["resources"], json!({}));
    }

    #[test]
    fn only_a_pod_on_a_node_has_a_grace_period() {
        let pod = |node: &str, phase: &str| json!({"spec": {"nodeName": node, "terminationGracePeriodSeconds": 30}, "status": {"phase": phase}});
        assert_eq!(grace_period(&pod("", "Pending"), None), 0);
        assert_eq!(grace_period(&pod("n", "Running"), None), 30);
        assert_eq!(grace_period(&pod("n", "Running"), Some(5)), 5);
        assert_eq!(grace_period(&pod("n", "Running"), Some(-5)), 1);
        assert_eq!(grace_period(&pod("n", "Succeeded"), Some(5)), 0);
    }
}
