//! Pods: defaults that templates do not have, the status of new pods, and the grace period of deletions.

use serde_json::{Value, json};

use super::defaults::{elements, set};
use super::pod_template;

/// Sets defaults of a Pod after its fields were completed.
pub(super) fn default(pod: &mut Value) {
    pod_template::default(pod);
    let Some(spec) = pod.get_mut("spec").filter(|spec| spec.is_object()) else {
        return;
    };
    set(spec, "enableServiceLinks", json!(true));
    let on_host = spec["hostNetwork"] == true;
    for list in ["initContainers", "containers"] {
        for container in elements(spec, list) {
            request_limits(container);
            // In the network of the host, a port of the container is a port of the host.
            if on_host {
                for port in elements(container, "ports") {
                    let number = port["containerPort"].clone();
                    set(port, "hostPort", number);
                }
            }
        }
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

/// Sets the status of a new pod: its phase and its QoS class.
pub(super) fn prepare_create(pod: &mut Value) {
    let class = qos_class(&pod["spec"]);
    pod["status"] = json!({"phase": "Pending", "qosClass": class});
}

/// Returns the QoS class: `Guaranteed` if the limits of all containers equal their requests, `BestEffort` if there are
/// none, otherwise `Burstable`.
pub(super) fn qos_class(spec: &Value) -> &'static str {
    let lists =
        ["initContainers", "containers"].map(|list| spec[list].as_array().map_or(&[][..], Vec::as_slice));
    let containers: Vec<&Value> = lists.into_iter().flatten().collect();
    let amount = |container: &Value, kind: &str, name: &str| {
        container["resources"][kind][name].as_str().filter(|amount| *amount != "0").map(str::to_owned)
    };
    let names = ["cpu", "memory"];
    let asks = |container: &&Value| {
        names.iter().any(|name| {
            amount(container, "requests", name).is_some() || amount(container, "limits", name).is_some()
        })
    };
    let is_exact = |container: &&Value| {
        names.iter().all(|name| {
            let limit = amount(container, "limits", name);
            limit.is_some() && limit == amount(container, "requests", name)
        })
    };
    if !containers.iter().any(asks) {
        "BestEffort"
    } else if containers.iter().all(is_exact) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Returns the grace period of a deleted pod in seconds; zero if no node runs it.
pub(super) fn grace_period(pod: &Value, asked: Option<i64>) -> i64 {
    let runs = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let ended = ["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap_or_default());
    let seconds = asked.or_else(|| pod["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(0);
    match seconds {
        _ if !runs || ended => 0,
        negative if negative < 0 => 1,
        seconds => seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(containers: &Value) -> &'static str {
        qos_class(&json!({ "containers": containers }))
    }

    #[test]
    fn pods_that_ask_for_what_they_are_limited_to_are_guaranteed() {
        let exact =
            json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}});
        assert_eq!(class(&json!([{"resources": exact}])), "Guaranteed");
        assert_eq!(class(&json!([{"resources": exact}, {}])), "Burstable");
        assert_eq!(class(&json!([{"resources": {"requests": {"cpu": "1"}}}])), "Burstable");
        assert_eq!(class(&json!([{"resources": {"limits": {"example.com/gpu": "1"}}}])), "BestEffort");
        assert_eq!(class(&json!([])), "BestEffort");
    }

    #[test]
    fn limits_are_requested_where_nothing_else_is() {
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
    fn only_a_pod_on_a_node_takes_time_to_go() {
        let pod = |node: &str, phase: &str| json!({"spec": {"nodeName": node, "terminationGracePeriodSeconds": 30}, "status": {"phase": phase}});
        assert_eq!(grace_period(&pod("", "Pending"), None), 0);
        assert_eq!(grace_period(&pod("n", "Running"), None), 30);
        assert_eq!(grace_period(&pod("n", "Running"), Some(5)), 5);
        assert_eq!(grace_period(&pod("n", "Running"), Some(-5)), 1);
        assert_eq!(grace_period(&pod("n", "Succeeded"), Some(5)), 0);
    }
}
