//! HorizontalPodAutoscalers: `autoscaling/v1` has a single metric, `v2` a list. They are stored as `v2`.
//!
//! In `v1`, annotations hold the fields that this version lacks. A client that reads and writes an object as `v1` therefore loses none.

mod annotation_text;
mod autoscaler_rules;

use std::borrow::Cow;

use kube_apimachinery::go_struct;
use kube_apimachinery::status::FieldError;
use serde_json::{Map, Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{set, set_pointer, within};
use crate::kind::WriteContext;
use crate::kind::resource::Resource;

/// Fields that `v1` keeps in annotations: the annotation, and the part and the name of the field in `v2`.
const KEPT: [(&str, &str, &str); 4] = [
    ("autoscaling.alpha.kubernetes.io/metrics", "spec", "metrics"),
    ("autoscaling.alpha.kubernetes.io/behavior", "spec", "behavior"),
    ("autoscaling.alpha.kubernetes.io/conditions", "status", "conditions"),
    ("autoscaling.alpha.kubernetes.io/current-metrics", "status", "currentMetrics"),
];
const ANNOTATIONS: [&str; 4] = [KEPT[0].0, KEPT[1].0, KEPT[2].0, KEPT[3].0];
/// Stored version.
const STORED: &str = "autoscaling/v2";
const TARGET: &str = "targetCPUUtilizationPercentage";
/// Default target of the CPU utilization in percent.
const PERCENT: u32 = 80;
const CURRENT: &str = "currentCPUUtilizationPercentage";

#[derive(Debug)]
pub(super) struct HorizontalPodAutoscaler;

impl BuiltinKind for HorizontalPodAutoscaler {
    fn default(&self, object: &mut Value) {
        default(object);
    }

    fn prepare_create(&self, _context: &WriteContext<'_>, object: &mut Value) {
        if is_older(object) {
            // A new object has no status, so the annotations and the field that hold parts of it go, too.
            keep_annotations("status", &Value::Null, object);
            within(object, "status", |status| drop(remove(status, CURRENT)));
        }
    }

    fn prepare_update(&self, _context: &WriteContext<'_>, old: &Value, new: &mut Value) {
        if is_older(new) {
            keep_annotations("status", old, new);
        }
    }

    fn prepare_subresource(
        &self,
        _context: &WriteContext<'_>,
        subresource: &str,
        old: &Value,
        new: &mut Value,
    ) {
        if subresource == "status" && is_older(new) {
            keep_annotations("spec", old, new);
        }
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        // kube-apiserver validates its internal type, which has the fields of the stored version.
        let old = old.map(stored);
        autoscaler_rules::validate(&stored(new), old.as_deref())
    }

    fn validate_subresource(&self, subresource: &str, _old: &Value, new: &Value) -> Vec<FieldError> {
        if subresource == "status" { autoscaler_rules::validate_status(new) } else { Vec::new() }
    }

    fn convert_to_storage(&self, resource: &Resource, object: &mut Value) {
        if resource.api_version() == STORED {
            return;
        }
        to_storage(object);
        // `v2` writes some fields that `v1` omits, for example empty ones.
        if let Some(message) = go_struct::message_of_kind(STORED, &resource.kind) {
            go_struct::complete(message, object);
        }
        // The behavior of an annotation has no defaults of its own, but gets those of the stored version.
        within(object, "spec", |spec| within(spec, "behavior", default_behavior));
    }

    fn version_annotations(&self, resource: &Resource) -> &'static [&'static str] {
        if resource.api_version() == STORED { &[] } else { &ANNOTATIONS }
    }

    fn printed_version(&self, resource: &Resource) -> Option<&'static str> {
        (resource.api_version() != STORED).then_some(STORED)
    }

    fn convert_from_storage(&self, resource: &Resource, object: &mut Value) {
        if resource.api_version() != STORED {
            from_storage(object);
        }
    }
}

/// Whether the object is in `v1`, which keeps fields in annotations.
fn is_older(object: &Value) -> bool {
    object["apiVersion"] != STORED
}

/// Restores the annotations that hold fields of `part`: the write must not change this part, so its annotations must not change either.
fn keep_annotations(part: &str, old: &Value, new: &mut Value) {
    for (annotation, ..) in KEPT.iter().filter(|(_, of, _)| *of == part) {
        match old["metadata"]["annotations"].get(*annotation) {
            Some(text) => annotate(new, annotation, text.clone()),
            None => drop(new.pointer_mut("/metadata/annotations").and_then(|all| remove(all, annotation))),
        }
    }
    drop_empty_annotations(new);
}

fn annotate(object: &mut Value, annotation: &str, text: Value) {
    let metadata = &mut object["metadata"];
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"][annotation] = text;
}

