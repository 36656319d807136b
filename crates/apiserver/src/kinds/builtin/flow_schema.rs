//! FlowSchemas.

use kube_apimachinery::go;
use kube_apimachinery::go_struct::internal_text;
use kube_apimachinery::names::{self, NameRule};
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::domain_checks::subdomain;
use super::shared::field_checks::{duplicate, invalid_text, required};
use super::shared::fields::{list, text, within};
use super::shared::label_selector::invalid;
use crate::kind::WHOLE_METADATA;
use crate::kind::resource::Resource;

/// Largest `matchingPrecedence`. Lower values match first, so a schema with this one matches last.
const MAX_PRECEDENCE: i64 = 10_000;
const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
/// Kinds of subjects, and the field that belongs to each kind.
const SUBJECTS: [(&str, &str); 3] =
    [("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];

#[derive(Debug)]
pub(super) struct FlowSchema;

impl BuiltinKind for FlowSchema {
    fn default(&self, schema: &mut Value) {
        within(schema, "spec", |spec| {
            // The number is not a pointer in Go, so zero means absent.
            if spec["matchingPrecedence"].as_i64().unwrap_or(0) == 0 {
                spec["matchingPrecedence"] = json!(1000);
            }
        });
    }

    fn validate(&self, _resource: &Resource, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let (name, spec) = (text(&new["metadata"], "name"), &new["spec"]);
        let mut errors = validate(name, spec);
        // Other specs could lock out administrators (`exempt`), or leave requests without any schema (`catch-all`).
        if fixed_spec(name).is_some_and(|fixed| fixed != *spec) {
            let why = format!("spec of '{name}' must equal the fixed value");
            errors.push(FieldError::invalid(
                "spec",
                &internal_text("flowcontrol.FlowSchemaSpec", spec),
                &why,
            ));
        }
        errors.extend(validate_conditions(&new["status"]));
        errors
    }

    fn validate_subresource(&self, _subresource: &str, _old: &Value, new: &Value) -> Vec<FieldError> {
        validate_conditions(&new["status"])
    }

    fn status_keeps(&self) -> &'static [&'static str] {
        &WHOLE_METADATA
    }

    fn row_order(&self) -> Option<fn(&Value) -> i64> {
        Some(|schema| schema["spec"]["matchingPrecedence"].as_i64().unwrap_or_default())
    }

    fn resets(&self, subresource: &str) -> Option<&'static [&'static str]> {
        (subresource == "status").then_some(&["metadata", "spec"])
    }
}

/// Returns the only valid spec of the two mandatory schemas; `None` for other names.
fn fixed_spec(name: &str) -> Option<Value> {
    let groups: &[&str] = match name {
        "exempt" => &["system:masters"],
        "catch-all" => &["system:unauthenticated", "system:authenticated"],
        _ => return None,
    };
    let subjects: Vec<Value> =
        groups.iter().map(|group| json!({"kind": "Group", "group": {"name": group}})).collect();
    // Lower numbers match first, so `exempt` comes before all other schemas and `catch-all` after them.
    let mut spec = json!({
        "priorityLevelConfiguration": {"name": name}, "matchingPrecedence": if name == "exempt" { 1 } else { MAX_PRECEDENCE },
        "rules": [{
            "subjects": subjects,
            "resourceRules": [
                {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]},
            ],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }],
    });
    if name == "catch-all" {
        spec["distinguisherMethod"] = json!({"type": "ByUser"});
    }
    Some(spec)
}

fn validate(name: &str, spec: &Value) -> Vec<FieldError> {
    const PRECEDENCE: &str = "spec.matchingPrecedence";
    const METHODS: [&str; 2] = ["ByNamespace", "ByUser"];
    let precedence = spec["matchingPrecedence"].as_i64().unwrap_or_default();
    let mut errors = Vec::new();
    let mut refuse = |why: &str| errors.push(FieldError::invalid(PRECEDENCE, &precedence.to_string(), why));
    // Precedence 1 is reserved, so that no other schema can match before `exempt`.
    match precedence {
        ..=0 => refuse("must be a positive value"),
        1 if name != "exempt" => refuse("only the schema named 'exempt' may have matchingPrecedence 1"),
        1..=MAX_PRECEDENCE => {}
        _ => refuse(&format!("must not be greater than {MAX_PRECEDENCE}")),
    }
    let method = &spec["distinguisherMethod"];
    if !method.is_null() && !METHODS.contains(&text(method, "type")) {
        // The message shows the JSON of Go's internal struct, not only the type.
        let shown = format!("{{\"Type\":{}}}", go::quote(text(method, "type")));
        errors.push(unsupported("spec.distinguisherMethod.type", &shown, &METHODS));
    }
    let field = "spec.priorityLevelConfiguration.name";
    match text(&spec["priorityLevelConfiguration"], "name") {
        "" => errors.push(FieldError::required(field, "must reference a priority level")),
        level => errors.extend(subdomain(level, field)),
    }
    for (index, rule) in list(spec, "rules").iter().enumerate() {
        errors.extend(validate_rule(rule, &format!("spec.rules[{index}]")));
    }
    errors
}

