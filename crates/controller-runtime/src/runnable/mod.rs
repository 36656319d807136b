//! Runnables: components that a manager starts and stops.
//!
//! `lifecycle` is a pure state machine that decides what starts and stops when. `runnables` holds the runnables with their states.
//! The run of a manager (`manager/run.rs`) carries out the decisions.

mod handle;
mod lifecycle;
mod manager_state;
mod runnables;

use std::{
    any::{Any, type_name},
    future::Future,
    pin::Pin,
    sync::{Arc, Weak},
};

use kube_clock::Clock;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

pub use self::{
    handle::RunnableHandle,
    manager_state::{NeverReadyError, State},
};
pub(crate) use self::{
    lifecycle::{Effect, Group, Id, Lifecycle, LifecycleInput, ReadyWhen, RunnableFailed},
    manager_state::{Readiness, wait_until_ready},
    runnables::{ControllerName, RegisteredRunnable, RegistrationRefusal, ReservedName, Runnables},
};
use crate::{error::BoxError, recorder::Recorder};

/// A component that a manager starts and stops, other than a controller: a server or a poller, for example.
///
/// ```
/// use std::time::Duration;
/// use controller_runtime::{BoxError, Manager, manager::{AddError, RunContext, Runnable}};
///
/// struct Heartbeat;
///
/// impl Runnable for Heartbeat {
///     fn name(&self) -> String {
///         "heartbeat".to_owned()
///     }
///
///     async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
///         let mut beat = tokio::time::interval(Duration::from_secs(10));
///         loop {
///             tokio::select! {
///                 () = cx.shutdown() => return Ok(()),
///                 _ = beat.tick() => println!("still here"),
///             }
///         }
///     }
///
///     fn needs_leader_election(&self) -> bool {
///         false
///     }
/// }
///
/// fn add_to(manager: &Manager) -> Result<(), AddError> {
///     manager.add(Heartbeat)?;
///     Ok(())
/// }
/// ```
pub trait Runnable: Send + Sync + 'static {
    /// Name in messages. Default: the name of the type.
    fn name(&self) -> String {
        type_name::<Self>().to_owned()
    }

    /// Runs until [`RunContext::shutdown`] completes, or the work of the runnable is done.
    ///
    /// Called once in each run of the manager. If the runnable needs leader election, it is called each time the process becomes the
    /// leader. If it returns an error, the manager stops gracefully. If it returns without an error, the manager continues.
    ///
    /// # Cancellation
    ///
    /// The future is dropped when the lease is lost, and when it has not returned within
    /// [`graceful_shutdown_timeout`](crate::ManagerOptions::graceful_shutdown_timeout) of the shutdown.
    ///
    /// # Errors
    ///
    /// An error means that the manager cannot continue.
    fn start(&self, cx: RunContext) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Returns whether the runnable may only run while this process leads. Default: yes.
    #[doc(alias = "LeaderElectionRunnable")]
    fn needs_leader_election(&self) -> bool {
        true
    }

    /// Returns whether the runnable calls [`RunContext::set_ready`]; the manager becomes ready only after that. Default: no, the
    /// runnable is ready when it is started.
    fn signals_ready(&self) -> bool {
        false
    }

    /// Names of the unfinished work, for the error when a shutdown takes too long. Default: the name of the runnable.
    fn unfinished(&self) -> Vec<String> {
        vec![self.name()]
    }
}

/// Access of a [`Runnable`] to its manager: shutdown, readiness, recorder and the manager itself.
#[derive(Clone)]
pub struct RunContext {
    /// The manager. Its type is in a module above this one, so it is erased here; [`RunContext::manager`] restores it.
    pub(crate) manager: Weak<dyn Any + Send + Sync>,
    pub(crate) draining: CancellationToken,
    pub(crate) aborting: CancellationToken,
    pub(crate) ready: Arc<dyn Fn() + Send + Sync>,
    pub(crate) failed: Arc<dyn Fn(BoxError) + Send + Sync>,
    pub(crate) transitions: Option<i32>,
    pub(crate) recorder: Recorder,
    pub(crate) rng: fastrand::Rng,
    pub(crate) clock: Clock,
}

impl RunContext {
    /// Completes when the runnable should finish: begin nothing new, complete running work, and return.
    pub fn shutdown(&self) -> WaitForCancellationFuture<'_> {
        self.draining.cancelled()
    }

    /// Reports that the runnable is ready, for example that it listens. See [`Runnable::signals_ready`].
    pub fn set_ready(&self) {
        (self.ready)();
    }

    /// Fencing token of this leader: the number of times that the holder of the lease had changed when this process became the
    /// leader (`leaseTransitions`). `None` without leader election.
    ///
    /// The token is higher than that of every earlier leader. An external system can therefore refuse requests of earlier leaders: it
    /// stores the highest token that it has received, and refuses lower ones. A process that loses the lease and regains it, with no
    /// other leader in between, has the same token again.
    ///
    /// If the lease is deleted, tokens start from 0 again, unless the process that creates the lease again has read the old one. An
    /// external system that compares tokens would then refuse the new leader. So do not delete the lease, or also reset such systems.
    #[must_use]
    pub fn fencing_token(&self) -> Option<i32> {
        self.transitions
    }

    /// Recorder of Kubernetes Events that names `controller` as their reporter.
    #[must_use]
    pub fn recorder(&self, controller: &str) -> Recorder {
        self.recorder.named(controller)
    }

    /// Reports a failure of the runnable while it still has work to finish. The runnable then returns without an error.
    pub(crate) fn fail(&self, error: BoxError) {
        (self.failed)(error);
    }

    /// Cancelled when no new reconciles may begin.
    pub(crate) fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    /// Completes when the runnable must stop at once.
    pub(crate) fn aborted(&self) -> WaitForCancellationFuture<'_> {
        self.aborting.cancelled()
    }
}

impl std::fmt::Debug for RunContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunContext").field("draining", &self.draining.is_cancelled()).finish_non_exhaustive()
    }
}

/// Object-safe form of [`Runnable`].
pub(crate) trait DynRunnable: Send + Sync {
    fn start(self: Arc<Self>, cx: RunContext) -> Started;
    fn unfinished(&self) -> Vec<String>;
}

pub(crate) type Started = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

impl<T: Runnable> DynRunnable for T {
    fn start(self: Arc<Self>, cx: RunContext) -> Started {
        Box::pin(async move { Runnable::start(&*self, cx).await })
    }

    fn unfinished(&self) -> Vec<String> {
        Runnable::unfinished(self)
    }
}
