//! CronJobs.

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::job;
use super::shared::fields::{set, text, within};
use super::shared::{pod_spec, workload};
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

    fn pod_spec(&self) -> Option<&'static str> {
        Some(POD_SPEC)
    }

    fn warnings(&self, _resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = workload::warnings(object, old, POD_SPEC);
        if old.is_none_or(|old| workload::generation(old) != workload::generation(object)) {
            warnings
                .extend(job::many_indexes(&object["spec"]["jobTemplate"]["spec"], "spec.jobTemplate.spec"));
        }
        if old.is_some() && text(&object["spec"], "schedule").contains("TZ") {
            // kube-apiserver's message has `spec` twice.
            warnings.push(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                    .to_owned(),
            );
        }
        warnings
    }
}
