use std::{fmt, future::Future, marker::PhantomData};

use super::{Action, Context, Error, Reconciler, Request};

/// A reconciler of a function, for what needs no type of its own.
///
/// ```
/// use controller_runtime::{Action, Builder, Context, Manager, ObjectKey, reconcile};
/// use k8s_openapi::api::core::v1::Pod;
///
/// # fn example(manager: &Manager) -> Result<(), controller_runtime::manager::AddError> {
/// let print = |pod: ObjectKey<Pod>, cx: Context| async move {
///     println!("{pod}, attempt {}", cx.attempt());
///     Ok(Action::done())
/// };
/// Builder::managed_by(manager).for_kind::<Pod>().complete(reconcile::from_fn(print))?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "reconcile.Func")]
pub fn from_fn<R, F, Fut>(function: F) -> FromFn<R, F>
where
    R: Request,
    F: Fn(R, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, Error>> + Send,
{
    FromFn { function, request: PhantomData }
}

/// A function as a reconciler. Made by [`from_fn`].
pub struct FromFn<R, F> {
    function: F,
    request: PhantomData<fn(R)>,
}

impl<R, F, Fut> Reconciler for FromFn<R, F>
where
    R: Request,
    F: Fn(R, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, Error>> + Send,
{
    type Request = R;

    async fn reconcile(&self, request: &R, cx: &Context) -> Result<Action, Error> {
        (self.function)(request.clone(), cx.clone()).await
    }
}

impl<R, F> fmt::Debug for FromFn<R, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFn").finish_non_exhaustive()
    }
}
