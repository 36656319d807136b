//! Validation of roles and their bindings.

use kube_apimachinery::go::quote;
use kube_apimachinery::names::{self, NameRule};
use kube_apimachinery::rbac::GROUP;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use crate::kind::resource::Resource;

/// Validates a Role or ClusterRole.
pub(super) fn validate_role(resource: &Resource, role: &Value) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = list(role, "rules")
        .iter()
        .enumerate()
        .flat_map(|(index, rule)| validate_rule(resource.namespaced, rule, &format!("rules[{index}]")))
        .collect();
    if role["aggregationRule"].is_object() {
        let field = "aggregationRule.clusterRoleSelectors";
        let selectors = list(&role["aggregationRule"], "clusterRoleSelectors");
        if selectors.is_empty() {
            let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.push(FieldError::required(field, why));
        }
        for (index, selector) in selectors.iter().enumerate() {
            errors.extend(validate_selector(selector, &format!("{field}[{index}]")));
        }
    }
    errors
}

fn validate_rule(namespaced: bool, rule: &Value, field: &str) -> Vec<FieldError> {
    let is_empty = |name: &str| list(rule, name).is_empty();
    let required = |name: &str, why: &str| FieldError::required(format!("{field}.{name}"), why);
    let mut errors = Vec::new();
    if is_empty("verbs") {
        errors.push(required("verbs", "verbs must contain at least one value"));
    }
    if !is_empty("nonResourceURLs") {
        let invalid = |why: &str| {
            FieldError::invalid(format!("{field}.nonResourceURLs"), &rule["nonResourceURLs"].to_string(), why)
        };
        if namespaced {
            errors.push(invalid("namespaced rules cannot apply to non-resource URLs"));
        }
        if !["apiGroups", "resources", "resourceNames"].into_iter().all(is_empty) {
            errors.push(invalid("rules cannot apply to both regular resources and non-resource URLs"));
        }
        return errors;
    }
    if is_empty("apiGroups") {
        errors.push(required("apiGroups", "resource rules must supply at least one api group"));
    }
    if is_empty("resources") {
        errors.push(required("resources", "resource rules must supply at least one resource"));
    }
    errors
}

/// Validates a label selector.
fn validate_selector(selector: &Value, field: &str) -> Vec<FieldError> {
    let invalid = |field: &str, value: &str, why: Vec<String>| -> Vec<FieldError> {
        why.iter().map(|why| FieldError::invalid(field, &quote(value), why)).collect()
    };
    let mut errors = Vec::new();
    for (label, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        let field = format!("{field}.matchLabels");
        errors.extend(invalid(&field, label, names::qualified(label)));
        let value = value.as_str().unwrap_or_default();
        errors.extend(invalid(&field, value, names::label_value(value)));
    }
    for (index, expression) in list(selector, "matchExpressions").iter().enumerate() {
        let field = format!("{field}.matchExpressions[{index}]");
        let (operator, key) = (text(expression, "operator"), text(expression, "key"));
        let has_values = !list(expression, "values").is_empty();
        match operator {
            "In" | "NotIn" if !has_values => errors.push(FieldError::required(
                format!("{field}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if has_values => errors.push(FieldError::forbidden(
                format!("{field}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.push(FieldError::invalid(
                format!("{field}.operator"),
                &quote(operator),
                "not a valid selector operator",
            )),
        }
        errors.extend(invalid(&format!("{field}.key"), key, names::qualified(key)));
        for (index, value) in list(expression, "values").iter().filter_map(Value::as_str).enumerate() {
            errors.extend(invalid(&format!("{field}.values[{index}]"), value, names::label_value(value)));
        }
    }
    errors
}

/// Validates a RoleBinding or ClusterRoleBinding; `old` is its former state.
pub(super) fn validate_binding(resource: &Resource, binding: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let role = &binding["roleRef"];
    let (group, kind, name) = (text(role, "apiGroup"), text(role, "kind"), text(role, "name"));
    let kinds: &[&str] = if resource.namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let mut errors = Vec::new();
    if group != GROUP {
        errors.push(FieldError::not_supported("roleRef.apiGroup", group, &[GROUP]));
    }
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported("roleRef.kind", kind, kinds));
    }
    if name.is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    } else {
        let why = names::name(NameRule::PathSegment, name, false);
        errors.extend(why.iter().map(|why| FieldError::invalid("roleRef.name", &quote(name), why)));
    }
    for (index, subject) in list(binding, "subjects").iter().enumerate() {
        errors.extend(validate_subject(resource.namespaced, subject, &format!("subjects[{index}]")));
    }
    // A binding never changes its role.
    if old.is_some_and(|old| old["roleRef"] != *role) {
        // The message shows the value as a Go struct.
        let shown =
            format!("{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}", quote(group), quote(kind), quote(name));
        errors.push(FieldError::invalid("roleRef", &shown, "cannot change roleRef"));
    }
    errors
}

