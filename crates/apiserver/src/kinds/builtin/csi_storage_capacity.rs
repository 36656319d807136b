//! CSIStorageCapacities.

use kube_apimachinery::names;
use kube_apimachinery::quantity::Quantity;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::builtin_kind::BuiltinKind;
use super::shared::discouraged::{self, TermUse};
use super::shared::field_checks::invalid_text;
use super::shared::fields::text;
use super::shared::immutable_fields::immutable;
use super::shared::label_selector::{self, invalid};
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct CSIStorageCapacity;

impl BuiltinKind for CSIStorageCapacity {
    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let class = text(new, "storageClassName");
        let mut errors = label_selector::validate(&new["nodeTopology"], "nodeTopology");
        errors.extend(invalid("storageClassName", class, &names::subdomain(class)));
        // Like kube-apiserver, this does not check `maximumVolumeSize`.
        let capacity = new["capacity"].as_str().and_then(Quantity::read);
        if let Some(amount) = capacity.filter(|amount| *amount < Quantity::ZERO) {
            errors.push(invalid_text("capacity", &amount.to_string(), "must be greater than or equal to 0"));
        }
        if let Some(old) = old {
            let field = "nodeTopology";
            errors.extend(label_selector::immutable(field, &old[field], &new[field]));
            errors.extend(immutable("", old, new, &["storageClassName"]));
        }
        errors
    }

    fn warnings(&self, _resource: &Resource, capacity: &Value, _old: Option<&Value>) -> Vec<String> {
        let selector = &capacity["nodeTopology"];
        let mut warnings = discouraged::node_selector_term(selector, TermUse::Required, "nodeTopology");
        for (label, _) in selector["matchLabels"].as_object().into_iter().flatten() {
            let why = discouraged::node_label(label);
            warnings.extend(why.map(|why| format!("nodeTopology.matchLabels.{label}: {why}")));
        }
        warnings
    }
}
