//! DaemonSets.

use std::num::IntErrorKind;

use kube_apimachinery::go::quote;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{set, within};
use super::shared::workload::StatusNumbers;
use super::shared::{pod_spec, rolling_update, workload};
use crate::kind::WriteContext;
use crate::kind::resource::Resource;

/// Annotation that counts changes of the template. Go's internal type and older API versions have a field for it.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

#[derive(Debug)]
pub(super) struct DaemonSet;

impl BuiltinKind for DaemonSet {
    fn default(&self, object: &mut Value) {
        // The conversion during decoding writes the annotation, so it belongs to the client's field manager.
        let generation = template_generation(object);
        set_template_generation(object, generation);
        within(object, "spec", |spec| {
            set(spec, "revisionHistoryLimit", json!(10));
            within(spec, "updateStrategy", |strategy| {
                let limits = [("maxUnavailable", json!(1)), ("maxSurge", json!(0))];
                workload::default_rolling_update(strategy, &limits);
            });
            within(spec, "template", pod_spec::default);
        });
    }

    fn conversion_error(&self, object: &Value) -> Option<String> {
        // Go decodes null to an empty text.
        let text = object["metadata"]["annotations"].get(TEMPLATE_GENERATION)?.as_str().unwrap_or_default();
        let why = match text.parse::<i64>().err()?.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        Some(format!("strconv.ParseInt: parsing {}: {why}", quote(text)))
    }

    fn prepare_subresource(
        &self,
        _context: &WriteContext<'_>,
        subresource: &str,
        old: &Value,
        new: &mut Value,
    ) {
        if subresource == "status" {
            // The counter is part of the spec in Go's internal type.
            set_template_generation(new, template_generation(old));
        }
    }

    fn version_annotations(&self, _resource: &Resource) -> &'static [&'static str] {
        &[TEMPLATE_GENERATION]
    }

    fn prepare_create(&self, _context: &WriteContext<'_>, object: &mut Value) {
        // The counter starts at 1: in Go, 0 means absent.
        let generation = template_generation(object).max(1);
        set_template_generation(object, generation);
    }

    fn prepare_update(&self, _context: &WriteContext<'_>, old: &Value, new: &mut Value) {
        let changed = old["spec"]["template"] != new["spec"]["template"];
        // A client can choose the counter only for a new DaemonSet. An update continues from the stored one.
        let generation = template_generation(old).max(1) + i64::from(changed);
        set_template_generation(new, generation);
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        // For DaemonSets the error about a changed selector comes first, for other workloads last.
        let mut errors: Vec<FieldError> = workload::keep_selector(new, old).into_iter().collect();
        errors.extend(workload::validate_daemon_selector(&new["spec"]));
        errors.extend(pod_spec::validate(new, old, pod_spec::IN_WORKLOAD));
        errors.extend(workload::validate_endless(&new["spec"], "DaemonSet"));
        errors.extend(workload::validate_numbers(&new["spec"], &["minReadySeconds"]));
        errors.extend(validate_strategy(&new["spec"]["updateStrategy"]));
        errors.extend(workload::validate_numbers(&new["spec"], &["revisionHistoryLimit"]));
        errors
    }

    fn validate_subresource(&self, subresource: &str, old: &Value, new: &Value) -> Vec<FieldError> {
        const NUMBERS: StatusNumbers = StatusNumbers {
            not_negative: &[
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
                "collisionCount",
            ],
            up_to_replicas: &[],
            ready: "",
        };
        if subresource == "status" { workload::validate_status(&NUMBERS, old, new) } else { Vec::new() }
    }

    fn pod_spec(&self) -> Option<&'static str> {
        Some(pod_spec::IN_WORKLOAD)
    }

    fn warnings(&self, _resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
        match old {
            // An unchanged template was warned about when it was written.
            Some(old) if template_generation(old) == template_generation(object) => Vec::new(),
            _ => pod_spec::warnings(object, pod_spec::IN_WORKLOAD),
        }
    }
}

fn template_generation(object: &Value) -> i64 {
    object["metadata"]["annotations"][TEMPLATE_GENERATION]
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

fn set_template_generation(object: &mut Value, generation: i64) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Value::Object(annotations) = annotations {
        annotations.insert(TEMPLATE_GENERATION.to_owned(), json!(generation.to_string()));
    }
}

fn validate_strategy(strategy: &Value) -> Vec<FieldError> {
    const PATH: &str = "spec.updateStrategy";
    let (rolling, field) = (&strategy["rollingUpdate"], format!("{PATH}.rollingUpdate"));
    match strategy["type"].as_str().unwrap_or_default() {
        "OnDelete" => Vec::new(),
        "RollingUpdate" if rolling.is_null() => vec![FieldError::required(field, "")],
        "RollingUpdate" => rolling_update::of_daemon_set(rolling, &field),
        // The message shows the JSON of Go's internal struct.
        other => {
            let limits = if rolling.is_null() {
                Value::Null.to_string()
            } else {
                let [unavailable, surge] = ["maxUnavailable", "maxSurge"].map(|limit| &rolling[limit]);
                format!("{{\"MaxUnavailable\":{unavailable},\"MaxSurge\":{surge}}}")
            };
            vec![FieldError {
                reason: "FieldValueNotSupported",
                field: PATH.to_owned(),
                message: format!(
                    "Unsupported value: {{\"Type\":{},\"RollingUpdate\":{limits}}}: supported values: \"RollingUpdate\", \
                     \"OnDelete\"",
                    quote(other)
                ),
            }]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::{prepare_create, prepare_update, workload_defaults};

    #[test]
    fn defaults_are_the_recorded_ones() {
        workload_defaults(
            "DaemonSet",
            &json!({"selector": {}}),
            &json!({
                "selector": {}, "revisionHistoryLimit": 10,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            }),
        );
    }

    #[test]
    fn templates_are_counted() {
        let shown = |object: &Value| object["metadata"]["annotations"][TEMPLATE_GENERATION].clone();
        let mut first = json!({"metadata": {}, "spec": {"template": {}}});
        prepare_create("DaemonSet", &mut first);
        assert_eq!(shown(&first), "1");
        let mut same = first.clone();
        same["spec"]["minReadySeconds"] = json!(3);
        prepare_update("DaemonSet", &first, &mut same);
        assert_eq!(shown(&same), "1");
        let mut other = same.clone();
        other["metadata"]["annotations"] = json!({"x": "y"});
        other["spec"]["template"]["metadata"] = json!({"labels": {"a": "b"}});
        prepare_update("DaemonSet", &same, &mut other);
        assert_eq!(shown(&other), "2");
    }
}
