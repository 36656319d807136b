//! Rules that workloads share: selector, numbers, update strategy and status.

use kube_apimachinery::selector::LabelSelector;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::field_checks::{not_negative, supported};
use super::fields::{set, set_pointer, within};
use super::{discouraged, label_selector, pod_spec};

/// Sets the strategy `RollingUpdate` and its limits, unless the client chose another strategy. Go's internal types have no absent limits:
/// the limits of another strategy become 0.
pub(in crate::kinds::builtin) fn default_rolling_update(strategy: &mut Value, limits: &[(&str, Value)]) {
    set(strategy, "type", json!("RollingUpdate"));
    if strategy.get("type").is_some_and(|kind| kind == "RollingUpdate") {
        set(strategy, "rollingUpdate", json!({}));
        within(strategy, "rollingUpdate", |rolling| {
            for (key, limit) in limits {
                set_pointer(rolling, key, limit.clone());
            }
        });
    }
    within(strategy, "rollingUpdate", |rolling| {
        for (key, _) in limits {
            set_pointer(rolling, key, json!(0));
        }
    });
}

/// Returns `metadata.generation`, or null.
pub(in crate::kinds::builtin) fn generation(object: &Value) -> &Value {
    &object["metadata"]["generation"]
}

/// Returns the warnings about a workload, whose pods get their names from it. An update has warnings only if it changes the generation.
pub(in crate::kinds::builtin) fn warnings(object: &Value, old: Option<&Value>, path: &str) -> Vec<String> {
    match old {
        // The generation rises only if the spec changes. Other updates do not repeat the warnings.
        Some(old) if generation(old) == generation(object) => Vec::new(),
        Some(_) => pod_spec::warnings(object, path),
        None => {
            let name = discouraged::name_of_pods(object, "Pod names and hostnames");
            name.into_iter().chain(pod_spec::warnings(object, path)).collect()
        }
    }
}

/// Whether the selector of a workload can be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kinds::builtin) enum SelectorValidity {
    /// The selector can be parsed, or is missing or empty.
    Usable,
    /// The selector cannot be parsed. kube-apiserver then skips the template of most workloads.
    Unusable,
}

/// Checks that the selector of a workload matches the pods of its template. `kind` names the workload in errors; `unusable` is the detail
/// of the error about a selector that cannot be parsed.
pub(in crate::kinds::builtin) fn validate_selector(
    kind: &str,
    unusable: &str,
    spec: &Value,
) -> (Vec<FieldError>, SelectorValidity) {
    let selector = &spec["selector"];
    let labels = &spec["template"]["metadata"]["labels"];
    if selector.is_null() {
        // For Go, a nil selector matches nothing, so both errors are reported.
        return (
            vec![FieldError::required("spec.selector", ""), unmatched(labels)],
            SelectorValidity::Usable,
        );
    }
    let mut errors = label_selector::validate(selector, "spec.selector");
    if is_empty(selector) {
        let why = format!("empty selector is invalid for {kind}");
        errors.push(FieldError::invalid("spec.selector", "{}", &why));
        // An empty selector matches all pods, so there are no labels to compare.
        return (errors, SelectorValidity::Usable);
    }
    let Some(parsed) = LabelSelector::from_object(selector).filter(|_| errors.is_empty()) else {
        errors.push(match unusable {
            "" => FieldError {
                reason: "FieldValueInvalid",
                field: "spec.selector".to_owned(),
                message: format!("Invalid value: {}", label_selector::shown(selector)),
            },
            why => FieldError::invalid("spec.selector", &label_selector::shown(selector), why),
        });
        return (errors, SelectorValidity::Unusable);
    };
    if !parsed.matches_labels(Some(labels)) {
        errors.push(unmatched(labels));
    }
    (errors, SelectorValidity::Usable)
}

/// Validates the selector and the pod template of a workload; `old` is the workload before an update.
pub(in crate::kinds::builtin) fn validate_template(
    kind: &str,
    unusable: &str,
    object: &Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    let (mut errors, validity) = validate_selector(kind, unusable, &object["spec"]);
    if validity == SelectorValidity::Usable {
        errors.extend(pod_spec::validate(object, old, pod_spec::IN_WORKLOAD));
        // Deployments share this code with ReplicaSets in kube-apiserver, including the name in the message.
        errors.extend(validate_endless(&object["spec"], "ReplicaSet"));
    }
    errors
}

/// Checks that the pods of a workload run without end: they always restart and have no deadline.
pub(in crate::kinds::builtin) fn validate_endless(spec: &Value, kind: &str) -> Vec<FieldError> {
    let pod = &spec["template"]["spec"];
    let path = pod_spec::IN_WORKLOAD;
    let mut errors: Vec<FieldError> =
        supported(pod, "restartPolicy", path, &["Always"]).into_iter().collect();
    if !pod["activeDeadlineSeconds"].is_null() {
        let why = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(FieldError::forbidden(format!("{path}.activeDeadlineSeconds"), &why));
    }
    errors
}

