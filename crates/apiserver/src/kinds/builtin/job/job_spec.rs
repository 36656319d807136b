//! Validation of the spec of a Job, which is also the spec of a CronJob's Job template.

use kube_apimachinery::status::FieldError;
use kube_apimachinery::{go, names};
use serde_json::{Map, Value, json};

use super::{NAME_LABELS, UID_LABELS, pod_policies};
use crate::kinds::builtin::shared::domain_checks::domain_path;
use crate::kinds::builtin::shared::field_checks::{invalid_text, not_negative, supported, too_long};
use crate::kinds::builtin::shared::fields::text;
use crate::kinds::builtin::shared::{label_selector, pod_spec};

/// Numbers of the spec that must not be negative.
const NUMBERS: [&str; 7] = [
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
];

/// Numbers of completions and of parallel pods above which the text of the completed indexes may grow too large for the status.
const MANY_COMPLETIONS: i64 = 100_000;
const MUCH_PARALLELISM: i64 = 10_000;

/// Validates the spec of a Job, including its selector; `old` is the Job before an update.
pub(super) fn validate_spec(job: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = &job["spec"];
    let mut errors = validate_of_template(job, old, "spec");
    let selector = &spec["selector"];
    if selector.is_null() {
        errors.push(FieldError::required("spec.selector", ""));
    } else {
        errors.extend(label_selector::validate(selector, "spec.selector"));
    }
    let labels = &spec["template"]["metadata"]["labels"];
    // For Go, a nil selector matches nothing. An invalid selector is not compared: its own errors are sufficient.
    let matches = label_selector::parse(selector).map(|parsed| parsed.matches_labels(Some(labels)));
    if selector.is_null() || matches == Some(false) {
        let why = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", &labels.to_string(), why));
    }
    errors
}

