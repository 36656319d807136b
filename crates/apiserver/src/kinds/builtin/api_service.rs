//! APIServices. One without a service is local: this server serves its group and version itself.

use kube_apimachinery::names::{self, NameRule};
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::domain_checks::subdomain;
use super::shared::field_checks::{decoded_length, invalid_text, port_number, required};
use super::shared::fields::{list, set, text, within};
use super::shared::label_selector::invalid;
use crate::kind::WriteContext;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct APIService;

impl BuiltinKind for APIService {
    fn default(&self, object: &mut Value) {
        within(object, "spec", |spec| {
            within(spec, "service", |service| set(service, "port", json!(443)));
        });
    }

    fn prepare_create(&self, context: &WriteContext<'_>, object: &mut Value) {
        // No backend has to become reachable, so a local APIService is available from its creation on.
        if object["spec"]["service"].is_null() {
            object["status"] = json!({"conditions": [local(&context.now_seconds())]});
        }
    }

    fn validate(&self, _resource: &Resource, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        validate(new)
    }

    fn validate_subresource(&self, subresource: &str, _old: &Value, new: &Value) -> Vec<FieldError> {
        const STATUSES: [&str; 3] = ["True", "False", "Unknown"];
        if subresource != "status" {
            return Vec::new();
        }
        let wrong = list(&new["status"], "conditions").iter().enumerate().filter_map(|(index, condition)| {
            let status = Some(text(condition, "status")).filter(|status| !STATUSES.contains(status))?;
            let field = format!("status.conditions[{index}].status");
            Some(FieldError::not_supported(field, status, &STATUSES))
        });
        wrong.collect()
    }

    fn status_keeps(&self) -> &'static [&'static str] {
        &["labels", "annotations", "finalizers", "ownerReferences"]
    }

    fn resets(&self, subresource: &str) -> Option<&'static [&'static str]> {
        (subresource == "status").then_some(&["metadata", "spec"])
    }
}

/// Returns the condition of an APIService that this server serves itself.
pub(crate) fn local(now: &str) -> Value {
    json!({
        "type": "Available", "status": "True", "lastTransitionTime": now, "reason": "Local",
        "message": "Local APIServices are always available",
    })
}

fn validate(api: &Value) -> Vec<FieldError> {
    let spec = &api["spec"];
    let (group, version) = (text(spec, "group"), text(spec, "version"));
    let mut errors = Vec::new();
    match group {
        "" if version == "v1" => {}
        "" => {
            let why = "only v1 may have an empty group and it better be legacy kube";
            errors.push(FieldError::required("spec.group", why));
        }
        group => errors.extend(subdomain(group, "spec.group")),
    }
    errors.extend(invalid("spec.version", version, &names::name(NameRule::Label1035, version)));
    for (field, max) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let number = spec[field].as_i64().unwrap_or_default();
        if !(1..=max).contains(&number) {
            // The text says "less than", but the maximum itself is valid.
            let why = format!("must be positive and less than {max}");
            errors.push(FieldError::invalid(format!("spec.{field}"), &number.to_string(), &why));
        }
    }
    let (service, bundle) = (&spec["service"], decoded_length(&spec["caBundle"]));
    let is_insecure = spec["insecureSkipTLSVerify"] == true;
    let insecure = |why: &str| FieldError::invalid("spec.insecureSkipTLSVerify", "true", why);
    if service.is_null() {
        if bundle > 0 {
            let why = "local APIServices may not have a caBundle";
            errors.push(invalid_text("spec.caBundle", &format!("{bundle} bytes"), why));
        }
        if is_insecure {
            errors.push(insecure("local APIServices may not have insecureSkipTLSVerify"));
        }
        return errors;
    }
    for field in ["namespace", "name"] {
        errors.extend(required(service, field, "spec.service"));
    }
    let port = service["port"].as_i64().unwrap_or_default();
    if port_number(port, "").is_some() {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid("spec.service.port", &port.to_string(), why));
    }
    if is_insecure && bundle > 0 {
        errors.push(insecure("may not be true if caBundle is present"));
    }
    errors
}
