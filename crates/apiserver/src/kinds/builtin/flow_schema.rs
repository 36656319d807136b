//! FlowSchemas.

use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::within;

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
}
