//! Outcome of one run of a reconciler, including panics and timeouts.

use super::{Action, NextRun, ReconcileError};

/// Outcome of one run of a reconciler.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The reconciler returned.
    Returned(Result<Action, ReconcileError>),
    /// The reconciler panicked, with this message and location.
    Panicked(String),
    /// The reconcile exceeded the controller's timeout and was dropped.
    TimedOut,
}

impl Outcome {
    /// Returns whether the request waits for the next event, without a requeue or retry.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Returned(Ok(Action { next: NextRun::Done, .. })))
    }
}
