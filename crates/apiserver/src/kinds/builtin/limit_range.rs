//! LimitRanges. Limits of one type must not contradict each other.

use std::collections::BTreeSet;

use kube_apimachinery::go::quote;
use kube_apimachinery::metadata;
use kube_apimachinery::names;
use kube_apimachinery::quantity::Quantity;
use kube_apimachinery::status::FieldError;
use serde_json::{Map, Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::amounts::Amounts;
use super::shared::fields::{elements, set, within};
use super::shared::{amounts, resource_names};
use crate::kind::WriteContext;
use crate::kind::resource::Resource;

const TYPES: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];

#[derive(Debug)]
pub(super) struct LimitRange;

impl BuiltinKind for LimitRange {
    fn default(&self, range: &mut Value) {
        within(range, "spec", |spec| elements(spec, "limits").for_each(default_limit));
    }

    /// Defaults of containers exist in Go even if they are empty, so that an empty one is no change.
    fn converted_form(&self, range: &Value) -> Option<Value> {
        let mut converted = range.clone();
        self.default(&mut converted);
        within(&mut converted, "spec", |spec| {
            for item in elements(spec, "limits").filter(|item| item["type"] == "Container") {
                for defaults in ["default", "defaultRequest"] {
                    if item[defaults].as_object().is_some_and(Map::is_empty) {
                        item[defaults] = Value::Null;
                    }
                }
            }
        });
        Some(converted)
    }

    /// Sets a missing name to a UUID, which kube-apiserver does for no other kind. Instead of drawing a second UUID, this derives one from
    /// the object's UID that differs from it.
    fn prepare_create(&self, _context: &WriteContext<'_>, range: &mut Value) {
        if metadata::text(range, "name").is_empty() {
            let uid = metadata::text(range, "uid");
            let (start, node) = uid.rsplit_once('-').unwrap_or(("", uid));
            // The last part of a UUID is random, so reversing it gives another valid UUID.
            let name = format!("{start}-{}", node.chars().rev().collect::<String>());
            metadata::of(range).insert("name".to_owned(), name.into());
        }
    }

    fn validate(&self, _resource: &Resource, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        validate(new)
    }
}

/// Derives limits of containers: the default from the maximum, the default request from the default, then from the minimum.
fn default_limit(item: &mut Value) {
    amounts::round_fields(item, &["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]);
    if item["type"] != "Container" {
        return;
    }
    // The order matters: the default request may come from a default that was derived from the maximum.
    for (target, source) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
        let Some(amounts) = item[source].as_object().cloned() else {
            continue;
        };
        if item[target].is_null() {
            item[target] = json!({});
        }
        for (name, amount) in amounts {
            set(&mut item[target], &name, amount);
        }
    }
}

fn validate(range: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, limit) in range["spec"]["limits"].as_array().into_iter().flatten().enumerate() {
        let path = format!("spec.limits[{index}]");
        let kind = limit["type"].as_str().unwrap_or_default();
        errors.extend(validate_type(kind, &format!("{path}.type")));
        if !seen.insert(kind) {
            errors.push(FieldError {
                reason: "FieldValueDuplicate",
                field: format!("{path}.type"),
                message: format!("Duplicate value: {}", quote(kind)),
            });
        }
        errors.extend(validate_limit(kind, limit, &path));
    }
    errors
}

fn validate_type(kind: &str, path: &str) -> Vec<FieldError> {
    let wrong = names::qualified(kind);
    if !wrong.is_empty() {
        return wrong.iter().map(|why| FieldError::invalid(path, &quote(kind), why)).collect();
    }
    if kind.contains('/') || TYPES.contains(&kind) {
        return Vec::new();
    }
    vec![FieldError::invalid(path, &quote(kind), "must be a standard limit type or fully qualified")]
}

