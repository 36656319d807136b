//! MutatingWebhookConfigurations and ValidatingWebhookConfigurations.

use kube_apimachinery::go::quote;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::field_checks::duplicate;
use super::shared::fields::{elements, list, set, set_pointer, text, within};
use super::shared::label_selector::{self, invalid};
use crate::kind::match_condition;
use crate::kind::resource::Resource;
use crate::kinds::webhook_reference;

/// Maximum number of match conditions of a webhook.
const CONDITIONS: usize = 64;

#[derive(Debug)]
pub(super) enum WebhookConfiguration {
    Mutating,
    Validating,
}

impl BuiltinKind for WebhookConfiguration {
    fn default(&self, configuration: &mut Value) {
        for hook in elements(configuration, "webhooks") {
            self.default_webhook(hook);
        }
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        validate(new, old)
    }

    fn compares_empty(&self) -> bool {
        true
    }
}

impl WebhookConfiguration {
    fn default_webhook(&self, hook: &mut Value) {
        set_pointer(hook, "failurePolicy", json!("Fail"));
        set_pointer(hook, "matchPolicy", json!("Equivalent"));
        // For Go, an empty selector matches everything, but an absent one matches nothing.
        set(hook, "namespaceSelector", json!({}));
        set(hook, "objectSelector", json!({}));
        set(hook, "timeoutSeconds", json!(10));
        match self {
            Self::Mutating => set_pointer(hook, "reinvocationPolicy", json!("Never")),
            Self::Validating => {}
        }
        elements(hook, "rules").for_each(|rule| set_pointer(rule, "scope", json!("*")));
        within(hook, "clientConfig", |config| {
            within(config, "service", |service| set(service, "port", json!(443)));
        });
    }
}

/// Validates the webhooks of a configuration. `old` is the state before an update.
fn validate(configuration: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    let before = old.map_or(&[][..], |old| list(old, "webhooks"));
    // Unchanged match conditions are not compiled again, so that they stay valid even if the rules of CEL become stricter.
    let hooks = list(configuration, "webhooks");
    let is_unchanged = before.len() == hooks.len()
        && before.iter().zip(hooks).all(|(old, new)| old["matchConditions"] == new["matchConditions"]);
    for (index, hook) in hooks.iter().enumerate() {
        let field = format!("webhooks[{index}]");
        check_webhook(hook, &field, &mut errors);
        if !is_unchanged {
            let conditions = list(hook, "matchConditions");
            let compile = |expression: &str| match_condition::compile(expression).map(drop);
            check_conditions(conditions, &format!("{field}.matchConditions"), compile, &mut errors);
        }
        webhook_reference::check_review_versions(
            list(hook, "admissionReviewVersions"),
            &format!("{field}.admissionReviewVersions"),
            "must specify one of v1, v1beta1",
            &mut errors,
        );
        let name = text(hook, "name");
        if names.contains(&name) {
            errors.push(duplicate(format!("{field}.name"), name));
        } else if !name.is_empty() {
            names.push(name);
        }
    }
    errors
}

fn check_webhook(hook: &Value, field: &str, errors: &mut Vec<FieldError>) {
    check_name(text(hook, "name"), &format!("{field}.name"), errors);
    for (index, rule) in list(hook, "rules").iter().enumerate() {
        check_rule(rule, &format!("{field}.rules[{index}]"), errors);
    }
    let one_of = |name: &str, supported: &[&str], errors: &mut Vec<FieldError>| {
        if let Some(value) = hook[name].as_str().filter(|value| !supported.contains(value)) {
            errors.push(FieldError::not_supported(format!("{field}.{name}"), value, supported));
        }
    };
    one_of("failurePolicy", &["Fail", "Ignore"], errors);
    one_of("matchPolicy", &["Equivalent", "Exact"], errors);
    if hook["sideEffects"].is_null() {
        let detail = "must specify one of None, NoneOnDryRun";
        errors.push(FieldError::required(format!("{field}.sideEffects"), detail));
    }
    // v1 no longer accepts `Some` and `Unknown`, which v1beta1 had.
    one_of("sideEffects", &["None", "NoneOnDryRun"], errors);
    if let Some(seconds) = hook["timeoutSeconds"].as_i64().filter(|seconds| !(1..=30).contains(seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(format!("{field}.timeoutSeconds"), &seconds.to_string(), detail));
    }
    for selector in ["namespaceSelector", "objectSelector"] {
        errors.extend(label_selector::validate(&hook[selector], &format!("{field}.{selector}")));
    }
    // Only mutating webhooks have the field.
    one_of("reinvocationPolicy", &["IfNeeded", "Never"], errors);
    check_client_config(&hook["clientConfig"], &format!("{field}.clientConfig"), errors);
}

/// Checks that a name is a domain of at least three segments.
fn check_name(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    let wrong = names::subdomain(name);
    if name.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if !wrong.is_empty() {
        errors.push(FieldError::invalid(field, &quote(name), &wrong.join(",")));
    } else if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(field, &quote(name), detail));
    }
}

