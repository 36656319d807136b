//! Request bodies: their media types and limits.
//!
//! JSON and YAML are decoded by [`kube_apimachinery`]; protobuf is accepted for builtin kinds.

use kube_apimachinery::status::ApiError;

/// Maximum size of a body in bytes.
pub(crate) const LIMIT: usize = 3 << 20;

/// Builds the 413 for a body above [`LIMIT`].
pub(crate) fn too_large() -> ApiError {
    let message = format!("Request entity too large: limit is {LIMIT}");
    ApiError::new(413, "RequestEntityTooLarge", message).with_details("", "", "")
}

/// Builds the 415 with the accepted media types.
pub(crate) fn unsupported(accepted: &[&str]) -> ApiError {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        accepted.join(", ")
    );
    ApiError::new(415, "UnsupportedMediaType", message)
}

/// Media types of whole objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
    Protobuf,
}

impl Format {
    /// Returns the format of a `Content-Type`; JSON if there is none.
    ///
    /// # Errors
    /// 415 for any other type.
    pub(crate) fn of(content_type: Option<&str>) -> Result<Self, ApiError> {
        match media_type(content_type) {
            "" | "application/json" => Ok(Self::Json),
            "application/yaml" => Ok(Self::Yaml),
            "application/vnd.kubernetes.protobuf" => Ok(Self::Protobuf),
            _ => Err(unsupported(&[
                "application/json",
                "application/yaml",
                "application/vnd.kubernetes.protobuf",
            ])),
        }
    }
}

/// Returns a `Content-Type` without its parameters.
pub(crate) fn media_type(content_type: Option<&str>) -> &str {
    content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim()
}
