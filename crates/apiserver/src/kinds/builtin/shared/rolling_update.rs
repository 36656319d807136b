//! Limits of rolling updates: numbers of pods, or percentages.

use kube_apimachinery::go;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::field_checks::{at_most_all, not_negative, number_or_percent};

const UNAVAILABLE: &str = "maxUnavailable";
const SURGE: &str = "maxSurge";

/// Returns the number in a limit, without the percent sign. As in Go, a text that is not a percentage counts as its number, or else as 0.
fn number(limit: &Value) -> i64 {
    let text = |text: &str| text.strip_suffix('%').unwrap_or(text).parse().unwrap_or_default();
    limit.as_str().map_or_else(|| limit.as_i64().unwrap_or_default(), text)
}

/// Validates the limits of a Deployment, of which at most one may be zero.
pub(in crate::kinds::builtin) fn of_deployment(rolling: &Value, path: &str) -> Vec<FieldError> {
    let [unavailable, surge] = [UNAVAILABLE, SURGE].map(|field| &rolling[field]);
    let field = format!("{path}.{UNAVAILABLE}");
    let mut errors: Vec<FieldError> = number_or_percent(unavailable, &field).into_iter().collect();
    errors.extend(number_or_percent(surge, &format!("{path}.{SURGE}")));
    if number(unavailable) == 0 && number(surge) == 0 {
        let why = "may not be 0 when `maxSurge` is 0";
        errors.push(FieldError::invalid(&*field, &go::json(unavailable), why));
    }
    // A surge may exceed 100 %: there may be any number of additional pods.
    errors.extend(at_most_all(unavailable, &field));
    errors
}

/// Validates the limits of a DaemonSet, of which exactly one must be zero: a pod is replaced either before or after its end.
pub(in crate::kinds::builtin) fn of_daemon_set(rolling: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // kube-apiserver checks the form of both limits before the size of either.
    for check in [number_or_percent, at_most_all] {
        for field in [UNAVAILABLE, SURGE] {
            errors.extend(check(&rolling[field], &format!("{path}.{field}")));
        }
    }
    let surge = &rolling[SURGE];
    match (number(&rolling[UNAVAILABLE]), number(surge)) {
        (0, 0) => {
            let why = "cannot be 0 when maxSurge is 0";
            errors.push(FieldError::required(format!("{path}.{UNAVAILABLE}"), why));
        }
        (0, _) | (_, 0) => {}
        _ => {
            let why = "may not be set when maxUnavailable is non-zero";
            errors.push(FieldError::invalid(format!("{path}.{SURGE}"), &go::json(surge), why));
        }
    }
    errors
}

/// Validates the limits of a StatefulSet.
pub(in crate::kinds::builtin) fn of_stateful_set(rolling: &Value, path: &str) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = not_negative(rolling, "partition", path).into_iter().collect();
    let (limit, field) = (&rolling[UNAVAILABLE], format!("{path}.{UNAVAILABLE}"));
    if !limit.is_null() {
        errors.extend(number_or_percent(limit, &field));
        if number(limit) == 0 {
            errors.push(FieldError::invalid(&*field, &go::json(limit), "cannot be 0"));
        }
        errors.extend(at_most_all(limit, &field));
    }
    errors
}
