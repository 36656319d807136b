use std::{error::Error as _, fmt, time::Duration};

use super::BoxError;
use crate::{cache::MissingRight, controller::InvalidWorkers};

/// Why a manager's run failed.
///
/// Its `Debug` form is the message and its causes, because that is what a `main` that returns it prints.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A cache did not become complete in time.
    #[error("the cache of {resource} is not complete after {} s: {reason}", timeout.as_secs_f32())]
    CacheSync {
        /// The resource, e.g. `deployments.apps`.
        resource: String,
        /// How long the manager waited.
        timeout: Duration,
        /// What last went wrong with its list or watch.
        reason: String,
    },
    /// The API server does not let the operator list and watch what it reads. Waiting would not help, so the start ends at
    /// once.
    #[error("the operator may not list and watch {}", join(missing))]
    Forbidden {
        /// What it lacks for that, as far as it was told within half a second. The message says the first ten.
        missing: Vec<MissingRight>,
    },
    /// A source of a controller has not told in time what there is.
    #[error("source {name} of controller {controller} is not synced after {} s: {reason}", timeout.as_secs_f32())]
    SourceSync {
        /// The name of the source; of a kind it is the resource.
        name: String,
        /// The name of the controller.
        controller: String,
        /// How long the controller waited.
        timeout: Duration,
        /// What keeps the source from it.
        reason: String,
    },
    /// A source of a controller failed.
    #[error("source {name} of controller {controller} failed")]
    Source {
        /// The name of the source.
        name: String,
        /// The name of the controller.
        controller: String,
        /// What it returned.
        source: BoxError,
    },
    /// A runnable failed, and the manager stopped because of it.
    #[error("{name} failed")]
    Runnable {
        /// Its name.
        name: String,
        /// What it returned.
        source: BoxError,
    },
    /// Something did not finish in time when the manager stopped. It was dropped.
    #[error("still running {} s after the shutdown began: {}", timeout.as_secs_f32(), unfinished.join(", "))]
    ShutdownTimeout {
        /// Controller and request of each reconcile; the name of each other runnable.
        unfinished: Vec<String>,
        /// How long the manager waited.
        timeout: Duration,
    },
    /// Something could not be stopped: it goes on without an `.await` at which it could be dropped.
    #[error("cannot be stopped, because it never waits: {}", unstoppable.join(", "))]
    Unstoppable {
        /// Controller and request of each reconcile; the name of each other runnable.
        unstoppable: Vec<String>,
    },
    /// A task of the manager panicked or ended although it never should.
    #[error("{task} ended unexpectedly: {reason}")]
    TaskEnded {
        /// What the task did.
        task: String,
        /// How it ended.
        reason: String,
    },
    /// A candidate with a seed has no identity, and another candidate of that seed would have the same.
    #[error(
        "the candidate for the lease {lease} has a seed and no identity: give each one its own with \
         leader_election::Options::identity"
    )]
    NoIdentity {
        /// The name of the lease.
        lease: String,
    },
    /// The manager runs already.
    #[error("the manager runs already: wait until its run has ended, or make another manager")]
    AlreadyRunning,
}

/// How many missing rights a message says.
const TOLD: usize = 10;

fn join(missing: &[MissingRight]) -> String {
    let told: Vec<_> = missing.iter().take(TOLD).map(ToString::to_string).collect();
    let more = match missing.len() - told.len() {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    told.join("; ") + &more
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

/// Why a manager takes no runnable or controller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddError {
    /// Two controllers of one manager have the same name.
    #[error("the manager has a controller named {name} already: give this one another name with `named`")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A controller has an empty name.
    #[error("a controller needs a name, for its metrics and log: give it one with `named`")]
    NoName,
    /// Nothing would ever lead to a reconcile.
    #[error("controller {name} has no source: give it one with `watches` or `watches_raw_source`")]
    NoSource {
        /// The name of the controller.
        name: String,
    },
    /// A controller's number of workers is zero or too high.
    #[error(transparent)]
    Workers(#[from] InvalidWorkers),
    /// The manager stops or has stopped.
    #[error("{name} cannot be added to a manager that stops: add it before, or to another manager")]
    Stopping {
        /// What was to be added.
        name: String,
    },
}
