//! JSON decoding with errors that name the field.

use std::fmt;

use serde::de::DeserializeOwned;

use crate::json::path::failed_at;

/// Place and reason of a decoding failure.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldError {
    /// The field, e.g. `spec.containers[0].ports`; `.` for the whole.
    pub path: String,
    /// Description of the problem.
    pub message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "." => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

impl std::error::Error for FieldError {}

/// Decodes JSON; the error names the field.
///
/// The bytes are validated as UTF-8 first, as in the cache, so that both use the same compiled decoder of a type.
pub(crate) fn decode<T: DeserializeOwned>(json: &[u8]) -> Result<T, FieldError> {
    let text = std::str::from_utf8(json)
        .map_err(|error| FieldError { path: ".".to_owned(), message: error.to_string() })?;
    serde_json::from_str(text)
        .map_err(|error| FieldError { path: failed_at(text, &error), message: error.to_string() })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    #[test]
    fn an_error_names_the_field() {
        let pod = br#"{ "metadata": {}, "spec": { "containers": [{ "name": "a", "ports": [{ "containerPort": "x" }] }] } }"#;
        let error = decode::<Pod>(pod).expect_err("a port is a number");
        assert_eq!(error.path, "spec.containers[0].ports[0].containerPort");
        assert!(error.to_string().contains("expected i32"), "{error}");
    }

    #[test]
    fn invalid_json_is_an_error_without_a_field() {
        let error = decode::<Pod>(b"<html>").expect_err("no JSON");
        assert_eq!(error.to_string(), "expected value at line 1 column 1");
    }
}
