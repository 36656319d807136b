//! RuntimeClasses.

use kube_apimachinery::go::quote;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::builtin_kind::BuiltinKind;
use super::shared::discouraged;
use super::shared::fields::text;
use super::shared::immutable_fields::immutable;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct RuntimeClass;

impl BuiltinKind for RuntimeClass {
    fn warnings(&self, _resource: &Resource, class: &Value, _old: Option<&Value>) -> Vec<String> {
        let labels = class["scheduling"]["nodeSelector"].as_object().into_iter().flatten();
        let reasons = labels.filter_map(|(label, _)| discouraged::node_label(label));
        reasons.map(|why| format!("scheduling.nodeSelector: {why}")).collect()
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        match (old, text(new, "handler")) {
            (Some(old), _) => immutable("", old, new, &["handler"]),
            (None, "") => vec![FieldError::required("handler", "")],
            (None, handler) => {
                let wrong = names::label(handler);
                wrong.iter().map(|why| FieldError::invalid("handler", &quote(handler), why)).collect()
            }
        }
    }
}