/// Returns the error for an unsupported value that is not a string; `shown` is its JSON.
fn unsupported(field: &str, shown: &str, supported: &[&str]) -> FieldError {
    let supported: Vec<String> = supported.iter().map(|value| go::quote(value)).collect();
    FieldError {
        reason: "FieldValueNotSupported",
        field: field.to_owned(),
        message: format!("Unsupported value: {shown}: supported values: {}", supported.join(", ")),
    }
}

fn validate_rule(rule: &Value, path: &str) -> Vec<FieldError> {
    let [subjects, resources, urls] =
        ["subjects", "resourceRules", "nonResourceRules"].map(|field| list(rule, field));
    let mut errors = Vec::new();
    if subjects.is_empty() {
        let why = "subjects must contain at least one value";
        errors.push(FieldError::required(format!("{path}.subjects"), why));
    }
    for (index, subject) in subjects.iter().enumerate() {
        errors.extend(validate_subject(subject, &format!("{path}.subjects[{index}]")));
    }
    if resources.is_empty() && urls.is_empty() {
        let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(FieldError::required(path, why));
    }
    for (index, rule) in resources.iter().enumerate() {
        errors.extend(validate_resources(rule, &format!("{path}.resourceRules[{index}]")));
    }
    for (index, rule) in urls.iter().enumerate() {
        errors.extend(validate_urls(rule, &format!("{path}.nonResourceRules[{index}]")));
    }
    errors
}

fn validate_subject(subject: &Value, path: &str) -> Vec<FieldError> {
    let kind = text(subject, "kind");
    let Some((_, own)) = SUBJECTS.iter().find(|(name, _)| *name == kind) else {
        let kinds = SUBJECTS.map(|(kind, _)| kind);
        return vec![FieldError::not_supported(format!("{path}.kind"), kind, &kinds)];
    };
    let (named, field) = (&subject[*own], format!("{path}.{own}"));
    let mut errors = if named.is_null() {
        vec![FieldError::required(&*field, &format!("{own} is required when subject kind is '{kind}'"))]
    } else if kind == "ServiceAccount" {
        validate_account(named, &field)
    } else {
        required(named, "name", &field).into_iter().collect()
    };
    // kube-apiserver checks the fields of the other kinds in this order. Each one that is set is an error.
    for other in ["serviceAccount", "user", "group"] {
        let others = SUBJECTS.iter().find(|(_, field)| *field == other && field != own);
        if let Some((kind, _)) = others.filter(|_| !subject[other].is_null()) {
            let why = format!("{other} is forbidden when subject kind is not '{kind}'");
            errors.push(FieldError::forbidden(format!("{path}.{other}"), &why));
        }
    }
    errors
}

fn validate_account(account: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = match text(account, "name") {
        "" => vec![FieldError::required(format!("{path}.name"), "")],
        // All service accounts of the namespace.
        "*" => Vec::new(),
        name => subdomain(name, &format!("{path}.name")),
    };
    let field = format!("{path}.namespace");
    match text(account, "namespace") {
        "" => {
            errors.push(FieldError::required(field, "must specify namespace for service account"));
        }
        namespace => errors.extend(invalid(&field, namespace, &names::name(NameRule::Label, namespace))),
    }
    errors
}

/// Whether a list contains `*`.
fn has_star(values: &[Value]) -> bool {
    values.iter().any(|value| value == "*")
}

/// Checks that a list with `*` contains nothing else.
fn star_alone(rule: &Value, name: &str, others: &str, path: &str) -> Option<FieldError> {
    let values = list(rule, name);
    let why = || format!("if '*' is present, must not specify other {others}");
    (values.len() > 1 && has_star(values))
        .then(|| FieldError::invalid(format!("{path}.{name}"), &go::json(&rule[name]), &why()))
}

fn validate_verbs(rule: &Value, path: &str) -> Option<FieldError> {
    let (verbs, field) = (list(rule, "verbs"), format!("{path}.verbs"));
    if verbs.is_empty() {
        return Some(FieldError::required(field, "verbs must contain at least one value"));
    }
    // The star is not one of the known verbs, so a list with it is only checked for other members.
    if has_star(verbs) {
        return star_alone(rule, "verbs", "verbs", path);
    }
    let is_known = |verb: &Value| verb.as_str().is_some_and(|verb| VERBS.contains(&verb));
    (!verbs.iter().all(is_known)).then(|| unsupported(&field, &go::json(&rule["verbs"]), &VERBS))
}

