//! Metrics, behavior and conditions in annotations of `autoscaling/v1`, which has no fields for them. They are JSON with the fields in the
//! order of Go's structs.

use kube_apimachinery::go;
use kube_apimachinery::quantity::Quantity;
use serde_json::{Map, Value, json};

/// Sources of metrics, in the order of the fields of Go's `MetricSpec`.
const SOURCES: [&str; 5] = ["object", "pods", "resource", "containerResource", "external"];

/// Returns a metric of `autoscaling/v2` as JSON of `autoscaling/v1`. `value` is `target` in the spec, `current` in the status.
pub(super) fn shown(metric: &Value, value: &str) -> String {
    let mut fields = vec![("type", text(&metric["type"]))];
    for source in SOURCES {
        if let Some(about) = metric.get(source).filter(|about| about.is_object()) {
            fields.push((source, Some(shown_source(source, about, value))));
        }
    }
    object(fields)
}

fn shown_source(source: &str, about: &Value, value: &str) -> String {
    let (target, metric) = (&about[value], &about["metric"]);
    let selector = metric.get("selector").filter(|selector| !selector.is_null()).map(shown_selector);
    let quantity = |field: &str| text(&target[field]);
    let or_zero = |field: &str| Some(quantity(field).unwrap_or_else(|| "\"0\"".to_owned()));
    // Some quantities are pointers in Go's spec, but values in its status, which therefore writes absent ones as 0.
    let average = || if value == "target" { quantity("averageValue") } else { or_zero("averageValue") };
    let name =
        |in_status: &'static str, in_spec: &'static str| if value == "target" { in_spec } else { in_status };
    match source {
        "object" => {
            let reference = &about["describedObject"];
            // The field has `omitempty` in Go.
            let api_version = text(&reference["apiVersion"]).filter(|version| version != "\"\"");
            let target_of = [
                ("kind", text_or_empty(&reference["kind"])),
                ("name", text_or_empty(&reference["name"])),
                ("apiVersion", api_version),
            ];
            object([
                ("target", Some(object(target_of))),
                ("metricName", text_or_empty(&metric["name"])),
                (name("currentValue", "targetValue"), or_zero("value")),
                ("selector", selector),
                ("averageValue", quantity("averageValue")),
            ])
        }
        "pods" => object([
            ("metricName", text_or_empty(&metric["name"])),
            (name("currentAverageValue", "targetAverageValue"), or_zero("averageValue")),
            ("selector", selector),
        ]),
        "external" => object([
            ("metricName", text_or_empty(&metric["name"])),
            ("metricSelector", selector),
            (
                name("currentValue", "targetValue"),
                if value == "target" { quantity("value") } else { or_zero("value") },
            ),
            (name("currentAverageValue", "targetAverageValue"), quantity("averageValue")),
        ]),
        // `resource` and `containerResource`.
        _ => object([
            ("name", text_or_empty(&about["name"])),
            (name("currentAverageUtilization", "targetAverageUtilization"), quantity("averageUtilization")),
            (name("currentAverageValue", "targetAverageValue"), average()),
            (
                "container",
                (source == "containerResource").then(|| text_or_empty(&about["container"])).flatten(),
            ),
        ]),
    }
}

fn shown_selector(selector: &Value) -> String {
    let part = |field: &str| selector.get(field).filter(|part| !part.is_null()).map(go::json);
    object([("matchLabels", part("matchLabels")), ("matchExpressions", part("matchExpressions"))])
}

/// Returns the behavior as JSON. kube-apiserver encodes its internal struct here, which has no JSON tags, so the names are those of Go's
/// fields.
pub(super) fn shown_behavior(behavior: &Value) -> String {
    let rules = |direction: &str| match behavior.get(direction).filter(|rules| rules.is_object()) {
        None => "null".to_owned(),
        Some(rules) => {
            let policies = rules["policies"].as_array().map(|policies| {
                let policy = |policy: &Value| {
                    object([
                        ("Type", text_or_empty(&policy["type"])),
                        ("Value", Some(policy["value"].as_i64().unwrap_or(0).to_string())),
                        ("PeriodSeconds", Some(policy["periodSeconds"].as_i64().unwrap_or(0).to_string())),
                    ])
                };
                format!("[{}]", policies.iter().map(policy).collect::<Vec<_>>().join(","))
            });
            object([
                ("StabilizationWindowSeconds", Some(go::json(&rules["stabilizationWindowSeconds"]))),
                ("SelectPolicy", Some(go::json(&rules["selectPolicy"]))),
                ("Policies", Some(policies.unwrap_or_else(|| "null".to_owned()))),
                ("Tolerance", Some(go::json(&rules["tolerance"]))),
            ])
        }
    };
    object([("ScaleUp", Some(rules("scaleUp"))), ("ScaleDown", Some(rules("scaleDown")))])
}

