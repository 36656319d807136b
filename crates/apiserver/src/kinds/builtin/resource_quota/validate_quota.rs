//! Validation of ResourceQuotas, and warnings about them.

use kube_apimachinery::go::quote;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use crate::kinds::builtin::shared::amounts::{Amounts, validate_amount};
use crate::kinds::builtin::shared::resource_names;

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    CROSS_NAMESPACE,
];
const CROSS_NAMESPACE: &str = "CrossNamespacePodAffinity";
/// Pairs of scopes that exclude each other.
const CONFLICTS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

/// Validates a quota. `old` is the state before an update, which cannot change `spec.scopes`.
pub(super) fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = &new["spec"];
    let mut errors = amounts(&spec["hard"], "spec.hard");
    errors.extend(scopes(spec));
    errors.extend(selector(spec));
    if let Some(old) = old {
        // kube-apiserver compares the scopes as sets. It does not compare `scopeSelector`, which an update may change.
        let set = |spec: &Value| {
            let mut names: Vec<String> = texts(&spec["scopes"]).map(str::to_owned).collect();
            names.sort_unstable();
            names.dedup();
            names
        };
        if set(&old["spec"]) != set(spec) {
            errors.push(FieldError::invalid("spec.scopes", &shown(&spec["scopes"]), "field is immutable"));
        }
    }
    errors
}

/// Validates the status of a quota.
pub(super) fn validate_status(new: &Value) -> Vec<FieldError> {
    let mut errors = amounts(&new["status"]["hard"], "status.hard");
    errors.extend(amounts(&new["status"]["used"], "status.used"));
    errors
}

/// Returns a warning for each resource whose total of requests may exceed its total of limits.
pub(super) fn warnings(new: &Value) -> Vec<String> {
    let hard = Amounts::read(&new["spec"]["hard"]);
    let mut warnings = Vec::new();
    for resource in ["cpu", "memory", "storage", "ephemeral-storage"] {
        // A quota can also limit requests for these two by their short names.
        let mut name = format!("requests.{resource}");
        if hard.get(&name).is_none() && ["cpu", "memory"].contains(&resource) {
            resource.clone_into(&mut name);
        }
        let limit_name = format!("limits.{resource}");
        if let (Some(request), Some(limit)) = (hard.get(&name), hard.get(&limit_name))
            && request > limit
        {
            warnings
                .push(format!("ResourceQuota {name} ({request}) should be less than {limit_name} ({limit})"));
        }
    }
    warnings
}

fn amounts(list: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (name, amount) in Amounts::read(list).iter() {
        let path = format!("{path}[{name}]");
        errors.extend(resource_names::validate_of_quota(name, &path));
        errors.extend(validate_amount(name, amount, &path));
    }
    errors
}

/// Whether a limit of Kubernetes' own resources makes sense in a scope.
fn applies(scope: &str, name: &str) -> bool {
    const COMPUTE: [&str; 6] =
        ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
    match scope {
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | CROSS_NAMESPACE => {
            name == "pods" || COMPUTE.contains(&name)
        }
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => ["persistentvolumeclaims", "requests.storage"].contains(&name),
        _ => true,
    }
}

/// Counts the limits that do not make sense in a scope. Each is an error of its own. Only Kubernetes' own resources are checked.
fn unsupported(spec: &Value, scope: &str) -> usize {
    let hard = Amounts::read(&spec["hard"]);
    hard.names().filter(|name| resource_names::is_of_quota(name) && !applies(scope, name)).count()
}

fn scopes(spec: &Value) -> Vec<FieldError> {
    const PATH: &str = "spec.scopes";
    let value = shown(&spec["scopes"]);
    let names: Vec<&str> = texts(&spec["scopes"]).collect();
    let mut errors = Vec::new();
    for scope in &names {
        if !SCOPES.contains(scope) {
            errors.push(FieldError::invalid(PATH, &value, "unsupported scope"));
        }
        let why = "unsupported scope applied to resource";
        errors.extend((0..unsupported(spec, scope)).map(|_| FieldError::invalid(PATH, &value, why)));
    }
    errors.extend(conflicts(&names).map(|()| FieldError::invalid(PATH, &value, "conflicting scopes")));
    errors
}

