//! Messages of validation errors.

use serde_json::{Number, Value};

use crate::field_path::FieldPath;
use crate::go;
use crate::status::FieldError;

/// Builds `spec.size in body must be of type integer: "string"`.
pub(super) fn type_error(path: &FieldPath<'_>, expected: &str, value: &Value, shown: &str) -> FieldError {
    let mut error = FieldError::invalid(
        path.to_string(),
        &self::value(value),
        &format!("{path} in body must be of type {expected}: {shown}"),
    );
    error.reason = "FieldValueTypeInvalid";
    error
}

/// Builds `spec.size in body should be …`.
pub(super) fn should(path: &FieldPath<'_>, value: &str, rule: &str) -> FieldError {
    FieldError::invalid(path.to_string(), value, &format!("{path} in body should {rule}"))
}

/// Builds an error without a field; its message names the field.
pub(super) fn unplaced(message: &str) -> FieldError {
    FieldError::invalid("<nil>", "\"\"", message)
}

/// Builds `Too many: 3: must have at most 2 items`.
pub(super) fn too_many(path: &FieldPath<'_>, found: usize, limit: u64) -> FieldError {
    let items = if limit == 1 { "item" } else { "items" };
    FieldError {
        reason: "FieldValueTooMany",
        field: path.to_string(),
        message: format!("Too many: {found}: must have at most {limit} {items}"),
    }
}

/// Builds `Too long: may not be more than 3 bytes`.
pub(super) fn too_long(path: &FieldPath<'_>, limit: u64) -> FieldError {
    let bytes = if limit == 1 { "byte" } else { "bytes" };
    FieldError {
        reason: "FieldValueTooLong",
        field: path.to_string(),
        message: format!("Too long: may not be more than {limit} {bytes}"),
    }
}

/// Builds `Duplicate value: "a"`.
pub(super) fn duplicate(path: &FieldPath<'_>, value: &Value) -> FieldError {
    FieldError {
        reason: "FieldValueDuplicate",
        field: path.to_string(),
        message: format!("Duplicate value: {}", self::value(value)),
    }
}

/// Builds `Unsupported value: "green": supported values: "red", "blue"`.
pub(super) fn unsupported(path: &FieldPath<'_>, value: &Value, supported: &[Value]) -> FieldError {
    let supported: Vec<String> = supported
        .iter()
        .map(|value| match value {
            Value::String(text) => quoted(text),
            other => quoted(&other.to_string()),
        })
        .collect();
    FieldError {
        reason: "FieldValueNotSupported",
        field: path.to_string(),
        message: format!(
            "Unsupported value: {}: supported values: {}",
            self::value(value),
            supported.join(", ")
        ),
    }
}

/// Formats a value like Go's `field.Error`.
pub(in super::super) fn value(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Number(number) => self::number(number),
        other => other.to_string(),
    }
}

/// Formats a string like Go's `%q`.
pub(super) fn quoted(text: &str) -> String {
    go::quote(text)
}

/// Formats a number like Go's `%v`.
pub(super) fn number(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => self::float(float),
        _ => number.to_string(),
    }
}

/// Formats a float like Go's `%v`.
pub(super) fn float(value: f64) -> String {
    go::float(value)
}

/// Returns the JSON type of a value; integers count as a type of their own.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if super::is_integer(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_the_form_of_go() {
        let shown = [100_000.0, 123_456.0, 1e6, 2_147_483_647.0, 0.0001, 0.00001, 12_345_678.5].map(float);
        let go = ["100000", "123456", "1e+06", "2.147483647e+09", "0.0001", "1e-05", "1.23456785e+07"];
        assert_eq!(shown, go);
    }
}
