//! Validation of ResourceSlices, in which drivers publish devices. Mappings to node resources are not validated: their feature gate is off
//! by default.

use kube_apimachinery::go_struct::internal_text;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::capacity_rules;
use super::device_rules::{items, label, qualified_name, set, validate_bindings, validate_taint};
use crate::kinds::builtin::shared::field_checks::{
    csi_driver, invalid_text, required, too_long, too_many as too_many_items,
};
use crate::kinds::builtin::shared::fields::{list, text};
use crate::kinds::builtin::shared::immutable_fields::immutable;
use crate::kinds::builtin::shared::label_selector::invalid;
use crate::kinds::builtin::shared::pod_spec;

const MAX_DEVICES: usize = 128;
/// Maximum number of devices if any of them has taints, consumes counters or has an attribute with a list. Such devices need more space.
const MAX_ADVANCED_DEVICES: usize = 64;
const MAX_COUNTER_SETS: usize = 8;
/// Maximum number of counters in a set, and of counters that a device consumes from one set.
const MAX_COUNTERS: usize = 32;
/// Maximum number of attributes and capacities of a device together. The next constant limits the values of its attributes.
const MAX_PROPERTIES: usize = 32;
const MAX_VALUES: usize = 48;
const MAX_CONSUMPTIONS: usize = 2;
const MAX_TAINTS: usize = 16;
/// Maximum length of a text in an attribute.
const MAX_TEXT: usize = 64;
/// Fields of an attribute whose value is a list.
pub(super) const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];

