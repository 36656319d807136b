//! Writes of a Job's status that kube-apiserver accepts or refuses.

use serde_json::json;

use super::*;

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-01-01T00:00:05Z";

fn conditions(kinds: &[&str]) -> Value {
    kinds.iter().map(|kind| json!({"type": kind, "status": "True"})).collect()
}

fn check_write(spec: &Value, old: &Value, new: &Value, expected: &[&str]) {
    let job = |status: &Value| json!({"spec": spec, "status": status});
    let errors: Vec<String> = validate(&job(old), &job(new)).iter().map(ToString::to_string).collect();
    assert_eq!(errors, expected, "{new}");
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn the_status_of_a_new_job_is_checked() {
    let spec = json!({"completions": 1, "parallelism": 1, "completionMode": "NonIndexed", "suspend": false});
    let check = |new: Value, expected: &[&str]| check_write(&spec, &json!({}), &new, expected);
    check(
        json!({"active": -1, "ready": -1, "succeeded": -2, "failed": -3, "terminating": -4}),
        &[
            "status.active: Invalid value: -1: must be greater than or equal to 0",
            "status.succeeded: Invalid value: -2: must be greater than or equal to 0",
            "status.failed: Invalid value: -3: must be greater than or equal to 0",
            "status.ready: Invalid value: -1: must be greater than or equal to 0",
            "status.terminating: Invalid value: -4: must be greater than or equal to 0",
            "status.failed: Invalid value: -3: cannot decrease the failed counter",
            "status.succeeded: Invalid value: -2: cannot decrease the succeeded counter",
        ],
    );
    check(
        json!({"conditions": conditions(&["Complete", "Failed", "FailureTarget"])}),
        &[
            "status.conditions: Invalid value: cannot set Complete=True and Failed=true conditions",
            "status.conditions: Invalid value: cannot set Complete=True and FailureTarget=true conditions",
            "status.completionTime: Required value: completionTime is required for Complete jobs",
            "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            "status.startTime: Required value: startTime is required for finished job",
        ],
    );
    check(
        json!({"conditions": conditions(&["Failed"])}),
        &[
            "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition",
            "status.startTime: Required value: startTime is required for finished job",
        ],
    );
    check(
        json!({"completionTime": EARLY}),
        &[
            "status.completionTime: Invalid value: \"2026-01-01T00:00:00Z\": cannot set completionTime when there is no Complete=True condition",
        ],
    );
    let complete = conditions(&["Complete", "SuccessCriteriaMet"]);
    check(
        json!({"startTime": LATE, "completionTime": EARLY, "conditions": complete}),
        &[
            "status.completionTime: Invalid value: \"2026-01-01T00:00:00Z\": must be equal to or after `startTime`",
        ],
    );
    check(
        json!({
            "startTime": EARLY, "completionTime": EARLY, "conditions": complete, "active": 1, "terminating": 2, "ready": 3,
            "uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["b"]},
        }),
        &[
            "status.active: Invalid value: 1: active>0 is invalid for finished job",
            "status.uncountedTerminatedPods: Invalid value: {\"Succeeded\":[\"a\"],\"Failed\":[\"b\"]}: must be empty for finished job",
            "status.terminating: Invalid value: 2: terminating>0 is invalid for finished job",
            "status.ready: Invalid value: 3: cannot set more ready pods than active",
        ],
    );
    check(
        json!({"uncountedTerminatedPods": {"succeeded": ["a", "", "a"], "failed": ["a", "", "b"]}}),
        &[
            "status.uncountedTerminatedPods.succeeded[1]: Invalid value: \"\": must not be empty",
            "status.uncountedTerminatedPods.succeeded[2]: Duplicate value: \"a\"",
            "status.uncountedTerminatedPods.failed[0]: Duplicate value: \"a\"",
            "status.uncountedTerminatedPods.failed[1]: Invalid value: \"\": must not be empty",
        ],
    );
    check(
        json!({"completedIndexes": "1"}),
        &[
            "status.completedIndexes: Invalid value: \"1\": error parsing completedIndexes: too large index: \"1\"",
            "status.completedIndexes: Invalid value: \"1\": cannot set non-empty completedIndexes when non-indexed completion mode",
        ],
    );
    check(
        json!({"failedIndexes": ""}),
        &[
            "status.failedIndexes: Invalid value: \"\": cannot set non-null failedIndexes when backoffLimitPerIndex is null",
        ],
    );
    check(json!({"startTime": EARLY, "completionTime": LATE, "conditions": complete}), &[]);
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn indexes_have_a_form_and_are_in_one_list() {
    let spec = json!({
        "completions": 5, "parallelism": 5, "completionMode": "Indexed", "backoffLimitPerIndex": 1, "suspend": false,
    });
    for (completed, failed, expected) in [
        (
            "1,0",
            "x",
            vec![
                "status.completedIndexes: Invalid value: \"1,0\": error parsing completedIndexes: non-increasing order, previous: 1, current: 0",
                "status.failedIndexes: Invalid value: \"x\": error parsing failedIndexes: cannot convert string to integer for index: \"x\"",
            ],
        ),
        (
            "0-1-2",
            "9",
            vec![
                "status.completedIndexes: Invalid value: \"0-1-2\": error parsing completedIndexes: the fragment \"0-1-2\" violates the requirement that an index interval can have at most two parts separated by '-'",
                "status.failedIndexes: Invalid value: \"9\": error parsing failedIndexes: too large index: \"9\"",
            ],
        ),
        (
            "3-2",
            "0-9",
            vec![
                "status.completedIndexes: Invalid value: \"3-2\": error parsing completedIndexes: non-increasing order, previous: 3, current: 2",
                "status.failedIndexes: Invalid value: \"0-9\": error parsing failedIndexes: too large index: \"9\"",
            ],
        ),
        (
            "0-2,4",
            "1,3",
            vec![
                "status.failedIndexes: Invalid value: \"1,3\": failedIndexes and completedIndexes overlap at index: 1",
            ],
        ),
        ("0,2", "1,3", vec![]),
    ] {
        check_write(
            &spec,
            &json!({}),
            &json!({"completedIndexes": completed, "failedIndexes": failed}),
            &expected,
        );
    }
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn an_end_is_final() {
    let spec = json!({"completions": 1, "parallelism": 1, "completionMode": "NonIndexed", "suspend": false});
    let check = |old: Value, new: Value, expected: &[&str]| check_write(&spec, &old, &new, expected);
    check(
        json!({"conditions": conditions(&["FailureTarget", "Failed"]), "startTime": EARLY, "succeeded": 2}),
        json!({"conditions": [], "startTime": EARLY, "succeeded": 2}),
        &[
            "status.conditions: Invalid value: cannot disable the terminal Failed=True condition",
            "status.conditions: Invalid value: cannot disable the terminal FailureTarget=True condition",
        ],
    );
    let complete = conditions(&["SuccessCriteriaMet", "Complete"]);
    let old = json!({"conditions": complete, "startTime": EARLY, "completionTime": LATE});
    check(
        old.clone(),
        json!({"conditions": [], "startTime": EARLY, "completionTime": LATE}),
        &[
            "status.completionTime: Invalid value: \"2026-01-01T00:00:05Z\": cannot set completionTime when there is no Complete=True condition",
            "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
            "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
        ],
    );
    check(
        old.clone(),
        json!({"conditions": complete, "startTime": EARLY, "completionTime": EARLY}),
        &["status.completionTime: Invalid value: \"2026-01-01T00:00:00Z\": field is immutable"],
    );
    check(
        old,
        json!({"conditions": complete, "startTime": EARLY}),
        &["status.completionTime: Required value: completionTime is required for Complete jobs"],
    );
    check(
        json!({"startTime": EARLY}),
        json!({}),
        &["status.startTime: Invalid value: null: field is immutable for unsuspended job once set"],
    );
    check(
        json!({"startTime": EARLY, "conditions": conditions(&["Suspended"])}),
        json!({"startTime": LATE, "conditions": [{"type": "Suspended", "status": "False"}]}),
        &[],
    );
    let of_policy = json!({"completions": 2, "completionMode": "Indexed", "successPolicy": {"rules": []}});
    check_write(
        &of_policy,
        &json!({}),
        &json!({"conditions": conditions(&["Complete"]), "completionTime": LATE, "startTime": EARLY}),
        &[
            "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            "status.conditions: Invalid value: cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
        ],
    );
}
