//! Validation of `spec.conversion`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::{list, one_of, text};
use crate::kinds::webhook_reference;

/// Validates a conversion; `old` is the old conversion of an established definition. The CA bundle is checked only in an update of an
/// established definition whose old bundle is valid: a bundle that has been invalid since the creation stays allowed.
pub(super) fn check(conversion: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let strategy = text(conversion, "strategy");
    errors.extend(one_of("spec.conversion.strategy", strategy, &["None", "Webhook"]));
    let webhook = &conversion["webhook"];
    // The paths are those of Go's internal type, which has no struct for the webhook.
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
    let versions = list(webhook, "conversionReviewVersions");
    webhook_reference::check_review_versions(versions, reviews, "", errors);
}

/// Whether a CA bundle is empty or contains a PEM block of a certificate. The certificate itself is not parsed.
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
            webhook_reference::check_url(url, &format!("{field}.url"), errors);
        }
        (None, true) => check_service(&config["service"], &format!("{field}.service"), errors),
        _ => errors.push(FieldError::required(field, "exactly one of url or service is required")),
    }
}

fn check_service(service: &Value, field: &str, errors: &mut Vec<FieldError>) {
    // kube-apiserver swaps the two fields in its messages.
    for (name, shown) in [("namespace", "name"), ("name", "namespace")] {
        if text(service, name).is_empty() {
            errors.push(FieldError::required(format!("{field}.{shown}"), ""));
        }
    }
    webhook_reference::check_port_and_path(service, field, errors);
}
