//! EndpointSlices.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kube_apimachinery::metadata;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::discouraged;
use super::shared::domain_checks::{canonical_address, full_domain};
use super::shared::field_checks::{address, duplicate, invalid_text, reachable_address, supported, too_many};
use super::shared::fields::{elements, list, set_pointer, text};
use super::shared::immutable_fields::immutable;
use super::shared::label_selector::invalid;
use crate::kind::WriteContext;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct EndpointSlice;

impl BuiltinKind for EndpointSlice {
    fn default(&self, object: &mut Value) {
        for port in elements(object, "ports") {
            // An absent name becomes the empty one: the port is then the only one of its slice, or a duplicate.
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
        // kube-apiserver compares the states before it drops the topology, so a write of the topology alone raises the generation. The
        // caller has already counted every other change.
        if drop_topology(new) && !differ(old, new) {
            metadata::raise_generation(new);
        }
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = match required_type(new) {
            Some(error) => vec![error],
            None => Vec::new(),
        };
        errors.extend(validate_ports(new));
        // Unchanged endpoints are not checked again, because older servers accepted some that are invalid now.
        if old.is_none_or(|old| old["endpoints"] != new["endpoints"]) {
            errors.extend(validate_endpoints(new));
        }
        errors.extend(old.into_iter().flat_map(|old| immutable("", old, new, &["addressType"])));
        errors
    }

    fn warnings(&self, _resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() && object["addressType"] == "FQDN" {
            // kube-apiserver's path has `spec`, which the object lacks.
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

fn required_type(slice: &Value) -> Option<FieldError> {
    const TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
    match text(slice, "addressType") {
        "" => Some(FieldError::required("addressType", "")),
        given if TYPES.contains(&given) => None,
        given => Some(FieldError::not_supported("addressType", given, &TYPES)),
    }
}

fn validate_ports(slice: &Value) -> Vec<FieldError> {
    const MAX_PORTS: usize = 20_000;
    let ports = list(slice, "ports");
    if ports.len() > MAX_PORTS {
        return vec![too_many("ports", ports.len(), MAX_PORTS)];
    }
    let mut seen = BTreeSet::new();
    let mut errors = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let path = format!("ports[{index}]");
        let (name, field) = (text(port, "name"), format!("{path}.name"));
        if !name.is_empty() {
            errors.extend(invalid(&field, name, &names::label(name)));
        }
        if !seen.insert(name) {
            errors.push(duplicate(field, name));
        }
        // kube-apiserver does not check the number of the port.
        errors.extend(supported(port, "protocol", &path, &["SCTP", "TCP", "UDP"]));
        if let Some(protocol) = port["appProtocol"].as_str() {
            errors.extend(invalid(&format!("{path}.appProtocol"), protocol, &names::qualified(protocol)));
        }
    }
    errors
}

fn validate_endpoints(slice: &Value) -> Vec<FieldError> {
    const MAX_ENDPOINTS: usize = 1000;
    const MAX_ADDRESSES: usize = 100;
    let endpoints = list(slice, "endpoints");
    if endpoints.len() > MAX_ENDPOINTS {
        return vec![too_many("endpoints", endpoints.len(), MAX_ENDPOINTS)];
    }
    let family = text(slice, "addressType");
    let mut errors = Vec::new();
    for (index, endpoint) in endpoints.iter().enumerate() {
        let path = format!("endpoints[{index}]");
        let field = format!("{path}.addresses");
        let addresses = list(endpoint, "addresses");
        if addresses.is_empty() {
            errors.push(FieldError::required(&*field, "must contain at least 1 address"));
        } else if addresses.len() > MAX_ADDRESSES {
            errors.push(too_many(&*field, addresses.len(), MAX_ADDRESSES));
        }
        for (index, given) in addresses.iter().enumerate() {
            let (given, place) = (given.as_str().unwrap_or_default(), format!("{field}[{index}]"));
            let wrong = match family {
                "IPv4" => address(given, &place),
                "IPv6" => canonical_address(given, &place),
                "FQDN" => {
                    errors.extend(full_domain(given, &place));
                    continue;
                }
                // `required_type` reports an unknown type.
                _ => continue,
            };
            if let Some(error) = wrong {
                errors.push(error);
                continue;
            }
            if given.contains(':') != (family == "IPv6") {
                // kube-apiserver's path lacks the index.
                errors.push(invalid_text(&*field, given, &format!("must be an {family} address")));
            }
            // Deviation: kube-apiserver refuses loopback addresses. Webhooks and services of tests listen on them.
            let is_loopback = given.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
            if !is_loopback {
                errors.extend(reachable_address(given, &place));
            }
        }
        if let Some(node) = endpoint["nodeName"].as_str() {
            errors.extend(invalid(&format!("{path}.nodeName"), node, &names::subdomain(node)));
        }
        if let Some(host) = endpoint["hostname"].as_str() {
            errors.extend(invalid(&format!("{path}.hostname"), host, &names::label(host)));
        }
        errors.extend(validate_hints(&endpoint["hints"], &format!("{path}.hints")));
    }
    errors
}

/// Validates the hints about zones and nodes that should use an endpoint.
fn validate_hints(hints: &Value, path: &str) -> Vec<FieldError> {
    const MAX: usize = 8;
    let checks =
        [("forZones", names::label_value as fn(&str) -> Vec<String>), ("forNodes", names::subdomain)];
    let mut errors = Vec::new();
    for (field, wrong) in checks {
        let (targets, path) = (list(hints, field), format!("{path}.{field}"));
        if targets.len() > MAX {
            // Too many zones end the validation in kube-apiserver, so the nodes are not checked either.
            errors.push(too_many(path, targets.len(), MAX));
            return errors;
        }
        let mut seen = BTreeSet::new();
        for (index, target) in targets.iter().enumerate() {
            let (name, field) = (text(target, "name"), format!("{path}[{index}].name"));
            if !seen.insert(name) {
                errors.push(duplicate(&*field, name));
            }
            errors.extend(invalid(&field, name, &wrong(name)));
        }
    }
    errors
}

/// Removes `deprecatedTopology`, which v1 keeps only for slices that v1beta1 wrote. Returns whether there was any.
fn drop_topology(object: &mut Value) -> bool {
    let endpoints = elements(object, "endpoints").filter_map(Value::as_object_mut);
    endpoints.filter_map(|endpoint| endpoint.remove("deprecatedTopology")).count() > 0
}

/// Whether the states differ in labels or contents, which raises the generation.
fn differ(old: &Value, new: &Value) -> bool {
    old["metadata"]["labels"] != new["metadata"]["labels"]
        || ["addressType", "endpoints", "ports"].iter().any(|field| old[*field] != new[*field])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::{check, check_update, prepare_create, prepare_update};

    /// Texts of kube-apiserver v1.36.3, observed or read in its source.
    #[test]
    fn addresses_belong_to_the_family() {
        check("EndpointSlice", &json!({}), None, &["addressType: Required value"]);
        check(
            "EndpointSlice",
            &json!({"addressType": "IPv4", "endpoints": [{"addresses": ["fe80::1", "127.0.0.1"]}, {}], "ports": [{"name": "a"}, {"name": "a"}]}),
            None,
            &[
                "ports[1].name: Duplicate value: \"a\"",
                "endpoints[0].addresses: Invalid value: \"fe80::1\": must be an IPv4 address",
                "endpoints[0].addresses[0]: Invalid value: \"fe80::1\": may not be in the link-local range (169.254.0.0/16, fe80::/10)",
                "endpoints[1].addresses: Required value: must contain at least 1 address",
            ],
        );
        check(
            "EndpointSlice",
            &json!({"addressType": "Bogus"}),
            None,
            &["addressType: Unsupported value: \"Bogus\": supported values: \"FQDN\", \"IPv4\", \"IPv6\""],
        );
    }

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
