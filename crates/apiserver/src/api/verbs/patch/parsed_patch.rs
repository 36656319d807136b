//! Reading of merge, JSON and strategic merge patches, and their application to objects.

use bytes::Bytes;
use kube_apimachinery::decode;
use kube_apimachinery::go;
use kube_apimachinery::patch::{self, OperationForm};
use kube_apimachinery::status::ApiError;
use serde_json::{Value, json};

use super::PatchType;
use crate::kind::registry::ServedKind;
use crate::request::query::FieldValidation;

/// A parsed patch, which can be applied to several states of an object.
pub(in crate::api::verbs) enum Patch {
    /// A JSON patch, the form in which it is decoded, and the errors of strict decoding.
    Json(Bytes, OperationForm, Vec<String>),
    /// A merge patch: its text and value, and the errors of strict decoding.
    Merge(Bytes, Value, Vec<String>),
    /// A strategic merge patch, and the errors of strict decoding.
    Strategic(Value, Vec<String>),
}

impl Patch {
    pub(in crate::api::verbs) fn read(
        kind: PatchType,
        bytes: &Bytes,
        validation: FieldValidation,
    ) -> Result<Self, ApiError> {
        let is_lenient = validation == FieldValidation::Ignore;
        if kind == PatchType::Json {
            return Ok(if is_lenient {
                Self::Json(bytes.clone(), OperationForm::Untyped, Vec::new())
            } else {
                Self::Json(bytes.clone(), OperationForm::Typed, patch::json_complaints(bytes))
            });
        }
        let malformed = || ApiError::bad_request("Invalid JSON Patch");
        let context = if kind == PatchType::Strategic { "" } else { "error decoding patch: " };
        let mut decoded = decode::json(bytes).map_err(|why| match kind {
            PatchType::Merge if is_lenient => malformed(),
            _ => ApiError::bad_request(format!("{context}{why}")),
        })?;
        if decoded.value.is_null() {
            if kind == PatchType::Merge {
                return Err(malformed());
            }
            // Go merges null like an empty map.
            decoded.value = json!({});
        }
        if kind == PatchType::Merge && is_lenient {
            // The library of merge patches lets a list replace the object.
            return match decoded.value {
                Value::Object(_) | Value::Array(_) => {
                    Ok(Self::Merge(bytes.clone(), decoded.value, Vec::new()))
                }
                _ => Err(malformed()),
            };
        }
        if !decoded.value.is_object() {
            return Err(ApiError::bad_request(format!(
                "{context}json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                go::json_type(&decoded.value)
            )));
        }
        Ok(match kind {
            PatchType::Strategic => {
                // Go merges decoded values here. The other kinds of patch keep numbers as they were sent.
                decode::normalize_numbers(&mut decoded.value);
                Self::Strategic(decoded.value, decoded.strict)
            }
            _ => Self::Merge(bytes.clone(), decoded.value, decoded.strict),
        })
    }

    /// Returns the patched object.
    pub(in crate::api::verbs) fn apply(&self, served: &ServedKind, old: &Value) -> Result<Value, ApiError> {
        match self {
            Self::Json(patch, form, _) => patch::json(old, patch, *form),
            Self::Merge(_, patch, _) => {
                // A list replaces the object, without the nulls in it.
                let mut new = if patch.is_array() { Value::Null } else { old.clone() };
                patch::merge(&mut new, patch);
                Ok(new)
            }
            Self::Strategic(patch, _) => patch::strategic(&served.schema, old, patch),
        }
    }

    pub(super) fn strict(&self) -> Vec<String> {
        match self {
            Self::Json(_, _, strict) | Self::Merge(_, _, strict) | Self::Strategic(_, strict) => {
                strict.clone()
            }
        }
    }

    /// Returns the body, from which later errors quote numbers.
    pub(super) fn sent(&self) -> &[u8] {
        match self {
            Self::Json(sent, ..) | Self::Merge(sent, ..) => sent,
            Self::Strategic(..) => &[],
        }
    }
}