/// Validates the Job spec at `path` of a Job or a CronJob, except for the selector; `old` is the object before an update.
pub(in crate::kinds::builtin) fn validate_of_template(
    object: &Value,
    old: Option<&Value>,
    path: &str,
) -> Vec<FieldError> {
    // The limits keep the text of the indexes in the status small. Above `MAX_INDEXED` completions, `MAX_OF_MANY` applies.
    const MAX_INDEXED: i64 = 100_000;
    const MAX_OF_MANY: i64 = 10_000;
    const MAX_MANAGER: usize = 63;
    let Some(spec) = object.pointer(&format!("/{}", path.replace('.', "/"))) else { return Vec::new() };
    let number = |field: &str| spec[field].as_i64();
    let (completions, parallelism) = (number("completions"), number("parallelism"));
    let (per_index, failed) = (number("backoffLimitPerIndex"), number("maxFailedIndexes"));
    let mut errors = Vec::new();
    for field in NUMBERS {
        errors.extend(not_negative(spec, field, path));
    }
    let place = |field: &str| format!("{path}.{field}");
    if failed.is_some() && per_index.is_none() {
        let why = "when maxFailedIndexes is specified";
        errors.push(FieldError::required(place("backoffLimitPerIndex"), why));
    }
    if let Some(manager) = spec["managedBy"].as_str() {
        errors.extend(domain_path(manager, &place("managedBy")));
        if manager.len() > MAX_MANAGER {
            errors.push(too_long(place("managedBy"), MAX_MANAGER));
        }
    }
    errors.extend(supported(spec, "completionMode", path, &["NonIndexed", "Indexed"]));
    let invalid =
        |field: &str, number: i64, why: String| FieldError::invalid(place(field), &number.to_string(), &why);
    if spec["completionMode"] == "Indexed" {
        if completions.is_none() {
            errors.push(FieldError::required(place("completions"), "when completion mode is Indexed"));
        }
        let above = |number: Option<i64>, max: i64| number.filter(|number| *number > max);
        if let Some(number) = above(parallelism, MAX_INDEXED) {
            let why = format!("must be less than or equal to {MAX_INDEXED} when completion mode is Indexed");
            errors.push(invalid("parallelism", number, why));
        }
        if let Some(number) = completions.and_then(|completions| above(failed, completions)) {
            errors.push(invalid(
                "maxFailedIndexes",
                number,
                "must be less than or equal to completions".to_owned(),
            ));
        }
        if let Some(number) = above(failed, MAX_INDEXED) {
            let why = format!("must be less than or equal to {MAX_INDEXED}");
            errors.push(invalid("maxFailedIndexes", number, why));
        }
        if above(completions, MAX_INDEXED).is_some() && per_index.is_some() {
            if failed.is_none() {
                let why = format!("must be specified when completions is above {MAX_INDEXED}");
                errors.push(FieldError::required(place("maxFailedIndexes"), &why));
            }
            for (field, number) in [("parallelism", parallelism), ("maxFailedIndexes", failed)] {
                if let Some(number) = above(number, MAX_OF_MANY) {
                    let why = format!(
                        "must be less than or equal to {MAX_OF_MANY} when completions are above {MAX_INDEXED} and used \
                         with backoff limit per index"
                    );
                    errors.push(invalid(field, number, why));
                }
            }
        }
    } else if spec["completionMode"].is_null() || spec["completionMode"] == "NonIndexed" {
        for (field, number) in [("backoffLimitPerIndex", per_index), ("maxFailedIndexes", failed)] {
            let why = "requires indexed completion mode";
            errors.extend(number.map(|number| invalid(field, number, why.to_owned())));
        }
    }
    let has_policy = !spec["podFailurePolicy"].is_null();
    if has_policy {
        errors.extend(pod_policies::validate_failure_policy(spec, &place("podFailurePolicy")));
    }
    if !spec["successPolicy"].is_null() {
        errors.extend(pod_policies::validate_success_policy(spec, &place("successPolicy")));
    }
    // A failure policy judges only failed pods, so it excludes the replacement of pods that still terminate.
    let replacements: &[&str] = if has_policy { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    errors.extend(supported(spec, "podReplacementPolicy", path, replacements));
    let template = format!("{path}.template.spec");
    errors.extend(pod_spec::validate(object, old, &template));
    let field = format!("{template}.restartPolicy");
    errors.extend(match text(&spec["template"]["spec"], "restartPolicy") {
        // Defaults have turned an absent policy into `Always`, which a Job cannot use, so kube-apiserver reports it as missing.
        "Always" | "" => Some(FieldError::required(field, "valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if has_policy => {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            Some(invalid_text(field, "OnFailure", why))
        }
        "OnFailure" | "Never" => None,
        other => Some(FieldError::not_supported(field, other, &["OnFailure", "Never"])),
    });
    errors
}

/// Checks that the selector and the labels of the template are those that the server generates.
pub(super) fn validate_generated_selector(job: &Value, old: Option<&Value>) -> Vec<FieldError> {
    const PATH: &str = "spec.template.metadata";
    let (spec, metadata) = (&job["spec"], &job["metadata"]);
    // `validate_spec` reports a missing selector.
    if spec["manualSelector"] == true || spec["selector"].is_null() {
        return Vec::new();
    }
    let labels = &spec["template"]["metadata"]["labels"];
    // Jobs of older servers lack the labels with a prefix, so an update requires these only if the old Job has both.
    let has_both = |job: &Value| {
        let labels = &job["spec"]["template"]["metadata"]["labels"];
        [UID_LABELS[0], NAME_LABELS[0]].iter().all(|label| labels.get(*label).is_some())
    };
    let with_prefix = old.is_none_or(has_both);
    let (uid, name) = (text(metadata, "uid"), text(metadata, "name"));
    let mut expected = vec![(UID_LABELS[1], uid), (NAME_LABELS[1], name)];
    if with_prefix {
        expected.extend([(UID_LABELS[0], uid), (NAME_LABELS[0], name)]);
    }
    let mut errors = Vec::new();
    if uid.is_empty() {
        errors.push(FieldError::required("metadata.uid", ""));
    }
    for (label, value) in &expected {
        match labels.get(*label) {
            None => {
                let why = format!("must be '{value}'");
                errors.push(FieldError::required(format!("{PATH}.labels[{label}]"), &why));
            }
            Some(given) if given != value => {
                let why = format!("must be '{value}'");
                let given = go::json(labels);
                errors.push(FieldError::invalid(format!("{PATH}.labels[{label}]"), &given, &why));
            }
            Some(_) => {}
        }
    }
    let expected: Map<String, Value> =
        expected.iter().map(|(label, value)| ((*label).to_owned(), json!(value))).collect();
    // An invalid selector is reported with the rest of the spec.
    let selects = label_selector::parse(&spec["selector"])
        .is_none_or(|selector| selector.matches_labels(Some(&Value::Object(expected))));
    if !selects {
        let shown = label_selector::shown(&spec["selector"]);
        errors.push(FieldError::invalid("spec.selector", &shown, "`selector` not auto-generated"));
    }
    errors
}

/// Checks that the pods of an indexed Job get valid host names. These end with the index, so the last one is the longest.
pub(super) fn host_names(job: &Value) -> Option<FieldError> {
    let spec = &job["spec"];
    let count =
        spec["completions"].as_i64().filter(|count| *count > 0 && spec["completionMode"] == "Indexed")?;
    let name = text(&job["metadata"], "name");
    let host = format!("{name}-{}", count - 1);
    (!names::label(&host).is_empty()).then(|| {
        let why = format!("will not able to create pod with invalid DNS label: {host}");
        invalid_text("metadata.name", name, &why)
    })
}

/// Returns the warning about an indexed Job with too many indexes, whose spec is at `path`.
pub(in crate::kinds::builtin) fn many_indexes(spec: &Value, path: &str) -> Option<String> {
    let number = |field: &str| spec[field].as_i64().unwrap_or_default();
    let is_many = spec["completionMode"] == "Indexed"
        && number("completions") > MANY_COMPLETIONS
        && number("parallelism") > MUCH_PARALLELISM;
    is_many.then(|| {
        format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
             Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Errors of kube-apiserver v1.36.3. A selector with an invalid value cannot be compared with labels.
    #[test]
    fn an_invalid_selector_has_no_errors_about_the_labels_that_it_selects() {
        let labels = json!({
            "batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "j",
            "controller-uid": "u", "job-name": "j",
        });
        let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "80%"}},
            "template": {"metadata": {"labels": labels}, "spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
            }},
        }});
        crate::kinds::builtin::test_helpers::default("Job", &mut job);
        let served = crate::kinds::builtin::test_helpers::served_kind("Job");
        let errors = served.strategy.validate_create(&served, &job);
        let fields: Vec<&str> = errors.iter().map(|error| &*error.field).collect();
        assert_eq!(fields, ["spec.selector.matchLabels"], "{errors:?}");
    }

    /// Texts of kube-apiserver v1.36.3, observed or read in its source.
    #[test]
    fn the_selector_and_the_policy_of_a_job_are_validated() {
        let check = |job: Value, old: Option<&Value>, expected: &[&str]| {
            crate::kinds::builtin::test_helpers::check("Job", &job, old, expected);
        };
        let pod = json!({"restartPolicy": "Always", "containers": [{"name": "c", "image": "i"}]});
        let unmatched =
            "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`";
        let job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {
            "parallelism": -1, "backoffLimitPerIndex": 1, "template": {"spec": pod},
        }});
        let errors = [
            "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
            "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
            "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
            "spec.selector: Required value",
            unmatched,
        ];
        check(job.clone(), None, &errors);
        check(job.clone(), Some(&job), &[errors, errors].concat());
        let mut job = json!({"metadata": {"name": "j.k", "uid": "u"}, "spec": {
            "completionMode": "Indexed", "completions": 2, "maxFailedIndexes": 3,
            "template": {"metadata": {"labels": {"job-name": "other"}}, "spec": pod},
            "selector": {"matchLabels": {"a": "b"}},
        }});
        job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
        let labels = "{\"job-name\":\"other\"}";
        check(
            job,
            None,
            &[
                "spec.template.metadata.labels[controller-uid]: Required value: must be 'u'",
                &format!("spec.template.metadata.labels[job-name]: Invalid value: {labels}: must be 'j.k'"),
                "spec.template.metadata.labels[batch.kubernetes.io/controller-uid]: Required value: must be 'u'",
                "spec.template.metadata.labels[batch.kubernetes.io/job-name]: Required value: must be 'j.k'",
                "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` not auto-generated",
                "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
                "spec.maxFailedIndexes: Invalid value: 3: must be less than or equal to completions",
                &format!(
                    "spec.template.metadata.labels: Invalid value: {labels}: `selector` does not match template `labels`"
                ),
                "metadata.name: Invalid value: \"j.k\": will not able to create pod with invalid DNS label: j.k-1",
            ],
        );
    }
}
