//! Controllers that their users run.

use std::{fmt, future::Future, sync::Arc};

use super::Manager;
use crate::{
    controller::{Controller, ControllerHandle},
    manager,
    reconcile::Request,
    runnable::ReservedName,
};

/// A controller that uses a manager's resources, above all its caches, but is started and stopped by the caller. Made by
/// [`ControllerBuilder::complete_unmanaged`](crate::ControllerBuilder::complete_unmanaged).
///
/// The manager must be running, or its caches deliver nothing. The controller does not wait for leadership; but if the manager
/// takes part in an election, [`Manager::client`] writes only while it leads. [`Manager::explain`] covers the requests of this
/// controller as well.
#[doc(alias = "NewUnmanaged")]
#[doc(alias = "NewTypedUnmanaged")]
pub struct UnmanagedController<R: Request> {
    controller: Arc<Controller<R>>,
    manager: Manager,
    _name: ReservedName,
}

impl<R: Request> UnmanagedController<R> {
    pub(crate) fn new(controller: Arc<Controller<R>>, manager: Manager, name: ReservedName) -> Self {
        Self { controller, manager, _name: name }
    }

    /// Runs the controller until `shutdown` completes, and then until its running reconciles are done. The controller can be run
    /// again afterwards.
    ///
    /// # Cancellation
    ///
    /// Dropping the future stops the controller at its next `.await`, as a crash would.
    ///
    /// # Errors
    ///
    /// A source was not synced in time, or failed; or a reconcile panicked and panics are not
    /// [recovered](crate::controller::ControllerOptions::recover_panic).
    pub async fn run(&mut self, shutdown: impl Future<Output = ()>) -> Result<(), manager::ManagerError> {
        self.manager.run_alone(&self.controller, shutdown).await
    }

    /// A handle of the controller, for explanations and additional sources. Its [`remove`](ControllerHandle::remove) has no effect:
    /// end the run instead.
    #[must_use]
    pub fn handle(&self) -> ControllerHandle<R> {
        self.manager.handle_of(&self.controller, Vec::new())
    }
}

impl<R: Request> fmt::Debug for UnmanagedController<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnmanagedController")
            .field("name", &self.controller.requests().controller)
            .finish_non_exhaustive()
    }
}
