//! Ingresses.

use std::net::IpAddr;

use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::builtin_kind::BuiltinKind;
use super::shared::discouraged;
use super::shared::field_checks::{
    address, host_name, invalid_text, path_segment, port_name, port_number, required,
};
use super::shared::fields::{list, text};
use super::shared::label_selector::invalid;
use crate::kind::resource::Resource;

/// Annotation that `spec.ingressClassName` replaced.
const CLASS: &str = "kubernetes.io/ingress.class";

const NOT_AN_ADDRESS: &str = "must be a DNS name, not an IP address";
/// Sequences that a path may not contain.
const SEQUENCES: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
/// Suffixes that a path may not have.
const ENDS: [&str; 2] = ["/..", "/."];

#[derive(Debug)]
pub(super) struct Ingress;

impl BuiltinKind for Ingress {
    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let spec = &new["spec"];
        let mut errors = validate(spec, old.map(|old| &old["spec"]));
        let annotation = new["metadata"]["annotations"][CLASS].as_str();
        // kube-apiserver compares the two at creation only, so an existing Ingress with a conflict stays writable.
        if let (None, Some(given), Some(class)) = (old, annotation, spec["ingressClassName"].as_str())
            && given != class
        {
            let why = "must match `ingressClassName` when both are specified";
            errors.push(invalid_text(format!("annotations.{CLASS}"), given, why));
        }
        errors
    }

    fn validate_subresource(&self, subresource: &str, old: &Value, new: &Value) -> Vec<FieldError> {
        if subresource == "status" { validate_status(old, new) } else { Vec::new() }
    }

    fn warnings(&self, _resource: &Resource, ingress: &Value, old: Option<&Value>) -> Vec<String> {
        let is_old_form = old.is_none()
            && ingress["metadata"]["annotations"].get(CLASS).is_some()
            && ingress["spec"]["ingressClassName"].is_null();
        let warning =
            || format!("annotation \"{CLASS}\" is deprecated, please use 'spec.ingressClassName' instead");
        is_old_form.then(warning).into_iter().collect()
    }

    fn status_warnings(&self, ingress: &Value) -> Vec<String> {
        discouraged::of_load_balancer(ingress)
    }
}

/// Validates the spec; `old` is the spec before an update. Two kinds of errors are tolerated if the old spec has one of that kind: paths of
/// rules with a wildcard host, and names of TLS secrets.
fn validate(spec: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let (rules, backend) = (list(spec, "rules"), &spec["defaultBackend"]);
    let mut errors = Vec::new();
    if rules.is_empty() && backend.is_null() {
        let why = "either `defaultBackend` or `rules` must be specified";
        // kube-apiserver shows only the rules of the spec.
        errors.push(FieldError::invalid("spec", &spec["rules"].to_string(), why));
    }
    if !backend.is_null() {
        errors.extend(validate_backend(backend, "spec.defaultBackend"));
    }
    // Older servers did not validate the paths of rules with a wildcard host.
    let is_wildcard = |rule: &Value| text(rule, "host").contains('*');
    let tolerates_rules = old.is_some_and(|old| {
        let mut wildcards = list(old, "rules").iter().filter(|rule| is_wildcard(rule));
        wildcards.any(|rule| !validate_paths(rule, "").is_empty())
    });
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("spec.rules[{index}]");
        let (host, field) = (text(rule, "host"), format!("{path}.host"));
        if !host.is_empty() {
            if host.parse::<IpAddr>().is_ok() {
                errors.push(invalid_text(&*field, host, NOT_AN_ADDRESS));
            }
            errors.extend(host_name(host, &field));
        }
        if !is_wildcard(rule) || !tolerates_rules {
            errors.extend(validate_paths(rule, &path));
        }
    }
    let secret = |tls: &Value, path: &str| match text(tls, "secretName") {
        "" => Vec::new(),
        name => invalid(&format!("{path}.secretName"), name, &names::subdomain(name)),
    };
    // Older servers did not validate these names. If the old spec has an invalid one, none is validated.
    let tolerates_secrets =
        old.is_some_and(|old| list(old, "tls").iter().any(|tls| !secret(tls, "").is_empty()));
    for (index, tls) in list(spec, "tls").iter().enumerate() {
        let path = format!("spec.tls[{index}]");
        for (index, host) in list(tls, "hosts").iter().enumerate() {
            errors.extend(host_name(host.as_str().unwrap_or_default(), &format!("{path}.hosts[{index}]")));
        }
        if !tolerates_secrets {
            errors.extend(secret(tls, &path));
        }
    }
    if let Some(class) = spec["ingressClassName"].as_str() {
        errors.extend(invalid("spec.ingressClassName", class, &names::subdomain(class)));
    }
    errors
}

