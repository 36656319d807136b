//! EndpointSlices.

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::discouraged;
use super::shared::fields::{elements, list, set_pointer, text};
use super::shared::immutable_fields::immutable;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::check_update;

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
