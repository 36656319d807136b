//! HorizontalPodAutoscalers: `autoscaling/v1` has a single metric, `v2` a list. They are stored as `v2`.
//!
//! Fields that the older version lacks are kept in annotations, so that a client that reads and writes an object in that version loses
//! none.

use std::borrow::Cow;

use kube_apimachinery::go_struct;
use serde_json::{Map, Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{set, within};
use crate::kind::resource::Resource;

/// Fields that `v1` keeps in annotations: the annotation, and the path of the field in `v2`.
const KEPT: [(&str, &str, &str); 4] = [
    ("autoscaling.alpha.kubernetes.io/metrics", "spec", "metrics"),
    ("autoscaling.alpha.kubernetes.io/behavior", "spec", "behavior"),
    ("autoscaling.alpha.kubernetes.io/conditions", "status", "conditions"),
    ("autoscaling.alpha.kubernetes.io/current-metrics", "status", "currentMetrics"),
];
/// Stored version.
const STORED: &str = "autoscaling/v2";
const TARGET: &str = "targetCPUUtilizationPercentage";
/// Default target of the CPU utilization.
const PERCENT: u32 = 80;
const CURRENT: &str = "currentCPUUtilizationPercentage";

#[derive(Debug)]
pub(super) struct HorizontalPodAutoscaler;

impl BuiltinKind for HorizontalPodAutoscaler {
    fn default(&self, object: &mut Value) {
        default(object);
    }

    fn convert_to_storage(&self, resource: &Resource, object: &mut Value) {
        if resource.api_version() == STORED {
            return;
        }
        to_storage(object);
        // One version writes some fields as zero that the other omits.
        if let Some(message) = go_struct::message_of_kind(STORED, &resource.kind) {
            go_struct::complete(message, object);
        }
    }

    fn convert_from_storage(&self, resource: &Resource, object: &mut Value) {
        if resource.api_version() != STORED {
            from_storage(object);
        }
    }
}

/// Returns an autoscaler of any version in the stored one.
pub(super) fn stored(object: &Value) -> Cow<'_, Value> {
    if object["apiVersion"] == STORED {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    to_storage(&mut object);
    Cow::Owned(object)
}

/// Sets defaults after the fields were completed. The default metric is not set if an annotation of `v1` has metrics.
fn default(object: &mut Value) {
    let is_new = object["apiVersion"] == STORED;
    let annotation = object["metadata"]["annotations"][KEPT[0].0].as_str();
    let has_metrics = annotation
        .and_then(|text| serde_json::from_str::<Vec<Value>>(text).ok())
        .is_some_and(|metrics| !metrics.is_empty());
    within(object, "spec", |spec| {
        set(spec, "minReplicas", json!(1));
        if is_new {
            default_metrics(spec);
            within(spec, "behavior", default_behavior);
        } else if !has_metrics {
            set(spec, TARGET, json!(PERCENT));
        }
    });
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

/// Sets default rules of scaling up and down, once there is a rule for either.
fn default_behavior(behavior: &mut Value) {
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    for (direction, policies) in [("scaleUp", json!([pods, percent])), ("scaleDown", json!([percent]))] {
        set(behavior, direction, json!({}));
        let rules = &mut behavior[direction];
        set(rules, "selectPolicy", json!("Max"));
        set(rules, "policies", policies);
    }
    set(&mut behavior["scaleUp"], "stabilizationWindowSeconds", json!(0));
}

/// Converts an autoscaler from `autoscaling/v1` to the stored version.
fn to_storage(object: &mut Value) {
    let mut kept = Vec::new();
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        for (annotation, part, field) in KEPT {
            // Annotations that are not JSON are kept: clients wrote them.
            let text = annotations.get(annotation).and_then(Value::as_str);
            if let Some(value) = text.and_then(|text| serde_json::from_str::<Value>(text).ok()) {
                annotations.remove(annotation);
                kept.push((part, field, value));
            }
        }
        if annotations.is_empty() {
            remove(&mut object["metadata"], "annotations");
        }
    }
    for (part, field, value) in kept {
        put(object, part, field, value);
    }
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
        let mut list = object[part][new].as_array().cloned().unwrap_or_default();
        list.insert(0, json!({"type": "Resource", "resource": about}));
        put(object, part, new, Value::Array(list));
    }
    within(object, "spec", default_metrics);
}

/// Converts a stored autoscaler to `autoscaling/v1`.
fn from_storage(object: &mut Value) {
    for (part, new, old, value) in
        [("spec", "metrics", TARGET, "target"), ("status", "currentMetrics", CURRENT, "current")]
    {
        let Some(Value::Array(mut list)) = object.get_mut(part).and_then(|part| remove(part, new)) else {
            continue;
        };
        let utilization = |metric: &Value| {
            let resource = &metric["resource"];
            let is_processor = metric["type"] == "Resource" && resource["name"] == "cpu";
            resource[value]["averageUtilization"].as_i64().filter(|_| is_processor)
        };
        if let Some(at) = list.iter().position(|metric| utilization(metric).is_some()) {
            let percent = utilization(&list.remove(at));
            put(object, part, old, json!(percent));
        }
        if !list.is_empty() {
            put(object, part, new, Value::Array(list));
        }
    }
    for (annotation, part, field) in KEPT {
        let value = object.get_mut(part).and_then(|part| remove(part, field));
        if let Some(value) = value.filter(|value| !value.is_null() && *value != json!([])) {
            let metadata = &mut object["metadata"];
            if !metadata["annotations"].is_object() {
                metadata["annotations"] = json!({});
            }
            metadata["annotations"][annotation] = json!(value.to_string());
        }
    }
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
        let mut object =
            json!({"metadata": {}, "spec": {"maxReplicas": 3, TARGET: 50}, "status": {CURRENT: 7}});
        let old = object.clone();
        to_storage(&mut object);
        assert_eq!(
            object,
            json!({
                "metadata": {},
                "spec": {"maxReplicas": 3, "metrics": [{"type": "Resource", "resource": {
                    "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50},
                }}]},
                "status": {"currentMetrics": [{"type": "Resource", "resource": {
                    "name": "cpu", "current": {"averageUtilization": 7},
                }}]},
            })
        );
        from_storage(&mut object);
        assert_eq!(object, old);
    }

    #[test]
    fn fields_that_the_older_version_lacks_are_kept() {
        let stored = json!({
            "metadata": {"annotations": {"mine": "x"}},
            "spec": {
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}},
                "metrics": [
                    {"type": "Resource", "resource": {
                        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50},
                    }},
                    {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}}},
                ],
            },
            "status": {"conditions": [{"type": "AbleToScale", "status": "True"}], "currentMetrics": null},
        });
        let mut shown = stored.clone();
        from_storage(&mut shown);
        assert_eq!(shown["spec"], json!({TARGET: 50}));
        assert_eq!(shown["metadata"]["annotations"].as_object().unwrap().len(), 4);
        to_storage(&mut shown);
        let mut expected = stored;
        remove_null(&mut expected["status"]);
        assert_eq!(shown, expected);
    }

    fn remove_null(status: &mut Value) {
        status.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    }
}
