//! [`Reconciler`], the trait to implement.

use std::future::Future;

use super::{Action, Context, ReconcileError, Request};

/// Makes the cluster, or another system, match the spec of an object.
///
/// A reconciler receives a key, not a change. It reads the current state, compares it with the desired state, and acts on the
/// difference. It must be idempotent. It is also called after a deletion: then the cache has no object with the key.
///
/// A controller never runs two reconciles of the same request at the same time.
///
/// # Cancellation
///
/// The future may be dropped at any `.await`, when the manager stops, the process loses the lease, or the reconcile exceeds its
/// timeout. So each write must leave a state from which the next reconcile can continue.
///
/// # Example
///
/// ```
/// use controller_runtime::{Action, Cached, Context, ObjectKey, ReconcileError, Reconciler};
/// use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
///
/// struct Welcome { namespaces: Cached<Namespace> }
///
/// impl Reconciler for Welcome {
///     type Request = ObjectKey<Namespace>;
///
///     async fn reconcile(&self, key: &ObjectKey<Namespace>, cx: &Context) -> Result<Action, ReconcileError> {
///         let Some(namespace) = self.namespaces.get(key)? else { return Ok(Action::done()) };
///         let mut welcome = ConfigMap::default();
///         welcome.metadata.name = Some("welcome".to_owned());
///         welcome.metadata.namespace = namespace.metadata.name.clone();
///         cx.client().apply(&welcome).await?;
///         Ok(Action::done())
///     }
/// }
/// ```
pub trait Reconciler: Send + Sync + 'static {
    /// Type of the requests, usually `ObjectKey<K>`.
    type Request: Request;

    /// Reconciles `request` once.
    ///
    /// # Errors
    ///
    /// Any error is retried with back-off
    /// ([`ControllerOptions::rate_limiter`](crate::controller::ControllerOptions::rate_limiter)), except one made by
    /// [`ReconcileError::terminal`], after which the request waits for the next event, or by
    /// [`ReconcileError::retry_after`], which sets the delay.
    fn reconcile(
        &self,
        request: &Self::Request,
        cx: &Context,
    ) -> impl Future<Output = Result<Action, ReconcileError>> + Send;
}
