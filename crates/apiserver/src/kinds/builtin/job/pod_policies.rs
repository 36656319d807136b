//! Pod failure policy and success policy of a Job.

use std::collections::BTreeSet;

use kube_apimachinery::go::{self, quote};
use kube_apimachinery::go_struct::internal_text;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use crate::kinds::builtin::shared::field_checks::{invalid_text, not_negative, too_long, too_many};
use crate::kinds::builtin::shared::fields::{list, text};
use crate::kinds::builtin::shared::label_selector::invalid;

/// Maximum number of rules of a policy.
const MAX_RULES: usize = 20;

/// Validates the pod failure policy in the spec of a Job.
pub(super) fn validate_failure_policy(spec: &Value, path: &str) -> Vec<FieldError> {
    let rules = list(&spec["podFailurePolicy"], "rules");
    let path = format!("{path}.rules");
    let mut errors = Vec::new();
    if rules.len() > MAX_RULES {
        errors.push(too_many(&*path, rules.len(), MAX_RULES));
    }
    for (index, rule) in rules.iter().enumerate() {
        errors.extend(validate_failure_rule(spec, rule, &format!("{path}[{index}]")));
    }
    errors
}

fn validate_failure_rule(spec: &Value, rule: &Value, path: &str) -> Vec<FieldError> {
    const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
    let mut errors = Vec::new();
    let (action, field) = (text(rule, "action"), format!("{path}.action"));
    match action {
        "FailIndex" if spec["backoffLimitPerIndex"].is_null() => {
            errors.push(invalid_text(field, action, "requires the backoffLimitPerIndex to be set"));
        }
        _ => errors.extend(one_of(action, field, &ACTIONS)),
    }
    let (codes, conditions) = (&rule["onExitCodes"], list(rule, "onPodConditions"));
    if !codes.is_null() {
        errors.extend(validate_exit_codes(spec, codes, &format!("{path}.onExitCodes")));
    }
    errors.extend(validate_conditions(conditions, &format!("{path}.onPodConditions")));
    let one = match (codes.is_null(), conditions.is_empty()) {
        (false, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (true, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return errors,
    };
    errors.push(without_value(path, one));
    errors
}

fn validate_conditions(conditions: &[Value], path: &str) -> Vec<FieldError> {
    const MAX: usize = 20;
    let mut errors = Vec::new();
    if conditions.len() > MAX {
        errors.push(too_many(path, conditions.len(), MAX));
    }
    for (index, condition) in conditions.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let kind = text(condition, "type");
        errors.extend(invalid(&format!("{path}.type"), kind, &names::qualified(kind)));
        let statuses = ["False", "True", "Unknown"];
        errors.extend(one_of(text(condition, "status"), format!("{path}.status"), &statuses));
    }
    errors
}

fn validate_exit_codes(spec: &Value, codes: &Value, path: &str) -> Vec<FieldError> {
    const MAX: usize = 255;
    let operator = text(codes, "operator");
    let mut errors: Vec<FieldError> =
        one_of(operator, format!("{path}.operator"), &["In", "NotIn"]).into_iter().collect();
    if let Some(name) = codes["containerName"].as_str() {
        let pod = &spec["template"]["spec"];
        let mut containers = list(pod, "containers").iter().chain(list(pod, "initContainers"));
        // Ephemeral containers do not count: a template cannot have any.
        if !containers.any(|container| text(container, "name") == name) {
            let why = "must be one of the container or initContainer names in the pod template";
            errors.push(invalid_text(format!("{path}.containerName"), name, why));
        }
    }
    let (values, field) = (list(codes, "values"), format!("{path}.values"));
    if values.is_empty() {
        errors.push(FieldError::invalid(
            &*field,
            &go::json(&codes["values"]),
            "at least one value is required",
        ));
    } else if values.len() > MAX {
        errors.push(too_many(&*field, values.len(), MAX));
    }
    let numbers: Vec<i64> = values.iter().filter_map(Value::as_i64).collect();
    let mut seen = BTreeSet::new();
    for (index, number) in numbers.iter().enumerate() {
        let field = format!("{field}[{index}]");
        // A container with exit code 0 has not failed, so the rule could never match.
        if operator == "In" && *number == 0 {
            errors.push(FieldError::invalid(&*field, "0", "must not be 0 for the In operator"));
        }
        if !seen.insert(number) {
            errors.push(FieldError {
                reason: "FieldValueDuplicate",
                field,
                message: format!("Duplicate value: {number}"),
            });
        }
    }
    if !numbers.is_sorted() {
        errors.push(FieldError::invalid(field, &go::json(&codes["values"]), "must be ordered"));
    }
    errors
}

/// Validates the success policy in the spec of a Job.
pub(super) fn validate_success_policy(spec: &Value, path: &str) -> Vec<FieldError> {
    let policy = &spec["successPolicy"];
    let rules = list(policy, "rules");
    // The rules are about indexes, so nothing else is validated without them.
    if text(spec, "completionMode") != "Indexed" {
        return vec![FieldError::invalid(
            path,
            &internal_text("batch.SuccessPolicy", policy),
            "requires indexed completion mode",
        )];
    }
    let path = format!("{path}.rules");
    let mut errors = Vec::new();
    if rules.is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(&*path, why));
    }
    if rules.len() > MAX_RULES {
        errors.push(too_many(&*path, rules.len(), MAX_RULES));
    }
    for (index, rule) in rules.iter().enumerate() {
        let completions = match spec["completions"].as_i64() {
            Some(completions) => completions,
            // An indexed Job must have `completions`. Without them, kube-apiserver panics at a rule that is not empty; this returns the
            // errors so far.
            None if rule.as_object().is_some_and(|rule| !rule.is_empty()) => return errors,
            None => 0,
        };
        errors.extend(validate_success_rule(completions, rule, &format!("{path}[{index}]")));
    }
    errors
}

