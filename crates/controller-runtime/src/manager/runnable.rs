//! What a manager runs.

use std::{any::type_name, future::Future, pin::Pin, sync::Arc};

use kube_clock::Clock;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use super::{Manager, WeakManager};
use crate::recorder::Recorder;

/// An error of any type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Something that a manager starts and stops: a server, a poller, whatever a controller is not.
///
/// ```
/// use std::time::Duration;
/// use controller_runtime::{Manager, manager::{AddError, BoxError, RunContext, Runnable}};
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
    /// How messages name it. Default: its type.
    fn name(&self) -> String {
        type_name::<Self>().to_owned()
    }

    /// Does its work, until [`RunContext::shutdown`] asks to finish or the work is done.
    ///
    /// Called once in each run of the manager, and for what needs leader election once in each leadership. An error ends
    /// the manager, in order; a return without one ends nothing else.
    ///
    /// # Cancellation
    ///
    /// The future is dropped when the lease is lost, and when it has not returned within
    /// [`graceful_shutdown_timeout`](super::Options::graceful_shutdown_timeout) of the shutdown.
    ///
    /// # Errors
    ///
    /// Whatever makes it pointless that the manager goes on.
    fn start(&self, cx: RunContext) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Whether it may only run while this process leads. Default: yes.
    #[doc(alias = "LeaderElectionRunnable")]
    fn needs_leader_election(&self) -> bool {
        true
    }

    /// Whether it says by [`RunContext::set_ready`] when it is ready: the manager is not before. Default: no, it is ready
    /// when started.
    fn signals_ready(&self) -> bool {
        false
    }

    /// What it still does, for the message about what did not finish in time. Default: its name.
    fn unfinished(&self) -> Vec<String> {
        vec![self.name()]
    }
}

/// What the manager tells a [`Runnable`], and what the runnable may ask of it.
#[derive(Clone)]
pub struct RunContext {
    pub(super) manager: WeakManager,
    pub(super) draining: CancellationToken,
    pub(super) aborting: CancellationToken,
    pub(super) ready: Arc<dyn Fn() + Send + Sync>,
    pub(super) failed: Arc<dyn Fn(BoxError) + Send + Sync>,
    pub(super) transitions: Option<i32>,
    pub(crate) recorder: Recorder,
    pub(crate) rng: fastrand::Rng,
    pub(crate) clock: Clock,
}

impl RunContext {
    /// Done when it is time to finish: begin nothing new, end what is begun, and return.
    pub fn shutdown(&self) -> WaitForCancellationFuture<'_> {
        self.draining.cancelled()
    }

    /// The manager, for whoever adds runnables or controllers to it, reads its caches, or writes by its client. `None` when it
    /// is gone, which it is not while it runs.
    ///
    /// Do not keep it: see [`WeakManager`].
    #[must_use]
    pub fn manager(&self) -> Option<Manager> {
        self.manager.upgrade()
    }

    /// Says that the runnable does what it is for: listens, say. See [`Runnable::signals_ready`].
    pub fn set_ready(&self) {
        (self.ready)();
    }

    /// How often the lease had changed hands when this process became leader (`leaseTransitions`). `None` without leader
    /// election.
    ///
    /// It is higher than the token of every other process that led before, so whoever takes orders from leaders can refuse
    /// those of an earlier one by it: what has a lower token than the highest that was seen. A process that loses the lease
    /// and gets it back with nobody between has the same token again.
    ///
    /// It begins with 0 again when the lease was deleted and whoever makes it anew has not seen it before: a process that
    /// started later, or one in Go. What compares tokens would then refuse the new leader, so do not delete the lease, or
    /// make what compares them forget what it saw.
    #[must_use]
    pub fn fencing_token(&self) -> Option<i32> {
        self.transitions
    }

    /// Records events in the name of `controller`.
    #[must_use]
    pub fn recorder(&self, controller: &str) -> Recorder {
        self.recorder.named(controller)
    }

    /// Says that the runnable has failed, although it still has to end what it has begun. It returns without an error then.
    pub(crate) fn fail(&self, error: BoxError) {
        (self.failed)(error);
    }

    /// Cancelled when reconciles may begin no more.
    pub(crate) fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    /// Done when everything has to stop where it stands.
    pub(crate) fn aborted(&self) -> WaitForCancellationFuture<'_> {
        self.aborting.cancelled()
    }
}

impl std::fmt::Debug for RunContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunContext").field("draining", &self.draining.is_cancelled()).finish_non_exhaustive()
    }
}

/// A runnable behind a pointer.
pub(super) trait DynRunnable: Send + Sync {
    fn start(self: Arc<Self>, cx: RunContext) -> Started;
    fn unfinished(&self) -> Vec<String>;
}

pub(super) type Started = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

impl<T: Runnable> DynRunnable for T {
    fn start(self: Arc<Self>, cx: RunContext) -> Started {
        Box::pin(async move { Runnable::start(&*self, cx).await })
    }

    fn unfinished(&self) -> Vec<String> {
        Runnable::unfinished(self)
    }
}
