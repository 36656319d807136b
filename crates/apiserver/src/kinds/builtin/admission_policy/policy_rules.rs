//! Validation of admission policies and their bindings.

use std::collections::BTreeSet;

use kube_apimachinery::cel;
use kube_apimachinery::go;
use kube_apimachinery::names::{self, NameRule};
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::PolicyKind;
use super::policy_expressions::PolicyExpressions;
use crate::kinds::builtin::shared::domain_checks::subdomain;
use crate::kinds::builtin::shared::field_checks::{duplicate, invalid_text, required, supported};
use crate::kinds::builtin::shared::fields::{list, text};
use crate::kinds::builtin::shared::label_selector::{self, invalid};
use crate::kinds::builtin::webhook_configuration::{check_conditions, check_rule};

/// Validates a policy. `old` is the state before an update.
pub(super) fn validate_policy(kind: PolicyKind, policy: &Value, old: Option<&Value>) -> Vec<FieldError> {
    const CRITERIA: &str = "spec.matchConstraints";
    let spec = &policy["spec"];
    let parameters = &spec["paramKind"];
    let mut expressions = PolicyExpressions::new(kind, spec);
    let mut errors: Vec<FieldError> =
        supported(spec, "failurePolicy", "spec", &["Fail", "Ignore"]).into_iter().collect();
    if !parameters.is_null() {
        errors.extend(validate_parameter_kind(parameters));
    }
    let criteria = &spec["matchConstraints"];
    if criteria.is_null() {
        errors.push(FieldError::required(CRITERIA, ""));
    } else {
        errors.extend(validate_criteria(criteria, CRITERIA));
        // The rules determine the types in expressions.
        if list(criteria, "resourceRules").is_empty() {
            errors.push(FieldError::required(format!("{CRITERIA}.resourceRules"), ""));
        }
        if kind == PolicyKind::Mutating {
            errors.extend(validate_operations(criteria, CRITERIA));
        }
    }
    let conditions =
        |policy: &Value| (policy["spec"]["matchConditions"].clone(), policy["spec"]["paramKind"].clone());
    // Unchanged match conditions are not compiled again. They also depend on whether there are parameters.
    if old.is_none_or(|old| conditions(old) != conditions(policy)) {
        let given = list(spec, "matchConditions");
        let compile = |expression: &str| expressions.condition(expression);
        check_conditions(given, "spec.matchConditions", compile, &mut errors);
    }
    // Compiling a variable declares it, so variables come before the expressions that use them.
    for (index, variable) in list(spec, "variables").iter().enumerate() {
        errors.extend(validate_variable(&mut expressions, variable, &format!("spec.variables[{index}]")));
    }
    match kind {
        PolicyKind::Mutating => errors.extend(validate_mutations(&expressions, spec)),
        PolicyKind::Validating => {
            errors.extend(validate_validations(&expressions, text(&policy["metadata"], "name"), spec));
        }
    }
    errors
}

/// Validates a binding.
pub(super) fn validate_binding(kind: PolicyKind, binding: &Value) -> Vec<FieldError> {
    const CRITERIA: &str = "spec.matchResources";
    let spec = &binding["spec"];
    let mut errors = match text(spec, "policyName") {
        "" => vec![FieldError::required("spec.policyName", "")],
        name => subdomain(name, "spec.policyName"),
    };
    let parameters = &spec["paramRef"];
    if !parameters.is_null() {
        errors.extend(validate_parameters(parameters, "spec.paramRef"));
    }
    let criteria = &spec["matchResources"];
    if !criteria.is_null() {
        errors.extend(validate_criteria(criteria, CRITERIA));
        if kind == PolicyKind::Mutating {
            errors.extend(validate_operations(criteria, CRITERIA));
        }
    }
    if kind == PolicyKind::Validating {
        errors.extend(validate_actions(spec));
    }
    errors
}