fn selector(spec: &Value) -> Vec<FieldError> {
    const PATH: &str = "spec.scopeSelector.matchExpressions";
    let mut errors = Vec::new();
    let mut names = Vec::new();
    for expression in spec["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten() {
        let text = |field: &str| expression[field].as_str().unwrap_or_default();
        let (scope, operator) = (text("scopeName"), text("operator"));
        let has_values = texts(&expression["values"]).next().is_some();
        names.push(scope);
        if !SCOPES.contains(&scope) {
            errors.push(FieldError::invalid(format!("{PATH}.scopeName"), &quote(scope), "unsupported scope"));
        }
        let why = "unsupported scope applied to resource";
        let value = selector_as_go(&spec["scopeSelector"]);
        errors.extend((0..unsupported(spec, scope)).map(|_| FieldError::invalid(PATH, &value, why)));
        // Only the scopes about classes have values to compare. The other scopes either apply or not.
        let is_plain =
            SCOPES.contains(&scope) && !["PriorityClass", "VolumeAttributesClass"].contains(&scope);
        if is_plain && operator != "Exists" {
            let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                       ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort \
                       or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.push(FieldError::invalid(format!("{PATH}.operator"), &quote(operator), why));
        }
        match operator {
            "In" | "NotIn" if !has_values => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.push(FieldError::required(format!("{PATH}.values"), why));
            }
            "Exists" | "DoesNotExist" if has_values => {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.push(FieldError::invalid(
                    format!("{PATH}.values"),
                    &shown(&expression["values"]),
                    why,
                ));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => {
                let why = "not a valid selector operator";
                errors.push(FieldError::invalid(format!("{PATH}.operator"), &quote(operator), why));
            }
        }
    }
    // kube-apiserver shows `scopes` in this error about the selector.
    let value = shown(&spec["scopes"]);
    errors.extend(
        conflicts(&names).map(|()| {
            FieldError::invalid("spec.scopeSelector.matchExpressions", &value, "conflicting scopes")
        }),
    );
    errors
}

/// Yields one item for each pair of conflicting scopes in `names`.
fn conflicts(names: &[&str]) -> impl Iterator<Item = ()> {
    CONFLICTS.into_iter().filter(|pair| pair.iter().all(|name| names.contains(name))).map(|_| ())
}

/// Returns the JSON of a value, as messages show it.
fn shown(value: &Value) -> String {
    value.to_string()
}

/// Returns a selector as JSON of Go's internal struct, as messages show it.
fn selector_as_go(selector: &Value) -> String {
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten().map(|expression| {
        format!(
            "{{\"ScopeName\":{},\"Operator\":{},\"Values\":{}}}",
            expression["scopeName"], expression["operator"], expression["values"]
        )
    });
    format!("{{\"MatchExpressions\":[{}]}}", expressions.collect::<Vec<_>>().join(","))
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(spec: &Value, expected: &[&str]) {
        let errors: Vec<String> =
            validate(&json!({ "spec": spec }), None).iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected);
    }

    #[test]
    fn limits_are_amounts_of_known_resources() {
        check(&json!({"hard": {"pods": "5", "requests.example.com/gpu": "1", "count/a.b": "1"}}), &[]);
        check(
            &json!({"hard": {"pods": "500m", "lots": "1", "cpu": "-1"}}),
            &[
                "spec.hard[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
                "spec.hard[lots]: Invalid value: \"lots\": must be a standard resource type or fully qualified",
                "spec.hard[lots]: Invalid value: \"lots\": must be a standard resource for quota",
                "spec.hard[pods]: Invalid value: \"500m\": must be an integer",
            ],
        );
    }

    #[test]
    fn scopes_fit_each_other_and_the_limits() {
        check(&json!({"hard": {"pods": "1"}, "scopes": ["BestEffort", "Terminating"]}), &[]);
        check(
            &json!({"hard": {"cpu": "1"}, "scopes": ["BestEffort", "NotBestEffort", "Nope"]}),
            &[
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"Nope\"]: unsupported scope applied to \
                 resource",
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"Nope\"]: unsupported scope",
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"Nope\"]: conflicting scopes",
            ],
        );
        let selector = |scope: &str, operator: &str, values: Value| {
            let expression = json!({"scopeName": scope, "operator": operator, "values": values});
            json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [expression]}})
        };
        check(&selector("PriorityClass", "In", json!(["high"])), &[]);
        check(
            &selector("PriorityClass", "In", json!([])),
            &[
                "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is \
                 'In' or 'NotIn' for scope selector",
            ],
        );
        check(
            &selector("BestEffort", "Like", json!(null)),
            &[
                "spec.scopeSelector.matchExpressions.operator: Invalid value: \"Like\": must be 'Exists' when scope is any \
                 of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                 ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
                "spec.scopeSelector.matchExpressions.operator: Invalid value: \"Like\": not a valid selector operator",
            ],
        );
    }

    #[test]
    fn scopes_never_change() {
        let quota = |scopes: Value| json!({"spec": {"scopes": scopes}});
        assert!(validate(&quota(json!(["A", "A"])), Some(&quota(json!(["A"])))).len() == 2);
        let errors = validate(&quota(json!(["Terminating"])), Some(&quota(json!(null))));
        assert_eq!(
            errors[0].to_string(),
            "spec.scopes: Invalid value: [\"Terminating\"]: field is immutable"
        );
    }

    #[test]
    fn requests_are_limited_below_limits() {
        let warned = |hard: Value| warnings(&json!({"spec": {"hard": hard}}));
        assert_eq!(
            warned(json!({"cpu": "2", "limits.cpu": "1"})),
            ["ResourceQuota cpu (2) should be less than limits.cpu (1)"]
        );
        assert_eq!(warned(json!({"requests.cpu": "1", "cpu": "2", "limits.cpu": "1"})), [""; 0]);
    }
}
