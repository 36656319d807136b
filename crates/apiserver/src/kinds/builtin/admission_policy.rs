//! ValidatingAdmissionPolicies, MutatingAdmissionPolicies and their bindings. The admission plugins of the same names evaluate them.

mod policy_expressions;
mod policy_rules;

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::field_checks::{conditions, required};
use super::shared::fields::{elements, list, set, set_pointer, text, within};
use crate::kind::STATUS_METADATA;
use crate::kind::resource::Resource;

/// Kind of a policy or of its binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PolicyKind {
    Mutating,
    Validating,
}

#[derive(Debug)]
pub(super) struct AdmissionPolicy;

impl BuiltinKind for AdmissionPolicy {
    fn default(&self, policy: &mut Value) {
        within(policy, "spec", |spec| {
            set_pointer(spec, "failurePolicy", json!("Fail"));
            within(spec, "matchConstraints", default_match_resources);
        });
    }

    fn validate(&self, resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        policy_rules::validate_policy(kind_of(resource), new, old)
    }

    fn warnings(&self, _resource: &Resource, policy: &Value, _old: Option<&Value>) -> Vec<String> {
        static_name(policy).into_iter().collect()
    }

    fn validate_subresource(&self, subresource: &str, _old: &Value, new: &Value) -> Vec<FieldError> {
        // Only validating policies have a status.
        if subresource == "status" { validate_status(&new["status"]) } else { Vec::new() }
    }

    fn status_keeps(&self) -> &'static [&'static str] {
        &STATUS_METADATA
    }

    fn resets(&self, subresource: &str) -> Option<&'static [&'static str]> {
        (subresource == "status").then_some(&["metadata", "spec"])
    }
}

#[derive(Debug)]
pub(super) struct AdmissionPolicyBinding;

impl BuiltinKind for AdmissionPolicyBinding {
    fn default(&self, binding: &mut Value) {
        within(binding, "spec", |spec| within(spec, "matchResources", default_match_resources));
    }

    fn validate(&self, resource: &Resource, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        policy_rules::validate_binding(kind_of(resource), new)
    }

    fn warnings(&self, _resource: &Resource, binding: &Value, _old: Option<&Value>) -> Vec<String> {
        static_name(binding).into_iter().collect()
    }
}

/// Validates the status of a policy. The syntax of `fieldRef` is not checked.
fn validate_status(status: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, warning) in list(&status["typeChecking"], "expressionWarnings").iter().enumerate() {
        let path = format!("status.typeChecking.expressionWarnings[{index}]");
        for field in ["warning", "fieldRef"] {
            errors.extend(required(warning, field, &path));
        }
    }
    errors.extend(conditions(list(status, "conditions"), "status.conditions"));
    errors
}

/// Returns whether policies and bindings of a resource mutate or validate.
fn kind_of(resource: &Resource) -> PolicyKind {
    if resource.kind.starts_with("Mutating") { PolicyKind::Mutating } else { PolicyKind::Validating }
}

/// Sets defaults of a policy's match criteria.
fn default_match_resources(criteria: &mut Value) {
    set_pointer(criteria, "matchPolicy", json!("Equivalent"));
    // For Go, an empty selector matches everything, but an absent one matches nothing.
    set(criteria, "namespaceSelector", json!({}));
    set(criteria, "objectSelector", json!({}));
    for rules in ["resourceRules", "excludeResourceRules"] {
        elements(criteria, rules).for_each(|rule| set_pointer(rule, "scope", json!("*")));
    }
}

