//! A controller as those see it who made it.

use std::fmt;

use super::{Explanation, Inbox};
use crate::{manager, reconcile::Request};

/// A controller that was given to a manager. Dropping it changes nothing.
///
/// ```
/// # use controller_runtime::{Action, Builder, Context, Manager, ObjectKey, Reconciler, manager::AddError, reconcile};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # struct MyReconciler;
/// # impl Reconciler for MyReconciler {
/// #     type Request = ObjectKey<ConfigMap>;
/// #     async fn reconcile(&self, _: &ObjectKey<ConfigMap>, _: &Context) -> Result<Action, reconcile::Error> {
/// #         Ok(Action::done())
/// #     }
/// # }
/// # fn example(manager: &Manager) -> Result<(), AddError> {
/// let controller = Builder::managed_by(manager).for_kind::<ConfigMap>().complete(MyReconciler)?;
/// // … later, where somebody asks:
/// println!("{}", controller.explain(&ObjectKey::new("default", "settings")));
/// # Ok(())
/// # }
/// ```
pub struct Handle<R: Request> {
    inbox: Inbox<R>,
    handle: manager::Handle,
}

impl<R: Request> Handle<R> {
    pub(crate) fn new(inbox: Inbox<R>, handle: manager::Handle) -> Self {
        Self { inbox, handle }
    }

    /// The name of the controller.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inbox.controller
    }

    /// Why `request` is where it is: in line, waiting and by which rule, being reconciled, or settled; what led to it, and
    /// what became of its last runs.
    ///
    /// Looks at every request in the queue, some at a time, so that workers go on meanwhile.
    pub fn explain(&self, request: &R) -> Explanation {
        self.inbox.explain(request)
    }

    /// The requests whose last run failed, the one that failed longest ago first: of the 1024 that ran last.
    #[must_use]
    pub fn failing(&self) -> Vec<R> {
        self.inbox.tracker.failing()
    }

    /// Takes the controller out of its manager, and waits until its running reconciles are done.
    ///
    /// # Cancellation
    ///
    /// Dropping the future only ends the wait.
    pub async fn remove(self) {
        self.handle.remove().await;
    }
}

impl<R: Request> Clone for Handle<R> {
    fn clone(&self) -> Self {
        Self { inbox: self.inbox.clone(), handle: self.handle.clone() }
    }
}

impl<R: Request> fmt::Debug for Handle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("name", &self.name()).finish_non_exhaustive()
    }
}
