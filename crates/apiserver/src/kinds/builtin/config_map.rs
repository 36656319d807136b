//! ConfigMaps.

use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::builtin_kind::BuiltinKind;
use super::shared::immutable_fields::immutable_data;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct ConfigMap;

impl BuiltinKind for ConfigMap {
    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        old.map(|old| immutable_data(old, new)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::kinds::builtin::test_helpers::check;

    #[test]
    fn immutable_data_stays() {
        let old = json!({"data": {"k": "v"}, "immutable": true});
        check("ConfigMap", &json!({"data": {"k": "v"}, "immutable": true}), Some(&old), &[]);
        check(
            "ConfigMap",
            &json!({"data": {"k": "w"}}),
            Some(&old),
            &[
                "immutable: Forbidden: field is immutable when `immutable` is set",
                "data: Forbidden: field is immutable when `immutable` is set",
            ],
        );
    }
}
