//! Jobs and CronJobs.

use serde_json::{Map, Value, json};

use super::defaults::{elements, set, within};
use super::pod_template;

/// Labels that identify a Job's pods, by the Job's UID and by its name.
const UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

/// Sets defaults of a Job after its fields were completed.
pub(super) fn default_job(job: &mut Value) {
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    if labels.is_object()
        && job["metadata"]["labels"].as_object().is_none_or(Map::is_empty)
        && let Some(metadata) = job.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.insert("labels".to_owned(), labels);
    }
    within(job, "spec", |spec| {
        if spec["completions"].is_null() && spec["parallelism"].is_null() {
            set(spec, "completions", json!(1));
        }
        set(spec, "parallelism", json!(1));
        // With a limit per index, the total is unlimited.
        let limit = if spec["backoffLimitPerIndex"].is_null() { 6 } else { i32::MAX };
        set(spec, "backoffLimit", json!(limit));
        set(spec, "completionMode", json!("NonIndexed"));
        set(spec, "suspend", json!(false));
        set(spec, "manualSelector", json!(false));
        // A failure policy can only judge pods that have failed, not those that are terminating.
        let replacement = if spec["podFailurePolicy"].is_null() { "TerminatingOrFailed" } else { "Failed" };
        set(spec, "podReplacementPolicy", json!(replacement));
        within(spec, "podFailurePolicy", |policy| {
            for rule in elements(policy, "rules") {
                for condition in elements(rule, "onPodConditions") {
                    set(condition, "status", json!("True"));
                }
            }
        });
        within(spec, "template", pod_template::default);
    });
}

/// Sets defaults of a CronJob. Its Jobs get theirs when they are created.
pub(super) fn default_cron_job(cron_job: &mut Value) {
    within(cron_job, "spec", |spec| {
        set(spec, "concurrencyPolicy", json!("Allow"));
        set(spec, "suspend", json!(false));
        set(spec, "successfulJobsHistoryLimit", json!(3));
        set(spec, "failedJobsHistoryLimit", json!(1));
        if let Some(template) = spec.pointer_mut("/jobTemplate/spec/template") {
            pod_template::default(template);
        }
    });
}

/// Sets the selector and labels of a new Job to its UID, unless it has a manual selector.
pub(super) fn prepare_job(job: &mut Value) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let text = |field: &str| job["metadata"][field].as_str().unwrap_or_default().to_owned();
    let (uid, name) = (text("uid"), text("name"));
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
    // A job without labels has those of its template: in Go both are one map.
    let labels = &job["metadata"]["labels"];
    if labels.as_object().is_none_or(Map::is_empty)
        || *labels == job["spec"]["template"]["metadata"]["labels"]
    {
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
        set(&mut spec["selector"]["matchLabels"], UID_LABELS[0], json!(uid));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_job_selects_its_own_pods() {
        let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"metadata": {}}}});
        prepare_job(&mut job);
        assert_eq!(
            job["spec"]["selector"],
            json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}})
        );
        assert_eq!(job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]);
        assert_eq!(job["metadata"]["labels"]["job-name"], "j");
    }

    #[test]
    fn a_job_that_selects_by_hand_is_left_alone() {
        let before = json!({"metadata": {"name": "j"}, "spec": {"manualSelector": true, "selector": {}}});
        let mut job = before.clone();
        prepare_job(&mut job);
        assert_eq!(job, before);
    }

    #[test]
    fn completions_follow_from_parallelism_only_if_both_are_absent() {
        let mut job = json!({"metadata": {}, "spec": {"parallelism": 3}});
        default_job(&mut job);
        assert_eq!(job["spec"]["completions"], Value::Null);
        let mut job = json!({"metadata": {}, "spec": {}});
        default_job(&mut job);
        assert_eq!((&job["spec"]["completions"], &job["spec"]["parallelism"]), (&json!(1), &json!(1)));
    }
}
