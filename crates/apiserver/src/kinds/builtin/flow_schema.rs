//! FlowSchemas.

use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::within;
use crate::kind::WHOLE_METADATA;

#[derive(Debug)]
pub(super) struct FlowSchema;

impl BuiltinKind for FlowSchema {
    fn default(&self, schema: &mut Value) {
        within(schema, "spec", |spec| {
            if spec["matchingPrecedence"].as_i64().unwrap_or(0) == 0 {
                spec["matchingPrecedence"] = json!(1000);
            }
        });
    }

    fn status_keeps(&self) -> &'static [&'static str] {
        &WHOLE_METADATA
    }

    fn resets(&self, subresource: &str) -> Option<&'static [&'static str]> {
        (subresource == "status").then_some(&["metadata", "spec"])
    }
}
