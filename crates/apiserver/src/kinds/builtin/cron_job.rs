//! CronJobs.

mod schedule;

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::job;
use super::shared::field_checks::{invalid_text, not_negative, required, supported};
use super::shared::fields::{set, text, within};
use super::shared::label_selector::{self, invalid};
use super::shared::{pod_spec, workload};
use crate::kind::resource::Resource;

/// Path of the pod spec.
const POD_SPEC: &str = "spec.jobTemplate.spec.template.spec";
/// Path of the spec of the Jobs.
const JOB_SPEC: &str = "spec.jobTemplate.spec";
/// Maximum length of a name. The controller appends 11 characters to name a Job, and a Job's name has at most 63.
const MAX_NAME: usize = 52;

#[derive(Debug)]
pub(super) struct CronJob;

impl BuiltinKind for CronJob {
    /// Sets defaults of a CronJob and of its pod template. The Job template has no defaults: Jobs get theirs when they are created.
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

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let spec = &new["spec"];
        let mut errors: Vec<FieldError> = required(spec, "schedule", "spec").into_iter().collect();
        errors.extend(validate_schedule(spec, old.map(|old| &old["spec"])));
        errors.extend(not_negative(spec, "startingDeadlineSeconds", "spec"));
        // An unchanged time zone stays valid: an older server, with other time zone data, may have accepted it.
        let zone = spec["timeZone"].as_str();
        if let Some(zone) = zone.filter(|zone| old.is_none_or(|old| old["spec"]["timeZone"] != *zone)) {
            errors.extend(invalid("spec.timeZone", zone, &schedule::check_time_zone(zone)));
        }
        errors.extend(supported(spec, "concurrencyPolicy", "spec", &["Allow", "Forbid", "Replace"]));
        errors.extend(job::validate_of_template(new, old, JOB_SPEC));
        // Each Job gets its own selector when it is created, so the template must not have one.
        let template = &spec["jobTemplate"]["spec"];
        if !template["selector"].is_null() {
            let field = format!("{JOB_SPEC}.selector");
            let shown = label_selector::shown(&template["selector"]);
            errors.push(FieldError::invalid(field, &shown, "`selector` will be auto-generated"));
        }
        if template["manualSelector"] == true {
            errors.push(FieldError {
                reason: "FieldValueNotSupported",
                field: format!("{JOB_SPEC}.manualSelector"),
                message: "Unsupported value: true: supported values: \"nil\", \"false\"".to_owned(),
            });
        }
        for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
            errors.extend(not_negative(spec, field, "spec"));
        }
        let name = text(&new["metadata"], "name");
        // Older servers accepted longer names. Their CronJobs must stay writable.
        if old.is_none() && name.len() > MAX_NAME {
            let why = format!("must be no more than {MAX_NAME} characters");
            errors.push(invalid_text("metadata.name", name, &why));
        }
        errors
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
        // In a new CronJob, a time zone in the schedule is an error.
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

/// Checks the syntax of a schedule, and that it names no time zone.
fn validate_schedule(spec: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let given = text(spec, "schedule");
    if given.is_empty() {
        return Vec::new();
    }
    let wrong = schedule::check_schedule(given).err();
    let wrong = wrong.map(|why| invalid_text("spec.schedule", given, &why));
    wrong.into_iter().chain(zone_in_schedule(spec, old)).collect()
}

/// Checks that a schedule names no time zone. An old schedule with one may stay as long as `timeZone` is absent.
fn zone_in_schedule(spec: &Value, old: Option<&Value>) -> Option<FieldError> {
    let schedule = text(spec, "schedule");
    if !schedule.contains("TZ") {
        return None;
    }
    let is_old = old.is_some_and(|old| text(old, "schedule").contains("TZ"));
    let why = match (is_old, spec["timeZone"].is_null()) {
        (true, true) => return None,
        (true, false) => "cannot use both timeZone field and TZ or CRON_TZ in schedule",
        (false, _) => "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
    };
    Some(invalid_text("spec.schedule", schedule, why))
}

#[cfg(test)]
mod tests {
    use crate::kinds::builtin::test_helpers::check;

    use super::*;

    /// Texts of kube-apiserver v1.36.3, observed or read in its source.
    #[test]
    fn a_cron_job_has_a_schedule_without_a_time_zone() {
        let job = |schedule: &str| {
            json!({"metadata": {"name": "a".repeat(53)}, "spec": {
                "schedule": schedule, "concurrencyPolicy": "X", "successfulJobsHistoryLimit": -1,
                "jobTemplate": {"spec": {
                    "manualSelector": true, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
                }},
            }})
        };
        let name = format!(
            "metadata.name: Invalid value: \"{}\": must be no more than 52 characters",
            "a".repeat(53)
        );
        let rest = [
            "spec.concurrencyPolicy: Unsupported value: \"X\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
            "spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: \"nil\", \"false\"",
            "spec.successfulJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
        ];
        let expected = |first: &'static str| [&[first][..], &rest[..], &[&*name][..]].concat();
        check("CronJob", &job(""), None, &expected("spec.schedule: Required value"));
        check(
            "CronJob",
            &job("TZ=UTC * * * * *"),
            None,
            &expected(
                "spec.schedule: Invalid value: \"TZ=UTC * * * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
            ),
        );
    }
}
