//! PodTemplates. The control plane does not use them; they store a template for other programs.

use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::builtin_kind::BuiltinKind;
use super::shared::fields::within;
use super::shared::{pod_spec, workload};
use crate::kind::resource::Resource;

/// Path of the pod spec.
const POD_SPEC: &str = "template.spec";

#[derive(Debug)]
pub(super) struct PodTemplate;

impl BuiltinKind for PodTemplate {
    fn default(&self, object: &mut Value) {
        within(object, "template", pod_spec::default);
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        pod_spec::validate(new, old, POD_SPEC)
    }

    fn pod_spec(&self) -> Option<&'static str> {
        Some(POD_SPEC)
    }

    fn warnings(&self, _resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
        match old {
            // An unchanged template was warned about when it was written.
            Some(old) if workload::generation(old) == workload::generation(object) => Vec::new(),
            _ => pod_spec::warnings(object, POD_SPEC),
        }
    }
}
