//! CronJobs.

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{set, within};
use super::shared::pod_spec;
use crate::kind::resource::Resource;

/// Path of the pod's spec.
const POD_SPEC: &str = "spec.jobTemplate.spec.template.spec";

#[derive(Debug)]
pub(super) struct CronJob;

impl BuiltinKind for CronJob {
    /// Sets defaults of a CronJob. Its Jobs get theirs when they are created.
    fn default(&self, cron_job: &mut Value) {
        within(cron_job, "spec", |spec| {
            set(spec, "concurrencyPolicy", json!("Allow"));
            set(spec, "suspend", json!(false));
            set(spec, "successfulJobsHistoryLimit", json!(3));
            set(spec, "failedJobsHistoryLimit", json!(1));
            if let Some(template) = spec.pointer_mut("/jobTemplate/spec/template") {
                pod_spec::default(template);
            }
        });
    }

    fn validate(&self, _resource: &Resource, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        pod_spec::validate(new, POD_SPEC)
    }

    fn warnings(&self, _resource: &Resource, object: &Value, _old: Option<&Value>) -> Vec<String> {
        pod_spec::warnings(object, POD_SPEC)
    }
}
