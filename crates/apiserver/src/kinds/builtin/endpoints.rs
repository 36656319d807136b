//! Endpoints.

use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::discouraged;
use super::shared::field_checks::{address, invalid_text, port_number, reachable_address, supported};
use super::shared::fields::{elements, list, set, text};
use super::shared::label_selector::invalid;
use crate::kind::resource::Resource;

/// Label that names the controller that writes the object.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

#[derive(Debug)]
pub(super) struct Endpoints;

impl BuiltinKind for Endpoints {
    fn default(&self, object: &mut Value) {
        for subset in elements(object, "subsets") {
            elements(subset, "ports").for_each(|port| set(port, "protocol", json!("TCP")));
        }
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        // Unchanged subsets are not checked again, because older servers accepted some that are invalid now.
        if old.is_some_and(|old| old["subsets"] == new["subsets"]) {
            return Vec::new();
        }
        let subsets = list(new, "subsets").iter().enumerate();
        subsets.flat_map(|(index, subset)| validate_subset(subset, &format!("subsets[{index}]"))).collect()
    }

    fn warnings(&self, _resource: &Resource, object: &Value, _old: Option<&Value>) -> Vec<String> {
        // kube-apiserver trusts the addresses of its own controller.
        if object["metadata"]["labels"][MANAGED_BY] == "endpoint-controller" {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        for (index, subset) in list(object, "subsets").iter().enumerate() {
            for field in ["addresses", "notReadyAddresses"] {
                for (number, given) in list(subset, field).iter().enumerate() {
                    let path = format!("subsets[{index}].{field}[{number}].ip");
                    warnings.extend(discouraged::address(text(given, "ip"), &path));
                }
            }
        }
        warnings
    }

    fn deprecation(&self) -> Option<&'static str> {
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    }
}

fn validate_subset(subset: &Value, path: &str) -> Vec<FieldError> {
    const LISTS: [&str; 2] = ["addresses", "notReadyAddresses"];
    let mut errors = Vec::new();
    if LISTS.iter().all(|field| list(subset, field).is_empty()) {
        errors.push(FieldError::required(path, "must specify `addresses` or `notReadyAddresses`"));
    }
    for field in LISTS {
        for (index, given) in list(subset, field).iter().enumerate() {
            let path = format!("{path}.{field}[{index}]");
            let (ip, place) = (text(given, "ip"), format!("{path}.ip"));
            let wrong = address(ip, &place);
            let is_address = names::lenient_address(ip).is_some();
            errors.extend(wrong);
            let host = text(given, "hostname");
            if !host.is_empty() {
                errors.extend(invalid(&format!("{path}.hostname"), host, &names::label(host)));
            }
            if let Some(node) = given["nodeName"].as_str() {
                errors.extend(invalid(&format!("{path}.nodeName"), node, &names::subdomain(node)));
            }
            if is_address {
                errors.extend(reachable_address(ip, &place));
            } else {
                // kube-apiserver parses the address again before it checks the range, and reports the failure again.
                errors.push(invalid_text(place, ip, "must be a valid IP address"));
            }
        }
    }
    let ports = list(subset, "ports");
    for (index, port) in ports.iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        let name = text(port, "name");
        if !name.is_empty() {
            errors.extend(invalid(&format!("{path}.name"), name, &names::label(name)));
        } else if ports.len() > 1 {
            // A single port may lack a name. Each of several ports needs one.
            errors.push(FieldError::required(format!("{path}.name"), ""));
        }
        errors.extend(port_number(port["port"].as_i64().unwrap_or_default(), format!("{path}.port")));
        errors.extend(supported(port, "protocol", &path, &["SCTP", "TCP", "UDP"]));
        if let Some(protocol) = port["appProtocol"].as_str() {
            errors.extend(invalid(&format!("{path}.appProtocol"), protocol, &names::qualified(protocol)));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use crate::kinds::builtin::test_helpers::check;

    use super::*;

    /// Texts of kube-apiserver v1.36.3, observed or read in its source.
    #[test]
    fn addresses_and_ports_are_valid() {
        check(
            "Endpoints",
            &json!({"subsets": [
                {"addresses": [{"ip": "bad"}], "ports": [{"port": 0}]}, {}, {"addresses": [{"ip": "127.0.0.1"}]},
            ]}),
            None,
            &[
                "subsets[0].addresses[0].ip: Invalid value: \"bad\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                "subsets[0].addresses[0].ip: Invalid value: \"bad\": must be a valid IP address",
                "subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "subsets[1]: Required value: must specify `addresses` or `notReadyAddresses`",
                "subsets[2].addresses[0].ip: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
            ],
        );
    }
}