/// Validates the rule that selects requests.
pub(super) fn check_rule(rule: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let operations = list(rule, "operations");
    let place = format!("{field}.operations");
    check_star(operations, &place, "other operations", errors);
    for (index, operation) in operations.iter().enumerate() {
        let operation = operation.as_str().unwrap_or_default();
        let supported = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
        if !supported.contains(&operation) {
            errors.push(FieldError::not_supported(format!("{place}[{index}]"), operation, &supported));
        }
    }
    check_star(list(rule, "apiGroups"), &format!("{field}.apiGroups"), "other API groups", errors);
    let versions = list(rule, "apiVersions");
    let place = format!("{field}.apiVersions");
    check_star(versions, &place, "other API versions", errors);
    for index in (0..versions.len()).filter(|index| versions[*index] == "") {
        errors.push(FieldError::required(format!("{place}[{index}]"), ""));
    }
    check_resources(list(rule, "resources"), &format!("{field}.resources"), errors);
    let scopes = ["*", "Cluster", "Namespaced"];
    if let Some(scope) = rule["scope"].as_str().filter(|scope| !scopes.contains(scope)) {
        errors.push(FieldError::not_supported(format!("{field}.scope"), scope, &scopes));
    }
}

/// Checks that a list is not empty, and that `*` stands alone in it.
fn check_star(values: &[Value], field: &str, others: &str, errors: &mut Vec<FieldError>) {
    if values.is_empty() {
        errors.push(FieldError::required(field, ""));
    }
    if values.len() > 1 && values.iter().any(|value| value == "*") {
        let detail = format!("if '*' is present, must not specify {others}");
        errors.push(FieldError::invalid(field, &shown(values), &detail));
    }
}

fn check_resources(resources: &[Value], field: &str, errors: &mut Vec<FieldError>) {
    if resources.is_empty() {
        errors.push(FieldError::required(field, ""));
    }
    // Resources of the elements `RESOURCE/*`, and subresources of the elements `*/SUBRESOURCE`, so far.
    let (mut of_all_subresources, mut of_all_resources) = (Vec::new(), Vec::new());
    let (mut has_star, mut has_plain) = (false, false);
    for (index, resource) in resources.iter().enumerate() {
        let resource = resource.as_str().unwrap_or_default();
        let place = format!("{field}[{index}]");
        if resource.is_empty() {
            errors.push(FieldError::required(place, ""));
            continue;
        }
        has_star |= resource == "*";
        let Some((name, subresource)) = resource.split_once('/') else {
            // kube-apiserver overwrites the flag here instead of adding to it, so the last element without a subresource decides.
            has_plain = resource != "*";
            continue;
        };
        let mut covered = |by: String| {
            let detail = format!("if '{by}' is present, must not specify {resource}");
            errors.push(FieldError::invalid(place.clone(), &quote(resource), &detail));
        };
        if of_all_subresources.contains(&name) {
            covered(format!("{name}/*"));
        }
        if of_all_resources.contains(&subresource) {
            covered(format!("*/{subresource}"));
        }
        if subresource == "*" {
            of_all_subresources.push(name);
        }
        if name == "*" {
            of_all_resources.push(subresource);
        }
    }
    if resources.len() > 1 && resources.iter().any(|resource| resource == "*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(field, &shown(resources), detail));
    }
    if has_star && has_plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(field, &shown(resources), detail));
    }
}

fn check_client_config(config: &Value, field: &str, errors: &mut Vec<FieldError>) {
    match (config["url"].as_str(), config["service"].is_object()) {
        (Some(url), false) => webhook_reference::check_url(url, &format!("{field}.url"), errors),
        (None, true) => {
            let service = &config["service"];
            let place = format!("{field}.service");
            // kube-apiserver passes name and namespace in the wrong order, so each error names the other field.
            for (name, shown) in [("namespace", "name"), ("name", "namespace")] {
                if text(service, name).is_empty() {
                    errors.push(FieldError::required(format!("{place}.{shown}"), ""));
                }
            }
            webhook_reference::check_port_and_path(service, &place, errors);
        }
        _ => errors.push(FieldError::required(field, "exactly one of url or service is required")),
    }
}

/// Returns the error for an expression that does not compile. kube-apiserver reports expressions that compile but cannot be planned as
/// internal errors.
pub(super) fn compilation_error(field: impl Into<String>, expression: &str, why: &str) -> FieldError {
    let field = field.into();
    if why.starts_with("program instantiation failed") {
        FieldError { reason: "InternalError", field, message: format!("Internal error: {why}") }
    } else {
        FieldError::invalid(field, &quote(expression), why)
    }
}

/// Validates match conditions, whose expressions `compile` compiles.
pub(super) fn check_conditions(
    conditions: &[Value],
    field: &str,
    compile: impl Fn(&str) -> Result<(), String>,
    errors: &mut Vec<FieldError>,
) {
    if conditions.len() > CONDITIONS {
        errors.push(FieldError {
            reason: "FieldValueTooMany",
            field: field.to_owned(),
            message: format!("Too many: {}: must have at most {CONDITIONS} items", conditions.len()),
        });
    }
    let mut seen: Vec<&str> = Vec::new();
    for (index, condition) in conditions.iter().enumerate() {
        let place = format!("{field}[{index}]");
        // As in kube-apiserver, errors show the expression without surrounding whitespace.
        let expression = text(condition, "expression").trim();
        if expression.is_empty() {
            errors.push(FieldError::required(format!("{place}.expression"), ""));
        } else if let Err(why) = compile(expression) {
            errors.push(compilation_error(format!("{place}.expression"), expression, &why));
        }
        let name = text(condition, "name");
        if name.is_empty() {
            errors.push(FieldError::required(format!("{place}.name"), ""));
            continue;
        }
        errors.extend(invalid(&format!("{place}.name"), name, &names::qualified(name)));
        if seen.contains(&name) {
            errors.push(duplicate(format!("{place}.name"), name));
        } else {
            seen.push(name);
        }
    }
}

fn shown(values: &[Value]) -> String {
    Value::from(values).to_string()
}
