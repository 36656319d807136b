//! [`Source`], and its object-safe form.

use std::{any::type_name, future::Future, pin::Pin, sync::Arc};

use super::Sink;
use crate::{error::BoxError, reconcile::Request};

/// Adds requests to the queue of a controller.
///
/// ```
/// use std::time::Duration;
/// use controller_runtime::{BoxError, Source, source::Sink};
///
/// /// Enqueues everything once an hour.
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
    /// Name in messages and in the [causes](crate::reconcile::Cause) of requests. Default: the name of the type.
    fn name(&self) -> String {
        type_name::<Self>().to_owned()
    }

    /// Puts requests into `sink` until the source has no more. When `run` returns `Ok`, the controller continues.
    ///
    /// Called once in each run of the manager. If the controller needs leader election and does not
    /// [warm up](crate::controller::ControllerOptions::enable_warmup), called each time the process becomes the leader.
    ///
    /// # Cancellation
    ///
    /// The future is dropped when the controller stops. Items that it has received but not put into the sink are lost.
    ///
    /// # Errors
    ///
    /// An error means that the controller cannot continue: it stops with the error, and with it the manager, unless the controller
    /// [does not require](Source::is_required) the source.
    fn run(&self, sink: Sink<R>) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Returns whether the source calls [`Sink::set_synced`] once it has delivered the initial state. No request is reconciled
    /// before, for as long as [`cache_sync_timeout`](crate::controller::ControllerOptions::cache_sync_timeout) allows.
    /// Default: no.
    #[doc(alias = "SyncingSource")]
    fn signals_synced(&self) -> bool {
        false
    }

    /// Returns whether each run delivers all objects that exist, so that the controller may end a run and begin another one.
    /// A controller with [warm-up](crate::controller::ControllerOptions::enable_warmup) does so on a standby whose queue has
    /// grown, to drop requests of deleted objects. Default: no.
    fn delivers_again(&self) -> bool {
        false
    }

    /// Returns the reason why the source is not synced, for the error if syncing takes too long. Default: none.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Whether the controller requires the source. Default: yes. A [`Kind`](crate::Kind) of another [`Cluster`](crate::manager::Cluster) is
    /// not required.
    ///
    /// A controller starts without waiting for a source that it does not require. If such a source fails, the error is logged,
    /// the controller continues, and the source is run again after 10 s, for as long as the controller runs. A source that was
    /// added while the controller ran is treated in the same way.
    fn is_required(&self) -> bool {
        true
    }
}

/// Object-safe form of [`Source`].
pub(crate) trait DynSource<R: Request>: Send + Sync {
    fn name(&self) -> String;
    fn run(self: Arc<Self>, sink: Sink<R>) -> Running;
    fn signals_synced(&self) -> bool;
    fn delivers_again(&self) -> bool;
    fn trouble(&self) -> Option<String>;
    fn is_required(&self) -> bool;
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

    fn delivers_again(&self) -> bool {
        Source::delivers_again(self)
    }

    fn trouble(&self) -> Option<String> {
        Source::trouble(self)
    }

    fn is_required(&self) -> bool {
        Source::is_required(self)
    }
}
