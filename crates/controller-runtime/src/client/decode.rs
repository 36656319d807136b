use std::fmt;

use serde::de::DeserializeOwned;

/// Where an answer does not fit the type that it was to become.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldError {
    /// The field, e.g. `spec.containers[0].ports`; `.` for the whole.
    pub path: String,
    /// What is wrong with it.
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

/// Reads JSON; an error tells the field.
///
/// Paths cost time, so they are followed only when there is an error to report.
pub(crate) fn decode<T: DeserializeOwned>(json: &[u8]) -> Result<T, FieldError> {
    serde_json::from_slice(json).map_err(|error| locate::<T>(json).unwrap_or_else(|| whole(&error)))
}

fn locate<T: DeserializeOwned>(json: &[u8]) -> Option<FieldError> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let error = serde_path_to_error::deserialize::<_, T>(&mut deserializer).err()?;
    Some(FieldError { path: error.path().to_string(), message: error.inner().to_string() })
}

/// An error outside of every field, such as text after the end.
fn whole(error: &serde_json::Error) -> FieldError {
    FieldError { path: ".".to_owned(), message: error.to_string() }
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
    fn what_is_no_json_at_all_is_said_without_a_field() {
        let error = decode::<Pod>(b"<html>").expect_err("no JSON");
        assert_eq!(error.to_string(), "expected value at line 1 column 1");
    }
}