/// Validates the spec of a slice. `old` is the spec before an update.
pub(super) fn validate(spec: &Value, old: Option<&Value>) -> Vec<FieldError> {
    const PATH: &str = "spec";
    let mut errors = csi_driver(text(spec, "driver"), "spec.driver");
    errors.extend(validate_pool(&spec["pool"], "spec.pool"));
    if let Some(old) = old {
        // A slice belongs to one driver, one pool and at most one node for its whole life.
        errors.extend(immutable("spec.pool", &old["pool"], &spec["pool"], &["name"]));
        errors.extend(immutable(PATH, old, spec, &["driver", "nodeName"]));
    }
    errors.extend(validate_nodes(spec));
    let (devices, counters) = (list(spec, "devices"), list(spec, "sharedCounters"));
    // A pool publishes its counters and its devices in different slices.
    if !spec["devices"].is_null() && !spec["sharedCounters"].is_null() {
        let why = "only one of `sharedCounters` or `devices` is allowed";
        errors.push(invalid_text(PATH, "", why));
    }
    let is_advanced = |device: &Value| {
        !list(device, "taints").is_empty()
            || !list(device, "consumesCounters").is_empty()
            || has_lists(device)
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
        errors.extend(validate_counters(counters, path));
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
    let mut errors = pool_name(text(pool, "name"), &format!("{path}.name"));
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

/// Validates the name of a pool: one or more DNS subdomains, separated by slashes.
pub(super) fn pool_name(name: &str, field: &str) -> Vec<FieldError> {
    const MAX_NAME: usize = 253;
    if name.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let mut errors = Vec::new();
    if name.len() > MAX_NAME {
        errors.push(too_long(field, MAX_NAME));
    }
    errors.extend(name.split('/').flat_map(|part| invalid(field, part, &names::subdomain(part))));
    errors
}

/// Validates the selection of the nodes that have the devices of a slice.
fn validate_nodes(spec: &Value) -> Vec<FieldError> {
    const ONE: &str =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let (mut given, mut errors) = (Vec::new(), Vec::new());
    match spec["nodeName"].as_str() {
        None => {}
        // The empty name does not count as a selection in kube-apiserver, so the error about a missing one may follow.
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
        // The allocator merges the selectors of several devices into one term.
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
    let fields = |field: &str| device[field].as_object().into_iter().flatten();
    let properties = fields("attributes").count() + fields("capacity").count();
    let mut too_many = |count: usize, max: usize, what: &str| {
        if count > max {
            let why = format!("the total number of {what} must not exceed {max}");
            errors.push(FieldError::invalid(path, &count.to_string(), &why));
        }
    };
    too_many(properties, MAX_PROPERTIES, "attributes and capacities");
    too_many(fields("attributes").map(|(_, value)| values(value)).sum(), MAX_VALUES, "attribute values");
    for (name, value) in fields("attributes") {
        errors.extend(qualified_name(name, &place("attributes")));
        errors.extend(validate_attribute(value, &format!("{path}.attributes[{name}]")));
    }
    for (name, capacity) in fields("capacity") {
        errors.extend(qualified_name(name, &place("capacity")));
        let is_shared = device["allowMultipleAllocations"] == true;
        errors.extend(capacity_rules::validate(capacity, is_shared, &format!("{path}.capacity[{name}]")));
    }
    // As in kube-apiserver, unchanged taints are not validated again.
    if old.is_none_or(|old| old["taints"] != device["taints"]) {
        errors.extend(items(list(device, "taints"), MAX_TAINTS, &place("taints"), validate_taint));
    }
    let consumption = |consumption: &Value, path: &str| {
        let mut errors = match required(consumption, "counterSet", path) {
            Some(error) => vec![error],
            None => label(consumption, "counterSet", path),
        };
        errors.extend(validate_counters(consumption, path));
        errors
    };
    errors.extend(set(
        list(device, "consumesCounters"),
        MAX_CONSUMPTIONS,
        &place("consumesCounters"),
        |consumption| text(consumption, "counterSet"),
        consumption,
    ));
    // The slice leaves the selection of nodes to its devices.
    if *per_device == true {
        errors.extend(validate_nodes_of_device(device, path));
    } else if ["nodeName", "nodeSelector", "allNodes"].iter().any(|field| !device[*field].is_null()) {
        let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the \
                   ResourceSlice spec";
        // kube-apiserver passes nil as the value.
        errors.push(FieldError::invalid(path, "null", why));
    }
    errors.extend(validate_bindings(device, path));
    errors
}

/// Validates the selection of the nodes that have a device.
fn validate_nodes_of_device(device: &Value, path: &str) -> Vec<FieldError> {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to \
                       true in the ResourceSlice spec";
    let (mut given, mut errors) = (Vec::new(), Vec::new());
    let field = format!("{path}.nodeName");
    match device["nodeName"].as_str() {
        None => {}
        Some("") => errors.push(invalid_text(field, "", "must not be empty")),
        Some(name) => {
            given.push("`nodeName`");
            errors.extend(invalid(&field, name, &names::subdomain(name)));
        }
    }
    if !device["nodeSelector"].is_null() {
        given.push("`nodeSelector`");
        // Unlike for a whole slice, kube-apiserver does not check that there is exactly one term.
        errors.extend(pod_spec::node_selector(&device["nodeSelector"], &format!("{path}.nodeSelector")));
    }
    match device["allNodes"].as_bool() {
        None => {}
        Some(true) => given.push("`allNodes`"),
        Some(false) => {
            let why = "must be either unset or set to true";
            errors.push(FieldError::invalid(format!("{path}.allNodes"), "false", why));
        }
    }
    match given.as_slice() {
        [] => errors.push(FieldError::required(path, ONE)),
        [_] => {}
        several => errors.push(invalid_text(path, &format!("{{{}}}", several.join(", ")), ONE)),
    }
    errors
}

/// Checks that there is at least one counter, and validates the names.
fn validate_counters(object: &Value, path: &str) -> Vec<FieldError> {
    let path = format!("{path}.counters");
    let counters = object["counters"].as_object().filter(|counters| !counters.is_empty());
    match counters {
        None => vec![FieldError::required(path, "")],
        Some(counters) if counters.len() > MAX_COUNTERS => {
            vec![too_many_items(path, counters.len(), MAX_COUNTERS)]
        }
        Some(counters) => {
            counters.keys().flat_map(|name| invalid(&path, name, &names::label(name))).collect()
        }
    }
}

/// Whether a device has an attribute with a list.
pub(super) fn has_lists(device: &Value) -> bool {
    let mut attributes = device["attributes"].as_object().into_iter().flat_map(serde_json::Map::values);
    attributes.any(|attribute| LISTS.iter().any(|list| !attribute[*list].is_null()))
}

/// Returns the number of values of an attribute; a scalar counts as one.
fn values(attribute: &Value) -> usize {
    let count = LISTS.iter().map(|field| list(attribute, field).len()).sum();
    if count == 0 { 1 } else { count }
}

/// Checks that an attribute has exactly one value, and validates the value.
fn validate_attribute(attribute: &Value, path: &str) -> Vec<FieldError> {
    const WHY: &str = "exactly one value must be specified";
    let mut errors = Vec::new();
    for (field, value) in ["string", "version"].map(|field| (field, attribute[field].as_str())) {
        if let Some(value) = value {
            errors.extend(validate_text(value, field == "version", &format!("{path}.{field}")));
        }
    }
    for field in LISTS {
        let path = format!("{path}.{field}");
        if attribute[field].as_array().is_some_and(Vec::is_empty) {
            errors.push(FieldError::invalid(&*path, "[]", "must not be empty if specified"));
        }
        for (index, value) in list(attribute, field).iter().enumerate() {
            if let Some(value) = value.as_str() {
                errors.extend(validate_text(value, field == "versions", &format!("{path}[{index}]")));
            }
        }
    }
    match attribute.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()).count() {
        0 => errors.push(invalid_text(path, "", WHY)),
        1 => {}
        _ => {
            let shown = internal_text("resource.DeviceAttribute", attribute);
            errors.push(FieldError::invalid(path, &shown, WHY));
        }
    }
    errors
}

/// Validates a text in an attribute. Versions have a form of their own.
fn validate_text(value: &str, is_version: bool, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if is_version && !is_semantic_version(value) {
        errors.push(invalid_text(path, value, "must be a string compatible with semver.org spec 2.0.0"));
    }
    if value.len() > MAX_TEXT {
        errors.push(too_long(path, MAX_TEXT));
    }
    errors
}

/// Whether a text is a semantic version such as `1.2.3-rc.1+build`.
fn is_semantic_version(text: &str) -> bool {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (core, release) = text.split_once('-').map_or((text, None), |(core, release)| (core, Some(release)));
    // Numbers of a semantic version have no leading zeros; neither have numeric parts of a pre-release.
    let is_number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let is_word = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let is_release =
        |part: &str| is_word(part) && (is_number(part) || part.bytes().any(|byte| !byte.is_ascii_digit()));
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && release.is_none_or(|release| release.split('.').all(is_release))
        && build.is_none_or(|build| build.split('.').all(is_word))
}
