//! Nodes: `podCIDR` and `podCIDRs`, and fields that can be set only once.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kube_apimachinery::go::quote;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{put, set, text, within};
use super::shared::{amounts, discouraged};
use crate::kind::WriteContext;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct Node;

impl BuiltinKind for Node {
    fn default(&self, node: &mut Value) {
        default_ranges(node);
        within(node, "status", |status| {
            let capacity = status["capacity"].clone();
            if capacity.is_object() {
                set(status, "allocatable", capacity);
            }
            amounts::round_fields(status, &["capacity", "allocatable"]);
        });
    }

    /// `true`, because nodes report their status when they register.
    fn keeps_new_status(&self) -> bool {
        true
    }

    fn prepare_create(&self, _context: &WriteContext<'_>, node: &mut Value) {
        drop_config_source(node);
        within(node, "status", |status| put(status, "config", Value::Null));
    }

    /// Removes `configSource`, a removed feature, unless the node has it already.
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
        validate(new, old)
    }
}

fn drop_config_source(node: &mut Value) {
    if let Some(spec) = node["spec"].as_object_mut() {
        spec.remove("configSource");
    }
}

/// Makes `podCIDR` and `podCIDRs` agree. A `podCIDR` that differs from the first element replaces the list, because older clients do not
/// write the list.
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

/// Validates a new node, or the new state of `old`.
///
/// `podCIDRs` and `providerID` can be set once, usually by a controller. A node has at most one CIDR per IP family.
fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let all: Vec<&str> = ranges(new).collect();
    for (index, range) in all.iter().enumerate() {
        if let Err(why) = family(range) {
            errors.push(FieldError::invalid(format!("spec.podCIDRs[{index}]"), &quote(range), why));
        }
    }
    let families: Vec<bool> = all.iter().filter_map(|range| family(range).ok()).collect();
    if all.len() > 1 && (all.len() > 2 || families.len() < 2 || families[0] == families[1]) {
        let shown = json!(all).to_string();
        let why = "may specify no more than one CIDR for each IP family";
        errors.push(FieldError::invalid("spec.podCIDRs", &shown, why));
    }
    errors.extend(taints(new));
    let Some(old) = old else {
        return errors;
    };
    // kube-apiserver validates the taints of an update twice, and reports both results.
    errors.extend(taints(new));
    let before: Vec<&str> = ranges(old).collect();
    let why = "node updates may not change podCIDR except from \"\" to valid";
    if !before.is_empty() && before.len() != all.len() {
        errors.push(FieldError::forbidden("spec.podCIDRs", why));
    } else {
        let changed = before.iter().zip(&all).filter(|(before, after)| before != after);
        errors.extend(changed.map(|_| FieldError::forbidden("spec.podCIDRs", why)));
    }
    let provider = |node: &Value| node["spec"]["providerID"].as_str().unwrap_or_default().to_owned();
    if !provider(old).is_empty() && provider(old) != provider(new) {
        let why = "node updates may not change providerID except from \"\" to valid";
        errors.push(FieldError::forbidden("spec.providerID", why));
    }
    errors
}

/// Validates the taints, which are unique by key and effect.
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
            // The message shows the value as a Go struct.
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

/// Whether a CIDR is one of IPv6.
///
/// # Errors
/// The message for an invalid CIDR.
fn family(range: &str) -> Result<bool, &'static str> {
    const NO_RANGE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    let (address, length) = range.split_once('/').ok_or(NO_RANGE)?;
    let address: IpAddr = address.parse().map_err(|_| NO_RANGE)?;
    let (bits, size) = match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    // `parse` would accept a plus sign.
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let length = length.parse::<u32>().ok().filter(|length| is_number && *length <= size).ok_or(NO_RANGE)?;
    let beyond = size - length;
    if beyond > 0 && bits << (128 - beyond) != 0 {
        return Err("must not have bits set beyond the prefix length");
    }
    Ok(address.is_ipv6())
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
        let old = old.map(node);
        let errors: Vec<String> =
            validate(&node(new), old.as_ref()).iter().map(ToString::to_string).collect();
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
