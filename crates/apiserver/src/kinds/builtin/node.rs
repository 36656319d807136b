//! Nodes: the pair `podCIDR` and `podCIDRs`, taints, the status, and fields that can be set only once.

use std::collections::BTreeSet;

use kube_apimachinery::decode;
use kube_apimachinery::go::quote;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::amounts::{Amounts, validate_amount};
use super::shared::domain_checks::AddressRange;
use super::shared::field_checks::{address_range, duplicate, invalid_text};
use super::shared::fields::{list, put, set, text, within};
use super::shared::{amounts, discouraged};
use crate::kind::WriteContext;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct Node;

impl BuiltinKind for Node {
    fn default(&self, node: &mut Value) {
        default_ranges(node);
        within(node, "status", |status| {
            // Unless the kubelet says otherwise, the whole capacity is allocatable.
            let capacity = status["capacity"].clone();
            if capacity.is_object() {
                set(status, "allocatable", capacity);
            }
            amounts::round_fields(status, &["capacity", "allocatable"]);
        });
    }

    /// True, because nodes report their status when they register.
    fn keeps_new_status(&self) -> bool {
        true
    }

    fn prepare_create(&self, _context: &WriteContext<'_>, node: &mut Value) {
        // Both fields belong to dynamic kubelet configuration, a feature that was removed.
        drop_config_source(node);
        within(node, "status", |status| put(status, "config", Value::Null));
    }

    /// Drops `configSource`, whose feature is removed, unless the old node has it.
    fn prepare_update(&self, _context: &WriteContext<'_>, old: &Value, new: &mut Value) {
        if old["spec"]["configSource"].is_null() {
            drop_config_source(new);
        }
    }

    fn prepare_subresource(
        &self,
        _context: &WriteContext<'_>,
        _subresource: &str,
        old: &Value,
        new: &mut Value,
    ) {
        if old["status"]["config"].is_null() {
            within(new, "status", |status| put(status, "config", Value::Null));
        }
    }

    fn warnings(&self, _resource: &Resource, node: &Value, _old: Option<&Value>) -> Vec<String> {
        let spec = &node["spec"];
        let mut warnings = Vec::new();
        if !spec["configSource"].is_null() {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if !text(spec, "externalID").is_empty() {
            let warning = "spec.externalID: this field is deprecated, and is unused by Kubernetes";
            warnings.push(warning.to_owned());
        }
        for (index, range) in ranges(node).enumerate() {
            warnings.extend(discouraged::range(range, &format!("spec.podCIDRs[{index}]")));
        }
        warnings
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = validate(new);
        errors.extend(old.into_iter().flat_map(|old| validate_update(old, new)));
        errors
    }

    fn validate_subresource(&self, _subresource: &str, old: &Value, new: &Value) -> Vec<FieldError> {
        validate_update(old, new)
    }
}

fn drop_config_source(node: &mut Value) {
    if let Some(spec) = node["spec"].as_object_mut() {
        spec.remove("configSource");
    }
}

/// Makes `podCIDR` and `podCIDRs` agree. A `podCIDR` that differs from the list's first element replaces the list, because older clients
/// write only `podCIDR`.
fn default_ranges(node: &mut Value) {
    let Some(spec) = node.get_mut("spec").filter(|spec| spec.is_object()) else {
        return;
    };
    let range = spec["podCIDR"].as_str().unwrap_or_default().to_owned();
    let first = spec["podCIDRs"][0].as_str().unwrap_or_default().to_owned();
    if !range.is_empty() && range != first {
        spec["podCIDRs"] = json!([range]);
    } else if range.is_empty() && !first.is_empty() {
        spec["podCIDR"] = json!(first);
    }
}

/// Validates a new node, or the new state of one.
fn validate(node: &Value) -> Vec<FieldError> {
    let mut errors = avoided_pods(node);
    errors.extend(taints(node));
    errors.extend(amounts_of_status(&node["status"]));
    let swap = &node["status"]["nodeInfo"]["swap"]["capacity"];
    if let Some(capacity) = swap.as_i64().filter(|capacity| *capacity <= 0) {
        // kube-apiserver's path does not exist in the object.
        let path = "metadata.nodeSwapStatus.capacity";
        errors.push(FieldError::invalid(path, &capacity.to_string(), "must be greater than zero"));
    }
    errors.extend(declared_features(&node["status"]));
    errors.extend(pod_ranges(node));
    errors
}

/// Checks the pod CIDRs of a node: at most one per IP family.
fn pod_ranges(node: &Value) -> Vec<FieldError> {
    let all: Vec<&str> = ranges(node).collect();
    let checked = all.iter().enumerate();
    let mut errors: Vec<FieldError> = checked
        .filter_map(|(index, range)| address_range(range, &format!("spec.podCIDRs[{index}]")))
        .collect();
    if all.len() > 1 {
        let read: Vec<Option<AddressRange>> = all.iter().map(|range| AddressRange::read(range)).collect();
        let has = |ipv4: bool| read.iter().flatten().any(|range| range.is_ipv4() == ipv4);
        let unread = read.iter().position(Option::is_none);
        // kube-apiserver's check for dual stack parses the ranges again. It reports a failure as an internal error, in addition to the
        // error of the range.
        if let Some(index) = unread {
            let message = format!(
                "Internal error: invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{index}]: <nil> \
                 (invalid CIDR address: {})",
                all[index]
            );
            errors.push(FieldError { reason: "InternalError", field: "spec.podCIDRs".to_owned(), message });
        }
        if all.len() > 2 || unread.is_some() || !has(true) || !has(false) {
            let shown = json!(all).to_string();
            let why = "may specify no more than one CIDR for each IP family";
            errors.push(FieldError::invalid("spec.podCIDRs", &shown, why));
        }
    }
    errors
}

/// Checks the annotation that lists pods which older schedulers kept off the node. Each entry must name the controller of the pods.
fn avoided_pods(node: &Value) -> Vec<FieldError> {
    const KEY: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";
    let annotation = node["metadata"]["annotations"][KEY].as_str().filter(|text| !text.is_empty());
    let Some(annotation) = annotation else { return Vec::new() };
    let entries = match avoided_entries(annotation) {
        Ok(entries) => entries,
        Err(why) => return vec![invalid_text("metadata.annotations.AvoidPods", KEY, &why)],
    };
    let mut errors = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let field = format!("metadata.annotations.{KEY}[{index}].PodSignature");
        let controller = &entry["podSignature"]["podController"];
        if controller.is_null() {
            errors.push(FieldError::required(field, ""));
        } else if controller["controller"] == false {
            // In Go, a missing flag causes a panic that ends the request. Here it causes no error.
            let field = format!("{field}.PodController.Controller");
            errors.push(FieldError::invalid(field, "false", "must point to a controller"));
        }
    }
    errors
}

