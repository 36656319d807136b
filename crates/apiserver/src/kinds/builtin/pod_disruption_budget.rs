//! PodDisruptionBudgets.

use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::builtin_kind::BuiltinKind;
use super::shared::field_checks::{at_most_all, conditions, not_negative, number_or_percent, supported};
use super::shared::fields::list;
use super::shared::label_selector;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct PodDisruptionBudget;

impl BuiltinKind for PodDisruptionBudget {
    fn validates_metadata_last(&self, _resource: &Resource) -> bool {
        true
    }

    fn validate(&self, _resource: &Resource, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        const LIMITS: [&str; 2] = ["minAvailable", "maxUnavailable"];
        let spec = &new["spec"];
        let mut errors = Vec::new();
        if LIMITS.iter().all(|limit| !spec[*limit].is_null()) {
            // The message shows the JSON of Go's internal struct, whose fields have this order.
            let shown = format!(
                "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
                spec["minAvailable"],
                label_selector::shown(&spec["selector"]),
                spec["maxUnavailable"],
                spec["unhealthyPodEvictionPolicy"]
            );
            let why = "minAvailable and maxUnavailable cannot be both set";
            errors.push(FieldError::invalid("spec", &shown, why));
        }
        for limit in LIMITS {
            let field = format!("spec.{limit}");
            errors.extend(number_or_percent(&spec[limit], &field));
            errors.extend(at_most_all(&spec[limit], &field));
        }
        errors.extend(label_selector::validate(&spec["selector"], "spec.selector"));
        let policies = ["AlwaysAllow", "IfHealthyBudget"];
        errors.extend(supported(spec, "unhealthyPodEvictionPolicy", "spec", &policies));
        errors
    }

    fn validate_subresource(&self, subresource: &str, _old: &Value, new: &Value) -> Vec<FieldError> {
        let status = &new["status"];
        if subresource != "status" {
            return Vec::new();
        }
        let mut errors = conditions(list(status, "conditions"), "status.conditions");
        for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            errors.extend(not_negative(status, field, "status"));
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::builtin::test_helpers::{check, check_status};

    #[test]
    fn one_limit_is_a_number_or_a_percentage() {
        let budget = |spec: Value| json!({ "spec": spec });
        check("PodDisruptionBudget", &budget(json!({"minAvailable": "50%"})), None, &[]);
        check(
            "PodDisruptionBudget",
            &budget(json!({"minAvailable": -1, "maxUnavailable": "101%"})),
            None,
            &[
                "spec: Invalid value: {\"MinAvailable\":-1,\"Selector\":null,\"MaxUnavailable\":\"101%\",\"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be both set",
                "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0",
                "spec.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
            ],
        );
        check(
            "PodDisruptionBudget",
            &budget(json!({"maxUnavailable": "half"})),
            None,
            &[
                "spec.maxUnavailable: Invalid value: \"half\": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
            ],
        );
    }

    #[test]
    fn conditions_have_a_reason_and_a_time() {
        let budget = |status: Value| json!({"spec": {}, "status": status});
        check_status(
            "PodDisruptionBudget",
            &budget(json!({})),
            &budget(json!({"conditions": [{"type": "A", "status": "True"}], "expectedPods": -1})),
            &[
                "status.conditions[0].lastTransitionTime: Required value",
                "status.conditions[0].reason: Required value",
                "status.expectedPods: Invalid value: -1: must be greater than or equal to 0",
            ],
        );
    }
}
