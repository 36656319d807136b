//! Secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kube_apimachinery::status::FieldError;
use kube_apimachinery::{decode, go};
use serde_json::{Map, Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::field_checks::{MAX_DATA, data_key, decoded_length, too_long};
use super::shared::fields::{set, text};
use super::shared::immutable_fields::{immutable, immutable_data};
use super::shared::label_selector::invalid;
use super::tls_key_pair;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct Secret;

impl BuiltinKind for Secret {
    /// Moves the write-only `stringData` into `data`, where it replaces values of the same keys.
    fn default(&self, object: &mut Value) {
        set(object, "type", json!("Opaque"));
        let Some(fields) = object.as_object_mut() else {
            return;
        };
        let Some(Value::Object(plain)) = fields.remove("stringData") else {
            return;
        };
        // As in Go, an empty `stringData` does not create `data`.
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
        let mut errors = Vec::new();
        if let Some(old) = old {
            errors.extend(immutable("", old, new, &["type"]));
            errors.extend(immutable_data(old, new));
        }
        errors.extend(validate(new));
        errors
    }

    fn compares_empty(&self) -> bool {
        true
    }

    fn warnings(&self, _resource: &Resource, secret: &Value, _old: Option<&Value>) -> Vec<String> {
        if text(secret, "type") != "kubernetes.io/tls" {
            return Vec::new();
        }
        let content = |key: &str| BASE64.decode(text(&secret["data"], key)).unwrap_or_default();
        tls_key_pair::check(&content("tls.crt"), &content("tls.key")).err().into_iter().collect()
    }
}

/// Validates the keys and the size of the data, and the keys that the secret's type requires.
fn validate(secret: &Value) -> Vec<FieldError> {
    let data = &secret["data"];
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in data.as_object().into_iter().flatten() {
        errors.extend(invalid(&format!("data[{key}]"), key, &data_key(key)));
        size += decoded_length(value);
    }
    if size > MAX_DATA {
        errors.push(too_long("data", MAX_DATA));
    }
    let missing = |key: &str| FieldError::required(format!("data[{key}]"), "");
    let needs = |keys: &[&str]| -> Vec<FieldError> {
        keys.iter().filter(|key| data.get(**key).is_none()).map(|key| missing(key)).collect()
    };
    match text(secret, "type") {
        "kubernetes.io/service-account-token" => {
            const NAME: &str = "kubernetes.io/service-account.name";
            if text(&secret["metadata"]["annotations"], NAME).is_empty() {
                errors.push(FieldError::required(format!("metadata.annotations[{NAME}]"), ""));
            }
        }
        "kubernetes.io/dockercfg" => errors.extend(docker_config(data, ".dockercfg")),
        "kubernetes.io/dockerconfigjson" => errors.extend(docker_config(data, ".dockerconfigjson")),
        "kubernetes.io/basic-auth" => {
            // One of the two keys suffices. Without both, both are reported.
            let keys = ["username", "password"];
            let missing = needs(&keys);
            if missing.len() == keys.len() {
                errors.extend(missing);
            }
        }
        // Unlike for other types, an empty value counts as missing here.
        "kubernetes.io/ssh-auth" if text(data, "ssh-privatekey").is_empty() => {
            errors.push(missing("ssh-privatekey"));
        }
        // Wrong contents cause only a warning.
        "kubernetes.io/tls" => errors.extend(needs(&["tls.crt", "tls.key"])),
        _ => {}
    }
    errors
}

/// Checks that the configuration of a registry client is a JSON object. Go also decodes null into its map.
fn docker_config(data: &Value, key: &str) -> Option<FieldError> {
    let field = format!("data[{key}]");
    let Some(encoded) = data[key].as_str() else {
        return Some(FieldError::required(field, ""));
    };
    let decoded = BASE64.decode(encoded).unwrap_or_default();
    let why = match decode::json(&decoded).map(|decoded| decoded.value) {
        Err(why) => why,
        Ok(Value::Object(_) | Value::Null) => return None,
        Ok(other) => {
            let kind = go::json_type(&other);
            format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
        }
    };
    // The value is secret, so the error does not show it.
    Some(FieldError::invalid(field, "\"<secret contents redacted>\"", &why))
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
    fn types_require_keys() {
        let check = |kind: &str, data: Value, expected: &[&str]| {
            let secret = json!({"metadata": {}, "type": format!("kubernetes.io/{kind}"), "data": data});
            check("Secret", &secret, None, expected);
        };
        check("tls", json!({"tls.crt": ""}), &["data[tls.key]: Required value"]);
        check("basic-auth", json!({"username": ""}), &[]);
        let both = ["data[username]: Required value", "data[password]: Required value"];
        check("basic-auth", json!({}), &both);
        check("ssh-auth", json!({"ssh-privatekey": ""}), &["data[ssh-privatekey]: Required value"]);
        check(
            "service-account-token",
            json!({}),
            &["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
        );
        let config = |text: &str| json!({".dockerconfigjson": BASE64.encode(text)});
        check("dockerconfigjson", config("{}"), &[]);
        check("dockerconfigjson", json!({}), &["data[.dockerconfigjson]: Required value"]);
        let why = "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": ";
        check(
            "dockerconfigjson",
            config("[]"),
            &[&format!("{why}json: cannot unmarshal array into Go value of type map[string]interface {{}}")],
        );
        check("dockerconfigjson", config(""), &[&format!("{why}unexpected end of JSON input")]);
        check(
            "dockerconfigjson",
            config("{x"),
            &[&format!("{why}invalid character 'x' looking for beginning of object key string")],
        );
        check("custom", json!({"..": ""}), &["data[..]: Invalid value: \"..\": must not be '..'"]);
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
