//! Sources made from functions.

use std::{fmt, future::Future};

use super::{Sink, Source};
use crate::{error::BoxError, reconcile::Request};

/// Makes a source from a function, which gets a new sink for each run. See [`Source::run`].
///
/// ```
/// use std::time::Duration;
/// use controller_runtime::source::{Sink, from_fn};
///
/// let hourly = from_fn("hourly", |sink: Sink<&'static str>| async move {
///     loop {
///         tokio::time::sleep(Duration::from_secs(3600)).await;
///         sink.add("everything");
///     }
/// });
/// # fn accepted(_: impl controller_runtime::Source<&'static str>) {}
/// # accepted(hourly);
/// ```
#[doc(alias = "source.Func")]
pub fn from_fn<R, F, Fut>(name: impl Into<String>, function: F) -> FnSource<F>
where
    R: Request,
    F: Fn(Sink<R>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), BoxError>> + Send,
{
    FnSource { name: name.into(), function }
}

/// A function as a source. Made by [`from_fn`].
#[derive(Clone)]
pub struct FnSource<F> {
    name: String,
    function: F,
}

impl<R, F, Fut> Source<R> for FnSource<F>
where
    R: Request,
    F: Fn(Sink<R>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), BoxError>> + Send,
{
    fn name(&self) -> String {
        self.name.clone()
    }

    async fn run(&self, sink: Sink<R>) -> Result<(), BoxError> {
        (self.function)(sink).await
    }
}

impl<F> fmt::Debug for FnSource<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnSource").field("name", &self.name).finish_non_exhaustive()
    }
}