fn validate_parameter_kind(kind: &Value) -> Vec<FieldError> {
    const PATH: &str = "spec.paramKind";
    let version_field = format!("{PATH}.apiVersion");
    let of_version = |given: &str, why: &[String]| {
        (!why.is_empty()).then(|| invalid_text(&*version_field, given, &why.join(",")))
    };
    let given = text(kind, "apiVersion");
    let mut errors = Vec::new();
    let (group, version) = given.split_once('/').unwrap_or(("", given));
    if given.is_empty() {
        errors.push(FieldError::required(&*version_field, ""));
    } else if version.contains('/') {
        // Go's parser fails at the second slash, so neither part is validated.
        let why = format!("unexpected GroupVersion string: {given}");
        errors.push(invalid_text(&*version_field, given, &why));
    } else {
        if !group.is_empty() {
            errors.extend(of_version(group, &names::subdomain(group)));
        }
        if version.is_empty() {
            errors.push(invalid_text(&*version_field, given, "version must be specified"));
        } else {
            errors.extend(of_version(version, &names::name(NameRule::Label1035, version)));
        }
    }
    let (given, field) = (text(kind, "kind"), format!("{PATH}.kind"));
    let wrong = names::name(NameRule::Label1035, &given.to_lowercase());
    if given.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if !wrong.is_empty() {
        let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
        errors.push(invalid_text(field, given, &why));
    }
    errors
}

/// Validates the criteria that select requests.
fn validate_criteria(criteria: &Value, path: &str) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> =
        supported(criteria, "matchPolicy", path, &["Equivalent", "Exact"]).into_iter().collect();
    for selector in ["namespaceSelector", "objectSelector"] {
        errors.extend(label_selector::validate(&criteria[selector], &format!("{path}.{selector}")));
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in list(criteria, field).iter().enumerate() {
            let path = format!("{path}.{field}[{index}]");
            let mut seen = BTreeSet::new();
            for (index, name) in list(rule, "resourceNames").iter().filter_map(Value::as_str).enumerate() {
                let field = format!("{path}.resourceNames[{index}]");
                errors.extend(invalid(&field, name, &names::name(NameRule::PathSegment, name)));
                if !seen.insert(name) {
                    errors.push(duplicate(field, name));
                }
            }
            check_rule(rule, &path, &mut errors);
        }
    }
    errors
}

/// Checks that no rule of a mutating policy selects deletions.
fn validate_operations(criteria: &Value, path: &str) -> Vec<FieldError> {
    // A deletion has no new object that a mutation could change. `*` is accepted nevertheless.
    const OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
    let rules = list(criteria, "resourceRules").iter();
    let operations = rules.flat_map(|rule| list(rule, "operations")).filter_map(Value::as_str);
    let wrong = operations.filter(|operation| !OPERATIONS.contains(operation));
    // kube-apiserver's path has no indexes.
    let field = format!("{path}.resourceRules.operations");
    wrong.map(|operation| FieldError::not_supported(&*field, operation, &OPERATIONS)).collect()
}

fn validate_variable(expressions: &mut PolicyExpressions, variable: &Value, path: &str) -> Vec<FieldError> {
    let (name, field) = (text(variable, "name"), format!("{path}.name"));
    let mut errors = Vec::new();
    if name.trim().is_empty() {
        errors.push(FieldError::required(field, "name is not specified"));
    } else if !cel::is_identifier(name) {
        errors.push(invalid_text(field, name, "must be a valid CEL identifier"));
    }
    let (expression, field) = (text(variable, "expression"), format!("{path}.expression"));
    if expression.trim().is_empty() {
        errors.push(FieldError::required(field, "expression is not specified"));
    } else {
        errors.extend(expressions.variable(name, expression, &field));
    }
    errors
}