fn validate_limit(kind: &str, limit: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let list = |field: &str| Amounts::read(&limit[field]);
    let (min, max, ratios) = (list("min"), list("max"), list("maxLimitRequestRatio"));
    let (mut defaults, mut requests) = (list("default"), list("defaultRequest"));
    let validate_names = |field: &str, amounts: &Amounts, errors: &mut Vec<FieldError>| {
        for name in amounts.names() {
            let path = format!("{path}.{field}[{name}]");
            errors.extend(match kind {
                // Pods and containers have fewer standard resources than other types.
                "Pod" | "Container" => resource_names::validate_of_container(name, &path),
                _ => resource_names::validate(name, &path),
            });
        }
    };
    validate_names("max", &max, &mut errors);
    validate_names("min", &min, &mut errors);
    if kind == "Pod" {
        for (field, amounts) in [("default", &mut defaults), ("defaultRequest", &mut requests)] {
            if !amounts.is_empty() {
                let why = "may not be specified when `type` is 'Pod'";
                errors.push(FieldError::forbidden(format!("{path}.{field}"), why));
            }
            // kube-apiserver does not compare forbidden amounts with the others.
            *amounts = Amounts::default();
        }
    } else {
        validate_names("default", &defaults, &mut errors);
        validate_names("defaultRequest", &requests, &mut errors);
    }
    if kind == "PersistentVolumeClaim" && min.get("storage").or(max.get("storage")).is_none() {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        // The path of kube-apiserver's error names no field of the object.
        errors.push(FieldError::required(format!("{path}.limits"), why));
    }
    validate_names("maxLimitRequestRatio", &ratios, &mut errors);
    let lists = [&min, &max, &defaults, &requests, &ratios];
    let all: BTreeSet<&str> = lists.into_iter().flat_map(Amounts::names).collect();
    for name in all {
        let [min, max, default, request, ratio] = lists.map(|list| list.get(name));
        errors.extend(Limits { path, name, min, max, default, request, ratio }.contradictions());
    }
    errors
}

/// Limits of one resource.
struct Limits<'a> {
    path: &'a str,
    name: &'a str,
    min: Option<Quantity>,
    max: Option<Quantity>,
    default: Option<Quantity>,
    request: Option<Quantity>,
    ratio: Option<Quantity>,
}

