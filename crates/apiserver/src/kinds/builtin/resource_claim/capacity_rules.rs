//! Validation of capacities of devices, and of the policies by which requests consume a part of a capacity.

use std::collections::BTreeSet;

use kube_apimachinery::quantity::Quantity;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use crate::kinds::builtin::shared::field_checks::{duplicate, invalid_text, too_many};
use crate::kinds::builtin::shared::fields::list;

const MAX_OPTIONS: usize = 10;

/// Validates a capacity. Only devices that allow multiple allocations may have a policy.
pub(super) fn validate(capacity: &Value, is_shared: bool, path: &str) -> Vec<FieldError> {
    let policy = &capacity["requestPolicy"];
    let path = format!("{path}.requestPolicy");
    if policy.is_null() {
        return Vec::new();
    }
    if !is_shared {
        return vec![FieldError::forbidden(path, "allowMultipleAllocations must be true")];
    }
    let has_values = !list(policy, "validValues").is_empty();
    let (kind, has_range) =
        (if has_values { "validValues" } else { "validRange" }, !policy["validRange"].is_null());
    if has_values && has_range {
        let why = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
        return vec![FieldError::forbidden(path, why)];
    }
    // kube-apiserver accepts a policy that has only a default, or nothing at all.
    if !has_values && !has_range {
        return Vec::new();
    }
    let Some(default) = amount(&policy["default"]) else {
        return vec![FieldError::required(
            format!("{path}.default"),
            &format!("required when {kind} is defined"),
        )];
    };
    let max = amount(&capacity["value"]).unwrap_or(Quantity::ZERO);
    if has_values {
        validate_options(list(policy, "validValues"), default, max, &format!("{path}.validValues"))
    } else {
        validate_range(&policy["validRange"], default, max, &format!("{path}.validRange"))
    }
}

fn amount(value: &Value) -> Option<Quantity> {
    Quantity::read(value.as_str()?)
}

fn refused(path: &str, value: Quantity, why: &str) -> FieldError {
    invalid_text(path, &value.to_string(), why)
}

fn validate_options(options: &[Value], default: Quantity, max: Quantity, path: &str) -> Vec<FieldError> {
    let amounts: Vec<Quantity> = options.iter().filter_map(amount).collect();
    let place = |index: usize| format!("{path}[{index}]");
    let mut errors = Vec::new();
    for (index, pair) in amounts.windows(2).enumerate() {
        if pair[0] > pair[1] {
            let why = "values must be sorted in ascending order";
            errors.push(refused(&place(index + 1), pair[1], why));
        }
    }
    if amounts.len() > MAX_OPTIONS {
        errors.push(too_many(path, amounts.len(), MAX_OPTIONS));
    } else {
        for (index, option) in amounts.iter().enumerate().filter(|(_, option)| **option > max) {
            let why = format!("option is larger than capacity value: {max}");
            errors.push(refused(&place(index), *option, &why));
        }
        let mut seen = BTreeSet::new();
        for (index, option) in amounts.iter().enumerate() {
            // kube-apiserver compares options by their whole units.
            let key = option.whole_units();
            if !seen.insert(key) {
                errors.push(duplicate(place(index), &key.to_string()));
            }
        }
    }
    // kube-apiserver does not search a list that is too long, so the default is not found.
    if amounts.len() > MAX_OPTIONS || !amounts.contains(&default) {
        errors.push(refused(path, default, "default value is not valid according to the requestPolicy"));
    }
    errors
}

fn validate_range(range: &Value, default: Quantity, max: Quantity, path: &str) -> Vec<FieldError> {
    let place = |field: &str| format!("{path}.{field}");
    let Some(least) = amount(&range["min"]) else {
        return vec![FieldError::required(place("min"), "required when validRange is defined")];
    };
    let mut errors = Vec::new();
    if least > max {
        errors.push(refused(&place("min"), least, &format!("min is larger than capacity value: {max}")));
    }
    if default < least {
        errors.push(refused(&place("min"), default, &format!("default is less than min: {least}")));
    }
    let most = amount(&range["max"]);
    if let Some(most) = most {
        if least > most {
            errors.push(refused(&place("max"), least, &format!("min is larger than max: {most}")));
        }
        if most > max {
            errors.push(refused(&place("max"), most, &format!("max is larger than capacity value: {max}")));
        }
        if default > most {
            errors.push(refused(&place("max"), default, &format!("default is more than max: {most}")));
        }
    }
    if let Some(step) = amount(&range["step"]) {
        let field = place("step");
        let first = least.plus(step);
        if first > max {
            let why = format!("one step {first} is larger than capacity value: {max}");
            errors.push(refused(&field, step, &why));
        }
        for value in std::iter::once(default).chain(most) {
            let distance = value.whole_units() - least.whole_units();
            // In Go, a step of zero causes a panic that ends the request. Here it causes no error.
            if distance.checked_rem(step.whole_units()).is_some_and(|rest| rest != 0) {
                let why = format!("value is not a multiple of a given step ({step}) from ({least})");
                errors.push(refused(&field, value, &why));
            }
        }
    }
    errors
}