fn drop_empty_annotations(object: &mut Value) {
    if object["metadata"]["annotations"].as_object().is_some_and(Map::is_empty) {
        remove(&mut object["metadata"], "annotations");
    }
}

/// Drops the annotations that hold fields in `v1`.
fn drop_annotations(object: &mut Value) {
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.retain(|name, _| !ANNOTATIONS.contains(&&**name));
    }
    drop_empty_annotations(object);
}

/// Converts an object of `v1` to the stored version and back, as kube-apiserver does by decoding to its internal type. The way back
/// rewrites the annotations.
///
/// An object with several metrics of the CPU utilization stays as it is, because `v1` has only one: all of them are validated and stored.
fn normalize(object: &mut Value) {
    const KIND: &str = "HorizontalPodAutoscaler";
    let given = object.clone();
    to_storage(object);
    let metrics = object["spec"]["metrics"].as_array().into_iter().flatten();
    if metrics.filter(|metric| utilization(metric, "target").is_some()).count() > 1 {
        *object = given;
        return;
    }
    if let Some(message) = go_struct::message_of_kind(STORED, KIND) {
        go_struct::complete(message, object);
    }
    from_storage(object);
    if let Some(message) = go_struct::message_of_kind("autoscaling/v1", KIND) {
        go_struct::complete(message, object);
    }
}

/// Returns an autoscaler of either version in the stored version.
pub(super) fn stored(object: &Value) -> Cow<'_, Value> {
    if !is_older(object) {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    to_storage(&mut object);
    Cow::Owned(object)
}

/// Sets defaults in an object that has all fields of its Go type. Metrics in an annotation of `v1` replace the default metric.
fn default(object: &mut Value) {
    let is_new = !is_older(object);
    let annotation = object["metadata"]["annotations"][KEPT[0].0].as_str();
    let has_metrics =
        annotation.and_then(annotation_text::structs).is_some_and(|metrics| !metrics.is_empty());
    within(object, "spec", |spec| {
        set(spec, "minReplicas", json!(1));
        if is_new {
            default_metrics(spec);
            within(spec, "behavior", default_behavior);
        } else if !has_metrics {
            set(spec, TARGET, json!(PERCENT));
        }
    });
    if is_new {
        // `v2` has fields for all of them, so kube-apiserver drops the annotations during the conversion.
        drop_annotations(object);
    } else {
        normalize(object);
    }
}

/// Sets the default metric: 80 % CPU utilization.
fn default_metrics(spec: &mut Value) {
    let none = spec["metrics"].as_array().is_none_or(Vec::is_empty);
    if let Some(fields) = spec.as_object_mut().filter(|_| none) {
        let target = json!({"type": "Utilization", "averageUtilization": PERCENT});
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        fields.insert("metrics".to_owned(), json!([metric]));
    }
}

/// Sets default rules for scaling up and down if the client sent any behavior.
fn default_behavior(behavior: &mut Value) {
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    for (direction, policies) in [("scaleUp", json!([pods, percent])), ("scaleDown", json!([percent]))] {
        set_pointer(behavior, direction, json!({}));
        let rules = &mut behavior[direction];
        // In Go, an empty text or list is not absent. It gets no default here, and validation refuses it.
        set_pointer(rules, "selectPolicy", json!("Max"));
        set_pointer(rules, "policies", policies);
    }
    set_pointer(&mut behavior["scaleUp"], "stabilizationWindowSeconds", json!(0));
}

/// Converts an autoscaler from `autoscaling/v1` to the stored version.
fn to_storage(object: &mut Value) {
    let mut texts = Vec::new();
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        for (annotation, part, field) in KEPT {
            // Like kube-apiserver, this drops annotations that are not JSON.
            let text = annotations.remove(annotation);
            let text = text.as_ref().and_then(Value::as_str);
            let value = match field {
                "behavior" => text.and_then(|text| serde_json::from_str::<Value>(text).ok()),
                _ => text.and_then(annotation_text::structs).map(Value::Array),
            };
            texts.extend(value.map(|value| (part, field, value)));
        }
    }
    drop_empty_annotations(object);
    for (part, old, new, value) in
        [("spec", TARGET, "metrics", "target"), ("status", CURRENT, "currentMetrics", "current")]
    {
        let Some(percent) = object.get_mut(part).and_then(|part| remove(part, old)) else {
            continue;
        };
        let mut about = json!({"name": "cpu"});
        about[value] = json!({"averageUtilization": percent});
        if value == "target" {
            about[value]["type"] = json!("Utilization");
        }
        put(object, part, new, json!([{"type": "Resource", "resource": about}]));
    }
    for (part, field, value) in texts {
        let value = match field {
            "metrics" => {
                // The CPU metric, for which `v1` has a field, comes last.
                let own = object[part][field].as_array().cloned().unwrap_or_default();
                let others = value
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|metric| annotation_text::stored(metric, "target"));
                others.chain(own).collect()
            }
            "currentMetrics" => {
                let metrics = value.as_array().into_iter().flatten();
                metrics.map(|metric| annotation_text::stored(metric, "current")).collect()
            }
            "behavior" => match annotation_text::stored_behavior(&value) {
                Some(behavior) => behavior,
                None => continue,
            },
            _ => value,
        };
        put(object, part, field, value);
    }
    within(object, "spec", default_metrics);
}

