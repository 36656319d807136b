use std::{
    fmt,
    sync::{Arc, Weak},
};

use super::{Manager, Shared};

/// A manager that is there only as long as somebody else holds it.
///
/// A [`Manager`] keeps its controllers and other runnables until it is dropped. If one of them kept the manager, neither would
/// ever be dropped. So reconcilers and runnables that need it, to add controllers say, keep this.
///
/// ```
/// use controller_runtime::{Action, Context, ObjectKey, Reconciler, manager::WeakManager, reconcile};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// struct Installs {
///     manager: WeakManager,
/// }
///
/// impl Reconciler for Installs {
///     type Request = ObjectKey<ConfigMap>;
///
///     async fn reconcile(&self, _: &ObjectKey<ConfigMap>, _: &Context) -> Result<Action, reconcile::Error> {
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
    shared: Weak<Shared>,
}

impl Manager {
    /// The same manager, for what it runs itself.
    #[must_use]
    pub fn downgrade(&self) -> WeakManager {
        WeakManager { shared: Arc::downgrade(&self.shared) }
    }
}

impl WeakManager {
    /// The manager, unless nobody holds it any more. While it runs, its run does.
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
