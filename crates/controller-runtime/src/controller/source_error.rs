//! Errors of a controller's sources.

use std::{fmt, time::Duration};

use crate::{
    cache::ForbiddenError,
    error::{BoxError, with_causes},
};

/// Error of a controller's source.
///
/// Its `Debug` form is the message with its causes.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The source did not deliver its initial state in time.
    #[error("source {name} of controller {controller} is not synced after {} s: {reason}", timeout.as_secs_f32())]
    NotSynced {
        /// Name of the source; for a kind, the resource.
        name: String,
        /// Name of the controller.
        controller: String,
        /// Time that the controller waited.
        timeout: Duration,
        /// Obstacle that the source reports.
        reason: String,
    },
    /// The source failed.
    #[error("source {name} of controller {controller} failed")]
    Failed {
        /// Name of the source.
        name: String,
        /// Name of the controller.
        controller: String,
        /// Error returned by the source.
        source: BoxError,
    },
    /// The API server does not allow the operator to list and watch the kind of the source.
    #[error(transparent)]
    Forbidden(ForbiddenError),
}

impl fmt::Debug for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_causes(self, f)
    }
}