/// Converts a stored autoscaler to `autoscaling/v1`.
fn from_storage(object: &mut Value) {
    let mut texts = Vec::new();
    for (part, new, old, value) in
        [("spec", "metrics", TARGET, "target"), ("status", "currentMetrics", CURRENT, "current")]
    {
        let Some(Value::Array(list)) = object.get_mut(part).and_then(|part| remove(part, new)) else {
            continue;
        };
        let mut percents = list.iter().filter_map(|metric| utilization(metric, value));
        // kube-apiserver takes the first CPU metric of the spec, but the last one of the status.
        let percent = if value == "target" { percents.next() } else { percents.next_back() };
        if let Some(percent) = percent {
            put(object, part, old, json!(percent));
        }
        // In the status, the annotation contains the CPU metric as well: the field holds only its utilization, not its value.
        let others = list.iter().filter(|metric| value == "current" || utilization(metric, value).is_none());
        let others: Vec<String> = others.map(|metric| annotation_text::shown(metric, value)).collect();
        if !others.is_empty() {
            // `KEPT[0]` is for the metrics of the spec, `KEPT[3]` for those of the status.
            texts.push((KEPT[usize::from(value == "current") * 3].0, format!("[{}]", others.join(","))));
        }
    }
    if let Some(behavior) = object.get_mut("spec").and_then(|spec| remove(spec, "behavior")) {
        texts.push((KEPT[1].0, annotation_text::shown_behavior(&behavior)));
    }
    if let Some(Value::Array(conditions)) =
        object.get_mut("status").and_then(|status| remove(status, "conditions"))
        && !conditions.is_empty()
    {
        let conditions: Vec<String> = conditions.iter().map(annotation_text::shown_condition).collect();
        texts.push((KEPT[2].0, format!("[{}]", conditions.join(","))));
    }
    // In a stored object, annotations of these names come from a client. The conversion replaces them with its own.
    drop_annotations(object);
    for (annotation, text) in texts {
        annotate(object, annotation, json!(text));
    }
}

/// Returns the CPU utilization in a metric of the stored version; `value` is `target`, or `current` in the status.
fn utilization(metric: &Value, value: &str) -> Option<i64> {
    let resource = &metric["resource"];
    let is_processor = metric["type"] == "Resource" && resource["name"] == "cpu";
    resource[value]["averageUtilization"].as_i64().filter(|_| is_processor)
}

fn remove(part: &mut Value, field: &str) -> Option<Value> {
    part.as_object_mut()?.remove(field).filter(|value| !value.is_null())
}