impl Limits<'_> {
    /// Compares the limits pairwise. Each row names the field of the error, the amount that the error shows, and the lower and the higher
    /// amount. The shown amount is that of kube-apiserver, even where it is not the field's own.
    fn contradictions(&self) -> Vec<FieldError> {
        let Self { min, max, default, request, .. } = *self;
        let rows = [
            ("min", min, ("min value", min), ("max value", max)),
            ("defaultRequest", request, ("min value", min), ("default request value", request)),
            ("defaultRequest", request, ("default request value", request), ("max value", max)),
            ("defaultRequest", request, ("default request value", request), ("default limit value", default)),
            ("default", min, ("min value", min), ("default value", default)),
            ("default", max, ("default value", default), ("max value", max)),
        ];
        let mut errors = Vec::new();
        for (field, shown, (low_name, low), (high_name, high)) in rows {
            if let (Some(shown), Some(low), Some(high)) = (shown, low, high)
                && low > high
            {
                let why = format!("{low_name} {low} is greater than {high_name} {high}");
                errors.push(self.error(field, shown, &why));
            }
        }
        errors.extend(self.ratio_errors());
        if let (Some(default), Some(request)) = (default, request)
            && !resource_names::can_overcommit(self.name)
            && default != request
        {
            let name = self.name;
            let why =
                format!("default value {default} must equal to defaultRequest value {request} in {name}");
            errors.push(self.error("defaultRequest", request, &why));
        }
        errors
    }

    #[expect(clippy::cast_precision_loss, reason = "the ratio is a float, as in kube-apiserver")]
    fn ratio_errors(&self) -> Vec<FieldError> {
        const FIELD: &str = "maxLimitRequestRatio";
        let Some(ratio) = self.ratio else {
            return Vec::new();
        };
        let mut errors = Vec::new();
        if ratio < Quantity::whole(1) {
            errors.push(self.error(FIELD, ratio, &format!("ratio {ratio} is less than 1")));
        }
        if let (Some(min), Some(max)) = (self.min, self.max) {
            // Limits up to `max` and requests from `min` on cannot exceed this quotient, so a greater ratio would have no effect.
            let largest = max.millis() as f64 / min.millis() as f64;
            if ratio.millis() as f64 / 1000.0 > largest {
                let why = format!("ratio {ratio} is greater than max/min = {largest:.6}");
                errors.push(self.error(FIELD, ratio, &why));
            }
        }
        errors
    }

    fn error(&self, field: &str, shown: Quantity, why: &str) -> FieldError {
        FieldError::invalid(format!("{}.{field}[{}]", self.path, self.name), &quote(&shown.to_string()), why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers;

    fn check(limit: &Value, expected: &[&str]) {
        let range = json!({"spec": {"limits": [limit]}});
        let errors: Vec<String> = validate(&range).iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected);
    }

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn empty_defaults_of_a_container_are_no_change() {
        let range = json!({"spec": {"limits": [
            {"type": "Container", "default": {}, "max": {"cpu": "2"}}, {"type": "Container", "defaultRequest": {}}, {"type": "Pod", "min": {}},
        ]}});
        let converted = LimitRange.converted_form(&range).unwrap();
        let limits = &converted["spec"]["limits"];
        assert_eq!(limits[0]["default"], json!({"cpu": "2"}));
        assert_eq!(limits[1]["defaultRequest"], Value::Null);
        assert_eq!(limits[2]["min"], json!({}));
    }

    #[test]
    fn requests_of_containers_follow_from_their_limits() {
        let mut range = json!({"spec": {"limits": [
            {"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}, {"type": "Pod", "max": {"cpu": "2"}},
        ]}});
        test_helpers::default("LimitRange", &mut range);
        assert_eq!(
            range["spec"],
            json!({"limits": [
                {
                    "type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}, "default": {"cpu": "2"},
                    "defaultRequest": {"cpu": "2", "memory": "1Mi"},
                },
                {"type": "Pod", "max": {"cpu": "2"}},
            ]})
        );
    }

    #[test]
    fn limits_of_one_type_must_not_contradict_each_other() {
        check(&json!({"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}}), &[]);
        check(
            &json!({"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}, "default": {"cpu": "3"}, "defaultRequest": {"cpu": "4"}}),
            &[
                "spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1",
                "spec.limits[0].defaultRequest[cpu]: Invalid value: \"4\": default request value 4 is greater than max value 1",
                "spec.limits[0].defaultRequest[cpu]: Invalid value: \"4\": default request value 4 is greater than default \
                 limit value 3",
                "spec.limits[0].default[cpu]: Invalid value: \"1\": default value 3 is greater than max value 1",
            ],
        );
        check(
            &json!({"type": "Pod", "max": {"cpu": "4"}, "min": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}}),
            &[
                "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"3\": ratio 3 is greater than max/min = 2.000000",
            ],
        );
        check(
            &json!({"type": "Container", "default": {"hugepages-2Mi": "4Mi"}, "defaultRequest": {"hugepages-2Mi": "2Mi"}}),
            &[
                "spec.limits[0].defaultRequest[hugepages-2Mi]: Invalid value: \"2Mi\": default value 4Mi must equal to \
                 defaultRequest value 2Mi in hugepages-2Mi",
            ],
        );
    }

    #[test]
    fn types_and_resources_have_known_names() {
        check(
            &json!({"type": "Nope"}),
            &[
                "spec.limits[0].type: Invalid value: \"Nope\": must be a standard limit type or fully qualified",
            ],
        );
        check(
            &json!({"type": "Container", "max": {"pods": "1"}}),
            &[
                "spec.limits[0].max[pods]: Invalid value: \"pods\": must be a standard resource for containers",
            ],
        );
        check(
            &json!({"type": "PersistentVolumeClaim", "min": {"cpu": "1"}}),
            &[
                "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither \
                 was provided",
            ],
        );
        check(
            &json!({"type": "Pod", "default": {"cpu": "1"}}),
            &["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"],
        );
    }
}
