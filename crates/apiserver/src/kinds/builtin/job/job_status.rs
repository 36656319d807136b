//! Rules for writes of a Job's status. Most rules apply only if one of their fields changes, so a status that an older server accepted does
//! not block other writes.

use jiff::Timestamp;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::index_list::{check_indexes, overlap};
use crate::kinds::builtin::shared::field_checks::{duplicate, invalid_text, not_negative};
use crate::kinds::builtin::shared::fields::{list, text};

const CONDITIONS: &str = "status.conditions";
const COMPLETION_TIME: &str = "status.completionTime";
const START_TIME: &str = "status.startTime";
const COUNTERS: [&str; 5] = ["active", "succeeded", "failed", "ready", "terminating"];

/// Validates the status of `new`, in kube-apiserver's order.
pub(super) fn validate(old: &Value, new: &Value) -> Vec<FieldError> {
    let status = JobStatus { old: &old["status"], new: &new["status"], spec: &new["spec"] };
    let mut errors = status.numbers();
    errors.extend(status.end());
    errors.extend(status.indexes());
    errors.extend(status.success());
    errors.extend(status.transitions());
    errors
}

/// Old and new status of a Job, and its spec, which a write of the status does not change.
struct JobStatus<'a> {
    old: &'a Value,
    new: &'a Value,
    spec: &'a Value,
}

