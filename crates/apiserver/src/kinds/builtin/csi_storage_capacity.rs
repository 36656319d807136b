//! CSIStorageCapacities.

use serde_json::Value;

use super::builtin_kind::BuiltinKind;
use super::shared::discouraged;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct CSIStorageCapacity;

impl BuiltinKind for CSIStorageCapacity {
    fn warnings(&self, _resource: &Resource, capacity: &Value, _old: Option<&Value>) -> Vec<String> {
        let selector = &capacity["nodeTopology"];
        let mut warnings = discouraged::node_selector_term(selector, false, "nodeTopology");
        for (label, _) in selector["matchLabels"].as_object().into_iter().flatten() {
            let why = discouraged::node_label(label);
            warnings.extend(why.map(|why| format!("nodeTopology.matchLabels.{label}: {why}")));
        }
        warnings
    }
}
