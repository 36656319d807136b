//! QoS classes of pods.

use kube_apimachinery::quantity::Quantity;
use serde_json::Value;

use crate::kinds::builtin::shared::amounts::Amounts;

/// Resources that decide the class. Others, such as devices and huge pages, do not count.
const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// Returns the QoS class of a pod.
///
/// The class is `Guaranteed` if every container has limits for CPU and memory and the sums of requests and limits are equal, `BestEffort`
/// if there are neither requests nor limits, and otherwise `Burstable`. Resources of the whole pod replace those of its containers.
pub(in crate::kinds::builtin) fn qos_class(spec: &Value) -> &'static str {
    // Ephemeral containers cannot have resources.
    let lists =
        ["initContainers", "containers"].map(|list| spec[list].as_array().map_or(&[][..], Vec::as_slice));
    let own = &spec["resources"];
    let resources: Vec<&Value> = if own.is_object() {
        vec![own]
    } else {
        lists.into_iter().flatten().map(|container| &container["resources"]).collect()
    };
    let amounts = |list: &Value| {
        // For kube-apiserver, a zero amount counts as absent.
        Amounts::read(list).only(|name, amount| COMPUTE.contains(&name) && amount > Quantity::ZERO)
    };
    let (mut requests, mut limits) = (Amounts::default(), Amounts::default());
    let mut all_limited = true;
    for resources in resources {
        let limit = amounts(&resources["limits"]);
        all_limited &= COMPUTE.iter().all(|name| limit.get(name).is_some());
        requests.add(&amounts(&resources["requests"]));
        limits.add(&limit);
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if all_limited && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn class(containers: &Value) -> &'static str {
        qos_class(&json!({ "containers": containers }))
    }

    #[test]
    fn pods_with_requests_equal_to_limits_are_guaranteed() {
        let exact =
            json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}});
        assert_eq!(class(&json!([{"resources": exact}])), "Guaranteed");
        assert_eq!(class(&json!([{"resources": exact}, {}])), "Burstable");
        assert_eq!(class(&json!([{"resources": {"requests": {"cpu": "1"}}}])), "Burstable");
        assert_eq!(class(&json!([{"resources": {"limits": {"example.com/gpu": "1"}}}])), "BestEffort");
        assert_eq!(class(&json!([])), "BestEffort");
        // The sums of all containers are compared.
        let shifted = |limit: &str, request: &str| {
            json!({"resources": {
                "limits": {"cpu": limit, "memory": "1Gi"}, "requests": {"cpu": request, "memory": "1024Mi"},
            }})
        };
        assert_eq!(class(&json!([shifted("1", "500m"), shifted("1", "1500m")])), "Guaranteed");
    }

    #[test]
    fn resources_of_the_pod_replace_those_of_containers() {
        let container = json!({"resources": {"requests": {"cpu": "1"}}});
        for (resources, expected) in [
            (json!(null), "Burstable"),
            (json!({}), "BestEffort"),
            (json!({"requests": {"cpu": "1"}}), "Burstable"),
            (json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}), "Burstable"),
            (
                json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}),
                "Guaranteed",
            ),
            (json!({"limits": {"hugepages-2Mi": "2Mi"}, "requests": {"hugepages-2Mi": "2Mi"}}), "BestEffort"),
        ] {
            assert_eq!(qos_class(&json!({"containers": [container], "resources": resources})), expected);
        }
    }
}
