//! Secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kube_apimachinery::status::FieldError;
use serde_json::{Map, Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::set;
use super::shared::immutable_fields::{immutable, immutable_data};
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct Secret;

impl BuiltinKind for Secret {
    /// Moves `stringData`, which is write-only, into `data`.
    fn default(&self, object: &mut Value) {
        set(object, "type", json!("Opaque"));
        let Some(fields) = object.as_object_mut() else {
            return;
        };
        let Some(Value::Object(plain)) = fields.remove("stringData") else {
            return;
        };
        if plain.is_empty() {
            return;
        }
        let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(data) = data {
            for (key, value) in plain {
                data.insert(key, json!(BASE64.encode(value.as_str().unwrap_or_default())));
            }
        }
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let Some(old) = old else {
            return Vec::new();
        };
        let mut errors = immutable("", old, new, &["type"]);
        errors.extend(immutable_data(old, new));
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::check;

    #[test]
    fn plain_text_becomes_data() {
        let mut object = json!({"data": {"a": "Yg==", "b": "Yg=="}, "stringData": {"a": "hunter2"}});
        Secret.default(&mut object);
        assert_eq!(object, json!({"data": {"a": "aHVudGVyMg==", "b": "Yg=="}, "type": "Opaque"}));
    }

    #[test]
    fn the_type_is_immutable() {
        check(
            "Secret",
            &json!({"type": "other"}),
            Some(&json!({"type": "Opaque"})),
            &["type: Invalid value: \"other\": field is immutable"],
        );
    }
}
