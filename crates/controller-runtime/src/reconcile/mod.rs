//! The reconciler: user code that brings the world to the state that an object's spec asks for.

mod action;
mod cause;
mod context;
mod election;
mod error;
mod from_fn;
mod object;
mod outcome;

use std::{fmt, future::Future, hash::Hash};

pub use self::{
    action::Action,
    cause::{Cause, Causes, ChangeType, WithoutEvent},
    context::Context,
    error::Error,
    from_fn::{FnReconciler, FnReconcilerWith, ReconcileFn, ReconcileFnWith, from_fn, from_fn_with},
    object::{AsReconciler, ObjectReconciler, as_reconciler},
};
pub(crate) use self::{
    action::Next,
    context::Surroundings,
    election::{unelected_controller, without_election},
    error::Retry,
    outcome::Outcome,
};

/// Key of a reconcile: any value that can be a key of the queue.
///
/// Usually an [`ObjectKey`](crate::ObjectKey). Implemented for every type with the listed properties: order and hash
/// distinguish requests, and the `Debug` form names a request in the log.
pub trait Request: Clone + Ord + Hash + fmt::Debug + Send + Sync + 'static {}

impl<T: Clone + Ord + Hash + fmt::Debug + Send + Sync + 'static> Request for T {}

/// Brings the world one step closer to the state that an object asks for.
///
/// A reconciler is called with a key, not with a change: it reads the current state, compares it with the desired one, and
/// acts. It must therefore be idempotent. A deleted object is absent from the cache.
///
/// A controller never runs two reconciles of the same request at the same time.
///
/// # Cancellation
///
/// The future may be dropped at any `.await` when the manager stops: each write must leave a state from which the
/// next reconcile can continue.
///
/// # Example
///
/// ```
/// use controller_runtime::{Action, Cached, Context, ObjectKey, Reconciler, reconcile};
/// use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
///
/// struct Welcome { namespaces: Cached<Namespace> }
///
/// impl Reconciler for Welcome {
///     type Request = ObjectKey<Namespace>;
///
///     async fn reconcile(&self, key: &ObjectKey<Namespace>, cx: &Context) -> Result<Action, reconcile::Error> {
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
    /// Any error is retried with back-off ([`Options::rate_limiter`](crate::controller::Options::rate_limiter)), except one
    /// made by [`Error::terminal`], after which the request waits for the next event, or by [`Error::retry_after`], which sets
    /// the delay.
    fn reconcile(
        &self,
        request: &Self::Request,
        cx: &Context,
    ) -> impl Future<Output = Result<Action, Error>> + Send;
}
