//! Endpoints.

use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::discouraged;
use super::shared::fields::{elements, list, set, text};
use crate::kind::resource::Resource;

/// Label with the name of the controller that writes the object.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

#[derive(Debug)]
pub(super) struct Endpoints;

impl BuiltinKind for Endpoints {
    fn default(&self, object: &mut Value) {
        for subset in elements(object, "subsets") {
            elements(subset, "ports").for_each(|port| set(port, "protocol", json!("TCP")));
        }
    }

    fn warnings(&self, _resource: &Resource, object: &Value, _old: Option<&Value>) -> Vec<String> {
        // kube-apiserver trusts the addresses of this controller.
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