/// Returns the warning about a name that kube-apiserver reserves for configurations in its manifest files.
pub(super) fn static_name(object: &Value) -> Option<String> {
    text(&object["metadata"], "name").ends_with(".static.k8s.io").then(|| {
        "metadata.name: names ending with \".static.k8s.io\" are reserved for static manifest-based configurations and \
         cannot be managed via the API"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use kube_apimachinery::go;

    use super::*;
    use crate::kinds::builtin::test_helpers::check;

    /// Returns a valid policy whose spec has these fields in addition.
    fn policy(parts: &Value) -> Value {
        let mut spec = json!({
            "failurePolicy": "Fail", "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
            }]},
        });
        for (field, value) in parts.as_object().unwrap() {
            spec[field] = value.clone();
        }
        json!({"metadata": {"name": "p"}, "spec": spec})
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn expressions_of_validations_are_compiled() {
        let check = |expression: &str, why: &str| {
            let policy = policy(&json!({"validations": [{"expression": expression}]}));
            let expected =
                format!("spec.validations[0].expression: Invalid value: {}: {why}", go::quote(expression));
            let expected = if why.is_empty() { Vec::new() } else { vec![expected.as_str()] };
            check("ValidatingAdmissionPolicy", &policy, None, &expected);
        };
        check("1", "must evaluate to bool but got int");
        check("  1  ", "must evaluate to bool but got int");
        check("object.x", "must evaluate to bool but got dyn");
        check("request.userInfo.extra", "must evaluate to bool but got map(string, list(string))");
        check(
            "authorizer.requestResource",
            "must evaluate to bool but got kubernetes.authorization.ResourceCheck",
        );
        check(
            "object.bad ==",
            "compilation failed: ERROR: <input>:1:14: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | object.bad ==\n | .............^",
        );
        check(
            "params.a == 1",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.a == 1\n | ^",
        );
        check(
            "variables.x == 1",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'variables' (in container '')\n | variables.x == 1\n | ^",
        );
        check(
            "namespaceObject.foo == 1",
            "compilation failed: ERROR: <input>:1:16: undefined field 'foo'\n | namespaceObject.foo == 1\n | ...............^",
        );
        check(
            "oldObject == null\n&& foo",
            "compilation failed: ERROR: <input>:2:4: undeclared reference to 'foo' (in container '')\n | && foo\n | ...^",
        );
        check(
            "authorizer.foo",
            "compilation failed: ERROR: <input>:1:11: unexpected failed resolution of 'kubernetes.authorization.Authorizer'\n | authorizer.foo\n | ..........^",
        );
        check("authorizer.requestResource.check('x').allowed()", "");
        check("object.spec.replicas <= 5 && namespaceObject.metadata.labels.x == 'y'", "");
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn other_expressions_of_a_policy_are_compiled() {
        let check = |parts: Value, expected: &[&str]| {
            check("ValidatingAdmissionPolicy", &policy(&parts), None, expected);
        };
        check(
            json!({"validations": [{"expression": "true", "messageExpression": "authorizer.path(\"/\").check(\"get\").reason()"}]}),
            &[
                "spec.validations[0].messageExpression: Invalid value: \"authorizer.path(\\\"/\\\").check(\\\"get\\\").reason()\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'authorizer' (in container '')\n | authorizer.path(\"/\").check(\"get\").reason()\n | ^",
            ],
        );
        check(
            json!({
                "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                "matchConditions": [{"name": "b", "expression": "params.a == 1"}, {"name": "d", "expression": "params"}],
                "validations": [{"expression": "params.x == 1 && foo", "messageExpression": "params.x"}],
            }),
            &[
                "spec.matchConditions[1].expression: Invalid value: \"params\": must evaluate to bool but got dyn",
                "spec.validations[0].expression: Invalid value: \"params.x == 1 && foo\": compilation failed: ERROR: <input>:1:18: undeclared reference to 'foo' (in container '')\n | params.x == 1 && foo\n | .................^",
                "spec.validations[0].messageExpression: Invalid value: \"params.x\": must evaluate to string but got dyn",
            ],
        );
        check(
            json!({
                "variables": [{"name": "x", "expression": "variables.y"}, {"name": "y", "expression": "[request]"}],
                "validations": [{"expression": "variables.y == \"a\""}],
            }),
            &[
                "spec.variables[0].expression: Invalid value: \"variables.y\": compilation failed: ERROR: <input>:1:10: undefined field 'y'\n | variables.y\n | .........^",
                "spec.validations[0].expression: Invalid value: \"variables.y == \\\"a\\\"\": compilation failed: ERROR: <input>:1:13: found no matching overload for '_==_' applied to '(list(dyn), string)'\n | variables.y == \"a\"\n | ............^",
            ],
        );
        check(
            json!({
                "variables": [{"name": "x", "expression": "\"a\""}],
                "validations": [{"expression": "true", "messageExpression": "variables.x"}],
            }),
            &[],
        );
        check(
            json!({"auditAnnotations": [
                {"key": "k", "valueExpression": "null"}, {"key": "l", "valueExpression": " \"a\" "}, {"key": "m", "valueExpression": " object "},
            ]}),
            &[
                "spec.auditAnnotations[2].valueExpression: Invalid value: \" object \": must evaluate to one of [string null_type] but got dyn",
            ],
        );
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn expressions_of_mutations_are_compiled() {
        let check = |kind: &str, field: &str, expression: &str, why: &str| {
            let policy = policy(&json!({
                "reinvocationPolicy": "Never", "mutations": [{"patchType": kind, field: {"expression": expression}}],
            }));
            let expected = format!(
                "spec.mutations[0].{field}.expression: Invalid value: {}: {why}",
                go::quote(expression)
            );
            let expected = if why.is_empty() { Vec::new() } else { vec![expected.as_str()] };
            check("MutatingAdmissionPolicy", &policy, None, &expected);
        };
        let patch = |expression: &str, why: &str| check("JSONPatch", "jsonPatch", expression, why);
        patch("[]", "must evaluate to list(JSONPatch) but got list(dyn)");
        patch("[JSONPatch{op: \"add\", path: \"/x\", value: \"y\"}]", "");
        patch(
            "variables.x",
            "compilation failed: ERROR: <input>:1:10: undefined field 'x'\n | variables.x\n | .........^",
        );
        let apply =
            |expression: &str, why: &str| check("ApplyConfiguration", "applyConfiguration", expression, why);
        apply("{}", "must evaluate to Object but got map(dyn, dyn)");
        apply("Object{spec: Object.spec{a: 1}}", "");
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn a_status_is_validated() {
        let status = json!({
            "typeChecking": {"expressionWarnings": [{"fieldRef": "", "warning": ""}]},
            "conditions": [{"type": "A", "status": "x", "reason": ""}],
        });
        let errors: Vec<String> = validate_status(&status).iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "status.typeChecking.expressionWarnings[0].warning: Required value",
                "status.typeChecking.expressionWarnings[0].fieldRef: Required value",
                "status.conditions[0].status: Unsupported value: \"x\": supported values: \"False\", \"True\", \"Unknown\"",
                "status.conditions[0].lastTransitionTime: Required value",
                "status.conditions[0].reason: Required value",
            ]
        );
    }
}
