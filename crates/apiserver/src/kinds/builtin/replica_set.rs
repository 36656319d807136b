//! ReplicaSets.

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{set, within};
use super::shared::{pod_spec, workload};
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct ReplicaSet;

impl BuiltinKind for ReplicaSet {
    fn default(&self, object: &mut Value) {
        within(object, "spec", |spec| {
            set(spec, "replicas", json!(1));
            within(spec, "template", pod_spec::default);
        });
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        // kube-apiserver's message says "deployment", because its code was copied from there.
        let mut errors = workload::validate_numbers(&new["spec"], &["replicas", "minReadySeconds"]);
        errors.extend(workload::validate_template("deployment", "invalid label selector", new, old));
        errors.extend(workload::keep_selector(new, old));
        errors
    }

    fn validate_subresource(&self, subresource: &str, old: &Value, new: &Value) -> Vec<FieldError> {
        match subresource {
            "status" => workload::validate_status(&workload::REPLICA_NUMBERS, old, new),
            _ => Vec::new(),
        }
    }

    fn pod_spec(&self) -> Option<&'static str> {
        Some(pod_spec::IN_WORKLOAD)
    }

    fn warnings(&self, _resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
        workload::warnings(object, old, pod_spec::IN_WORKLOAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::workload_defaults;

    #[test]
    fn defaults_are_the_recorded_ones() {
        workload_defaults("ReplicaSet", &json!({"selector": {}}), &json!({"selector": {}, "replicas": 1}));
    }
}
