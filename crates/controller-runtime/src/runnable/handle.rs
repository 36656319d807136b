//! Handle of a runnable.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use super::{
    lifecycle::{Id, LifecycleInput},
    runnables::Runnables,
};

/// Handle of a runnable or controller of a manager. Dropping it has no effect.
#[derive(Clone)]
pub struct RunnableHandle {
    id: Id,
    /// Weak, because a runnable in the registry may hold its own handle.
    registry: Weak<Runnables>,
}

impl RunnableHandle {
    pub(crate) fn new(id: Id, registry: &Arc<Runnables>) -> Self {
        Self { id, registry: Arc::downgrade(registry) }
    }

    /// Removes the runnable: asks it to finish, as at a shutdown, and waits until it has. A controller finishes when
    /// its running reconciles are done. Its name is free again then.
    ///
    /// # Cancellation
    ///
    /// Dropping the future only ends the wait.
    pub async fn remove(self) {
        let Some(registry) = self.registry.upgrade() else { return };
        registry.step(LifecycleInput::Remove(self.id));
        registry.forgotten(self.id).await;
    }
}

impl fmt::Debug for RunnableHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunnableHandle").field("id", &self.id).finish_non_exhaustive()
    }
}
