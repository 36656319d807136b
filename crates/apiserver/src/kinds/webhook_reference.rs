//! Validation of references to webhooks, which admission and conversion share.

use kube_apimachinery::go::{Url, quote};
use kube_apimachinery::names::{self, NameRule};
use kube_apimachinery::status::FieldError;
use serde_json::Value;

/// Versions of AdmissionReview and ConversionReview that the server can send.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

/// Validates the URL of a webhook.
pub(super) fn check_url(text: &str, field: &str, errors: &mut Vec<FieldError>) {
    let form = "desired format: https://host[/path]";
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(why) => {
            // kube-apiserver gives an invalid URL the reason of a missing one.
            errors.push(FieldError::required(field, &format!("url must be a valid URL: {why}; {form}")));
            return;
        }
    };
    let mut invalid =
        |value: &str, detail: &str| errors.push(FieldError::invalid(field, &quote(value), detail));
    if url.scheme() != "https" {
        invalid(url.scheme(), &format!("'https' is the only allowed URL scheme; {form}"));
    }
    if url.host().is_empty() {
        invalid("", &format!("host must be specified; {form}"));
    }
    if let Some(user) = url.user() {
        invalid(user, "user information is not permitted in the URL");
    }
    if !url.fragment().is_empty() {
        invalid(&url.fragment(), "fragments are not permitted in the URL");
    }
    if !url.written_query().is_empty() {
        invalid(url.written_query(), "query parameters are not permitted in the URL");
    }
}

/// Validates the port and the path of the service of a webhook.
pub(super) fn check_port_and_path(service: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let port = service["port"].as_i64().unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(format!("{field}.port"), &port.to_string(), detail));
    }
    let path = service["path"].as_str().unwrap_or_default();
    let mut invalid =
        |detail: &str| errors.push(FieldError::invalid(format!("{field}.path"), &quote(path), detail));
    match path {
        "" | "/" => return,
        "//" => {
            invalid("segment[0] may not be empty");
            return;
        }
        _ => {}
    }
    if !path.starts_with('/') {
        invalid("must start with a '/'");
    }
    // Go cuts off the first byte, whatever it is. A Rust string cannot be cut inside a multi-byte character, but a segment with such a
    // character is invalid either way.
    let rest = path.get(1..).unwrap_or(path);
    for (index, segment) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if segment.is_empty() {
            invalid(&format!("segment[{index}] may not be empty"));
            continue;
        }
        for why in names::subdomain(segment) {
            invalid(&format!("segment[{index}]: {why}"));
        }
    }
}

/// Validates the review versions that a webhook accepts. `missing` is the detail of the error for an empty list.
pub(super) fn check_review_versions(
    versions: &[Value],
    field: &str,
    missing: &str,
    errors: &mut Vec<FieldError>,
) {
    if versions.is_empty() {
        errors.push(FieldError::required(field, missing));
        return;
    }
    let mut seen: Vec<&str> = Vec::new();
    for (index, version) in versions.iter().map(|version| version.as_str().unwrap_or_default()).enumerate() {
        let field = format!("{field}[{index}]");
        if seen.contains(&version) {
            // kube-apiserver reports a repetition as an invalid value.
            errors.push(FieldError::invalid(field, &quote(version), "duplicate version"));
        } else {
            for error in names::name(NameRule::Label1035, version) {
                errors.push(FieldError::invalid(field.clone(), &quote(version), &error));
            }
        }
        seen.push(version);
    }
    if !seen.iter().any(|version| REVIEWS.contains(version)) {
        let shown = Value::from(versions).to_string();
        errors.push(FieldError::invalid(field, &shown, "must include at least one of v1, v1beta1"));
    }
}