fn validate_resources(rule: &Value, path: &str) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = validate_verbs(rule, path).into_iter().collect();
    for (name, one, others) in
        [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")]
    {
        if list(rule, name).is_empty() {
            let why = format!("resource rules must supply at least one {one}");
            errors.push(FieldError::required(format!("{path}.{name}"), &why));
        }
        errors.extend(star_alone(rule, name, others, path));
    }
    let (namespaces, field) = (list(rule, "namespaces"), format!("{path}.namespaces"));
    if namespaces.is_empty() && rule["clusterScope"] != true {
        let why = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.push(FieldError::required(&*field, why));
    }
    // The star is not a label, so the names beside it are not validated.
    if has_star(namespaces) {
        errors.extend(star_alone(rule, "namespaces", "namespaces", path));
        return errors;
    }
    for (index, namespace) in namespaces.iter().filter_map(Value::as_str).enumerate() {
        for why in names::name(NameRule::Label, namespace) {
            let why = format!("each member of this list must be '*' or a DNS-1123 label; {why}");
            errors.push(invalid_text(format!("{field}[{index}]"), namespace, &why));
        }
    }
    errors
}

fn validate_urls(rule: &Value, path: &str) -> Vec<FieldError> {
    const URLS: &str = "nonResourceURLs";
    let mut errors: Vec<FieldError> = validate_verbs(rule, path).into_iter().collect();
    let (urls, field) = (list(rule, URLS), format!("{path}.{URLS}"));
    if urls.is_empty() {
        errors.push(FieldError::required(field, &format!("{URLS} must contain at least one value")));
    } else if has_star(urls) {
        errors.extend(star_alone(rule, URLS, "non-resource URLs", path));
    } else {
        for (index, url) in urls.iter().filter_map(Value::as_str).enumerate() {
            let wrong = wrong_url(url);
            errors.extend(wrong.map(|why| invalid_text(format!("{field}[{index}]"), url, why)));
        }
    }
    errors
}

/// Returns the reason why a non-resource URL is invalid.
fn wrong_url(url: &str) -> Option<&'static str> {
    let stars = url.matches('*').count();
    // The first reason that applies is the only one reported.
    let reasons = [
        (url.is_empty(), "must not be empty"),
        (!url.starts_with('/'), "must start with slash"),
        (url.contains(' '), "must not contain white-space"),
        (url.contains("//"), "must not contain double slash"),
        (stars > 1 || stars == 1 && !url.ends_with("/*"), "wildcard can only do suffix matching"),
    ];
    reasons.iter().find(|(applies, _)| *applies).map(|(_, why)| *why)
}

/// Checks that each condition of the status has a type, and that the types differ.
pub(super) fn validate_conditions(status: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = Vec::new();
    for (index, condition) in list(status, "conditions").iter().enumerate() {
        let (kind, path) = (text(condition, "type"), format!("status.conditions[{index}]"));
        if seen.contains(&kind) {
            errors.push(duplicate(format!("{path}.type"), kind));
        }
        seen.push(kind);
        errors.extend(required(condition, "type", &path));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::check;

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn two_schemas_are_fixed() {
        let schema = |name: &str, precedence: i64| {
            let mut spec = fixed_spec(name).unwrap();
            spec["matchingPrecedence"] = json!(precedence);
            json!({"metadata": {"name": name}, "spec": spec})
        };
        check("FlowSchema", &schema("exempt", 1), None, &[]);
        check("FlowSchema", &schema("catch-all", 10_000), None, &[]);
        check(
            "FlowSchema",
            &schema("exempt", 5),
            None,
            &[
                r#"spec: Invalid value: {"PriorityLevelConfiguration":{"Name":"exempt"},"MatchingPrecedence":5,"DistinguisherMethod":null,"Rules":[{"Subjects":[{"Kind":"Group","User":null,"Group":{"Name":"system:masters"},"ServiceAccount":null}],"ResourceRules":[{"Verbs":["*"],"APIGroups":["*"],"Resources":["*"],"ClusterScope":true,"Namespaces":["*"]}],"NonResourceRules":[{"Verbs":["*"],"NonResourceURLs":["*"]}]}]}: spec of 'exempt' must equal the fixed value"#,
            ],
        );
        check(
            "FlowSchema",
            &schema("catch-all", 9999),
            None,
            &[
                r#"spec: Invalid value: {"PriorityLevelConfiguration":{"Name":"catch-all"},"MatchingPrecedence":9999,"DistinguisherMethod":{"Type":"ByUser"},"Rules":[{"Subjects":[{"Kind":"Group","User":null,"Group":{"Name":"system:unauthenticated"},"ServiceAccount":null},{"Kind":"Group","User":null,"Group":{"Name":"system:authenticated"},"ServiceAccount":null}],"ResourceRules":[{"Verbs":["*"],"APIGroups":["*"],"Resources":["*"],"ClusterScope":true,"Namespaces":["*"]}],"NonResourceRules":[{"Verbs":["*"],"NonResourceURLs":["*"]}]}]}: spec of 'catch-all' must equal the fixed value"#,
            ],
        );
    }
}
