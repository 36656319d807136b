//! Context of a reconcile: client, recorder, and facts about the run.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube_clock::Clock;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Causes;
use crate::{client::Client, recorder::Recorder};

/// Context of one run of a reconciler: its client, its recorder, and facts about the run.
#[derive(Debug, Clone)]
pub struct Context {
    pub(crate) attempt: u32,
    pub(crate) causes: Causes,
    pub(crate) last_error: Option<String>,
    pub(crate) id: Uuid,
    pub(crate) worker: Arc<WorkerContext>,
}

/// Shared by all runs of a worker.
#[derive(Debug)]
pub(crate) struct WorkerContext {
    pub(crate) client: Client,
    pub(crate) recorder: Recorder,
    pub(crate) draining: CancellationToken,
    pub(crate) clock: Clock,
}

impl Context {
    /// Number of runs of this request that failed, or returned [`Action::requeue`](super::Action::requeue), since its last success;
    /// 0 in the first run. Errors of [`ReconcileError::retry_after`](super::ReconcileError::retry_after) do not count.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The events that led to this run. A retry, a run requested by the previous one, and the initial list have none;
    /// [`Causes::without_event`] distinguishes these.
    #[must_use]
    pub fn causes(&self) -> &Causes {
        &self.causes
    }

    /// Error of the previous run of this request if that failed, cut off after 1 KiB. Also `None` if more than 1024 requests
    /// fail, and the error of this one is no longer stored.
    #[must_use]
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// Unique ID of this run, `reconcileID` in the log.
    #[must_use]
    #[doc(alias = "ReconcileIDFromContext")]
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// The client for the writes of this reconcile. Which client of the manager it is depends on the controller:
    ///
    /// - A controller that [needs leader election](crate::controller::ControllerOptions::needs_leader_election), which is the default,
    ///   gets [`Manager::client`](crate::Manager::client): while this process does not hold the lease, writes fail with
    ///   [`ErrorKind::NotPermitted`](crate::client::ErrorKind::NotPermitted).
    /// - A controller without leader election gets [`Manager::ungated_client`](crate::Manager::ungated_client), which writes at
    ///   any time.
    ///
    /// The manager's caches show its writes at once. Objects of another cluster are written with
    /// [`Cluster::client`](crate::manager::Cluster::client).
    ///
    /// ```
    /// use controller_runtime::{Action, Cached, Context, ObjectKey, ReconcileError, Reconciler};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// struct Collector { maps: Cached<ConfigMap> }
    ///
    /// impl Reconciler for Collector {
    ///     type Request = ObjectKey<ConfigMap>;
    ///
    ///     async fn reconcile(&self, key: &ObjectKey<ConfigMap>, cx: &Context) -> Result<Action, ReconcileError> {
    ///         match self.maps.get(key)? {
    ///             Some(map) if map.data.is_none() => cx.client().delete(&*map).await?,
    ///             _ => return Ok(Action::done()),
    ///         };
    ///         Ok(Action::done())
    ///     }
    /// }
    /// ```
    #[must_use]
    #[doc(alias = "GetClient")]
    pub fn client(&self) -> &Client {
        &self.worker.client
    }

    /// The recorder of Kubernetes Events of the controller. It does not wait for the API server.
    #[must_use]
    pub fn events(&self) -> &Recorder {
        &self.worker.recorder
    }

    /// Token that is cancelled when the manager shuts down or the controller has failed. A long reconcile can check it to finish
    /// early.
    #[must_use]
    pub fn draining(&self) -> &CancellationToken {
        &self.worker.draining
    }

    /// Wall time, for timestamps in API objects such as those of conditions.
    ///
    /// Reads the system clock at each call. While tokio's time is paused it advances with tokio's time instead, and agrees with
    /// the clocks of other managers and of an embedded API server in this process; see
    /// [`ManagerOptions::epoch`](crate::ManagerOptions::epoch).
    ///
    /// It may jump when the system clock is set. Measure durations with [`tokio::time::Instant`].
    #[must_use]
    pub fn wall_time(&self) -> Timestamp {
        self.worker.clock.now()
    }
}
