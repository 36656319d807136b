//! Immutable fields of a Job.

use kube_apimachinery::status::FieldError;
use serde_json::{Map, Value, json};

use crate::kinds::builtin::shared::fields::{elements, list, put};
use crate::kinds::builtin::shared::immutable_fields::{immutable, immutable_struct};
use crate::kinds::builtin::shared::label_selector;

/// Checks the immutable fields of a Job. Placement and resources of a suspended Job may change, so that a queue controller can decide where
/// it runs.
pub(super) fn validate_update(old_job: &Value, new_job: &Value) -> Vec<FieldError> {
    let (old, new) = (&old_job["spec"], &new_job["spec"]);
    let mut errors = Vec::new();
    // An indexed Job may be scaled as long as completions and parallelism stay equal.
    if new["completionMode"] != "Indexed" {
        errors.extend(immutable("spec", old, new, &["completions"]));
    } else if old["completions"] != new["completions"]
        && !new["completions"].is_null()
        && new["completions"] != new["parallelism"]
    {
        let why = "can only be modified in tandem with spec.parallelism";
        errors.push(FieldError::invalid("spec.completions", &new["completions"].to_string(), why));
    }
    errors.extend(label_selector::immutable("spec.selector", &old["selector"], &new["selector"]));
    let template = &new["template"];
    // The comparison starts from the old template with the allowed changes applied. Anything else that differs is an error.
    errors.extend(if is_idle(old_job) {
        let kept = with_resources(with_placement(&old["template"], template), &template["spec"]);
        immutable_struct("spec.template.spec", "core.PodSpec", &kept["spec"], &template["spec"])
    } else {
        immutable_struct("spec.template", "core.PodTemplateSpec", &old["template"], template)
    });
    errors.extend(immutable("spec", old, new, &["completionMode"]));
    let policy =
        |field: &str, name: &str| immutable_struct(&format!("spec.{field}"), name, &old[field], &new[field]);
    errors.extend(policy("podFailurePolicy", "*batch.PodFailurePolicy"));
    errors.extend(immutable("spec", old, new, &["backoffLimitPerIndex", "managedBy"]));
    errors.extend(policy("successPolicy", "*batch.SuccessPolicy"));
    errors
}

/// Whether a Job is suspended and has no pods, so that its template may change.
fn is_idle(job: &Value) -> bool {
    let status = &job["status"];
    let is_suspended = list(status, "conditions")
        .iter()
        .any(|condition| condition["type"] == "Suspended" && condition["status"] == "True");
    // The spec only asks for the suspension. Until the controller has carried it out, pods of the old template may run.
    job["spec"]["suspend"] == true
        && (status["startTime"].is_null() || is_suspended)
        && status["active"].as_i64().unwrap_or_default() == 0
}

/// Returns the old template with those fields of the new one that decide where pods run.
fn with_placement(old: &Value, new: &Value) -> Value {
    let mut template = old.clone();
    let mut take = |path: &str| match new.pointer(path) {
        Some(value) => set_at(&mut template, path, value.clone()),
        None => set_at(&mut template, path, Value::Null),
    };
    for path in [
        "/metadata/labels",
        "/metadata/annotations",
        "/spec/nodeSelector",
        "/spec/tolerations",
        "/spec/schedulingGates",
    ] {
        take(path);
    }
    // Node affinity may change, pod affinity may not.
    let affinity = &new["spec"]["affinity"];
    let mut kept = old["spec"]["affinity"].clone();
    if !affinity.is_null() || !kept.is_null() {
        if kept.is_null() {
            kept = json!({});
        }
        put(&mut kept, "nodeAffinity", affinity["nodeAffinity"].clone());
        let is_empty = kept.as_object().is_none_or(Map::is_empty);
        let is_dropped = affinity.is_null() && is_empty;
        set_at(&mut template, "/spec/affinity", if is_dropped { Value::Null } else { kept });
    }
    template
}

/// Returns a template with the resources of the containers in `spec`. Containers with other names, or another number of them, keep theirs;
/// the comparison then reports the change.
fn with_resources(mut template: Value, spec: &Value) -> Value {
    for field in ["containers", "initContainers"] {
        let given = list(spec, field);
        if given.len() != list(&template["spec"], field).len() {
            continue;
        }
        for (container, given) in elements(&mut template["spec"], field).zip(given) {
            if container["name"] == given["name"] {
                put(container, "resources", given["resources"].clone());
            }
        }
    }
    template
}

