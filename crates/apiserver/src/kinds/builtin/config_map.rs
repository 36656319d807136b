//! ConfigMaps.

use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::builtin_kind::BuiltinKind;
use super::shared::field_checks::{MAX_DATA, data_key, decoded_length, invalid_text, too_long};
use super::shared::immutable_fields::immutable_data;
use super::shared::label_selector::invalid;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct ConfigMap;

impl BuiltinKind for ConfigMap {
    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = old.map(|old| immutable_data(old, new)).unwrap_or_default();
        errors.extend(validate(new));
        errors
    }

    fn compares_empty(&self) -> bool {
        true
    }
}

/// Validates the keys of `data` and `binaryData`, and their total size.
fn validate(map: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in map["data"].as_object().into_iter().flatten() {
        let field = format!("data[{key}]");
        errors.extend(invalid(&field, key, &data_key(key)));
        // The loop over `binaryData` does not look for duplicates, so each is reported once.
        if map["binaryData"].get(key).is_some() {
            errors.push(invalid_text(field, key, "duplicate of key present in binaryData"));
        }
        size += value.as_str().unwrap_or_default().len();
    }
    for (key, value) in map["binaryData"].as_object().into_iter().flatten() {
        errors.extend(invalid(&format!("binaryData[{key}]"), key, &data_key(key)));
        size += decoded_length(value);
    }
    if size > MAX_DATA {
        // Go reports the error at an empty path, which it prints as `[]`.
        errors.push(too_long("[]", MAX_DATA));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::kinds::builtin::test_helpers::check;

    #[test]
    fn keys_are_valid_in_both_maps_and_different() {
        const WHY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                           'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
        let map = json!({"data": {"": "v", "a": "v", "..": "v"}, "binaryData": {"a": "dg==", "a/b": "dg=="}});
        check(
            "ConfigMap",
            &map,
            None,
            &[
                &format!("data[]: Invalid value: \"\": {WHY}"),
                "data[..]: Invalid value: \"..\": must not be '..'",
                "data[a]: Invalid value: \"a\": duplicate of key present in binaryData",
                &format!("binaryData[a/b]: Invalid value: \"a/b\": {WHY}"),
            ],
        );
    }

    #[test]
    fn data_has_at_most_one_mebibyte() {
        let map = |size: usize| json!({"data": {"a": "x".repeat(size)}, "binaryData": {"b": "eHg="}});
        check("ConfigMap", &map((1 << 20) - 2), None, &[]);
        let why = "[]: Too long: may not be more than 1048576 bytes";
        check("ConfigMap", &map((1 << 20) - 1), None, &[why]);
        check("ConfigMap", &map(1 << 20), Some(&map(1)), &[why]);
    }

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