/// Returns a condition as JSON.
pub(super) fn shown_condition(condition: &Value) -> String {
    // Reason and message have `omitempty` in Go.
    let given = |field: &str| text(&condition[field]).filter(|text| text != "\"\"");
    object([
        ("type", text_or_empty(&condition["type"])),
        ("status", text_or_empty(&condition["status"])),
        ("lastTransitionTime", Some(go::json(&condition["lastTransitionTime"]))),
        ("reason", given("reason")),
        ("message", given("message")),
    ])
}

/// Converts a metric of `autoscaling/v1` to `autoscaling/v2`. `value` is `target` in the spec, `current` in the status.
pub(super) fn stored(metric: &Value, value: &str) -> Value {
    let mut converted = Map::new();
    converted.insert("type".into(), metric["type"].clone());
    for source in SOURCES {
        if let Some(about) = metric.get(source).filter(|about| about.is_object()) {
            converted.insert(source.into(), stored_source(source, about, value));
        }
    }
    converted.into()
}

/// Reads the metrics or conditions of an annotation, as Go does: `null` is an empty list or struct.
pub(super) fn structs(text: &str) -> Option<Vec<Value>> {
    let list: Option<Vec<Value>> = serde_json::from_str(text).ok()?;
    let list = list.unwrap_or_default().into_iter();
    let structs = list.map(|item| if item.is_null() { json!({}) } else { item });
    structs.map(|item| is_decodable(&item).then_some(item)).collect()
}

/// Whether Go decodes a metric or a condition of an annotation. It ignores an annotation with a value of another type.
fn is_decodable(item: &Value) -> bool {
    let Value::Object(fields) = item else { return item.is_null() };
    fields.iter().filter(|(_, value)| !value.is_null()).all(|(name, value)| match name.as_str() {
        "type" | "metricName" | "name" | "container" | "kind" | "apiVersion" | "status" | "reason"
        | "message" => value.is_string(),
        "targetAverageUtilization" | "currentAverageUtilization" => {
            value.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
        }
        "targetValue" | "currentValue" | "targetAverageValue" | "currentAverageValue" | "averageValue" => {
            // Go also reads a quantity from a JSON number.
            value.is_number() || value.as_str().and_then(Quantity::read).is_some()
        }
        "object" | "pods" | "resource" | "containerResource" | "external" | "target" => is_decodable(value),
        "selector" | "metricSelector" => value.is_object(),
        _ => true,
    })
}

fn stored_source(source: &str, about: &Value, value: &str) -> Value {
    let field = |name: &str| about.get(format!("{value}{name}").as_str()).filter(|field| !field.is_null());
    let mut target = Map::new();
    let mut set = |name: &str, field: Option<&Value>| {
        if let Some(field) = field {
            target.insert(name.to_owned(), field.clone());
        }
    };
    let has_average = field("AverageValue").or_else(|| about.get("averageValue")).is_some();
    let kind = match source {
        "object" => {
            let average = about.get("averageValue").filter(|average| !average.is_null());
            // `autoscaling/v1` writes an absent value as 0, so 0 beside an average means absent.
            set("value", field("Value").filter(|number| average.is_none() || **number != "0"));
            set("averageValue", average);
            if average.is_none() { "Value" } else { "AverageValue" }
        }
        "pods" => {
            set("averageValue", field("AverageValue"));
            "AverageValue"
        }
        "external" => {
            set("value", field("Value"));
            set("averageValue", field("AverageValue"));
            if field("Value").is_none() { "AverageValue" } else { "Value" }
        }
        _ => {
            let utilization = field("AverageUtilization");
            set("averageUtilization", utilization);
            // The status also has 0 for an absent value. A real 0 in an annotation that a client wrote is lost.
            let is_absent = |number: &Value| value == "current" && utilization.is_some() && *number == "0";
            set("averageValue", field("AverageValue").filter(|number| !is_absent(number)));
            if field("AverageUtilization").is_some() || !has_average { "Utilization" } else { "AverageValue" }
        }
    };
    if value == "target" {
        target.insert("type".into(), kind.into());
    }
    let mut converted = json!({ value: target });
    match source {
        "resource" | "containerResource" => {
            converted["name"] = about["name"].clone();
            if source == "containerResource" {
                converted["container"] = about["container"].clone();
            }
        }
        _ => {
            converted["metric"] = json!({"name": about["metricName"]});
            let selector = if source == "external" { &about["metricSelector"] } else { &about["selector"] };
            if !selector.is_null() {
                converted["metric"]["selector"] = selector.clone();
            }
            if source == "object" {
                converted["describedObject"] = about["target"].clone();
            }
        }
    }
    converted
}

