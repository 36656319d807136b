//! Errors of webhook calls.

/// A failed call of a webhook. Its text is kube-apiserver's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The configuration cannot be used.
    #[error("{0}")]
    Settings(String),
    /// There is no response.
    #[error("Post {}: {why}", kube_apimachinery::go::quote(.url))]
    Post { url: String, why: String },
    /// The response is not a success, or cannot be read.
    #[error("{0}")]
    Response(String),
}

impl CallError {
    /// Returns the text of the error with the step of the call that failed.
    pub(crate) fn with_step(&self) -> String {
        match self {
            Self::Settings(why) => format!("could not get REST client: {why}"),
            Self::Post { .. } | Self::Response(_) => format!("failed to call webhook: {self}"),
        }
    }
}