/// Numbers in the status of a workload.
#[derive(Debug)]
pub(in crate::kinds::builtin) struct StatusNumbers {
    /// Numbers that must not be negative.
    pub(in crate::kinds::builtin) not_negative: &'static [&'static str],
    /// Numbers that must not exceed `replicas`.
    pub(in crate::kinds::builtin) up_to_replicas: &'static [&'static str],
    /// Name in errors for `readyReplicas`, which `availableReplicas` must not exceed. Empty if the status has no such numbers.
    pub(in crate::kinds::builtin) ready: &'static str,
}

/// Numbers of ReplicaSets and ReplicationControllers. The latter lack `terminatingReplicas`, which is then not checked.
pub(in crate::kinds::builtin) const REPLICA_NUMBERS: StatusNumbers = StatusNumbers {
    not_negative: &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ],
    up_to_replicas: &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    ready: "readyReplicas",
};

/// Validates the numbers in the new status of a workload.
pub(in crate::kinds::builtin) fn validate_status(
    numbers: &StatusNumbers,
    old: &Value,
    new: &Value,
) -> Vec<FieldError> {
    const PATH: &str = "status";
    const COLLISIONS: &str = "collisionCount";
    let status = &new["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or_default();
    let mut errors: Vec<FieldError> =
        numbers.not_negative.iter().filter_map(|field| not_negative(status, field, PATH)).collect();
    let mut bounded = |field: &str, bound: &str, name: &str| {
        let value = number(field);
        if value > number(bound) {
            let why = format!("cannot be greater than {name}");
            errors.push(FieldError::invalid(format!("{PATH}.{field}"), &value.to_string(), &why));
        }
    };
    for field in numbers.up_to_replicas {
        bounded(field, "replicas", "status.replicas");
    }
    if !numbers.ready.is_empty() {
        bounded("availableReplicas", "readyReplicas", numbers.ready);
    }
    // Controllers derive names from this counter, so it must not return to an earlier value.
    // Removing the counter counts as a decrement to 0.
    let before = old["status"][COLLISIONS].as_i64();
    if numbers.not_negative.contains(&COLLISIONS)
        && before.is_some_and(|before| status[COLLISIONS].as_i64().is_none_or(|after| after < before))
    {
        let shown = number(COLLISIONS).to_string();
        errors.push(FieldError::invalid(format!("{PATH}.{COLLISIONS}"), &shown, "cannot be decremented"));
    }
    errors
}

/// Validates the selector of a DaemonSet. A missing one is only reported as not matching the template.
pub(in crate::kinds::builtin) fn validate_daemon_selector(spec: &Value) -> Vec<FieldError> {
    let selector = &spec["selector"];
    let labels = &spec["template"]["metadata"]["labels"];
    if selector.is_null() {
        return vec![unmatched(labels)];
    }
    let mut errors = label_selector::validate(selector, "spec.selector");
    let parsed = LabelSelector::from_object(selector).filter(|_| errors.is_empty());
    if parsed.is_some_and(|parsed| !parsed.matches_labels(Some(labels))) {
        errors.push(unmatched(labels));
    }
    // For DaemonSets, this error follows that about the labels.
    if is_empty(selector) {
        let why = "empty selector is invalid for daemonset";
        errors.push(FieldError::invalid("spec.selector", "{}", why));
    }
    errors
}

/// Validates the selector of a ReplicationController, which is a map of labels, and its numbers.
pub(in crate::kinds::builtin) fn validate_label_map(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let selector = spec["selector"].as_object().filter(|labels| !labels.is_empty());
    if selector.is_none() {
        errors.push(FieldError::required("spec.selector", ""));
    }
    errors.extend(not_negative(spec, "minReadySeconds", "spec"));
    errors.extend(not_negative(spec, "replicas", "spec"));
    let template = &spec["template"];
    if template.is_null() {
        errors.push(FieldError::required("spec.template", ""));
        return errors;
    }
    let labels = &template["metadata"]["labels"];
    let matches = |(name, value): (&String, &Value)| labels.get(name) == Some(value);
    if selector.is_some_and(|selector| !selector.iter().all(matches)) {
        errors.push(unmatched(labels));
    }
    errors
}

fn unmatched(labels: &Value) -> FieldError {
    let why = "`selector` does not match template `labels`";
    FieldError::invalid("spec.template.metadata.labels", &labels.to_string(), why)
}

/// Checks that numbers of the spec are not negative.
pub(in crate::kinds::builtin) fn validate_numbers(spec: &Value, fields: &[&str]) -> Vec<FieldError> {
    fields.iter().filter_map(|field| not_negative(spec, field, "spec")).collect()
}

/// Checks that an update does not change the selector.
pub(in crate::kinds::builtin) fn keep_selector(new: &Value, old: Option<&Value>) -> Option<FieldError> {
    label_selector::immutable("spec.selector", &old?["spec"]["selector"], &new["spec"]["selector"])
}

fn is_empty(selector: &Value) -> bool {
    let without = |key: &str| {
        selector.get(key).is_none_or(|part| part.is_null() || *part == json!({}) || *part == json!([]))
    };
    !selector.is_null() && without("matchLabels") && without("matchExpressions")
}