/// Converts the behavior in an annotation; `None` if it has no rules.
pub(super) fn stored_behavior(behavior: &Value) -> Option<Value> {
    // Go's JSON decoder matches names of fields in any case, so both `ScaleUp` and `scaleUp` are read.
    let field = |object: &Value, name: &str| -> Option<Value> {
        let fields = object.as_object()?;
        let (_, value) = fields.iter().find(|(field, _)| field.eq_ignore_ascii_case(name))?;
        Some(value.clone()).filter(|value| !value.is_null())
    };
    let fits = |object: &Value, name: &str, is_of_type: fn(&Value) -> bool| {
        field(object, name).is_none_or(|value| is_of_type(&value))
    };
    // Go ignores an annotation with a value of another type.
    let is_policy = |policy: &Value| {
        (policy.is_object() || policy.is_null())
            && fits(policy, "type", Value::is_string)
            && ["value", "periodSeconds"].iter().all(|name| fits(policy, name, Value::is_i64))
    };
    let mut converted = Map::new();
    for direction in ["scaleUp", "scaleDown"] {
        let Some(rules) = field(behavior, direction) else { continue };
        let policies = field(&rules, "policies").unwrap_or(Value::Array(Vec::new()));
        if !rules.is_object()
            || !fits(&rules, "stabilizationWindowSeconds", Value::is_i64)
            || !fits(&rules, "selectPolicy", Value::is_string)
            || !policies.as_array().is_some_and(|policies| policies.iter().all(is_policy))
        {
            return None;
        }
        let mut stored = Map::new();
        for name in ["stabilizationWindowSeconds", "selectPolicy", "tolerance"] {
            if let Some(value) = field(&rules, name) {
                stored.insert(name.to_owned(), value);
            }
        }
        if let Some(Value::Array(policies)) = field(&rules, "policies") {
            let policy = |policy: &Value| {
                let of = |name: &str| field(policy, name).unwrap_or_default();
                json!({"type": of("type"), "value": of("value"), "periodSeconds": of("periodSeconds")})
            };
            stored.insert("policies".into(), policies.iter().map(policy).collect());
        }
        converted.insert(direction.to_owned(), stored.into());
    }
    (!converted.is_empty()).then(|| converted.into())
}

/// Returns the JSON of a value; `None` for null.
fn text(value: &Value) -> Option<String> {
    (!value.is_null()).then(|| go::json(value))
}

/// Like [`text`], but null becomes the empty text.
fn text_or_empty(value: &Value) -> Option<String> {
    Some(text(value).unwrap_or_else(|| "\"\"".to_owned()))
}

/// Writes a JSON object with the fields that have a value, in the given order.
fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
    let fields = fields.into_iter().filter_map(|(name, value)| Some(format!("\"{name}\":{}", value?)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn an_annotation_with_a_value_of_another_type_is_ignored() {
        let metric = r#"[{"type":"Resource","resource":{"name":"memory","targetAverageUtilization":5}}]"#;
        for (text, count) in [
            ("[1]", None),
            ("{}", None),
            (r#"[{"type":1}]"#, None),
            (&*metric.replace('5', "5.5"), None),
            (&*metric.replace("{\"name", "[{\"name").replace("}}", "}]}"), None),
            ("null", Some(0)),
            ("[null]", Some(1)),
            (metric, Some(1)),
        ] {
            assert_eq!(structs(text).map(|list| list.len()), count, "{text}");
        }
        assert_eq!(stored_behavior(&json!({"ScaleUp": 5})), None);
        assert_eq!(stored_behavior(&json!({"ScaleUp": {"Policies": [5]}})), None);
        assert!(stored_behavior(&json!({"ScaleUp": {"Policies": [{"Type": "Pods"}]}})).is_some());
    }
}
