//! QoS classes of pods.

use serde_json::Value;

/// Returns the QoS class: `Guaranteed` if the limits of all containers equal their requests, `BestEffort` if there are
/// none, otherwise `Burstable`.
pub(in crate::kinds::builtin) fn qos_class(spec: &Value) -> &'static str {
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
    }
}