fn put(object: &mut Value, part: &str, field: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        let part = fields.entry(part).or_insert_with(|| Value::Object(Map::new()));
        if let Some(part) = part.as_object_mut() {
            part.insert(field.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_is_the_metric_of_the_older_version() {
        let mut object = json!({"metadata": {}, "spec": {"maxReplicas": 3, TARGET: 50}});
        let old = object.clone();
        to_storage(&mut object);
        assert_eq!(
            object,
            json!({
                "metadata": {},
                "spec": {"maxReplicas": 3, "metrics": [{"type": "Resource", "resource": {
                    "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50},
                }}]},
            })
        );
        from_storage(&mut object);
        assert_eq!(object, old);
    }

    /// Converts a stored object, checks an annotation, and converts it back.
    #[track_caller]
    fn check(stored: &Value, annotation: usize, expected: &str) {
        let mut object = stored.clone();
        from_storage(&mut object);
        assert_eq!(object["metadata"]["annotations"][KEPT[annotation].0], expected);
        to_storage(&mut object);
        assert_eq!(object, *stored);
    }

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn all_targets_of_the_cpu_utilization_are_validated() {
        let metric = r#"[{"type":"Resource","resource":{"name":"cpu","targetAverageUtilization":50}}]"#;
        let mut scaler = json!({
            "apiVersion": "autoscaling/v1", "metadata": {"name": "a", "annotations": {KEPT[0].0: metric}},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}, "maxReplicas": 3, TARGET: 0},
        });
        default(&mut scaler);
        let metrics = stored(&scaler)["spec"]["metrics"].clone();
        let targets: Vec<Option<i64>> =
            metrics.as_array().unwrap().iter().map(|metric| utilization(metric, "target")).collect();
        assert_eq!(targets, [Some(50), Some(0)]);
        let errors = autoscaler_rules::validate(&stored(&scaler), None);
        let why =
            "spec.metrics[1].resource.target.averageUtilization: Invalid value: 0: must be greater than 0";
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [why]);
    }

    #[test]
    fn fields_that_the_older_version_lacks_are_kept_in_the_encoding_of_kube_apiserver() {
        let metric = |kind: &str, field: &str, about: Value| json!({"metadata": {}, "spec": {"metrics": [{"type": kind, field: about}]}});
        check(
            &metric(
                "Pods",
                "pods",
                json!({"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}}),
            ),
            0,
            r#"[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"1"}}]"#,
        );
        let about = json!({
            "metric": {"name": "m", "selector": {"matchLabels": {"a": "b"}}},
            "describedObject": {"kind": "K", "name": "n"}, "target": {"type": "Value", "value": "2"},
        });
        check(
            &metric("Object", "object", about),
            0,
            r#"[{"type":"Object","object":{"target":{"kind":"K","name":"n"},"metricName":"m","targetValue":"2","selector":{"matchLabels":{"a":"b"}}}}]"#,
        );
        check(
            &metric(
                "Resource",
                "resource",
                json!({"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}),
            ),
            0,
            r#"[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}}]"#,
        );
        check(
            &metric(
                "External",
                "external",
                json!({"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "3"}}),
            ),
            0,
            r#"[{"type":"External","external":{"metricName":"m","targetAverageValue":"3"}}]"#,
        );
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
        check(
            &json!({"metadata": {}, "spec": {"metrics": [cpu], "behavior": {"scaleDown": {
                "stabilizationWindowSeconds": 5, "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}],
            }}}}),
            1,
            r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":5,"SelectPolicy":null,"Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":null}}"#,
        );
        check(
            &json!({"metadata": {}, "spec": {"metrics": [cpu]}, "status": {"conditions": [
                {"type": "AbleToScale", "status": "True", "lastTransitionTime": "2001-02-03T04:05:06Z"},
            ]}}),
            2,
            r#"[{"type":"AbleToScale","status":"True","lastTransitionTime":"2001-02-03T04:05:06Z"}]"#,
        );
    }

    #[test]
    fn the_status_keeps_the_value_of_the_processor() {
        let current = json!({"averageUtilization": 5, "averageValue": "1"});
        let mut object = json!({"metadata": {}, "status": {"currentMetrics": [
            {"type": "Resource", "resource": {"name": "cpu", "current": current}},
        ]}});
        from_storage(&mut object);
        assert_eq!(object["status"], json!({CURRENT: 5}));
        assert_eq!(
            object["metadata"]["annotations"][KEPT[3].0],
            r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":5,"currentAverageValue":"1"}}]"#
        );
        to_storage(&mut object);
        assert_eq!(object["status"]["currentMetrics"][0]["resource"]["current"], current);
    }

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn annotations_of_the_older_version_are_written_by_the_conversion() {
        let autoscaler = |annotations: Value, status: Value| {
            json!({
                "apiVersion": "autoscaling/v1", "metadata": {"annotations": annotations},
                "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "a"}}, "status": status,
            })
        };
        let mut object = autoscaler(json!({KEPT[0].0: "nonsense"}), json!({CURRENT: 80}));
        default(&mut object);
        let current = r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":80,"currentAverageValue":"0"}}]"#;
        assert_eq!(object["metadata"]["annotations"], json!({KEPT[3].0: current}));
        let defaulted = object.clone();
        default(&mut object);
        assert_eq!(object, defaulted);
        // A write of the status leaves fields of the spec as they are, and the other way round.
        let old = autoscaler(json!({KEPT[0].0: "[1]", KEPT[3].0: "[2]"}), json!({}));
        let mut new = autoscaler(json!({"x": "y", KEPT[3].0: "[3]"}), json!({}));
        keep_annotations("spec", &old, &mut new);
        assert_eq!(new["metadata"]["annotations"], json!({"x": "y", KEPT[0].0: "[1]", KEPT[3].0: "[3]"}));
        let mut new = autoscaler(json!({KEPT[2].0: "[3]"}), json!({}));
        keep_annotations("status", &autoscaler(json!({}), json!({})), &mut new);
        assert_eq!(new["metadata"], json!({}));
    }
}
