//! Errors of a manager's run, and of adding to a manager.

use std::{fmt, time::Duration};

use crate::{
    cache::ForbiddenError,
    controller::{SourceError, WorkersError},
    error::{BoxError, with_causes},
    runnable::RegistrationRefusal,
    webhook::RegisterError,
};

/// Error of a manager's run.
///
/// Its `Debug` form is the message with its causes, because a `main` that returns the error prints that form.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// A cache did not receive its initial list in time.
    #[error("the cache of {resource} has not received its initial list after {} s: {reason}", timeout.as_secs_f32())]
    CacheSync {
        /// The resource, e.g. `deployments.apps`.
        resource: String,
        /// Time that the manager waited.
        timeout: Duration,
        /// Last failure of its list or watch.
        reason: String,
    },
    /// The API server does not allow the operator to list and watch a cached resource. The start fails at once, because
    /// waiting would not help.
    #[error(transparent)]
    Forbidden(ForbiddenError),
    /// A source of a controller failed, or did not deliver its initial state in time.
    #[error(transparent)]
    Source(SourceError),
    /// A runnable failed, and the manager stopped because of it.
    #[error("{name} failed")]
    Runnable {
        /// Name of the runnable.
        name: String,
        /// Error returned by the runnable.
        source: BoxError,
    },
    /// Something did not finish in time when the manager stopped, and was dropped.
    #[error(
        "the manager's shutdown timeout of {} s has passed; these reconciles and runnables were still running and have been dropped: {}",
        timeout.as_secs_f32(),
        unfinished.join(", ")
    )]
    ShutdownTimeout {
        /// Controller and request of each unfinished reconcile; the name of each other runnable.
        unfinished: Vec<String>,
        /// Time that the manager waited.
        timeout: Duration,
    },
    /// Something could not be stopped: it still runs, without reaching an `.await` at which it could be dropped.
    #[error(
        "the manager could not stop these reconciles and runnables, because they do not reach an .await (use tokio::task::spawn_blocking for long \
         computations): {}",
        unstoppable.join(", ")
    )]
    Unstoppable {
        /// Controller and request of each such reconcile; the name of each other runnable.
        unstoppable: Vec<String>,
    },
    /// A task of the manager panicked, or ended although it should run forever.
    #[error("{task} ended unexpectedly: {reason}")]
    TaskEnded {
        /// Name of the task.
        task: String,
        /// The panic, or how the task ended.
        reason: String,
    },
    /// A leader election candidate with a seed has no identity; another candidate with that seed would have the same.
    #[error(
        "the candidate for the lease {lease} has a seed but no identity: give each candidate its own with \
         LeaderElectionOptions::identity"
    )]
    NoIdentity {
        /// Name of the lease.
        lease: String,
    },
    /// The program sent requests that it does not declare, and
    /// [`ManagerOptions::undeclared_requests`](crate::ManagerOptions::undeclared_requests) refuses them.
    #[error("requests were not sent, because no registration declares them:\n  {}", requests.join("\n  "))]
    UndeclaredRequests {
        /// Each request, with the line that declares it.
        requests: Vec<String>,
    },
    /// The manager is running already.
    #[error("the manager is running already: wait until its run has ended, or make another manager")]
    AlreadyRunning,
}

impl From<SourceError> for ManagerError {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Forbidden(error) => Self::Forbidden(error),
            error => Self::Source(error),
        }
    }
}

impl fmt::Debug for ManagerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_causes(self, f)
    }
}

/// Reason why a manager refuses a runnable or controller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddError {
    /// Two controllers of one manager have the same name.
    #[error("the manager has a controller named {name} already: give this one another name with `named`")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// Two clusters of one manager have the same name.
    #[error(
        "the manager has a cluster named {name} already: give this one another name, or remove the other one first"
    )]
    DuplicateCluster {
        /// The name.
        name: String,
    },
    /// A controller has an empty name.
    #[error("a controller needs a name, for its metrics and log: give it one with `named`")]
    NoName,
    /// The controller has no source, so nothing would ever be reconciled.
    #[error("controller {name} has no source: give it one with `watches` or `watches_raw_source`")]
    NoSource {
        /// Name of the controller.
        name: String,
    },
    /// A controller's number of workers is zero or too high.
    #[error(transparent)]
    Workers(#[from] WorkersError),
    /// A webhook of the controller's kind was refused.
    #[error(transparent)]
    Webhook(#[from] RegisterError),
    /// The manager is stopping or has stopped.
    #[error("{name} cannot be added, because the manager is stopping: add it earlier, or to another manager")]
    Stopping {
        /// Name of the runnable or controller.
        name: String,
    },
}

impl AddError {
    /// The error for a runnable or controller `name` that was refused.
    pub(super) fn refused(name: &str, refusal: RegistrationRefusal) -> Self {
        let name = name.to_owned();
        match refusal {
            RegistrationRefusal::DuplicateName => Self::DuplicateName { name },
            RegistrationRefusal::Stopping => Self::Stopping { name },
        }
    }
}
