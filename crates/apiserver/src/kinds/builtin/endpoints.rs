//! Endpoints.

use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{elements, set};

#[derive(Debug)]
pub(super) struct Endpoints;

impl BuiltinKind for Endpoints {
    fn default(&self, object: &mut Value) {
        for subset in elements(object, "subsets") {
            elements(subset, "ports").for_each(|port| set(port, "protocol", json!("TCP")));
        }
    }

    fn deprecation(&self) -> Option<&'static str> {
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    }
}
