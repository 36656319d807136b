//! Validation of probes and hooks of containers.

use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::PodRules;
use crate::kinds::builtin::shared::field_checks::{header_name, not_negative, port, required};
use crate::kinds::builtin::shared::fields::{list, text};
use crate::kinds::builtin::shared::label_selector::invalid;

/// Actions of a probe, in the order in which kube-apiserver checks them.
const OF_PROBE: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];
/// Actions of a hook.
const OF_HOOK: [&str; 4] = ["exec", "httpGet", "tcpSocket", "sleep"];
const NUMBERS: [&str; 5] =
    ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];

/// Validates the hooks and the probes of a container.
pub(super) fn validate(pod: &PodRules<'_>, container: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for hook in ["postStart", "preStop"] {
        let found = &container["lifecycle"][hook];
        if !found.is_null() {
            errors.extend(actions(pod, found, &OF_HOOK, &format!("{path}.lifecycle.{hook}")));
        }
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let found = &container[kind];
        if !found.is_null() {
            errors.extend(probe(pod, kind, found, &format!("{path}.{kind}")));
        }
    }
    errors
}

fn probe(pod: &PodRules<'_>, kind: &str, probe: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = actions(pod, probe, &OF_PROBE, path);
    errors.extend(NUMBERS.iter().filter_map(|field| not_negative(probe, field, path)));
    let seconds = probe["terminationGracePeriodSeconds"].as_i64();
    let field = || format!("{path}.terminationGracePeriodSeconds");
    if let Some(seconds) = seconds.filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid(field(), &seconds.to_string(), "must be greater than 0"));
    }
    // Only liveness and startup probes end a container. One success must be enough for them.
    if kind == "readinessProbe" {
        errors.extend(seconds.map(|seconds| {
            FieldError::invalid(field(), &seconds.to_string(), "must not be set for readinessProbes")
        }));
    } else if let Some(threshold) = probe["successThreshold"].as_i64().filter(|number| *number != 1) {
        let field = format!("{path}.successThreshold");
        errors.push(FieldError::invalid(field, &threshold.to_string(), "must be 1"));
    }
    errors
}

/// Checks that a handler has exactly one action, and validates the first one.
fn actions(pod: &PodRules<'_>, handler: &Value, kinds: &[&str], path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut found = kinds.iter().filter(|kind| !handler[**kind].is_null());
    let Some(first) = found.next() else {
        return vec![FieldError::required(path, "must specify a handler type")];
    };
    errors.extend(action(pod, first, &handler[*first], &format!("{path}.{first}")));
    for other in found {
        let why = "may not specify more than 1 handler type";
        errors.push(FieldError::forbidden(format!("{path}.{other}"), why));
    }
    errors
}

fn action(pod: &PodRules<'_>, kind: &str, action: &Value, path: &str) -> Vec<FieldError> {
    match kind {
        "exec" if list(action, "command").is_empty() => {
            vec![FieldError::required(format!("{path}.command"), "")]
        }
        "httpGet" => http_get(action, path),
        "tcpSocket" | "grpc" => port(&action["port"], &format!("{path}.port")),
        "sleep" => sleep(pod, action, path).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn http_get(action: &Value, path: &str) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = required(action, "path", path).into_iter().collect();
    errors.extend(port(&action["port"], &format!("{path}.port")));
    let scheme = text(action, "scheme");
    if !["", "HTTP", "HTTPS"].contains(&scheme) {
        errors.push(FieldError::not_supported(format!("{path}.scheme"), scheme, &["HTTP", "HTTPS"]));
    }
    for header in list(action, "httpHeaders") {
        let name = text(header, "name");
        errors.extend(invalid(&format!("{path}.httpHeaders"), name, &header_name(name)));
    }
    errors
}

/// Checks that a hook does not sleep longer than the pod's grace period.
fn sleep(pod: &PodRules<'_>, action: &Value, path: &str) -> Option<FieldError> {
    let limit = pod.spec["terminationGracePeriodSeconds"].as_i64()?;
    let seconds = action["seconds"].as_i64().unwrap_or_default();
    // The text says "less than", but the grace period itself is valid.
    let why = || format!("must be non-negative and less than terminationGracePeriodSeconds ({limit})");
    (!(0..=limit).contains(&seconds)).then(|| FieldError::invalid(path, &seconds.to_string(), &why()))
}
