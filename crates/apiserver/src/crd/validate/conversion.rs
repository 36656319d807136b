//! Validation of `spec.conversion`.

use serde_json::Value;

use super::{list, one_of, text};
use crate::request::query::quote;
use crate::status::FieldError;

/// Supported versions of `ConversionReview`.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

pub(super) fn check(conversion: &Value, errors: &mut Vec<FieldError>) {
    let strategy = text(conversion, "strategy");
    errors.extend(one_of("spec.conversion.strategy", strategy, &["None", "Webhook"]));
    let webhook = &conversion["webhook"];
    let client = "spec.conversion.webhookClientConfig";
    let reviews = "spec.conversion.conversionReviewVersions";
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if webhook["clientConfig"].is_object() {
            errors.push(FieldError::forbidden(client, detail));
        }
        if !list(webhook, "conversionReviewVersions").is_empty() {
            errors.push(FieldError::forbidden(reviews, detail));
        }
        return;
    }
    match &webhook["clientConfig"] {
        Value::Object(_) => check_client(&webhook["clientConfig"], client, errors),
        _ => errors.push(FieldError::required(client, "required when strategy is set to Webhook")),
    }
    check_reviews(list(webhook, "conversionReviewVersions"), reviews, errors);
}

fn check_client(config: &Value, field: &str, errors: &mut Vec<FieldError>) {
    match (config["url"].as_str(), config["service"].is_object()) {
        (Some(url), false) => {
            let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
            if scheme != "https" {
                let detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
                errors.push(FieldError::invalid(format!("{field}.url"), &quote(scheme), detail));
            }
        }
        (None, true) => check_service(&config["service"], &format!("{field}.service"), errors),
        _ => errors.push(FieldError::required(field, "exactly one of url or service is required")),
    }
}

fn check_service(service: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for name in ["name", "namespace"] {
        if text(service, name).is_empty() {
            errors.push(FieldError::required(format!("{field}.{name}"), ""));
        }
    }
    let port = service["port"].as_i64().unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(format!("{field}.port"), &port.to_string(), detail));
    }
    let Some(path) = service["path"].as_str() else {
        return;
    };
    let mut invalid =
        |detail: &str| errors.push(FieldError::invalid(format!("{field}.path"), &quote(path), detail));
    if !path.starts_with('/') {
        invalid("must start with a '/'");
    }
    // The path begins with a slash, so the empty segment before it is skipped.
    let rest = path.get(1..).unwrap_or_default();
    if path == "/" {
        return;
    }
    for (index, segment) in rest.trim_end_matches('/').split('/').enumerate() {
        if segment.is_empty() {
            invalid(&format!("segment[{index}] may not be empty"));
        }
    }
}

fn check_reviews(versions: &[Value], field: &str, errors: &mut Vec<FieldError>) {
    if versions.is_empty() {
        errors.push(FieldError::required(field, ""));
        return;
    }
    let mut seen: Vec<&str> = Vec::new();
    for (index, version) in versions.iter().map(|version| version.as_str().unwrap_or_default()).enumerate() {
        let field = format!("{field}[{index}]");
        if seen.contains(&version) {
            errors.push(FieldError::invalid(field, &quote(version), "duplicate version"));
        } else {
            for error in super::label_1035(version) {
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
