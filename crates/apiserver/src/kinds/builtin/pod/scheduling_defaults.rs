//! Fields of a new pod that kube-apiserver sets for the scheduler: the condition of a gated pod, and requirements of label selectors.

use serde_json::{Value, json};

use crate::kinds::builtin::shared::fields::{elements, list};

/// Returns the condition that scheduling gates block a new pod; `None` without gates.
pub(super) fn conditions(spec: &Value, now: &str) -> Option<Value> {
    (!list(spec, "schedulingGates").is_empty()).then(|| {
        json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "lastProbeTime": null, "lastTransitionTime": now,
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }])
    })
}

/// Adds the pod's own labels that `matchLabelKeys` and `mismatchLabelKeys` name to the label selectors of affinities and of topology
/// spread constraints.
pub(super) fn merge_label_keys(pod: &mut Value) {
    let labels = pod["metadata"]["labels"].clone();
    let Some(spec) = pod.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.get_mut("affinity").and_then(|affinity| affinity.get_mut(kind)) else {
            continue;
        };
        for term in elements(affinity, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = term.get_mut("podAffinityTerm") {
                merge(term, &labels);
            }
        }
        elements(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
            .for_each(|term| merge(term, &labels));
    }
    elements(spec, "topologySpreadConstraints").for_each(|constraint| merge(constraint, &labels));
}

/// Adds the requirements to the selector of a term. A term without a selector matches no pod and stays unchanged.
fn merge(term: &mut Value, labels: &Value) {
    let mut requirements = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys = list(term, field).iter().filter_map(Value::as_str);
        // Keys that the pod has no label for are ignored.
        let own = keys.filter_map(|key| Some((key, labels.get(key)?)));
        requirements
            .extend(own.map(|(key, value)| json!({"key": key, "operator": operator, "values": [value]})));
    }
    if requirements.is_empty() || !term["labelSelector"].is_object() {
        return;
    }
    let expressions = &mut term["labelSelector"]["matchExpressions"];
    match expressions {
        Value::Array(expressions) => expressions.extend(requirements),
        _ => *expressions = Value::Array(requirements),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn selectors_contain_the_labels_that_keys_name() {
        let requirement = |key: &str, operator: &str, value: &str| json!({"key": key, "operator": operator, "values": [value]});
        for (term, expected) in [
            (
                json!({"labelSelector": {}, "matchLabelKeys": ["a", "none"], "mismatchLabelKeys": ["b"]}),
                json!([requirement("a", "In", "1"), requirement("b", "NotIn", "2")]),
            ),
            (
                json!({"labelSelector": {"matchExpressions": [requirement("c", "In", "3")]}, "matchLabelKeys": ["b"]}),
                json!([requirement("c", "In", "3"), requirement("b", "In", "2")]),
            ),
            (json!({"labelSelector": {}, "matchLabelKeys": ["none"]}), Value::Null),
            (json!({"matchLabelKeys": ["a"]}), Value::Null),
            (json!({"labelSelector": {}}), Value::Null),
        ] {
            let mut pod = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {
                "affinity": {
                    "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]},
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
                },
                "topologySpreadConstraints": [term],
            }});
            merge_label_keys(&mut pod);
            let spec = &pod["spec"];
            for changed in [
                &spec["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"],
                &spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0],
                &spec["topologySpreadConstraints"][0],
            ] {
                assert_eq!(changed["labelSelector"]["matchExpressions"], expected);
            }
        }
    }

    #[test]
    fn a_pod_with_gates_is_not_scheduled() {
        assert_eq!(conditions(&json!({"schedulingGates": []}), "now"), None);
        let conditions = conditions(&json!({"schedulingGates": [{"name": "g"}]}), "now").unwrap();
        assert_eq!(
            (&conditions[0]["reason"], &conditions[0]["lastTransitionTime"]),
            (&json!("SchedulingGated"), &json!("now"))
        );
    }
}
