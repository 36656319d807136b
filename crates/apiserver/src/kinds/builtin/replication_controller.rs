//! ReplicationControllers.

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{set, within};
use super::shared::{pod_spec, workload};
use crate::kind::WriteContext;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct ReplicationController;

impl BuiltinKind for ReplicationController {
    /// Sets defaults. The labels of the template become the selector and the labels of the controller, if these are absent.
    fn default(&self, object: &mut Value) {
        let labels = object["spec"]["template"]["metadata"]["labels"].clone();
        if labels.is_object() {
            within(object, "spec", |spec| set(spec, "selector", labels.clone()));
            within(object, "metadata", |metadata| set(metadata, "labels", labels));
        }
        within(object, "spec", |spec| {
            set(spec, "replicas", json!(1));
            within(spec, "template", pod_spec::default);
        });
    }

    fn prepare_subresource(
        &self,
        _context: &WriteContext<'_>,
        subresource: &str,
        old: &Value,
        new: &mut Value,
    ) {
        let labels = &old["spec"]["template"]["metadata"]["labels"];
        if subresource == "status" && labels.is_object() {
            // kube-apiserver derives missing labels from the template when it reads the stored object again.
            within(new, "metadata", |metadata| set(metadata, "labels", labels.clone()));
        }
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = workload::validate_label_map(&new["spec"]);
        errors.extend(pod_spec::validate(new, old, pod_spec::IN_WORKLOAD));
        errors.extend(workload::validate_endless(&new["spec"], "ReplicationController"));
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
        match old {
            // kube-apiserver passes the old template here: the warnings are about the state before the update.
            Some(old) if workload::generation(old) != workload::generation(object) => {
                pod_spec::warnings(old, pod_spec::IN_WORKLOAD)
            }
            old => workload::warnings(object, old, pod_spec::IN_WORKLOAD),
        }
    }

    fn orphans_by_default(&self) -> bool {
        true
    }
}
