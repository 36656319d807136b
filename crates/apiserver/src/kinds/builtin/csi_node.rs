//! CSINodes.

use std::collections::BTreeSet;

use kube_apimachinery::go_struct::internal_text;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::builtin_kind::BuiltinKind;
use super::shared::field_checks::{csi_driver, duplicate, invalid_text, not_negative};
use super::shared::fields::{list, text};
use super::shared::immutable_fields::IMMUTABLE;
use super::shared::label_selector::invalid;
use crate::kind::resource::Resource;

/// Maximum length of `nodeID`, a driver's own name of the node.
const MAX_NODE: usize = 256;

#[derive(Debug)]
pub(super) struct CSINode;

impl BuiltinKind for CSINode {
    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut drivers = BTreeSet::new();
        let mut errors = Vec::new();
        for (index, driver) in list(&new["spec"], "drivers").iter().enumerate() {
            let path = format!("spec.drivers[{index}]");
            let (name, field) = (text(driver, "name"), format!("{path}.name"));
            errors.extend(csi_driver(name, &field));
            let (node, place) = (text(driver, "nodeID"), format!("{path}.nodeID"));
            if node.is_empty() {
                errors.push(FieldError::required(place, ""));
            } else if node.len() > MAX_NODE {
                errors.push(invalid_text(place, node, &format!("must be {MAX_NODE} characters or less")));
            }
            errors.extend(not_negative(&driver["allocatable"], "count", &format!("{path}.allocatable")));
            if !drivers.insert(name) {
                errors.push(duplicate(field, name));
            }
            // kube-apiserver reports errors of topology keys at the path of their driver.
            let mut keys = BTreeSet::new();
            for key in list(driver, "topologyKeys") {
                let key = key.as_str().unwrap_or_default();
                if key.is_empty() {
                    errors.push(FieldError::required(&*path, ""));
                }
                if !keys.insert(key) {
                    errors.push(duplicate(&*path, key));
                }
                errors.extend(invalid(&path, key, &names::qualified(key)));
            }
        }
        errors.extend(old.into_iter().flat_map(|old| changed_drivers(&old["spec"], &new["spec"])));
        errors
    }
}

/// Returns an error for each driver that differs from the old driver of the same name. `allocatable` may change.
fn changed_drivers(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for before in list(old, "drivers") {
        let same_name = list(new, "drivers").iter().filter(|driver| driver["name"] == before["name"]);
        for driver in same_name {
            let keys = list(driver, "topologyKeys");
            if driver["nodeID"] != before["nodeID"] || keys != list(before, "topologyKeys") {
                let mut shown = driver.clone();
                // kube-apiserver clears the field before the comparison, and shows the result.
                shown["allocatable"] = Value::Null;
                let shown = internal_text("storage.CSINodeDriver", &shown);
                errors.push(FieldError::invalid("spec.drivers", &shown, IMMUTABLE));
            }
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::kinds::builtin::test_helpers::check;

    /// Texts of kube-apiserver v1.36.3, observed or read in its source.
    #[test]
    fn drivers_know_the_node() {
        check(
            "CSINode",
            &json!({"spec": {"drivers": [
                {"name": "a", "nodeID": ""}, {"name": "b", "nodeID": "x", "topologyKeys": ["a", "a"], "allocatable": {"count": -1}},
            ]}}),
            None,
            &[
                "spec.drivers[0].nodeID: Required value",
                "spec.drivers[1].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
                "spec.drivers[1]: Duplicate value: \"a\"",
            ],
        );
    }
}