/// Validates the paths of a rule.
fn validate_paths(rule: &Value, path: &str) -> Vec<FieldError> {
    let http = &rule["http"];
    let path = format!("{path}.http.paths");
    let mut errors = Vec::new();
    if http.is_null() {
        return errors;
    }
    let paths = list(http, "paths");
    if paths.is_empty() {
        errors.push(FieldError::required(&*path, ""));
    }
    for (index, given) in paths.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let Some(kind) = given["pathType"].as_str() else {
            errors.push(FieldError::required(format!("{path}.pathType"), "pathType must be specified"));
            continue;
        };
        let (value, field) = (text(given, "path"), format!("{path}.path"));
        let mut refuse = |why: &str| errors.push(invalid_text(&*field, value, why));
        match kind {
            // These types compare elements of paths, so the path has to be absolute and in normal form.
            "Exact" | "Prefix" => {
                if !value.starts_with('/') {
                    refuse("must be an absolute path");
                }
                for part in SEQUENCES.iter().filter(|part| value.contains(**part)) {
                    refuse(&format!("must not contain '{part}'"));
                }
                for end in ENDS.iter().filter(|end| value.ends_with(**end)) {
                    refuse(&format!("cannot end with '{end}'"));
                }
            }
            // The ingress controller interprets the path, so only its start is checked.
            "ImplementationSpecific" => {
                if !value.is_empty() && !value.starts_with('/') {
                    refuse("must be an absolute path");
                }
            }
            other => {
                let kinds = ["Exact", "ImplementationSpecific", "Prefix"];
                errors.push(FieldError::not_supported(format!("{path}.pathType"), other, &kinds));
            }
        }
        errors.extend(validate_backend(&given["backend"], &format!("{path}.backend")));
    }
    errors
}

fn validate_backend(backend: &Value, path: &str) -> Vec<FieldError> {
    // kube-apiserver shows an empty text instead of the backend.
    let refuse = |why: &str| vec![invalid_text(path, "", why)];
    let (resource, service) = (&backend["resource"], &backend["service"]);
    match (resource.is_null(), service.is_null()) {
        (false, false) => refuse("cannot set both resource and service backends"),
        (true, true) => refuse("resource or service backend is required"),
        (false, true) => {
            let path = format!("{path}.resource");
            let mut errors = Vec::new();
            if let Some(group) = resource["apiGroup"].as_str() {
                errors.extend(invalid(&format!("{path}.apiGroup"), group, &names::subdomain(group)));
            }
            errors.extend(path_segment(resource, "kind", &path));
            errors.extend(path_segment(resource, "name", &path));
            errors
        }
        (true, false) => {
            let name = text(service, "name");
            let place = format!("{path}.service");
            let mut errors = match required(service, "name", &place) {
                Some(error) => vec![error],
                None => invalid(&format!("{place}.name"), name, &names::label(name)),
            };
            // Go's type has 0 for an absent number.
            let port = &service["port"];
            let number = port["number"].as_i64().filter(|number| *number != 0);
            match (text(port, "name"), number) {
                ("", None) => errors.push(FieldError::required(path, "port name or number is required")),
                ("", Some(number)) => errors.extend(port_number(number, format!("{place}.port.number"))),
                (name, None) => {
                    errors.extend(invalid(&format!("{place}.port.name"), name, &port_name(name)));
                }
                (_, Some(_)) => errors.extend(refuse("cannot set both port name & port number")),
            }
            errors
        }
    }
}

/// Validates the load balancer's addresses in the status. Addresses of the old status are not checked again.
fn validate_status(old: &Value, new: &Value) -> Vec<FieldError> {
    let known: Vec<&str> =
        list(&old["status"]["loadBalancer"], "ingress").iter().map(|point| text(point, "ip")).collect();
    let mut errors = Vec::new();
    for (index, point) in list(&new["status"]["loadBalancer"], "ingress").iter().enumerate() {
        let path = format!("status.loadBalancer.ingress[{index}]");
        let (given, host) = (text(point, "ip"), text(point, "hostname"));
        if !given.is_empty() && !known.contains(&given) {
            errors.extend(address(given, &format!("{path}.ip")));
        }
        if !host.is_empty() {
            let field = format!("{path}.hostname");
            errors.extend(invalid(&field, host, &names::subdomain(host)));
            if host.parse::<IpAddr>().is_ok() {
                errors.push(invalid_text(field, host, NOT_AN_ADDRESS));
            }
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::kinds::builtin::test_helpers::check;

    use super::*;

    /// Texts of kube-apiserver v1.36.3, observed or read in its source.
    #[test]
    fn rules_lead_to_one_backend() {
        let check =
            |spec: Value, expected: &[&str]| check("Ingress", &json!({ "spec": spec }), None, expected);
        let service = |port: Value| json!({"service": {"name": "s", "port": port}});
        check(
            json!({}),
            &["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"],
        );
        check(json!({"defaultBackend": service(json!({"number": 80}))}), &[]);
        check(
            json!({"defaultBackend": service(json!({"number": 1, "name": "p"}))}),
            &["spec.defaultBackend: Invalid value: \"\": cannot set both port name & port number"],
        );
        check(
            json!({"defaultBackend": {"resource": {"kind": "K", "name": "n"}, "service": {"name": "s"}}}),
            &["spec.defaultBackend: Invalid value: \"\": cannot set both resource and service backends"],
        );
        let paths = |paths: Value| json!({"rules": [{"host": "*.example.com", "http": {"paths": paths}}]});
        check(paths(json!([])), &["spec.rules[0].http.paths: Required value"]);
        check(
            paths(
                json!([{"path": "x"}, {"path": "x/../", "pathType": "Prefix", "backend": service(json!({}))}]),
            ),
            &[
                "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified",
                "spec.rules[0].http.paths[1].path: Invalid value: \"x/../\": must be an absolute path",
                "spec.rules[0].http.paths[1].path: Invalid value: \"x/../\": must not contain '/../'",
                "spec.rules[0].http.paths[1].backend: Required value: port name or number is required",
            ],
        );
        check(
            json!({"rules": [{"host": "10.0.0.1"}], "tls": [{"hosts": ["*.a"], "secretName": "s"}]}),
            &["spec.rules[0].host: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address"],
        );
    }
}
