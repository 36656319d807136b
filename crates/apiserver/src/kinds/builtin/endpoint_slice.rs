//! EndpointSlices.

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{elements, set};
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
            set(port, "protocol", json!("TCP"));
        }
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        old.map(|old| immutable("", old, new, &["addressType"])).unwrap_or_default()
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
