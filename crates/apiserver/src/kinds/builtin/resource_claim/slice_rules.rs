//! Validation of ResourceSlices, in which drivers publish devices. Policies of capacities, binding conditions and mappings to resources of nodes
//! are not validated.

use kube_apimachinery::go_struct::internal_text;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::device_rules::{items, label, qualified_name, set, validate_taint};
use crate::kinds::builtin::shared::field_checks::{csi_driver, invalid_text, required, too_long};
use crate::kinds::builtin::shared::fields::{list, text};
use crate::kinds::builtin::shared::immutable_fields::immutable;
use crate::kinds::builtin::shared::label_selector::invalid;
use crate::kinds::builtin::shared::pod_spec;

const MAX_DEVICES: usize = 128;
/// Maximum number of devices if one of them has taints, uses counters or has lists as attributes.
const MAX_ADVANCED_DEVICES: usize = 64;
const MAX_COUNTER_SETS: usize = 8;
const MAX_CONSUMPTIONS: usize = 2;
const MAX_TAINTS: usize = 16;
/// Maximum length of the text of an attribute.
const MAX_TEXT: usize = 64;
/// Lists that an attribute can have as its value.
const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];

/// Validates the spec of a slice, or the new state of `old`.
pub(super) fn validate(spec: &Value, old: Option<&Value>) -> Vec<FieldError> {
    const PATH: &str = "spec";
    let mut errors = csi_driver(text(spec, "driver"), "spec.driver");
    errors.extend(validate_pool(&spec["pool"], "spec.pool"));
    if let Some(old) = old {
        errors.extend(immutable("spec.pool", &old["pool"], &spec["pool"], &["name"]));
        errors.extend(immutable(PATH, old, spec, &["driver", "nodeName"]));
    }
    errors.extend(validate_nodes(spec));
    let (devices, counters) = (list(spec, "devices"), list(spec, "sharedCounters"));
    if !devices.is_empty() && !counters.is_empty() {
        let why = "only one of `sharedCounters` or `devices` is allowed";
        errors.push(invalid_text(PATH, "", why));
    }
    let is_advanced = |device: &Value| {
        let attributes = device["attributes"].as_object().into_iter().flat_map(serde_json::Map::values);
        !list(device, "taints").is_empty()
            || !list(device, "consumesCounters").is_empty()
            || attributes.into_iter().any(|value| LISTS.iter().any(|list| !value[*list].is_null()))
    };
    let max = if devices.iter().any(is_advanced) { MAX_ADVANCED_DEVICES } else { MAX_DEVICES };
    let known = |name: &str| {
        let devices = old.map(|old| list(old, "devices")).unwrap_or_default();
        devices.iter().find(|device| text(device, "name") == name)
    };
    let device = |device: &Value, path: &str| {
        validate_device(device, known(text(device, "name")), path, &spec["perDeviceNodeSelection"])
    };
    errors.extend(set(devices, max, "spec.devices", |device| text(device, "name"), device));
    let counter_set = |counters: &Value, path: &str| {
        let mut errors = match required(counters, "name", path) {
            Some(error) => vec![error],
            None => label(counters, "name", path),
        };
        errors.extend(needs_counters(counters, path));
        errors
    };
    errors.extend(set(
        counters,
        MAX_COUNTER_SETS,
        "spec.sharedCounters",
        |counters| text(counters, "name"),
        counter_set,
    ));
    errors
}

fn validate_pool(pool: &Value, path: &str) -> Vec<FieldError> {
    const MAX_NAME: usize = 253;
    let (name, field) = (text(pool, "name"), format!("{path}.name"));
    let mut errors = Vec::new();
    if name.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else {
        if name.len() > MAX_NAME {
            errors.push(too_long(&*field, MAX_NAME));
        }
        errors.extend(name.split('/').flat_map(|part| invalid(&field, part, &names::subdomain(part))));
    }
    let number = |field: &str| pool[field].as_i64().unwrap_or_default();
    let mut refuse = |field: &str, why: &str| {
        errors.push(FieldError::invalid(format!("{path}.{field}"), &number(field).to_string(), why));
    };
    if number("resourceSliceCount") <= 0 {
        refuse("resourceSliceCount", "must be greater than zero");
    }
    if number("generation") < 0 {
        refuse("generation", "must be greater than or equal to zero");
    }
    errors
}