/// Reads the entries of the annotation that [`avoided_pods`] checks.
///
/// # Errors
/// Text of Go's decoder for invalid JSON, or for an annotation, list or entry of another type.
fn avoided_entries(annotation: &str) -> Result<Vec<Value>, String> {
    const ENTRIES: &str = "struct field AvoidPods.preferAvoidPods of type";
    let refuse = |value: &Value, target: &str| {
        let kind = match value {
            Value::Array(_) => "array",
            Value::Object(_) => "object",
            Value::String(_) => "string",
            Value::Bool(_) => "bool",
            Value::Number(_) | Value::Null => "number",
        };
        Err(format!("json: cannot unmarshal {kind} into Go {target}"))
    };
    let mut pods = decode::json(annotation.as_bytes())?.value;
    if !pods.is_object() && !pods.is_null() {
        return refuse(&pods, "value of type v1.AvoidPods");
    }
    match pods["preferAvoidPods"].take() {
        Value::Null => Ok(Vec::new()),
        Value::Array(entries) => match entries.iter().find(|entry| !entry.is_object() && !entry.is_null()) {
            Some(wrong) => refuse(wrong, &format!("{ENTRIES} v1.PreferAvoidPodsEntry")),
            None => Ok(entries),
        },
        wrong => refuse(&wrong, &format!("{ENTRIES} []v1.PreferAvoidPodsEntry")),
    }
}

