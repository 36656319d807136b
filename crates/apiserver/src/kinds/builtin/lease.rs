//! Leases.

use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::builtin_kind::BuiltinKind;
use super::shared::field_checks::not_negative;
use crate::kind::WriteContext;
use crate::kind::resource::Resource;

/// Fields of coordinated leader election, whose feature gate is off by default.
const GATED_FIELDS: [&str; 2] = ["preferredHolder", "strategy"];

#[derive(Debug)]
pub(super) struct Lease;

impl BuiltinKind for Lease {
    fn prepare_create(&self, _context: &WriteContext<'_>, lease: &mut Value) {
        drop_gated_fields(&Value::Null, lease);
    }

    fn prepare_update(&self, _context: &WriteContext<'_>, old: &Value, lease: &mut Value) {
        drop_gated_fields(old, lease);
    }

    fn validate(&self, _resource: &Resource, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let spec = &new["spec"];
        let mut errors = Vec::new();
        if let Some(seconds) = spec["leaseDurationSeconds"].as_i64().filter(|seconds| *seconds <= 0) {
            let why = "must be greater than 0";
            errors.push(FieldError::invalid("spec.leaseDurationSeconds", &seconds.to_string(), why));
        }
        errors.extend(not_negative(spec, "leaseTransitions", "spec"));
        errors
    }
}

/// Drops gated fields, unless the old lease has them.
fn drop_gated_fields(old: &Value, lease: &mut Value) {
    if let Some(spec) = lease.get_mut("spec").and_then(Value::as_object_mut) {
        // The feature gate is `CoordinatedLeaderElection`.
        spec.retain(|field, _| !GATED_FIELDS.contains(&field.as_str()) || !old["spec"][field].is_null());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::builtin::test_helpers::check_update;

    #[test]
    fn durations_are_positive() {
        check_update(
            "Lease",
            &json!({"spec": {"leaseDurationSeconds": 1, "leaseTransitions": 0}}),
            &json!({"spec": {}}),
            &[],
        );
        crate::kinds::builtin::test_helpers::check(
            "Lease",
            &json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}),
            None,
            &[
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            ],
        );
    }

    #[test]
    fn fields_of_coordinated_leader_election_are_dropped() {
        let mut lease = json!({"spec": {"holderIdentity": "a", "preferredHolder": "b", "strategy": "c"}});
        let old = json!({"spec": {"strategy": "x"}});
        drop_gated_fields(&old, &mut lease);
        assert_eq!(lease, json!({"spec": {"holderIdentity": "a", "strategy": "c"}}));
        drop_gated_fields(&Value::Null, &mut lease);
        assert_eq!(lease, json!({"spec": {"holderIdentity": "a"}}));
    }
}
