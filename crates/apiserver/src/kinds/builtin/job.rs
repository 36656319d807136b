//! Jobs.

mod index_list;
mod job_spec;
mod job_status;
mod job_update;
mod pod_policies;

use kube_apimachinery::status::FieldError;
use serde_json::{Map, Value, json};

use self::job_spec::{host_names, validate_generated_selector, validate_spec};
pub(super) use self::job_spec::{many_indexes, validate_of_template};
use self::job_update::validate_update;
use super::builtin_kind::BuiltinKind;
use super::shared::fields::{elements, set, within};
use super::shared::{pod_spec, workload};
use crate::kind::WriteContext;
use crate::kind::resource::Resource;

/// Labels that identify a Job's pods, by the Job's UID and by its name.
const UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

#[derive(Debug)]
pub(super) struct Job;

impl BuiltinKind for Job {
    fn default(&self, job: &mut Value) {
        default(job);
    }

    fn prepare_create(&self, _context: &WriteContext<'_>, job: &mut Value) {
        select_own_pods(job);
    }

    fn default_stored(&self, job: &mut Value) -> bool {
        default_labels(job)
    }

    fn prepare_subresource(
        &self,
        _context: &WriteContext<'_>,
        _subresource: &str,
        old: &Value,
        new: &mut Value,
    ) {
        // A subresource cannot change the spec. kube-apiserver reads the Job again after the write and derives missing labels from the
        // template, so the stored template counts, not the one of the request.
        new["spec"] = old["spec"].clone();
        default_labels(new);
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = validate_generated_selector(new, old);
        errors.extend(validate_spec(new, old));
        errors.extend(host_names(new));
        // kube-apiserver validates the spec of an update twice, and reports each error twice.
        if let Some(old) = old {
            errors.extend(validate_spec(new, Some(old)));
            errors.extend(validate_update(old, new));
        }
        errors
    }

    fn validate_subresource(&self, subresource: &str, old: &Value, new: &Value) -> Vec<FieldError> {
        if subresource == "status" { job_status::validate(old, new) } else { Vec::new() }
    }

    fn pod_spec(&self) -> Option<&'static str> {
        Some(pod_spec::IN_WORKLOAD)
    }

    fn warnings(&self, _resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = workload::warnings(object, old, pod_spec::IN_WORKLOAD);
        if old.is_none_or(|old| workload::generation(old) != workload::generation(object)) {
            warnings.extend(many_indexes(&object["spec"], "spec"));
        }
        warnings
    }

    fn orphans_by_default(&self) -> bool {
        true
    }
}

/// Copies the labels of the template to a Job without labels. Returns whether it did.
fn default_labels(job: &mut Value) -> bool {
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    if labels.is_object()
        && job["metadata"]["labels"].as_object().is_none_or(Map::is_empty)
        && let Some(metadata) = job.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.insert("labels".to_owned(), labels);
        return true;
    }
    false
}

fn default(job: &mut Value) {
    default_labels(job);
    within(job, "spec", |spec| {
        // This comes before the default of `parallelism`, because the condition depends on whether the client set it.
        if spec["completions"].is_null() && spec["parallelism"].is_null() {
            set(spec, "completions", json!(1));
        }
        set(spec, "parallelism", json!(1));
        // With a limit for each index, the total is unlimited.
        let limit = if spec["backoffLimitPerIndex"].is_null() { 6 } else { i32::MAX };
        set(spec, "backoffLimit", json!(limit));
        set(spec, "completionMode", json!("NonIndexed"));
        set(spec, "suspend", json!(false));
        set(spec, "manualSelector", json!(false));
        // A failure policy judges only failed pods, so the replacement of a terminating pod has to wait until it failed.
        let replacement = if spec["podFailurePolicy"].is_null() { "TerminatingOrFailed" } else { "Failed" };
        set(spec, "podReplacementPolicy", json!(replacement));
        within(spec, "podFailurePolicy", |policy| {
            for rule in elements(policy, "rules") {
                for condition in elements(rule, "onPodConditions") {
                    set(condition, "status", json!("True"));
                }
            }
        });
        within(spec, "template", pod_spec::default);
    });
}

/// Sets the selector and labels of a new Job to its UID, unless it has a manual selector.
fn select_own_pods(job: &mut Value) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let text = |field: &str| job["metadata"][field].as_str().unwrap_or_default().to_owned();
    let (uid, name) = (text("uid"), text("name"));
    // Labels from the client stay. If they contradict the generated selector, validation refuses the Job.
    let add_to = |metadata: &mut Value| {
        if metadata["labels"].is_null() {
            metadata["labels"] = json!({});
        }
        for (labels, value) in [(UID_LABELS, &uid), (NAME_LABELS, &name)] {
            for label in labels {
                set(&mut metadata["labels"], label, json!(value));
            }
        }
    };
    // In Go, labels copied from the template are the same map as the template's, so the Job gets the new labels too.
    let labels = &job["metadata"]["labels"];
    if labels.is_object() && *labels == job["spec"]["template"]["metadata"]["labels"] {
        within(job, "metadata", add_to);
    }
    within(job, "spec", |spec| {
        if let Some(metadata) = spec.pointer_mut("/template/metadata").filter(|metadata| metadata.is_object())
        {
            add_to(metadata);
        }
        if spec["selector"].is_null() {
            spec["selector"] = json!({});
        }
        if spec["selector"]["matchLabels"].is_null() {
            spec["selector"]["matchLabels"] = json!({});
        }
        // The UID alone selects exactly the pods of this Job.
        set(&mut spec["selector"]["matchLabels"], UID_LABELS[0], json!(uid));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_job_selects_its_own_pods() {
        let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"metadata": {}}}});
        select_own_pods(&mut job);
        assert_eq!(
            job["spec"]["selector"],
            json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}})
        );
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
        // It gets the labels of its template when it is stored.
        assert_eq!(job["metadata"]["labels"], Value::Null);
        default_labels(&mut job);
        assert_eq!(job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]);
    }

    #[test]
    fn a_job_shares_the_labels_that_it_got_from_its_template() {
        let new = |labels: Value| {
            let mut job = json!({"metadata": {"name": "j", "uid": "u", "labels": labels}});
            job["spec"] = json!({"template": {"metadata": {"labels": {"a": "b"}}}});
            default(&mut job);
            select_own_pods(&mut job);
            job["metadata"]["labels"].take()
        };
        assert_eq!(new(Value::Null)["job-name"], "j");
        assert_eq!(new(json!({"own": "x"})), json!({"own": "x"}));
    }

    #[test]
    fn a_job_with_a_manual_selector_is_unchanged() {
        let before = json!({"metadata": {"name": "j"}, "spec": {"manualSelector": true, "selector": {}}});
        let mut job = before.clone();
        select_own_pods(&mut job);
        assert_eq!(job, before);
    }

    #[test]
    fn completions_follow_from_parallelism_only_if_both_are_absent() {
        let mut job = json!({"metadata": {}, "spec": {"parallelism": 3}});
        default(&mut job);
        assert_eq!(job["spec"]["completions"], Value::Null);
        let mut job = json!({"metadata": {}, "spec": {}});
        default(&mut job);
        assert_eq!((&job["spec"]["completions"], &job["spec"]["parallelism"]), (&json!(1), &json!(1)));
    }
}
