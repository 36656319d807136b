//! Roles and ClusterRoles.

use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::builtin_kind::BuiltinKind;
use super::shared::fields::list;
use super::shared::label_selector;
use crate::kind::resource::Resource;

/// Role or ClusterRole.
#[derive(Debug)]
pub(super) struct Role;

impl BuiltinKind for Role {
    fn validate(&self, resource: &Resource, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        validate(resource, new)
    }
}

fn validate(resource: &Resource, role: &Value) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = list(role, "rules")
        .iter()
        .enumerate()
        .flat_map(|(index, rule)| validate_rule(resource, rule, &format!("rules[{index}]")))
        .collect();
    // Only ClusterRoles have the field.
    if role["aggregationRule"].is_object() {
        let field = "aggregationRule.clusterRoleSelectors";
        let selectors = list(&role["aggregationRule"], "clusterRoleSelectors");
        if selectors.is_empty() {
            let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.push(FieldError::required(field, why));
        }
        for (index, selector) in selectors.iter().enumerate() {
            let field = format!("{field}[{index}]");
            let wrong = label_selector::validate(selector, &field);
            let is_unusable = !wrong.is_empty();
            errors.extend(wrong);
            if is_unusable {
                // kube-apiserver also parses the selector, and shows the nil result.
                errors.push(FieldError::invalid(field, "null", "invalid label selector."));
            }
        }
    }
    errors
}

fn validate_rule(resource: &Resource, rule: &Value, field: &str) -> Vec<FieldError> {
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
        if resource.namespaced {
            errors.push(invalid("namespaced rules cannot apply to non-resource URLs"));
        }
        if !["apiGroups", "resources", "resourceNames"].into_iter().all(is_empty) {
            errors.push(invalid("rules cannot apply to both regular resources and non-resource URLs"));
        }
        // A rule about URLs needs neither API groups nor resources.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::builtin::test_helpers::check;

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
                "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.",
            ],
        );
    }
}
