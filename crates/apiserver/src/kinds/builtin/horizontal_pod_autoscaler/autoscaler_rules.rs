//! Validation of HorizontalPodAutoscalers in the stored version.

use kube_apimachinery::names::{self, NameRule};
use kube_apimachinery::quantity::Quantity;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use crate::kinds::builtin::shared::field_checks::{invalid_text, not_negative, path_segment, supported};
use crate::kinds::builtin::shared::fields::{list, text};
use crate::kinds::builtin::shared::label_selector::invalid;
use crate::kinds::builtin::shared::resource_names;

const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
/// Types of metrics and the field of each, in the order in which kube-apiserver validates the fields.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const MAX_WINDOW: i64 = 3600;
const MAX_PERIOD: i64 = 1800;
const BOTH: &str = "may not set both a target raw value and a target utilization";
const NEITHER: &str = "must set either a target raw value or a target utilization";

/// Check of the API group in a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReferenceGroup {
    Required,
    Optional,
    /// For an unchanged reference, which an older server may have accepted.
    Unchecked,
}

/// Validates the spec of an autoscaler. `old` is the state before an update.
pub(super) fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let (spec, old) = (&new["spec"], old.map(|old| &old["spec"]));
    let (min, max) = (spec["minReplicas"].as_i64(), spec["maxReplicas"].as_i64().unwrap_or_default());
    // Scaling to zero is behind the feature gate `HPAScaleToZero`, which is off by default. An autoscaler that already has the minimum 0
    // keeps it.
    let lowest = i64::from(old.is_none_or(|old| old["minReplicas"] != 0));
    let mut errors = Vec::new();
    if let Some(min) = min.filter(|min| *min < lowest) {
        let why = format!("must be greater than or equal to {lowest}");
        errors.push(FieldError::invalid("spec.minReplicas", &min.to_string(), &why));
    }
    let refuse = |why: &str| FieldError::invalid("spec.maxReplicas", &max.to_string(), why);
    match max {
        // In Go, this number is not a pointer, so zero means absent.
        0 => errors.push(FieldError::required("spec.maxReplicas", "must be set and greater than 0")),
        ..0 => errors.push(refuse("must be greater than or equal to 1")),
        _ => {}
    }
    if min.is_some_and(|min| max < min) {
        errors.push(refuse("must be greater than or equal to `minReplicas`"));
    }
    let target = &spec["scaleTargetRef"];
    let is_same = |old: &Value| {
        ["apiVersion", "kind"].iter().all(|field| text(&old["scaleTargetRef"], field) == text(target, field))
    };
    let group = match old {
        Some(old) if is_same(old) => ReferenceGroup::Unchecked,
        // This is the only scalable kind in the core group.
        _ if text(target, "kind") == "ReplicationController" => ReferenceGroup::Optional,
        _ => ReferenceGroup::Required,
    };
    errors.extend(reference(target, group, "spec.scaleTargetRef"));
    let metrics = list(spec, "metrics");
    for (index, given) in metrics.iter().enumerate() {
        errors.extend(metric(given, &format!("spec.metrics[{index}]")));
    }
    // Metrics of pods have no value while there are no pods, so they could never scale the target up again.
    let scales_to_zero = |metric: &Value| ["Object", "External"].contains(&text(metric, "type"));
    if min == Some(0) && !metrics.iter().any(scales_to_zero) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden("spec.metrics", why));
    }
    for direction in ["scaleUp", "scaleDown"] {
        let rules = &spec["behavior"][direction];
        if !rules.is_null() {
            errors.extend(scaling(rules, &format!("spec.behavior.{direction}")));
        }
    }
    errors
}

/// Validates the numbers in the status.
pub(super) fn validate_status(new: &Value) -> Vec<FieldError> {
    let fields = ["currentReplicas", "desiredReplicas"];
    fields.iter().filter_map(|field| not_negative(&new["status"], field, "status")).collect()
}

fn reference(reference: &Value, group: ReferenceGroup, path: &str) -> Vec<FieldError> {
    let mut errors = path_segment(reference, "kind", path);
    errors.extend(path_segment(reference, "name", path));
    let version = text(reference, "apiVersion");
    let slashes = version.matches('/').count();
    let why = if slashes > 1 {
        Some(format!("unexpected GroupVersion string: {version}"))
    } else if slashes == 0 && group == ReferenceGroup::Required {
        Some("apiVersion must specify API group".to_owned())
    } else {
        None
    };
    if let Some(why) = why.filter(|_| group != ReferenceGroup::Unchecked) {
        errors.push(invalid_text(format!("{path}.apiVersion"), version, &why));
    }
    errors
}

