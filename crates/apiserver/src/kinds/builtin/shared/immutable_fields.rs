//! Errors about changes of immutable fields.

use kube_apimachinery::go_struct::internal_text;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

/// Detail of the error about a changed field.
pub(in crate::kinds::builtin) const IMMUTABLE: &str = "field is immutable";

/// Returns an error with the new value for each of the `fields` below `path` that differs. An empty `path` stands for the object itself.
pub(in crate::kinds::builtin) fn immutable(
    path: &str,
    old: &Value,
    new: &Value,
    fields: &[&str],
) -> Vec<FieldError> {
    let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
    let changed = fields.iter().filter(|field| old[**field] != new[**field]);
    changed
        .map(|field| FieldError::invalid(format!("{prefix}{field}"), &new[*field].to_string(), IMMUTABLE))
        .collect()
}

/// Returns an error if a field differs. It shows the new value as JSON of kube-apiserver's internal struct `name`.
pub(in crate::kinds::builtin) fn immutable_struct(
    field: &str,
    name: &str,
    old: &Value,
    new: &Value,
) -> Option<FieldError> {
    (!are_equal(old, new)).then(|| FieldError::invalid(field, &internal_text(name, new), IMMUTABLE))
}

/// Whether two values are equal, if an empty list counts as an absent one, as in Go's semantic comparison.
fn are_equal(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Null, Value::Array(items)) | (Value::Array(items), Value::Null) => items.is_empty(),
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| are_equal(old, new))
        }
        (Value::Object(old_fields), Value::Object(new_fields)) => {
            old_fields.iter().all(|(name, value)| are_equal(value, &new[name]))
                && new_fields
                    .iter()
                    .all(|(name, value)| old_fields.contains_key(name) || are_equal(&Value::Null, value))
        }
        _ => old == new,
    }
}

/// Returns an error without values for each of the `fields` that differs.
pub(in crate::kinds::builtin) fn forbidden(
    old: &Value,
    new: &Value,
    fields: &[&str],
    why: &str,
) -> Vec<FieldError> {
    let changed = fields.iter().filter(|field| old[**field] != new[**field]);
    changed.map(|field| FieldError::forbidden(*field, why)).collect()
}

/// Returns the errors for changed data of an immutable ConfigMap or Secret.
pub(in crate::kinds::builtin) fn immutable_data(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old["immutable"] == true {
        let why = "field is immutable when `immutable` is set";
        if new["immutable"] != true {
            errors.push(FieldError::forbidden("immutable", why));
        }
        // Secrets have no `binaryData`, so for them this field never differs.
        errors.extend(forbidden(old, new, &["data", "binaryData"], why));
    }
    errors
}