/// Validates changes of a node. An update is also validated like a new node, so errors about taints, amounts and features appear twice, as
/// they do in kube-apiserver.
///
/// `podCIDRs` and `providerID` can be set once, usually by a controller.
fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = avoided_pods(new);
    errors.extend(amounts_of_status(&new["status"]));
    errors.extend(declared_features(&new["status"]));
    let addresses = list(&new["status"], "addresses");
    for (index, address) in
        addresses.iter().enumerate().filter(|(index, one)| addresses[..*index].contains(one))
    {
        let shown = format!(
            "{{\"Type\":{},\"Address\":{}}}",
            quote(text(address, "type")),
            quote(text(address, "address"))
        );
        errors.push(FieldError {
            reason: "FieldValueDuplicate",
            field: format!("status.addresses[{index}]"),
            message: format!("Duplicate value: {shown}"),
        });
    }
    let (before, after): (Vec<&str>, Vec<&str>) = (ranges(old).collect(), ranges(new).collect());
    let why = "node updates may not change podCIDR except from \"\" to valid";
    if !before.is_empty() && before.len() != after.len() {
        errors.push(FieldError::forbidden("spec.podCIDRs", why));
    } else {
        let changed = before.iter().zip(&after).filter(|(before, after)| before != after);
        // kube-apiserver reports each changed range, without its index.
        errors.extend(changed.map(|_| FieldError::forbidden("spec.podCIDRs", why)));
    }
    let changes = |field: &str| text(&old["spec"], field) != text(&new["spec"], field);
    if !text(&old["spec"], "providerID").is_empty() && changes("providerID") {
        let why = "node updates may not change providerID except from \"\" to valid";
        errors.push(FieldError::forbidden("spec.providerID", why));
    }
    errors.extend(taints(new));
    if changes("externalID") {
        errors.push(FieldError::forbidden("spec.externalID", "may not be updated"));
    }
    errors
}

fn amounts_of_status(status: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for list in ["capacity", "allocatable"] {
        for (name, amount) in Amounts::read(&status[list]).iter() {
            errors.extend(validate_amount(name, amount, &format!("status.{list}.{name}")));
        }
    }
    errors
}

/// Validates the features that a kubelet declares, such as `MyFeature/mySubFeature`. They are sorted and unique.
fn declared_features(status: &Value) -> Vec<FieldError> {
    const LONGEST: usize = 253;
    let is_segment = |segment: &str, index: usize| {
        let first =
            |byte: &u8| if index == 0 { byte.is_ascii_uppercase() } else { byte.is_ascii_alphabetic() };
        segment.as_bytes().first().is_some_and(first)
            && segment.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let mut errors = Vec::new();
    let features: Vec<&str> = list(status, "declaredFeatures").iter().filter_map(Value::as_str).collect();
    for (index, feature) in features.iter().enumerate() {
        let field = |index: usize| format!("status.declaredFeatures[{index}]");
        let wrong = |why: &str| {
            invalid_text(field(index), feature, &format!("invalid feature name {}: {why}", quote(feature)))
        };
        if feature.len() > LONGEST {
            errors.push(wrong("must be no more than 253 characters"));
        } else if !feature.split('/').enumerate().all(|(index, segment)| is_segment(segment, index)) {
            errors.push(wrong(
                "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or \
                 MyFeature/mySubFeature), and contain only alphanumeric characters and slashes",
            ));
        }
        // Comparing neighbors finds both duplicates and a wrong order.
        match features.get(index + 1) {
            Some(next) if next == feature => errors.push(duplicate(field(index + 1), next)),
            Some(next) if next < feature => {
                errors.push(invalid_text(field(index + 1), next, "list must be sorted alphabetically"));
            }
            _ => {}
        }
    }
    errors
}

/// Validates the taints. Key and effect together are unique. kube-apiserver reports the errors below `metadata`, although taints belong to
/// the spec.
fn taints(node: &Value) -> Vec<FieldError> {
    const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, taint) in node["spec"]["taints"].as_array().into_iter().flatten().enumerate() {
        let place = format!("metadata.taints[{index}]");
        let text = |field: &str| taint[field].as_str().unwrap_or_default();
        let (key, value, effect) = (text("key"), text("value"), text("effect"));
        for why in names::qualified(key) {
            errors.push(FieldError::invalid(format!("{place}.key"), &quote(key), &why));
        }
        let wrong = names::label_value(value);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(format!("{place}.value"), &quote(value), &wrong.join(";")));
        }
        if effect.is_empty() {
            errors.push(FieldError::required(format!("{place}.effect"), ""));
        } else if !EFFECTS.contains(&effect) {
            let supported = EFFECTS.map(quote).join(", ");
            errors.push(FieldError {
                reason: "FieldValueNotSupported",
                field: format!("{place}.effect"),
                message: format!("Unsupported value: {}: supported values: {supported}", quote(effect)),
            });
        }
        if !seen.insert((effect, key)) {
            // The message shows the JSON of Go's internal struct.
            let shown = format!(
                "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{}}}",
                quote(key),
                quote(value),
                quote(effect),
                taint["timeAdded"]
            );
            errors.push(FieldError {
                reason: "FieldValueDuplicate",
                field: place,
                message: format!("Duplicate value: {shown}: taints must be unique by key and effect pair"),
            });
        }
    }
    errors
}

