//! Changes of scheduling constraints. While a pod has scheduling gates, an update may add constraints on nodes, but not relax them.

use kube_apimachinery::go_struct::internal_text;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use crate::kinds::builtin::shared::fields::{list, put};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Checks that constraints on nodes are only added.
pub(super) fn validate(before: &Value, after: &Value) -> Vec<FieldError> {
    node_selector(&before["nodeSelector"], &after["nodeSelector"])
        .into_iter()
        .chain(node_affinity(&before["affinity"]["nodeAffinity"], &after["affinity"]["nodeAffinity"]))
        .collect()
}

fn node_selector(before: &Value, after: &Value) -> Option<FieldError> {
    let mut labels = before.as_object().into_iter().flatten();
    labels.any(|(name, value)| after.get(name) != Some(value)).then(|| {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        FieldError::invalid("spec.nodeSelector", &after.to_string(), why)
    })
}

fn node_affinity(before: &Value, after: &Value) -> Vec<FieldError> {
    // Preferences exclude no node, so they may change freely.
    let place = format!("spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
    let terms = list(&before[REQUIRED], "nodeSelectorTerms");
    let new_terms = list(&after[REQUIRED], "nodeSelectorTerms");
    // Without old terms any node fits, so every new term is an addition.
    if terms.is_empty() {
        return Vec::new();
    }
    if terms.len() != new_terms.len() {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        let shown = Value::from(new_terms);
        let shown = internal_text("[]core.NodeSelectorTerm", &shown);
        return vec![FieldError::invalid(place, &shown, why)];
    }
    let changed = terms.iter().zip(new_terms).enumerate().filter(|(_, (old, new))| !is_extended(old, new));
    let errors = changed.map(|(index, (_, new))| {
        let why = "only additions are allowed (no mutations or deletions)";
        FieldError::invalid(format!("{place}[{index}]"), &internal_text("core.NodeSelectorTerm", new), why)
    });
    errors.collect()
}

/// Whether the new term has the requirements of the old one, and further ones only behind them. An empty term matches nothing, so adding to
/// it would relax the constraint.
fn is_extended(old: &Value, new: &Value) -> bool {
    let fields = ["matchExpressions", "matchFields"];
    if fields.iter().all(|field| list(old, field).is_empty()) {
        return fields.iter().all(|field| list(new, field).is_empty());
    }
    fields.iter().all(|field| list(new, field).starts_with(list(old, field)))
}

/// Restores the node affinity of the old spec, so that a comparison of the specs ignores it.
pub(super) fn restore_node_affinity(before: &Value, spec: &mut Value) {
    let old = &before["affinity"]["nodeAffinity"];
    let affinity = &spec["affinity"];
    let has_only_node_affinity = affinity
        .as_object()
        .is_some_and(|fields| fields.iter().all(|(name, value)| name == "nodeAffinity" || value.is_null()));
    if affinity["nodeAffinity"] == *old {
        return;
    }
    if affinity.is_null() {
        put(spec, "affinity", serde_json::json!({ "nodeAffinity": old }));
    } else if before["affinity"].is_null() && has_only_node_affinity {
        // The old pod has no affinity at all, and the comparison distinguishes an absent one from an empty one.
        put(spec, "affinity", Value::Null);
    } else {
        put(&mut spec["affinity"], "nodeAffinity", old.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::builtin::pod::pod_update;

    fn check(old: &Value, new: &Value, fields: &[&str]) {
        let pod = |constraints: &Value| {
            let mut spec =
                json!({"containers": [{"name": "c", "image": "x"}], "schedulingGates": [{"name": "g"}]});
            spec.as_object_mut().unwrap().extend(constraints.as_object().unwrap().clone());
            json!({ "spec": spec })
        };
        let errors = pod_update::validate(&pod(old), &pod(new));
        let errors: Vec<String> = errors.into_iter().map(|error| error.field).collect();
        assert_eq!(errors, fields, "{old} {new}");
    }

    #[test]
    fn node_selectors_grow() {
        let labels = |labels: Value| json!({ "nodeSelector": labels });
        check(&labels(json!({"a": "b"})), &labels(json!({"a": "b", "c": "d"})), &[]);
        check(&json!({}), &labels(json!({"c": "d"})), &[]);
        check(&labels(json!({"a": "b"})), &labels(json!({"a": "c"})), &["spec.nodeSelector"]);
        check(&labels(json!({"a": "b"})), &json!({}), &["spec.nodeSelector"]);
    }

    #[test]
    fn terms_of_the_node_affinity_grow() {
        let terms =
            |terms: Value| json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}});
        let (one, two) =
            (json!({"key": "a", "operator": "Exists"}), json!({"key": "b", "operator": "Exists"}));
        let place =
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
        let first = format!("{place}[0]");
        let small = terms(json!([{"matchExpressions": [one]}]));
        check(&small, &terms(json!([{"matchExpressions": [one, two]}])), &[]);
        check(&small, &terms(json!([{"matchExpressions": [one], "matchFields": [two]}])), &[]);
        check(&json!({}), &small, &[]);
        check(&json!({"affinity": {}}), &small, &[]);
        check(&small, &terms(json!([{"matchExpressions": [two, one]}])), &[&first]);
        check(&small, &terms(json!([{"matchExpressions": [one]}, {"matchExpressions": [two]}])), &[place]);
        check(&small, &json!({}), &[place]);
        check(&terms(json!([{}])), &small, &[&first]);
        let other = json!({"affinity": {"podAffinity": {"a": 1}}});
        check(&json!({}), &other, &["spec"]);
    }
}