/// Checks that a metric has only the field of its type, and validates the field.
fn metric(metric: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let kind = text(metric, "type");
    let field = format!("{path}.type");
    if kind.is_empty() {
        errors.push(FieldError::required(&*field, "must specify a metric source type"));
    }
    let is_known = TYPES.contains(&kind);
    if !is_known {
        errors.push(FieldError::not_supported(&*field, kind, &TYPES));
    }
    let mut present = SOURCES.iter().filter(|(_, field)| !metric[*field].is_null());
    let count = present.clone().count();
    // Only the first field is validated. Each other one is reported below.
    if let Some((kind, field)) = present.next() {
        errors.extend(source(kind, &metric[*field], &format!("{path}.{field}")));
    }
    let expected = SOURCES.iter().find(|(known, _)| *known == kind).map(|(_, field)| *field);
    match expected {
        Some(expected) if metric[expected].is_null() => {
            let why = "must populate information for the given metric source";
            errors.push(FieldError::required(format!("{path}.{expected}"), why));
        }
        Some(_) => {}
        // kube-apiserver reports an unknown type a second time.
        None => errors.push(FieldError::not_supported(field, kind, &TYPES)),
    }
    if count != 1 {
        let others =
            SOURCES.iter().filter(|(_, field)| !metric[*field].is_null() && Some(*field) != expected);
        errors.extend(others.map(|(_, field)| {
            FieldError::forbidden(format!("{path}.{field}"), "must populate the given metric source only")
        }));
    }
    errors
}

fn source(kind: &str, source: &Value, path: &str) -> Vec<FieldError> {
    let target_path = format!("{path}.target");
    let wanted = &source["target"];
    let has = |field: &str| !wanted[field].is_null();
    let place = |field: &str| format!("{target_path}.{field}");
    let mut errors = Vec::new();
    match kind {
        "Object" => {
            let object = &source["describedObject"];
            errors.extend(reference(object, ReferenceGroup::Optional, &format!("{path}.describedObject")));
            errors.extend(identifier(&source["metric"], &format!("{path}.metric")));
        }
        "External" | "Pods" => errors.extend(identifier(&source["metric"], &format!("{path}.metric"))),
        _ => errors.extend(resource(kind, source, path)),
    }
    errors.extend(target(wanted, &target_path));
    match kind {
        // Unlike for the other types, kube-apiserver accepts both targets here.
        "Object" if !has("value") && !has("averageValue") => {
            let why = "must set either a target value or averageValue";
            errors.push(FieldError::required(place("averageValue"), why));
        }
        "External" if !has("value") && !has("averageValue") => {
            let why = "must set either a target value for metric or a per-pod target";
            errors.push(FieldError::required(place("averageValue"), why));
        }
        "External" if has("value") && has("averageValue") => {
            let why = "may not set both a target value for metric and a per-pod target";
            errors.push(FieldError::forbidden(place("value"), why));
        }
        "Pods" if !has("averageValue") => {
            let why = "must specify a positive target averageValue";
            errors.push(FieldError::required(place("averageValue"), why));
        }
        "Resource" | "ContainerResource" if !has("averageUtilization") && !has("averageValue") => {
            errors.push(FieldError::required(place("averageUtilization"), NEITHER));
        }
        "Resource" | "ContainerResource" if has("averageUtilization") && has("averageValue") => {
            errors.push(FieldError::forbidden(place("averageValue"), BOTH));
        }
        _ => {}
    }
    errors
}

/// Validates the name of a resource, and of the container if the metric has one.
fn resource(kind: &str, source: &Value, path: &str) -> Vec<FieldError> {
    let (name, container) = (text(source, "name"), text(source, "container"));
    let mut errors = Vec::new();
    let field = format!("{path}.name");
    if name.is_empty() {
        errors.push(FieldError::required(field, "must specify a resource name"));
    } else if kind == "ContainerResource" {
        // kube-apiserver does not validate the resource name of the type `Resource`.
        errors.extend(resource_names::validate_of_container(name, &field));
    }
    if kind == "ContainerResource" {
        let field = format!("{path}.container");
        if container.is_empty() {
            errors.push(FieldError::required(field, "must specify a container"));
        } else {
            errors.extend(invalid(&field, container, &names::label(container)));
        }
    }
    errors
}

fn identifier(metric: &Value, path: &str) -> Vec<FieldError> {
    let (name, field) = (text(metric, "name"), format!("{path}.name"));
    if name.is_empty() {
        return vec![FieldError::required(field, "must specify a metric name")];
    }
    invalid(&field, name, &names::name(NameRule::PathSegment, name))
}

