//! EndpointSlices.

use kube_apimachinery::metadata;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::discouraged;
use super::shared::fields::{elements, list, set_pointer, text};
use super::shared::immutable_fields::immutable;
use crate::kind::WriteContext;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct EndpointSlice;

impl BuiltinKind for EndpointSlice {
    fn default(&self, object: &mut Value) {
        for port in elements(object, "ports") {
            if port["name"].is_null() {
                port["name"] = json!("");
            }
            set_pointer(port, "protocol", json!("TCP"));
        }
    }

    fn prepare_create(&self, _context: &WriteContext<'_>, object: &mut Value) {
        drop_topology(object);
    }

    fn prepare_update(&self, _context: &WriteContext<'_>, old: &Value, new: &mut Value) {
        // kube-apiserver compares the states for the generation before it drops the topology.
        if drop_topology(new) && !differ(old, new) {
            metadata::raise_generation(new);
        }
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        old.map(|old| immutable("", old, new, &["addressType"])).unwrap_or_default()
    }

    fn warnings(&self, _resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() && object["addressType"] == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        // kube-apiserver trusts the addresses of its own controllers.
        let manager = text(&object["metadata"]["labels"], "endpointslice.kubernetes.io/managed-by");
        if ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"].contains(&manager)
        {
            return warnings;
        }
        for (index, endpoint) in list(object, "endpoints").iter().enumerate() {
            for (number, address) in list(endpoint, "addresses").iter().enumerate() {
                let path = format!("endpoints[{index}].addresses[{number}]");
                warnings.extend(discouraged::address(address.as_str().unwrap_or_default(), &path));
            }
        }
        warnings
    }
}

/// Removes the topology of v1beta1, which cannot be written in v1. Returns whether there was any.
fn drop_topology(object: &mut Value) -> bool {
    let endpoints = elements(object, "endpoints").filter_map(Value::as_object_mut);
    endpoints.filter_map(|endpoint| endpoint.remove("deprecatedTopology")).count() > 0
}

/// Whether the states differ in labels or contents, which the generation counts.
fn differ(old: &Value, new: &Value) -> bool {
    old["metadata"]["labels"] != new["metadata"]["labels"]
        || ["addressType", "endpoints", "ports"].iter().any(|field| old[*field] != new[*field])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::{check_update, prepare_create, prepare_update};

    #[test]
    fn the_topology_of_v1beta1_is_not_stored() {
        let slice = |zone: &str, generation: i64| {
            json!({
                "metadata": {"name": "x", "generation": generation},
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {}, "zone": zone}],
                "ports": null,
            })
        };
        let with_topology = |mut slice: Value| {
            slice["endpoints"][0]["deprecatedTopology"] = json!({"kubernetes.io/hostname": "n"});
            slice
        };
        let mut created = with_topology(slice("a", 1));
        prepare_create("EndpointSlice", &mut created);
        assert_eq!(created, slice("a", 1));
        // A write of the topology alone counts as a change. Other changes are counted elsewhere.
        for (new, expected) in [
            (with_topology(slice("a", 1)), slice("a", 2)),
            (with_topology(slice("b", 1)), slice("b", 1)),
            (slice("a", 1), slice("a", 1)),
        ] {
            let mut prepared = new.clone();
            prepare_update("EndpointSlice", &slice("a", 1), &mut prepared);
            assert_eq!(prepared, expected, "{new}");
        }
    }

    #[test]
    fn the_address_type_is_immutable() {
        check_update(
            "EndpointSlice",
            &json!({"addressType": "IPv4"}),
            &json!({"addressType": "IPv6"}),
            &["addressType: Invalid value: \"IPv6\": field is immutable"],
        );
    }
}