/// Validates which nodes have the devices of a slice.
fn validate_nodes(spec: &Value) -> Vec<FieldError> {
    const ONE: &str =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let (mut given, mut errors) = (Vec::new(), Vec::new());
    match spec["nodeName"].as_str() {
        None => {}
        Some("") => {
            let why = "must be either unset or set to a non-empty string";
            errors.push(invalid_text("spec.nodeName", "", why));
        }
        Some(name) => {
            given.push("`nodeName`");
            errors.extend(invalid("spec.nodeName", name, &names::subdomain(name)));
        }
    }
    let selector = &spec["nodeSelector"];
    if !selector.is_null() {
        const TERMS: &str = "spec.nodeSelector.nodeSelectorTerms";
        given.push("`nodeSelector`");
        errors.extend(pod_spec::node_selector(selector, "spec.nodeSelector"));
        if list(selector, "nodeSelectorTerms").len() != 1 {
            let shown = internal_text("[]core.NodeSelectorTerm", &selector["nodeSelectorTerms"]);
            errors.push(FieldError::invalid(TERMS, &shown, "must have exactly one node selector term"));
        }
    }
    for (field, name) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")]
    {
        match spec[field].as_bool() {
            None => {}
            Some(true) => given.push(name),
            Some(false) => {
                let why = "must be either unset or set to true";
                errors.push(FieldError::invalid(format!("spec.{field}"), "false", why));
            }
        }
    }
    match given.as_slice() {
        [] => errors.push(FieldError::required("spec", ONE)),
        [_] => {}
        several => {
            let shown = format!("{{{}}}", several.join(", "));
            errors.push(invalid_text("spec", &shown, &format!("{ONE}, but multiple fields are set")));
        }
    }
    errors
}

fn validate_device(device: &Value, old: Option<&Value>, path: &str, per_device: &Value) -> Vec<FieldError> {
    let mut errors = label(device, "name", path);
    let place = |field: &str| format!("{path}.{field}");
    for (name, value) in device["attributes"].as_object().into_iter().flatten() {
        errors.extend(validate_attribute(value, &format!("{path}.attributes[{name}]")));
        errors.extend(qualified_name(name, &place("attributes")));
    }
    for name in device["capacity"].as_object().into_iter().flat_map(serde_json::Map::keys) {
        errors.extend(qualified_name(name, &place("capacity")));
    }
    // Taints of older servers stay as they are.
    if old.is_none_or(|old| old["taints"] != device["taints"]) {
        errors.extend(items(list(device, "taints"), MAX_TAINTS, &place("taints"), validate_taint));
    }
    let consumption = |consumption: &Value, path: &str| {
        let mut errors = match required(consumption, "counterSet", path) {
            Some(error) => vec![error],
            None => label(consumption, "counterSet", path),
        };
        errors.extend(needs_counters(consumption, path));
        errors
    };
    errors.extend(set(
        list(device, "consumesCounters"),
        MAX_CONSUMPTIONS,
        &place("consumesCounters"),
        |consumption| text(consumption, "counterSet"),
        consumption,
    ));
    let names_nodes = ["nodeName", "nodeSelector", "allNodes"].iter().any(|field| !device[*field].is_null());
    if *per_device != true && names_nodes {
        let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the \
                   ResourceSlice spec";
        errors.push(FieldError::invalid(path, "null", why));
    } else if *per_device == true && !names_nodes {
        let why = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to \
                   true in the ResourceSlice spec";
        errors.push(FieldError::required(path, why));
    }
    errors
}

fn needs_counters(object: &Value, path: &str) -> Option<FieldError> {
    let has_counters = object["counters"].as_object().is_some_and(|counters| !counters.is_empty());
    (!has_counters).then(|| FieldError::required(format!("{path}.counters"), ""))
}

/// Validates that an attribute has one value.
fn validate_attribute(attribute: &Value, path: &str) -> Vec<FieldError> {
    const WHY: &str = "exactly one value must be specified";
    let mut errors = Vec::new();
    if text(attribute, "string").len() > MAX_TEXT {
        errors.push(too_long(format!("{path}.string"), MAX_TEXT));
    }
    let values = attribute.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()).count();
    if values == 0 {
        errors.push(invalid_text(path, "", WHY));
    }
    errors
}
