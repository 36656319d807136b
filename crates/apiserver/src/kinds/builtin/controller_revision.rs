//! ControllerRevisions. Their data never changes.

use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::builtin_kind::BuiltinKind;
use super::shared::immutable_fields::IMMUTABLE;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct ControllerRevision;

impl BuiltinKind for ControllerRevision {
    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(number) = new["revision"].as_i64().filter(|number| *number < 0) {
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid("revision", &number.to_string(), why));
        }
        match old {
            None if new["data"].is_null() => {
                errors.push(FieldError::required("data", "data is mandatory"));
            }
            None if !new["data"].is_object() => {
                errors.push(FieldError::required("data", "data must be a valid JSON object"));
            }
            Some(old) if old["data"] != new["data"] || old["revision"] != new["revision"] => {
                errors.push(FieldError::invalid("data", &new["data"].to_string(), IMMUTABLE));
            }
            _ => {}
        }
        errors
    }
}
