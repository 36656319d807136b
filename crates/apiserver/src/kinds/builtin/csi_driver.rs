//! CSIDrivers.

use std::collections::BTreeSet;

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::field_checks::{duplicate, supported};
use super::shared::fields::{list, put, set, set_pointer, text, within};
use super::shared::immutable_fields::{IMMUTABLE, immutable};
use crate::kind::WriteContext;
use crate::kind::resource::Resource;

/// Field behind a feature gate that is off by default.
const GATED_FIELD: &str = "preventPodSchedulingIfMissing";

#[derive(Debug)]
pub(super) struct CSIDriver;

impl BuiltinKind for CSIDriver {
    fn default(&self, driver: &mut Value) {
        within(driver, "spec", |spec| {
            set(spec, "attachRequired", json!(true));
            set(spec, "podInfoOnMount", json!(false));
            set(spec, "storageCapacity", json!(false));
            set_pointer(spec, "fsGroupPolicy", json!("ReadWriteOnceWithFSType"));
            set(spec, "volumeLifecycleModes", json!(["Persistent"]));
            set(spec, "requiresRepublish", json!(false));
            set(spec, "seLinuxMount", json!(false));
        });
    }

    fn prepare_create(&self, _context: &WriteContext<'_>, driver: &mut Value) {
        within(driver, "spec", |spec| put(spec, GATED_FIELD, Value::Null));
    }

    fn prepare_update(&self, _context: &WriteContext<'_>, old: &Value, driver: &mut Value) {
        // The feature gate is `VolumeLimitScaling`.
        if old["spec"][GATED_FIELD].is_null() {
            within(driver, "spec", |spec| put(spec, GATED_FIELD, Value::Null));
        }
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let spec = &new["spec"];
        let policies = ["File", "None", "ReadWriteOnceWithFSType"];
        let mut errors: Vec<FieldError> =
            supported(spec, "fsGroupPolicy", "spec", &policies).into_iter().collect();
        errors.extend(token_requests(spec));
        for mode in list(spec, "volumeLifecycleModes") {
            let (mode, modes) = (mode.as_str().unwrap_or_default(), ["Persistent", "Ephemeral"]);
            if !modes.contains(&mode) {
                // kube-apiserver's path lacks the index.
                errors.push(FieldError::not_supported("spec.volumeLifecycleModes", mode, &modes));
            }
        }
        let period = spec["nodeAllocatableUpdatePeriodSeconds"].as_i64();
        if let Some(seconds) = period.filter(|seconds| *seconds < 10) {
            let field = "spec.nodeAllocatableUpdatePeriodSeconds";
            let why = "must be greater than or equal to 10 seconds";
            errors.push(FieldError::invalid(field, &seconds.to_string(), why));
        }
        let in_secrets = &spec["serviceAccountTokenInSecrets"];
        if !in_secrets.is_null() && list(spec, "tokenRequests").is_empty() {
            let why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
            errors.push(FieldError::invalid(
                "spec.serviceAccountTokenInSecrets",
                &in_secrets.to_string(),
                why,
            ));
        }
        if let Some(old) = old {
            let old = &old["spec"];
            if old["attachRequired"] != spec["attachRequired"] {
                // kube-apiserver misspells the field in this path.
                let shown = spec["attachRequired"].to_string();
                errors.push(FieldError::invalid("spec.attachedRequired", &shown, IMMUTABLE));
            }
            errors.extend(immutable("spec", old, spec, &["volumeLifecycleModes"]));
        }
        errors
    }

    fn warnings(&self, _resource: &Resource, driver: &Value, old: Option<&Value>) -> Vec<String> {
        let spec = &driver["spec"];
        let asks = !list(spec, "tokenRequests").is_empty() && spec["serviceAccountTokenInSecrets"].is_null();
        let is_new = old.is_none_or(|old| old["spec"]["tokenRequests"] != spec["tokenRequests"]);
        let warning = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent \
                       possible logging of tokens in volume attributes";
        (asks && is_new).then(|| warning.to_owned()).into_iter().collect()
    }
}

/// Validates the service account tokens that a driver requests: at most one per audience.
fn token_requests(spec: &Value) -> Vec<FieldError> {
    let mut audiences = BTreeSet::new();
    let mut errors = Vec::new();
    for (index, request) in list(spec, "tokenRequests").iter().enumerate() {
        let path = format!("spec.tokenRequests[{index}]");
        let audience = text(request, "audience");
        if !audiences.insert(audience) {
            errors.push(duplicate(format!("{path}.audience"), audience));
            continue;
        }
        let Some(seconds) = request["expirationSeconds"].as_i64() else { continue };
        let why = match seconds {
            ..600 => "may not specify a duration less than 10 minutes",
            // 2^32 itself is valid.
            0x1_0000_0001.. => "may not specify a duration larger than 2^32 seconds",
            _ => continue,
        };
        errors.push(FieldError::invalid(format!("{path}.expirationSeconds"), &seconds.to_string(), why));
    }
    errors
}

#[cfg(test)]
mod tests {
    use crate::kinds::builtin::test_helpers::check;

    use super::*;

    /// Texts of kube-apiserver v1.36.3, observed or read in its source.
    #[test]
    fn modes_and_tokens_are_valid() {
        let driver = |spec: Value| json!({ "spec": spec });
        check(
            "CSIDriver",
            &driver(
                json!({"volumeLifecycleModes": ["X"], "fsGroupPolicy": "Y", "tokenRequests": [{"expirationSeconds": 5}]}),
            ),
            None,
            &[
                "spec.fsGroupPolicy: Unsupported value: \"Y\": supported values: \"File\", \"None\", \"ReadWriteOnceWithFSType\"",
                "spec.tokenRequests[0].expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes",
                "spec.volumeLifecycleModes: Unsupported value: \"X\": supported values: \"Persistent\", \"Ephemeral\"",
            ],
        );
        check(
            "CSIDriver",
            &driver(json!({"attachRequired": false})),
            Some(&driver(json!({"attachRequired": true}))),
            &["spec.attachedRequired: Invalid value: false: field is immutable"],
        );
    }
}
