//! Reconcilers made from async functions.

use std::{fmt, future::Future, marker::PhantomData};

use super::{Action, Context, ReconcileError, Reconciler, Request};

/// Makes a reconciler from an async function or closure.
///
/// ```
/// use controller_runtime::{Action, Builder, Context, Manager, ObjectKey, ReconcileError, reconcile};
/// use k8s_openapi::api::core::v1::Pod;
///
/// async fn print(pod: &ObjectKey<Pod>, cx: &Context) -> Result<Action, ReconcileError> {
///     println!("{pod}, attempt {}", cx.attempt());
///     Ok(Action::done())
/// }
///
/// # fn example(manager: &Manager) -> Result<(), controller_runtime::manager::AddError> {
/// Builder::managed_by(manager).for_kind::<Pod>().complete(reconcile::from_fn(print))?;
/// Builder::managed_by(manager).for_kind::<Pod>().named("deleter").complete(reconcile::from_fn(
///     async |pod: &ObjectKey<Pod>, cx: &Context| {
///         cx.client().delete_key(pod).await?;
///         Ok(Action::done())
///     },
/// ))?;
/// # Ok(())
/// # }
/// ```
///
/// A closure cannot capture variables, because its future would borrow from it: [`from_fn_with`] passes them as an argument.
#[doc(alias = "reconcile.Func")]
pub fn from_fn<R, F>(function: F) -> FnReconciler<R, F>
where
    R: Request,
    // The first bound lets the compiler infer the argument types of a closure, the second one requires its future to be `Send`.
    F: AsyncFn(&R, &Context) -> Result<Action, ReconcileError>
        + for<'a> ReconcileFn<'a, R>
        + Send
        + Sync
        + 'static,
{
    FnReconciler { function, request: PhantomData }
}

/// Like [`from_fn`], with a value that each call borrows: caches, settings, clients of other systems.
///
/// ```
/// use controller_runtime::{Action, Builder, Cached, Context, Manager, ObjectKey, reconcile};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # fn example(manager: &Manager) -> Result<(), controller_runtime::manager::AddError> {
/// let maps = manager.cached::<ConfigMap>();
/// Builder::managed_by(manager).for_kind::<ConfigMap>().complete(reconcile::from_fn_with(
///     maps,
///     async |maps: &Cached<ConfigMap>, key: &ObjectKey<ConfigMap>, cx: &Context| {
///         if let Some(map) = maps.get(key)? && map.data.is_none() {
///             cx.client().delete(&*map).await?;
///         }
///         Ok(Action::done())
///     },
/// ))?;
/// # Ok(())
/// # }
/// ```
pub fn from_fn_with<S, R, F>(state: S, function: F) -> FnReconcilerWith<S, R, F>
where
    S: Send + Sync + 'static,
    R: Request,
    F: AsyncFn(&S, &R, &Context) -> Result<Action, ReconcileError>
        + for<'a> ReconcileFnWith<'a, S, R>
        + Send
        + Sync
        + 'static,
{
    FnReconcilerWith { state, function, request: PhantomData }
}

/// Functions accepted by [`from_fn`]: implemented for every function and closure with a future that is `Send`.
pub trait ReconcileFn<'a, R: Request>: Fn(&'a R, &'a Context) -> Self::Running {
    /// Future of one reconcile.
    type Running: Future<Output = Result<Action, ReconcileError>> + Send;
}

impl<'a, R, F, Running> ReconcileFn<'a, R> for F
where
    R: Request,
    F: Fn(&'a R, &'a Context) -> Running,
    Running: Future<Output = Result<Action, ReconcileError>> + Send,
{
    type Running = Running;
}

/// Functions accepted by [`from_fn_with`]: implemented for every function and closure with a future that is `Send`.
pub trait ReconcileFnWith<'a, S: 'a, R: Request>: Fn(&'a S, &'a R, &'a Context) -> Self::Running {
    /// Future of one reconcile.
    type Running: Future<Output = Result<Action, ReconcileError>> + Send;
}

impl<'a, S, R, F, Running> ReconcileFnWith<'a, S, R> for F
where
    S: 'a,
    R: Request,
    F: Fn(&'a S, &'a R, &'a Context) -> Running,
    Running: Future<Output = Result<Action, ReconcileError>> + Send,
{
    type Running = Running;
}

/// A function as a reconciler. Made by [`from_fn`].
pub struct FnReconciler<R, F> {
    function: F,
    request: PhantomData<fn(R)>,
}

impl<R, F> Reconciler for FnReconciler<R, F>
where
    R: Request,
    F: for<'a> ReconcileFn<'a, R> + Send + Sync + 'static,
{
    type Request = R;

    async fn reconcile(&self, request: &R, cx: &Context) -> Result<Action, ReconcileError> {
        (self.function)(request, cx).await
    }
}

impl<R, F> fmt::Debug for FnReconciler<R, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnReconciler").finish_non_exhaustive()
    }
}

/// A function and its state as a reconciler. Made by [`from_fn_with`].
pub struct FnReconcilerWith<S, R, F> {
    state: S,
    function: F,
    request: PhantomData<fn(R)>,
}

impl<S, R, F> Reconciler for FnReconcilerWith<S, R, F>
where
    S: Send + Sync + 'static,
    R: Request,
    F: for<'a> ReconcileFnWith<'a, S, R> + Send + Sync + 'static,
{
    type Request = R;

    async fn reconcile(&self, request: &R, cx: &Context) -> Result<Action, ReconcileError> {
        (self.function)(&self.state, request, cx).await
    }
}

impl<S, R, F> fmt::Debug for FnReconcilerWith<S, R, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnReconcilerWith").finish_non_exhaustive()
    }
}