fn target(target: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (kind, field) = (text(target, "type"), format!("{path}.type"));
    if kind.is_empty() {
        errors.push(FieldError::required(&*field, "must specify a metric target type"));
    }
    // An empty type causes both errors, like in kube-apiserver.
    if !["Utilization", "Value", "AverageValue"].contains(&kind) {
        errors.push(invalid_text(field, kind, "must be either Utilization, Value, or AverageValue"));
    }
    for amount in ["value", "averageValue"] {
        let given = target[amount].as_str().and_then(Quantity::read);
        if let Some(given) = given.filter(|given| *given <= Quantity::ZERO) {
            errors.push(invalid_text(format!("{path}.{amount}"), &given.to_string(), "must be positive"));
        }
    }
    let percent = target["averageUtilization"].as_i64();
    if let Some(percent) = percent.filter(|percent| *percent < 1) {
        let field = format!("{path}.averageUtilization");
        errors.push(FieldError::invalid(field, &percent.to_string(), "must be greater than 0"));
    }
    errors
}

/// Validates the rules for scaling in one direction.
fn scaling(rules: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let window = format!("{path}.stabilizationWindowSeconds");
    match rules["stabilizationWindowSeconds"].as_i64() {
        Some(seconds @ ..0) => {
            let why = "must be greater than or equal to zero";
            errors.push(FieldError::invalid(window, &seconds.to_string(), why));
        }
        Some(seconds) if seconds > MAX_WINDOW => {
            let why = format!("must be less than or equal to {MAX_WINDOW}");
            errors.push(FieldError::invalid(window, &seconds.to_string(), &why));
        }
        _ => {}
    }
    errors.extend(supported(rules, "selectPolicy", path, &["Disabled", "Max", "Min"]));
    let policies = list(rules, "policies");
    if policies.is_empty() {
        errors.push(FieldError::required(format!("{path}.policies"), "must specify at least one Policy"));
    }
    for (index, policy) in policies.iter().enumerate() {
        let path = format!("{path}.policies[{index}]");
        let kinds = ["Percent", "Pods"];
        if !kinds.contains(&text(policy, "type")) {
            errors.push(FieldError::not_supported(format!("{path}.type"), text(policy, "type"), &kinds));
        }
        for field in ["value", "periodSeconds"] {
            let number = policy[field].as_i64().unwrap_or_default();
            let place = format!("{path}.{field}");
            if number <= 0 {
                errors.push(FieldError::invalid(place, &number.to_string(), "must be greater than zero"));
            } else if field == "periodSeconds" && number > MAX_PERIOD {
                let why = format!("must be less than or equal to {MAX_PERIOD}");
                errors.push(FieldError::invalid(place, &number.to_string(), &why));
            }
        }
    }
    let tolerance = rules["tolerance"].as_str().and_then(Quantity::read);
    if let Some(tolerance) = tolerance.filter(|tolerance| *tolerance < Quantity::ZERO) {
        let why = "must be greater than or equal to 0";
        errors.push(invalid_text(format!("{path}.tolerance"), &tolerance.to_string(), why));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(spec: &Value, expected: &[&str]) {
        let errors: Vec<String> =
            validate(&json!({ "spec": spec }), None).iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected, "{spec}");
    }

    /// Texts of kube-apiserver v1.36.3, observed or read in its source.
    #[test]
    fn targets_have_a_group_and_bounds() {
        let group = "spec.scaleTargetRef.apiVersion: Invalid value: \"\": apiVersion must specify API group";
        check(
            &json!({"minReplicas": 1}),
            &[
                "spec.maxReplicas: Required value: must be set and greater than 0",
                "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
                "spec.scaleTargetRef.kind: Required value",
                "spec.scaleTargetRef.name: Required value",
                group,
            ],
        );
        check(
            &json!({"minReplicas": 0, "maxReplicas": 2, "scaleTargetRef": {"kind": "a/b", "name": "n"}}),
            &[
                "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
                "spec.scaleTargetRef.kind: Invalid value: \"a/b\": may not contain '/'",
                group,
                "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
            ],
        );
        check(
            &json!({"maxReplicas": 2, "scaleTargetRef": {"kind": "ReplicationController", "name": "n", "apiVersion": "v1"}}),
            &[],
        );
    }

    #[test]
    fn metrics_have_one_source_and_one_target() {
        check(
            &json!({
                "maxReplicas": 2, "scaleTargetRef": {"kind": "D", "name": "n", "apiVersion": "apps/v1"},
                "metrics": [
                    {"type": "Bogus"}, {"type": "Resource"},
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}},
                ],
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5000, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}},
            }),
            &[
                "spec.metrics[0].type: Unsupported value: \"Bogus\": supported values: \"ContainerResource\", \"External\", \"Object\", \"Pods\", \"Resource\"",
                "spec.metrics[0].type: Unsupported value: \"Bogus\": supported values: \"ContainerResource\", \"External\", \"Object\", \"Pods\", \"Resource\"",
                "spec.metrics[1].resource: Required value: must populate information for the given metric source",
                "spec.metrics[2].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization",
                "spec.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: 5000: must be less than or equal to 3600",
            ],
        );
    }
}