fn validate_success_rule(completions: i64, rule: &Value, path: &str) -> Vec<FieldError> {
    const MAX_INDEXES: usize = 64 << 10;
    let (count, indexes) = (rule["succeededCount"].as_i64(), rule["succeededIndexes"].as_str());
    let mut errors = Vec::new();
    if count.is_none() && indexes.is_none() {
        let why = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(FieldError::required(path, why));
    }
    // Invalid indexes count as none.
    let mut total = 0;
    if let Some(indexes) = indexes {
        let field = format!("{path}.succeededIndexes");
        if indexes.len() > MAX_INDEXES {
            errors.push(too_long(&*field, MAX_INDEXES));
        }
        match count_indexes(indexes, completions) {
            Ok(count) => total = count,
            Err(why) => {
                errors.push(invalid_text(field, indexes, &format!("error parsing succeededIndexes: {why}")));
            }
        }
    }
    if let Some(count) = count {
        let field = format!("{path}.succeededCount");
        errors.extend(not_negative(rule, "succeededCount", path));
        let mut too_large = |max: i64, what: &str| {
            let why = format!("must be less than or equal to {max} (the number of {what})");
            errors.push(FieldError::invalid(&*field, &count.to_string(), &why));
        };
        if count > completions {
            too_large(completions, "specified completions");
        }
        if indexes.is_some() && count > total {
            too_large(total, "indexes in the specified succeededIndexes field");
        }
    }
    errors
}

/// Counts the indexes in a text such as `1,3-5`.
fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let mut total = 0;
    let mut last: Option<i64> = None;
    if text.is_empty() {
        return Ok(0);
    }
    // A negative index cannot occur: the hyphen separates the ends of an interval.
    let index = |text: &str| -> Result<i64, String> {
        let number: i64 = text
            .parse()
            .map_err(|_| format!("cannot convert string to integer for index: {}", quote(text)))?;
        if number >= completions { Err(format!("too large index: {}", quote(text))) } else { Ok(number) }
    };
    for interval in text.split(',') {
        let limits: Vec<&str> = interval.split('-').collect();
        let (first, end) = match limits[..] {
            [one] => {
                let number = index(one)?;
                (number, number)
            }
            [first, end] => {
                let (first, end) = (index(first)?, index(end)?);
                if first >= end {
                    return Err(format!("non-increasing order, previous: {first}, current: {end}"));
                }
                (first, end)
            }
            _ => {
                return Err(format!(
                    "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
                    quote(interval)
                ));
            }
        };
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// Checks that a required text is one of the supported values.
fn one_of(given: &str, field: String, supported: &[&str]) -> Option<FieldError> {
    if given.is_empty() {
        let values: Vec<String> = supported.iter().map(|value| quote(value)).collect();
        return Some(FieldError::required(field, &format!("valid values: [{}]", values.join(" "))));
    }
    (!supported.contains(&given)).then(|| FieldError::not_supported(field, given, supported))
}

/// Builds an error that does not show the value.
fn without_value(field: &str, why: &str) -> FieldError {
    FieldError {
        reason: "FieldValueInvalid",
        field: field.to_owned(),
        message: format!("Invalid value: {why}"),
    }
}
