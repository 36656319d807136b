//! Weak handle of a manager.

use std::{
    any::Any,
    fmt,
    sync::{Arc, Weak},
};

use super::{Manager, ManagerShared, RunContext};

/// Handle of a manager that does not keep it alive.
///
/// A [`Manager`] holds its controllers and other runnables until it is dropped. If one of them held the manager, neither would
/// ever be dropped. Reconcilers and runnables that need the manager, for example to add controllers, must hold a weak handle
/// instead.
///
/// ```
/// use controller_runtime::{Action, Context, ObjectKey, ReconcileError, Reconciler, manager::WeakManager};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// struct Installs {
///     manager: WeakManager,
/// }
///
/// impl Reconciler for Installs {
///     type Request = ObjectKey<ConfigMap>;
///
///     async fn reconcile(&self, _: &ObjectKey<ConfigMap>, _: &Context) -> Result<Action, ReconcileError> {
///         let Some(manager) = self.manager.upgrade() else { return Ok(Action::done()) };
///         // … add a controller to it …
/// #       let _ = manager;
///         Ok(Action::done())
///     }
/// }
///
/// # fn example(manager: &controller_runtime::Manager) {
/// let installs = Installs { manager: manager.downgrade() };
/// # }
/// ```
#[derive(Clone)]
pub struct WeakManager {
    shared: Weak<ManagerShared>,
}

impl Manager {
    /// The manager for a [`RunContext`].
    pub(super) fn for_context(&self) -> Weak<dyn Any + Send + Sync> {
        Arc::downgrade(&self.shared) as _
    }

    /// A weak handle of the manager, for its own runnables.
    #[must_use]
    pub fn downgrade(&self) -> WeakManager {
        WeakManager { shared: Arc::downgrade(&self.shared) }
    }
}

impl RunContext {
    /// The manager, for adding runnables or controllers, reading its caches, or writing with its client. `None` if it has been
    /// dropped, which cannot happen while it runs.
    ///
    /// Do not keep it: see [`WeakManager`].
    #[must_use]
    pub fn manager(&self) -> Option<Manager> {
        let shared = self.manager.upgrade()?.downcast().ok()?;
        Some(Manager { shared })
    }
}

impl WeakManager {
    /// The manager; `None` if it has been dropped. A manager is not dropped while it runs.
    #[must_use]
    pub fn upgrade(&self) -> Option<Manager> {
        Some(Manager { shared: self.shared.upgrade()? })
    }
}

impl fmt::Debug for WeakManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakManager").finish_non_exhaustive()
    }
}
