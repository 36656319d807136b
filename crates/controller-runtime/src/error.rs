//! Errors of any type.

/// An error of any type, as user code returns it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