/// Sets a field at a path of two names; null removes it.
fn set_at(value: &mut Value, path: &str, to: Value) {
    let mut names = path.split('/').skip(1);
    let (Some(outer), Some(inner)) = (names.next(), names.next()) else {
        return;
    };
    match value.get_mut(outer).and_then(Value::as_object_mut) {
        Some(fields) if to.is_null() => drop(fields.remove(inner)),
        Some(fields) => drop(fields.insert(inner.to_owned(), to)),
        None if to.is_null() => {}
        None => value[outer] = json!({ inner: to }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_mode_and_template_are_immutable_unless_suspended_or_elastic() {
        let job = |completions: u32, mode: &str, suspend: bool, zone: &str| {
            json!({"spec": {
                "completions": completions, "parallelism": completions, "completionMode": mode, "suspend": suspend,
                "template": {"spec": {"nodeSelector": {"zone": zone}}},
            }})
        };
        let check = |old: &Value, new: &Value, expected: &[&str]| {
            let errors = validate_update(old, new);
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(errors, expected, "{old} to {new}");
        };
        let old = job(1, "NonIndexed", false, "a");
        check(
            &old,
            &job(2, "NonIndexed", true, "a"),
            &["spec.completions: Invalid value: 2: field is immutable"],
        );
        let why = "spec.completionMode: Invalid value: \"Indexed\": field is immutable";
        check(&old, &job(1, "Indexed", false, "a"), &[why]);
        let errors = validate_update(&old, &job(1, "NonIndexed", false, "b"));
        let [error] = errors.as_slice() else { panic!("{errors:?}") };
        let shown = error.to_string();
        // Parts of a message of kube-apiserver v1.36.3, which shows all fields of the struct.
        assert!(shown.starts_with("spec.template: Invalid value: {\"Spec\":{\"Volumes\":null,"), "{shown}");
        assert!(
            shown.contains(
                ",\"DNSPolicy\":\"\",\"NodeSelector\":{\"zone\":\"b\"},\"ServiceAccountName\":\"\","
            ),
            "{shown}"
        );
        assert!(
            shown.ends_with(",\"HostnameOverride\":null,\"SchedulingGroup\":null}}: field is immutable"),
            "{shown}"
        );
        check(&job(1, "NonIndexed", true, "a"), &job(1, "NonIndexed", true, "b"), &[]);
        let mut active = job(1, "NonIndexed", true, "a");
        active["status"] = json!({"active": 1});
        let errors = validate_update(&active, &job(1, "NonIndexed", true, "b"));
        assert_eq!(errors[0].field, "spec.template", "{errors:?}");
        check(&job(1, "Indexed", false, "a"), &job(3, "Indexed", false, "a"), &[]);
        let mut new = job(3, "Indexed", false, "a");
        new["spec"]["parallelism"] = json!(1);
        let why = "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism";
        check(&job(1, "Indexed", false, "a"), &new, &[why]);
    }

    /// Decisions and fields recorded from kube-apiserver v1.36.3.
    #[test]
    fn resources_and_placement_of_a_suspended_job_change() {
        let old = json!({"spec": {"suspend": true, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
            "containers": [{"name": "c", "image": "i"}],
        }}}});
        let check = |change: fn(&mut Value), field: Option<&str>| {
            let mut new = old.clone();
            change(&mut new["spec"]["template"]);
            let errors = validate_update(&old, &new);
            let fields: Vec<&str> = errors.iter().map(|error| &*error.field).collect();
            assert_eq!(fields, field.into_iter().collect::<Vec<_>>(), "{new}");
        };
        let spec = Some("spec.template.spec");
        check(|template| template["spec"]["containers"][0]["image"] = json!("j"), spec);
        check(|template| template["spec"]["affinity"] = json!({"podAffinity": {}}), spec);
        check(|template| template["spec"]["affinity"] = json!({"nodeAffinity": {"a": 1}}), None);
        check(
            |template| template["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}}),
            None,
        );
        check(|template| template["metadata"] = json!({"labels": {"x": "y"}, "finalizers": ["a/b"]}), None);
        check(|template| template["spec"]["nodeSelector"] = json!({"a": "b"}), None);
    }
}