impl JobStatus<'_> {
    /// Whether a condition is true, before and after the write.
    fn condition(&self, kind: &str) -> (bool, bool) {
        (has(self.old, kind, "True"), has(self.new, kind, "True"))
    }

    fn is_finished(&self) -> (bool, bool) {
        let (complete, failed) = (self.condition("Complete"), self.condition("Failed"));
        (complete.0 || failed.0, complete.1 || failed.1)
    }

    /// Whether a field changes. For Go's pointers, absent and zero differ.
    fn changes(&self, field: &str) -> bool {
        self.old[field] != self.new[field]
    }

    /// Whether a number changes that is not a pointer in Go, so that absent and zero are equal.
    fn changes_number(&self, field: &str) -> bool {
        number(self.old, field) != number(self.new, field)
    }

    /// Whether a condition becomes true, or stops being true.
    fn changes_condition(&self, kind: &str) -> bool {
        let (before, after) = self.condition(kind);
        before != after
    }

    fn numbers(&self) -> Vec<FieldError> {
        let mut errors: Vec<FieldError> =
            COUNTERS.iter().filter_map(|field| not_negative(self.new, field, "status")).collect();
        // A UID must not occur in both lists either.
        let mut seen = Vec::new();
        for field in ["succeeded", "failed"] {
            let uids = list(&self.new["uncountedTerminatedPods"], field).iter().filter_map(Value::as_str);
            for (index, uid) in uids.enumerate() {
                let place = format!("status.uncountedTerminatedPods.{field}[{index}]");
                if uid.is_empty() {
                    errors.push(invalid_text(place, uid, "must not be empty"));
                } else if seen.contains(&uid) {
                    errors.push(duplicate(place, uid));
                } else {
                    seen.push(uid);
                }
            }
        }
        errors
    }

    /// Rules for finished Jobs, and for the times of start and completion.
    fn end(&self) -> Vec<FieldError> {
        let (complete, failed) = (self.condition("Complete").1, self.condition("Failed").1);
        let (target, success) = (self.condition("FailureTarget").1, self.condition("SuccessCriteriaMet").1);
        let finished = self.is_finished().1;
        let completes = self.changes_condition("Complete");
        let finishes = self.is_finished().0 != finished;
        let (start, completion) = (text(self.new, "startTime"), text(self.new, "completionTime"));
        let (starts, ends) = (self.changes("startTime"), self.changes("completionTime"));
        let mut errors = Vec::new();
        if (completes || self.changes_condition("Failed")) && complete && failed {
            errors.push(refused("cannot set Complete=True and Failed=true conditions"));
        }
        if (completes || self.changes_condition("FailureTarget")) && complete && target {
            errors.push(refused("cannot set Complete=True and FailureTarget=true conditions"));
        }
        if (completes || ends) && !completion.is_empty() && !complete {
            let why = "cannot set completionTime when there is no Complete=True condition";
            errors.push(invalid_text(COMPLETION_TIME, completion, why));
        }
        if (completes || ends) && completion.is_empty() && complete {
            errors
                .push(FieldError::required(COMPLETION_TIME, "completionTime is required for Complete jobs"));
        }
        if (starts || ends) && is_before(completion, start) {
            errors.push(invalid_text(COMPLETION_TIME, completion, "must be equal to or after `startTime`"));
        }
        // The controller announces a failure with `FailureTarget`, and sets `Failed` only when all pods have ended.
        if (self.changes_condition("Failed") || self.changes("failedIndexes")) && failed && !target {
            errors.push(refused("cannot set Failed=True condition without the FailureTarget=true condition"));
        }
        if (completes || self.changes_condition("SuccessCriteriaMet")) && complete && !success {
            errors.push(refused(
                "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            ));
        }
        let active = number(self.new, "active");
        if (finishes || self.changes_number("active")) && finished && active > 0 {
            let why = "active>0 is invalid for finished job";
            errors.push(FieldError::invalid("status.active", &active.to_string(), why));
        }
        // The controller finishes such a Job without starting it.
        let never_starts = self.spec["suspend"] == true && self.spec["completions"] == 0;
        if (finishes || starts) && !never_starts && finished && start.is_empty() {
            errors.push(FieldError::required(START_TIME, "startTime is required for finished job"));
        }
        errors.extend(self.uncounted());
        errors
    }

    /// Refuses pods of a finished Job that are not counted.
    fn uncounted(&self) -> Option<FieldError> {
        const FIELD: &str = "uncountedTerminatedPods";
        let (was_finished, is_finished) = self.is_finished();
        let finishes = was_finished != is_finished;
        let pods = &self.new[FIELD];
        let lists = ["succeeded", "failed"].map(|field| list(pods, field));
        if !(finishes || self.changes(FIELD)) || !is_finished || lists.iter().all(|list| list.is_empty()) {
            return None;
        }
        // Go's internal type has nil for an empty list here, which is shown as null.
        let [succeeded, failed] =
            lists.map(|list| if list.is_empty() { "null".to_owned() } else { Value::from(list).to_string() });
        let shown = format!("{{\"Succeeded\":{succeeded},\"Failed\":{failed}}}");
        Some(FieldError::invalid(format!("status.{FIELD}"), &shown, "must be empty for finished job"))
    }

    /// Rules for completed and failed indexes. Without `completions`, their syntax is not checked.
    fn indexes(&self) -> Vec<FieldError> {
        let completions = self.spec["completions"].as_i64();
        let per_index = self.spec["backoffLimitPerIndex"].is_i64();
        let (completed, failed) = (text(self.new, "completedIndexes"), self.new["failedIndexes"].as_str());
        let completes = text(self.old, "completedIndexes") != completed;
        let fails = self.changes("failedIndexes");
        let invalid =
            |field: &str, shown: &str, why: &str| invalid_text(format!("status.{field}"), shown, why);
        let malformed = |field: &str, shown: &str| {
            let why = check_indexes(shown, completions?).err()?;
            Some(invalid(field, shown, &format!("error parsing {field}: {why}")))
        };
        let mut errors = Vec::new();
        if completes {
            errors.extend(malformed("completedIndexes", completed));
        }
        if fails && per_index {
            errors.extend(failed.and_then(|failed| malformed("failedIndexes", failed)));
        }
        if completes && !completed.is_empty() && self.spec["completionMode"] != "Indexed" {
            let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errors.push(invalid("completedIndexes", completed, why));
        }
        if let Some(failed) = failed {
            if fails && !per_index {
                let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
                errors.push(invalid("failedIndexes", failed, why));
            }
            if let (true, Some(completions)) = (fails || completes, completions)
                && let Some(index) = overlap(completed, failed, completions)
            {
                let why = format!("failedIndexes and completedIndexes overlap at index: {index}");
                errors.push(invalid("failedIndexes", failed, &why));
            }
        }
        errors
    }

    /// Rules for running pods, and for the condition `SuccessCriteriaMet`.
    fn success(&self) -> Vec<FieldError> {
        let finished = self.is_finished();
        let (terminating, ready) = (number(self.new, "terminating"), number(self.new, "ready"));
        let (success, complete) = (self.condition("SuccessCriteriaMet").1, self.condition("Complete").1);
        let mut errors = Vec::new();
        if (finished.0 != finished.1 || self.changes("terminating")) && terminating > 0 && finished.1 {
            let why = "terminating>0 is invalid for finished job";
            errors.push(FieldError::invalid("status.terminating", &terminating.to_string(), why));
        }
        let more_ready = !self.new["ready"].is_null() && ready > number(self.new, "active");
        if (self.changes("ready") || self.changes_number("active")) && more_ready {
            let why = "cannot set more ready pods than active";
            errors.push(FieldError::invalid("status.ready", &ready.to_string(), why));
        }
        if success && self.condition("Failed").1 {
            errors.push(refused("cannot set SuccessCriteriaMet=True and Failed=true conditions"));
        }
        if success && self.condition("FailureTarget").1 {
            errors.push(refused("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"));
        }
        // `end` has the same rule for all Jobs, but only for a change of a condition. This one applies to each write.
        if !self.spec["successPolicy"].is_null() && complete && !success {
            errors.push(refused(
                "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
            ));
        }
        errors
    }

    /// Rules that compare the new status with the old one: results, counters and times only move forward.
    fn transitions(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        // Other controllers act on these results, for example by deleting the Job.
        for kind in ["Failed", "Complete", "FailureTarget"] {
            if self.condition(kind) == (true, false) {
                errors.push(refused(&format!("cannot disable the terminal {kind}=True condition")));
            }
        }
        // An elastic indexed Job can be scaled down, and then loses successes of the removed indexes.
        let shrinks =
            self.spec["completionMode"] == "Indexed" && self.spec["completions"] == self.spec["parallelism"];
        for (field, may_decrease) in [("failed", false), ("succeeded", shrinks)] {
            let count = number(self.new, field);
            if !may_decrease && count < number(self.old, field) {
                let why = format!("cannot decrease the {field} counter");
                errors.push(FieldError::invalid(format!("status.{field}"), &count.to_string(), &why));
            }
        }
        let completion = &self.new["completionTime"];
        if self.old["completionTime"].is_string() && completion.is_string() && self.changes("completionTime")
        {
            errors.push(FieldError::invalid(COMPLETION_TIME, &completion.to_string(), "field is immutable"));
        }
        // A Job gets a new start time when it is resumed, and loses it while it is suspended.
        let resumes = has(self.old, "Suspended", "True") && has(self.new, "Suspended", "False");
        let is_running = self.spec["suspend"] != true;
        if self.old["startTime"].is_string() && self.changes("startTime") && !resumes && is_running {
            let why = "field is immutable for unsuspended job once set";
            errors.push(FieldError::invalid(START_TIME, &self.new["startTime"].to_string(), why));
        }
        let success = self.condition("SuccessCriteriaMet");
        if success == (true, false) {
            errors.push(refused("cannot disable the SuccessCriteriaMet=True condition"));
        }
        if success == (false, true) && self.condition("Complete").0 {
            errors.push(refused(
                "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
            ));
        }
        errors
    }
}

/// Whether a condition has this status.
fn has(status: &Value, kind: &str, wanted: &str) -> bool {
    let mut conditions = list(status, "conditions").iter();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == wanted)
}

fn number(status: &Value, field: &str) -> i64 {
    status[field].as_i64().unwrap_or_default()
}

/// Builds an error about the conditions that does not show their value.
fn refused(why: &str) -> FieldError {
    FieldError {
        reason: "FieldValueInvalid",
        field: CONDITIONS.to_owned(),
        message: format!("Invalid value: {why}"),
    }
}

fn is_before(first: &str, second: &str) -> bool {
    let time = |text: &str| text.parse::<Timestamp>().ok();
    time(first).zip(time(second)).is_some_and(|(first, second)| first < second)
}

#[cfg(test)]
mod tests;
