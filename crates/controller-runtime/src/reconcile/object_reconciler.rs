//! Reconcilers that receive the object instead of its key.

use std::{fmt, future::Future, sync::Arc};

use super::{Action, Context, ReconcileError, Reconciler};
use crate::{
    cache::Cached,
    object::{Object, ObjectKey},
};

/// A reconciler that receives the object instead of its key, and is not called for deleted objects.
///
/// ```
/// use std::sync::Arc;
/// use controller_runtime::{Action, Builder, Context, Manager, ObjectReconciler, ReconcileError, reconcile};
/// use k8s_openapi::api::core::v1::Node;
///
/// struct PrintNodes;
///
/// impl ObjectReconciler for PrintNodes {
///     type Object = Node;
///
///     async fn reconcile(&self, node: Arc<Node>, _: &Context) -> Result<Action, ReconcileError> {
///         println!("{:?}", node.metadata.name);
///         Ok(Action::done())
///     }
/// }
///
/// # fn example(manager: &Manager) -> Result<(), controller_runtime::manager::AddError> {
/// Builder::managed_by(manager)
///     .for_kind::<Node>()
///     .complete(reconcile::as_reconciler(manager.cached(), PrintNodes))?;
/// # Ok(())
/// # }
/// ```
pub trait ObjectReconciler: Send + Sync + 'static {
    /// Type of the objects.
    type Object: Object;

    /// Reconciles `object` once. See [`Reconciler::reconcile`].
    ///
    /// # Errors
    ///
    /// See [`Reconciler::reconcile`].
    fn reconcile(
        &self,
        object: Arc<Self::Object>,
        cx: &Context,
    ) -> impl Future<Output = Result<Action, ReconcileError>> + Send;
}

/// Makes a reconciler that reads each object from `cached` and passes it to `reconciler`. A request for a deleted object is
/// done. An object that does not fit its type is a terminal error: its request runs again when the object changes.
#[doc(alias = "AsReconciler")]
pub fn as_reconciler<T: ObjectReconciler>(cached: Cached<T::Object>, reconciler: T) -> AsReconciler<T> {
    AsReconciler { cached, reconciler }
}

/// An [`ObjectReconciler`] as a [`Reconciler`]. Made by [`as_reconciler`].
pub struct AsReconciler<T: ObjectReconciler> {
    cached: Cached<T::Object>,
    reconciler: T,
}

impl<T: ObjectReconciler> Reconciler for AsReconciler<T> {
    type Request = ObjectKey<T::Object>;

    async fn reconcile(&self, key: &ObjectKey<T::Object>, cx: &Context) -> Result<Action, ReconcileError> {
        match self.cached.get(key)? {
            Some(object) => self.reconciler.reconcile(object, cx).await,
            None => Ok(Action::done()),
        }
    }
}

impl<T: ObjectReconciler> fmt::Debug for AsReconciler<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsReconciler").field("cached", &self.cached).finish_non_exhaustive()
    }
}
