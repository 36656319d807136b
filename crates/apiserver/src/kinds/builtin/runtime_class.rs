//! RuntimeClasses.

use std::collections::BTreeSet;

use kube_apimachinery::go::quote;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::builtin_kind::BuiltinKind;
use super::shared::field_checks::labels;
use super::shared::fields::{list, text};
use super::shared::immutable_fields::immutable;
use super::shared::label_selector::invalid;
use super::shared::{discouraged, pod_spec};
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
        let mut errors = match text(new, "handler") {
            "" => vec![FieldError::required("handler", "")],
            handler => invalid("handler", handler, &names::label(handler)),
        };
        // kube-apiserver's paths have `limits` in place of `podFixed`.
        errors.extend(pod_spec::validate_limits(&new["overhead"]["podFixed"], "overhead"));
        let scheduling = &new["scheduling"];
        errors.extend(labels(&scheduling["nodeSelector"], "scheduling.nodeSelector"));
        let gated = pod_spec::GatedValues::default();
        errors.extend(pod_spec::validate_tolerations(scheduling, "scheduling", gated));
        errors.extend(repeated_tolerations(list(scheduling, "tolerations")));
        errors.extend(old.map(|old| immutable("", old, new, &["handler"])).unwrap_or_default());
        errors
    }
}

/// Checks that no toleration occurs twice. The comparison ignores `tolerationSeconds`.
fn repeated_tolerations(tolerations: &[Value]) -> Vec<FieldError> {
    const KEY: [&str; 4] = ["key", "operator", "value", "effect"];
    let key = |toleration: &Value| KEY.map(|field| text(toleration, field).to_owned());
    let mut seen = BTreeSet::new();
    let mut errors = Vec::new();
    for (index, toleration) in tolerations.iter().enumerate() {
        if !seen.insert(key(toleration)) {
            // The message shows the JSON of Go's internal struct.
            let [key, operator, value, effect] = key(toleration).map(|text| quote(&text));
            errors.push(FieldError {
                reason: "FieldValueDuplicate",
                field: format!("scheduling.tolerations[{index}]"),
                message: format!(
                    "Duplicate value: {{\"Key\":{key},\"Operator\":{operator},\"Value\":{value},\"Effect\":{effect},\
                     \"TolerationSeconds\":{}}}",
                    toleration["tolerationSeconds"]
                ),
            });
        }
    }
    errors
}