/// Validates the validations of a validating policy and its audit annotations.
fn validate_validations(expressions: &PolicyExpressions, name: &str, spec: &Value) -> Vec<FieldError> {
    const ANNOTATIONS: &str = "spec.auditAnnotations";
    const MAX_ANNOTATIONS: usize = 20;
    let (validations, annotations) = (list(spec, "validations"), list(spec, "auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        return ["spec.validations", ANNOTATIONS].map(|field| FieldError::required(field, why)).to_vec();
    }
    let mut errors = Vec::new();
    for (index, validation) in validations.iter().enumerate() {
        errors.extend(validate_validation(expressions, validation, &format!("spec.validations[{index}]")));
    }
    if annotations.len() > MAX_ANNOTATIONS {
        let why = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
        errors.push(FieldError::invalid(ANNOTATIONS, &shown_annotations(annotations), &why));
    }
    let mut seen = BTreeSet::new();
    for (index, annotation) in annotations.iter().enumerate() {
        let path = format!("{ANNOTATIONS}[{index}]");
        errors.extend(validate_annotation(expressions, name, annotation, &path));
        let key = text(annotation, "key");
        if !seen.insert(key) {
            errors.push(duplicate(format!("{path}.key"), key));
        }
    }
    errors
}

fn validate_validation(expressions: &PolicyExpressions, validation: &Value, path: &str) -> Vec<FieldError> {
    const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
    let mut errors = Vec::new();
    let (expression, field) = (text(validation, "expression"), format!("{path}.expression"));
    if expression.trim().is_empty() {
        errors.push(FieldError::required(field, "expression is not specified"));
    } else {
        errors.extend(expressions.value(expression, expression, &["bool"], &field));
    }
    for name in ["messageExpression", "message"] {
        let (given, field) = (text(validation, name), format!("{path}.{name}"));
        if given.is_empty() {
            continue;
        }
        if given.trim().is_empty() {
            errors.push(invalid_text(field, given, "must be non-empty if specified"));
        } else if name == "messageExpression" {
            errors.extend(expressions.message(given, &field));
        } else if given.trim().contains(['\n', '\r']) {
            // kube-apiserver trims the message before this check, so a line break at its end is accepted.
            errors.push(invalid_text(field, given, "must not contain line breaks"));
        }
    }
    errors.extend(supported(validation, "reason", path, &REASONS));
    errors
}

fn validate_annotation(
    expressions: &PolicyExpressions,
    policy: &str,
    annotation: &Value,
    path: &str,
) -> Vec<FieldError> {
    const MAX: usize = 5 << 10;
    let key = text(annotation, "key");
    // The audit event prefixes the key with the policy's name, and the result must be a qualified name.
    let full = format!("{policy}/{key}");
    let place = format!("{path}.key");
    let mut errors = if policy.is_empty() {
        vec![invalid_text(place, key, "requires metadata.name be non-empty")]
    } else {
        invalid(&place, &full, &names::qualified(&full))
    };
    let field = format!("{path}.valueExpression");
    let given = text(annotation, "valueExpression");
    match given.trim().len() {
        0 => errors.push(FieldError::required(field, "valueExpression is not specified")),
        // The expression is compiled without surrounding whitespace, but shown with it.
        1..=MAX => {
            errors.extend(expressions.value(given.trim(), given, &["string", "null_type"], &field));
        }
        // kube-apiserver gives an expression that is too long the reason of a missing one.
        _ => errors.push(FieldError::required(field, &format!("must not exceed {MAX} bytes in length"))),
    }
    errors
}

/// Returns the annotations as JSON of Go's internal structs.
fn shown_annotations(annotations: &[Value]) -> String {
    let shown = |annotation: &Value| {
        let [key, value] = ["key", "valueExpression"].map(|field| go::quote(text(annotation, field)));
        format!("{{\"Key\":{key},\"ValueExpression\":{value}}}")
    };
    format!("[{}]", annotations.iter().map(shown).collect::<Vec<_>>().join(","))
}

/// Validates the mutations of a mutating policy.
fn validate_mutations(expressions: &PolicyExpressions, spec: &Value) -> Vec<FieldError> {
    // Patch types, the field of each, and the type that its expression must have.
    const TYPES: [(&str, &str, &str); 2] = [
        ("ApplyConfiguration", "applyConfiguration", "Object"),
        ("JSONPatch", "jsonPatch", "list(JSONPatch)"),
    ];
    const POLICY: &str = "reinvocationPolicy";
    let mutations = list(spec, "mutations");
    let mut errors = Vec::new();
    if mutations.is_empty() {
        errors.push(FieldError::required("spec.mutations", "mutations must contain at least one item"));
    }
    for (index, mutation) in mutations.iter().enumerate() {
        let path = format!("spec.mutations[{index}]");
        let kind = text(mutation, "patchType");
        let Some((_, own, result)) = TYPES.iter().find(|(name, ..)| *name == kind) else {
            let field = format!("{path}.patchType");
            errors.push(match kind {
                "" => FieldError::required(field, ""),
                _ => FieldError::not_supported(field, kind, &TYPES.map(|(name, ..)| name)),
            });
            continue;
        };
        let (expression, field) =
            (text(&mutation[*own], "expression").trim(), format!("{path}.{own}.expression"));
        if mutation[*own].is_null() {
            let why = format!("must be specified when patchType is {kind}");
            errors.push(FieldError::required(format!("{path}.{own}"), &why));
        } else if expression.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else {
            errors.extend(expressions.mutation(expression, result, &field));
        }
        for (_, other, _) in TYPES.iter().filter(|(_, other, _)| other != own && !mutation[*other].is_null())
        {
            let why = format!("must not be specified when patchType is {kind}");
            // kube-apiserver shows the name of the field in braces instead of its value.
            errors.push(invalid_text(format!("{path}.{other}"), &format!("{{{other}}}"), &why));
        }
    }
    errors.extend(match required(spec, POLICY, "spec") {
        None => supported(spec, POLICY, "spec", &["IfNeeded", "Never"]),
        missing => missing,
    });
    errors
}

/// Validates a reference to parameters, which has either a name or a label selector.
fn validate_parameters(parameters: &Value, path: &str) -> Vec<FieldError> {
    const ACTION: &str = "parameterNotFoundAction";
    let (name, selector) = (text(parameters, "name"), &parameters["selector"]);
    let (name_field, selector_field) = (format!("{path}.name"), format!("{path}.selector"));
    let has_both = !name.is_empty() && !selector.is_null();
    // kube-apiserver reports the conflict at both fields.
    let both = |field: &str| {
        has_both.then(|| FieldError::forbidden(field, "name and selector are mutually exclusive"))
    };
    let mut errors = Vec::new();
    if !name.is_empty() {
        errors.extend(invalid(&name_field, name, &names::name(NameRule::PathSegment, name)));
        errors.extend(both(&name_field));
    }
    errors.extend(label_selector::validate(selector, &selector_field));
    errors.extend(both(&selector_field));
    if name.is_empty() && selector.is_null() {
        errors.push(FieldError::required(path, "one of name or selector must be specified"));
    }
    errors.extend(match required(parameters, ACTION, path) {
        None => supported(parameters, ACTION, path, &["Deny", "Allow"]),
        missing => missing,
    });
    errors
}

/// Validates the actions of a binding, which decide what follows from a failed validation.
fn validate_actions(spec: &Value) -> Vec<FieldError> {
    const FIELD: &str = "spec.validationActions";
    const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, action) in list(spec, "validationActions").iter().filter_map(Value::as_str).enumerate() {
        let field = format!("{FIELD}[{index}]");
        if !ACTIONS.contains(&action) {
            errors.push(FieldError::not_supported(&*field, action, &ACTIONS));
        }
        if !seen.insert(action) {
            errors.push(duplicate(field, action));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response \
                   and headers serves no purpose)";
        errors.push(FieldError::invalid(FIELD, &go::json(&spec["validationActions"]), why));
    }
    if seen.is_empty() {
        errors.push(FieldError::required(FIELD, "at least one validation action is required"));
    }
    errors
}