fn ranges(node: &Value) -> impl Iterator<Item = &str> {
    node["spec"]["podCIDRs"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(new: &Value, old: Option<&Value>, expected: &[&str]) {
        let node = |spec: &Value| {
            let mut node = json!({ "spec": spec });
            default_ranges(&mut node);
            node
        };
        let new = node(new);
        let mut errors = validate(&new);
        errors.extend(old.map(node).iter().flat_map(|old| validate_update(old, &new)));
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected);
    }

    #[test]
    fn ranges_and_provider_are_set_once() {
        let set = json!({"podCIDR": "10.0.1.0/24", "providerID": "a://1"});
        check(&set, Some(&json!({})), &[]);
        check(&set, Some(&set), &[]);
        check(
            &json!({"podCIDR": "10.0.2.0/24", "providerID": "a://2"}),
            Some(&set),
            &[
                "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid",
                "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid",
            ],
        );
        // The list follows a patch of `podCIDR`.
        check(
            &json!({"podCIDR": "10.0.9.0/24", "podCIDRs": ["10.0.1.0/24"], "providerID": "a://1"}),
            Some(&set),
            &["spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid"],
        );
        check(
            &json!({"podCIDRs": ["10.0.1.0/24", "2001:db8::/64"], "providerID": "a://1"}),
            Some(&set),
            &["spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid"],
        );
    }

    #[test]
    fn a_status_has_valid_amounts_features_and_addresses() {
        let address = json!({"type": "InternalIP", "address": "10.0.0.1"});
        let node = |features: Value| {
            json!({"status": {
                "capacity": {"cpu": "-1", "pods": "1500m"}, "declaredFeatures": features, "addresses": [address, address],
            }})
        };
        let errors: Vec<String> = validate_update(&json!({}), &node(json!(["B", "A/b", "A/b", "a"])))
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            errors,
            [
                "status.capacity.cpu: Invalid value: \"-1\": must be greater than or equal to 0",
                "status.capacity.pods: Invalid value: \"1500m\": must be an integer",
                "status.declaredFeatures[1]: Invalid value: \"A/b\": list must be sorted alphabetically",
                "status.declaredFeatures[2]: Duplicate value: \"A/b\"",
                "status.declaredFeatures[3]: Invalid value: \"a\": invalid feature name \"a\": must start with an UpperCamelCase \
                 segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only \
                 alphanumeric characters and slashes",
                "status.addresses[1]: Duplicate value: {\"Type\":\"InternalIP\",\"Address\":\"10.0.0.1\"}",
            ]
        );
        check(
            &json!({"externalID": "b"}),
            Some(&json!({"externalID": "a"})),
            &["spec.externalID: Forbidden: may not be updated"],
        );
    }

    #[test]
    fn a_node_has_one_range_of_each_family() {
        check(&json!({"podCIDRs": ["10.0.1.0/24", "2001:db8::/64"]}), None, &[]);
        check(
            &json!({"podCIDRs": ["10.0.1.0/24", "10.0.2.0/24"]}),
            None,
            &[
                "spec.podCIDRs: Invalid value: [\"10.0.1.0/24\",\"10.0.2.0/24\"]: may specify no more than one CIDR for \
                 each IP family",
            ],
        );
        check(
            &json!({"podCIDRs": ["10.1.2.3/24"]}),
            None,
            &[
                "spec.podCIDRs[0]: Invalid value: \"10.1.2.3/24\": must not have bits set beyond the prefix length",
            ],
        );
        check(
            &json!({"podCIDRs": ["10.0.0.0/24", "x"]}),
            None,
            &[
                "spec.podCIDRs[1]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                "spec.podCIDRs: Internal error: invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[1]: <nil> \
                 (invalid CIDR address: x)",
                "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"x\"]: may specify no more than one CIDR for each IP family",
            ],
        );
        check(
            &json!({"podCIDRs": ["10.0.0.0/24", "::ffff:10.0.0.0/104"]}),
            None,
            &[
                "spec.podCIDRs[1]: Invalid value: \"::ffff:10.0.0.0/104\": must not have an IPv4-mapped IPv6 address",
                "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"::ffff:10.0.0.0/104\"]: may specify no more than one CIDR for each \
                 IP family",
            ],
        );
        check(&json!({"podCIDRs": ["0.0.0.0/0", "::/0"]}), None, &[]);
        check(&json!({"podCIDRs": ["10.1.2.3/32", "2001:db8::1/128"]}), None, &[]);
        check(
            &json!({"podCIDR": "nope"}),
            None,
            &["spec.podCIDRs[0]: Invalid value: \"nope\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or \
                 2001:db8::/64)"],
        );
    }
}
