use std::{fmt, future::Future, sync::Arc};

use super::{Controller, Handle};
use crate::{
    manager::{self, Manager, ReservedName},
    reconcile::Request,
};

/// A controller that uses what a manager has, its caches above all, and is started and stopped by you. Made by
/// [`ControllerBuilder::complete_unmanaged`](crate::ControllerBuilder::complete_unmanaged).
///
/// The manager has to run, or its caches tell nothing. No leadership is waited for; but where the manager takes part in an
/// election, [`Manager::client`] writes only while it leads. It [explains](Manager::explain) the requests of this controller
/// as well.
#[doc(alias = "NewUnmanaged")]
#[doc(alias = "NewTypedUnmanaged")]
pub struct Unmanaged<R: Request> {
    controller: Arc<Controller<R>>,
    manager: Manager,
    _name: ReservedName,
}

impl<R: Request> Unmanaged<R> {
    pub(crate) fn new(controller: Arc<Controller<R>>, manager: Manager, name: ReservedName) -> Self {
        Self { controller, manager, _name: name }
    }

    /// Runs until `shutdown` is done, and then until the running reconciles are. Afterwards it can be run again.
    ///
    /// # Cancellation
    ///
    /// Dropping the future stops the controller where it stands, as a crash would.
    ///
    /// # Errors
    ///
    /// A source was not synced in time, or failed; a reconcile panicked, and that is not
    /// [recovered](super::Options::recover_panic).
    pub async fn run(&mut self, shutdown: impl Future<Output = ()>) -> Result<(), manager::Error> {
        self.manager.run_alone(&self.controller, shutdown).await
    }

    /// The controller for whoever asks about it, or gives it further sources. To [remove](Handle::remove) it does nothing:
    /// end its run.
    #[must_use]
    pub fn handle(&self) -> Handle<R> {
        self.manager.handle_of(&self.controller, Vec::new())
    }
}

impl<R: Request> fmt::Debug for Unmanaged<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unmanaged").field("name", &self.controller.inbox.controller).finish_non_exhaustive()
    }
}