fn validate_subject(namespaced: bool, subject: &Value, field: &str) -> Vec<FieldError> {
    let (kind, group, name) = (text(subject, "kind"), text(subject, "apiGroup"), text(subject, "name"));
    let mut errors = Vec::new();
    if name.is_empty() {
        errors.push(FieldError::required(format!("{field}.name"), ""));
    }
    let unsupported = |value: &str| FieldError::not_supported(format!("{field}.apiGroup"), group, &[value]);
    match kind {
        "ServiceAccount" => {
            if !name.is_empty() {
                let why = names::subdomain(name);
                let field = format!("{field}.name");
                errors.extend(why.iter().map(|why| FieldError::invalid(field.clone(), &quote(name), why)));
            }
            if !group.is_empty() {
                errors.push(unsupported(""));
            }
            if !namespaced && text(subject, "namespace").is_empty() {
                errors.push(FieldError::required(format!("{field}.namespace"), ""));
            }
        }
        "User" | "Group" if group != GROUP => errors.push(unsupported(GROUP)),
        "User" | "Group" => {}
        _ => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(format!("{field}.kind"), kind, &kinds));
        }
    }
    errors
}

fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(kind: &str, object: &Value, old: Option<&Value>, expected: &[&str]) {
        let served = super::super::served();
        let (resource, _) = served.iter().find(|(resource, _)| resource.kind == kind).unwrap();
        let errors = if kind.ends_with("Binding") {
            validate_binding(resource, object, old)
        } else {
            validate_role(resource, object)
        };
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected, "{kind}: {object}");
    }

    #[test]
    fn a_rule_is_about_resources_or_about_paths_of_the_cluster() {
        let role = |rule: Value| json!({"rules": [rule]});
        check("Role", &role(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]})), None, &[]);
        let paths = role(json!({"verbs": ["get"], "nonResourceURLs": ["/x"]}));
        check("ClusterRole", &paths, None, &[]);
        let why = "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs";
        check("Role", &paths, None, &[why]);
        let both = role(json!({"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]}));
        let why = "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: rules cannot apply to both regular resources and non-resource URLs";
        check("ClusterRole", &both, None, &[why]);
    }

    #[test]
    fn an_aggregated_role_has_valid_selectors() {
        let role =
            |selectors: Value| json!({"rules": null, "aggregationRule": {"clusterRoleSelectors": selectors}});
        check("ClusterRole", &role(json!([{"matchLabels": {"a": "b"}}])), None, &[]);
        let why = "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if \
                   aggregationRule is non-nil";
        check("ClusterRole", &role(json!([])), None, &[why]);
        let odd =
            json!([{"matchExpressions": [{"key": "a", "operator": "Odd"}, {"key": "a", "operator": "In"}]}]);
        check(
            "ClusterRole",
            &role(odd),
            None,
            &[
                "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: Invalid value: \"Odd\": not a valid \
                 selector operator",
                "aggregationRule.clusterRoleSelectors[0].matchExpressions[1].values: Required value: must be specified when \
                 `operator` is 'In' or 'NotIn'",
            ],
        );
    }

    #[test]
    fn a_binding_of_the_cluster_names_cluster_roles_and_accounts_with_a_namespace() {
        let binding = |kind: &str, subjects: Value| json!({"roleRef": {"apiGroup": GROUP, "kind": kind, "name": "r"}, "subjects": subjects});
        let account = json!([{"kind": "ServiceAccount", "name": "a"}]);
        check("RoleBinding", &binding("Role", account.clone()), None, &[]);
        check(
            "ClusterRoleBinding",
            &binding("Role", account),
            None,
            &[
                "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
                "subjects[0].namespace: Required value",
            ],
        );
    }

    #[test]
    fn a_binding_keeps_its_role() {
        let binding =
            |name: &str| json!({"roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}});
        for kind in ["RoleBinding", "ClusterRoleBinding"] {
            let why = "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"ClusterRole\",\"Name\":\"two\"}: \
                       cannot change roleRef";
            check(kind, &binding("two"), Some(&binding("one")), &[why]);
            check(kind, &binding("two"), Some(&binding("two")), &[]);
        }
    }
}
