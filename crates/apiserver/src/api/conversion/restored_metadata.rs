//! Metadata of a converted object: a webhook may change only labels and annotations. Messages are those of kube-apiserver.

use kube_apimachinery::status::FieldError;
use kube_apimachinery::{go, names};
use serde_json::{Map, Value};

/// Maximum total size of all annotations of an object, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 << 10;

/// Copies the metadata of `original`. Labels and annotations stay those of `converted`.
pub(super) fn restore_metadata(mut original: Value, converted: &mut Value) -> Result<(), String> {
    let Some(given) = converted.get("metadata") else {
        return Err("missing metadata in converted object".to_owned());
    };
    let Some(given) = given.as_object() else {
        return Err(format!("invalid metadata of type {} in converted object", go::type_of(given)));
    };
    let mut restored = match original.get_mut("metadata").map(Value::take) {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    for field in ["labels", "annotations"] {
        match given.get(field) {
            None | Some(Value::Null) => {
                restored.remove(field);
            }
            Some(Value::Object(entries)) => {
                check_entries(field, entries, restored.get(field))?;
                restored.insert(field.to_owned(), Value::Object(entries.clone()));
            }
            Some(other) => {
                return Err(format!(
                    "invalid metadata.{field} of type {} in converted object",
                    go::type_of(other)
                ));
            }
        }
    }
    converted["metadata"] = Value::Object(restored);
    Ok(())
}

/// Checks labels or annotations. The syntax of unchanged entries is not checked.
fn check_entries(field: &str, entries: &Map<String, Value>, before: Option<&Value>) -> Result<(), String> {
    if let Some((key, value)) = entries.iter().find(|(_, value)| !value.is_string()) {
        let of = go::type_of(value);
        return Err(format!("metadata.{field}[{key}] must be a string, but is {of} in converted object"));
    }
    if before.and_then(Value::as_object) == Some(entries) {
        return Ok(());
    }
    let mut errors: Vec<FieldError> = Vec::new();
    let mut size = 0;
    for (key, value) in entries {
        let value = value.as_str().unwrap_or_default();
        if field == "labels" {
            let at =
                |shown: &str, why: &String| FieldError::invalid("metadata.labels", &go::quote(shown), why);
            errors.extend(names::qualified(key).iter().map(|why| at(key, why)));
            errors.extend(names::label_value(value).iter().map(|why| at(value, why)));
        } else {
            // kube-apiserver writes this field without the final "s".
            let at = |why: &String| FieldError::invalid("metadata.annotation", &go::quote(key), why);
            errors.extend(names::qualified(&key.to_ascii_lowercase()).iter().map(at));
            size += key.len() + value.len();
        }
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError {
            reason: "FieldValueTooLong",
            field: "metadata.annotation".to_owned(),
            message: format!("Too long: may not be more than {ANNOTATIONS_LIMIT} bytes"),
        });
    }
    let mut texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.dedup();
    match texts.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}
