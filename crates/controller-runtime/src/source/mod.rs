//! Sources: where a controller's requests come from.
//!
//! [`Kind`] tells of the changes of cached objects, of this cluster or of another one. [`Events`] and [`Requests`] take what
//! a stream or a channel brings. For everything else there is the trait [`Source`], and [`from_fn`] for a closure.

mod delivery;
mod from_fn;
mod kind;
mod owns;
mod retries;
mod rules;
mod sink;
mod stream;

use std::{any::type_name, future::Future, pin::Pin, sync::Arc};

pub use self::{
    from_fn::{FromFn, from_fn},
    kind::Kind,
    owns::{MetadataOnly, Owns, Whole},
    sink::Sink,
    stream::{Events, Requests},
};
use crate::{manager::BoxError, reconcile::Request};

/// Asks a controller for reconciles.
///
/// ```
/// use std::time::Duration;
/// use controller_runtime::{manager::BoxError, source::{Sink, Source}};
///
/// /// Asks for a look at everything, once an hour.
/// struct Hourly;
///
/// impl Source<&'static str> for Hourly {
///     fn name(&self) -> String {
///         "hourly".to_owned()
///     }
///
///     async fn run(&self, sink: Sink<&'static str>) -> Result<(), BoxError> {
///         loop {
///             tokio::time::sleep(Duration::from_secs(3600)).await;
///             sink.add("everything");
///         }
///     }
/// }
/// ```
pub trait Source<R: Request>: Send + Sync + 'static {
    /// How messages name it, and the [causes](crate::reconcile::Cause) of what it asks for. Default: its type.
    fn name(&self) -> String {
        type_name::<Self>().to_owned()
    }

    /// Puts requests into `sink` until there will be no more of them, which is no error.
    ///
    /// Called once in each run of the manager and, if the controller needs leader election and does not
    /// [warm up](crate::controller::Options::enable_warmup), once in each leadership.
    ///
    /// # Cancellation
    ///
    /// The future is dropped when the controller stops: what was taken and not put into the sink by then is lost.
    ///
    /// # Errors
    ///
    /// Whatever makes it pointless that the controller goes on: it fails, and with it the manager. If the source was added
    /// while the controller ran, that goes on, and the log has the error.
    fn run(&self, sink: Sink<R>) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Whether it says by [`Sink::set_synced`] when it has told what there is: nothing is reconciled before that, for as
    /// long as [`cache_sync_timeout`](crate::controller::Options::cache_sync_timeout) allows. Default: no.
    #[doc(alias = "SyncingSource")]
    fn signals_synced(&self) -> bool {
        false
    }

    /// What keeps it from being synced, for the message when that takes too long.
    fn trouble(&self) -> Option<String> {
        None
    }
}

/// A source behind a pointer.
pub(crate) trait DynSource<R: Request>: Send + Sync {
    fn name(&self) -> String;
    fn run(self: Arc<Self>, sink: Sink<R>) -> Running;
    fn signals_synced(&self) -> bool;
    fn trouble(&self) -> Option<String>;
}

pub(crate) type Running = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

impl<R: Request, S: Source<R>> DynSource<R> for S {
    fn name(&self) -> String {
        Source::name(self)
    }

    fn run(self: Arc<Self>, sink: Sink<R>) -> Running {
        Box::pin(async move { Source::run(&*self, sink).await })
    }

    fn signals_synced(&self) -> bool {
        Source::signals_synced(self)
    }

    fn trouble(&self) -> Option<String> {
        Source::trouble(self)
    }
}
