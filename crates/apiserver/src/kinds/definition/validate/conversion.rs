//! Validation of `spec.conversion`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube_apimachinery::go::quote;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::{list, one_of, text, url};

/// Supported versions of `ConversionReview`.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

/// Validates a conversion. The CA bundle is checked once a definition is established, unless the bundle of `old` is invalid too.
pub(super) fn check(conversion: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
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
        Value::Object(_) => {
            check_client(&webhook["clientConfig"], client, errors);
            let bundle = &webhook["clientConfig"]["caBundle"];
            let was_valid = |old: &Value| is_bundle(&old["webhook"]["clientConfig"]["caBundle"]);
            if old.is_some_and(was_valid) && !is_bundle(bundle) {
                let why = "unable to load root certificates: unable to parse bytes as PEM block";
                errors.push(FieldError::invalid(format!("{client}.caBundle"), &bundle.to_string(), why));
            }
        }
        _ => errors.push(FieldError::required(client, "required when strategy is set to Webhook")),
    }
    check_reviews(list(webhook, "conversionReviewVersions"), reviews, errors);
}

/// Whether a CA bundle is empty, or contains a certificate in PEM. The certificate itself is not parsed.
fn is_bundle(bundle: &Value) -> bool {
    let text = bundle.as_str().unwrap_or_default();
    let text = BASE64_STANDARD.decode(text).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let certificate = text.split_once("-----BEGIN CERTIFICATE-----");
    text.is_empty() || certificate.is_some_and(|(_, rest)| rest.contains("-----END CERTIFICATE-----"))
}

fn check_client(config: &Value, field: &str, errors: &mut Vec<FieldError>) {
    match (config["url"].as_str(), config["service"].is_object()) {
        (Some(url), false) => {
            check_url(url, &format!("{field}.url"), errors);
        }
        (None, true) => check_service(&config["service"], &format!("{field}.service"), errors),
        _ => errors.push(FieldError::required(field, "exactly one of url or service is required")),
    }
}

fn check_url(text: &str, field: &str, errors: &mut Vec<FieldError>) {
    let form = "desired format: https://host[/path]";
    let url = match url::parse(text) {
        Ok(url) => url,
        Err(why) => {
            errors.push(FieldError::required(field, &format!("url must be a valid URL: {why}; {form}")));
            return;
        }
    };
    let mut invalid =
        |value: &str, detail: &str| errors.push(FieldError::invalid(field, &quote(value), detail));
    if url.scheme != "https" {
        invalid(&url.scheme, &format!("'https' is the only allowed URL scheme; {form}"));
    }
    if url.host.is_empty() {
        invalid("", &format!("host must be specified; {form}"));
    }
    if let Some(user) = url.user {
        invalid(user, "user information is not permitted in the URL");
    }
    if !url.fragment.is_empty() {
        invalid(url.fragment, "fragments are not permitted in the URL");
    }
    if !url.query.is_empty() {
        invalid(url.query, "query parameters are not permitted in the URL");
    }
}

fn check_service(service: &Value, field: &str, errors: &mut Vec<FieldError>) {
    // kube-apiserver confuses the two fields in its messages.
    for (name, shown) in [("namespace", "name"), ("name", "namespace")] {
        if text(service, name).is_empty() {
            errors.push(FieldError::required(format!("{field}.{shown}"), ""));
        }
    }
    let port = service["port"].as_i64().unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(format!("{field}.port"), &port.to_string(), detail));
    }
    let path = text(service, "path");
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
    // Go skips the first byte, whatever it is.
    let rest = path.get(1..).unwrap_or_default();
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
