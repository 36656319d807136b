//! Handle of a source that was added to a running controller.

use std::{fmt, sync::Arc};

use super::sources::{SourcePhase, SourceState, Sources};
use crate::{ordered_watch, reconcile::Request, source::DynSource};

/// Handle of a source that was added after its controller was made. Dropping it has no effect. Made by
/// [`ControllerHandle::watch`](super::ControllerHandle::watch).
///
/// ```no_run
/// # use controller_runtime::{Kind, MapMeta, ObjectKey, cache::Meta, controller::{self, NotSyncedError}};
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
/// # async fn example(controller: &controller::ControllerHandle<ObjectKey<Deployment>>) -> Result<(), NotSyncedError> {
/// let secrets = Kind::<Secret, _>::new(MapMeta(|secret: &Meta| {
///     secret.namespace().map(|namespace| ObjectKey::new(namespace, secret.name()))
/// }));
/// let watch = controller.watch(secrets);
/// watch.synced().await?; // events of all existing secrets have been delivered
/// // … later, when they are no longer needed:
/// watch.remove().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SourceHandle {
    name: Arc<str>,
    state: ordered_watch::Receiver<SourceState>,
    remove: Arc<dyn Fn() + Send + Sync>,
}

/// Error of a source that is not synced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} is not synced: {reason}")]
#[non_exhaustive]
pub struct NotSyncedError {
    /// Name of the source.
    pub name: String,
    /// Cause of the failure.
    pub reason: String,
}

impl SourceHandle {
    pub(super) fn new<R: Request>(sources: &Arc<Sources<R>>, source: Arc<dyn DynSource<R>>) -> Self {
        let (id, name, state) = sources.add(source);
        let sources = Arc::clone(sources);
        Self { name, state, remove: Arc::new(move || sources.remove(id)) }
    }

    /// Name of the source.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until the source has delivered its initial state. Pending while the controller does not run.
    ///
    /// # Errors
    ///
    /// The source failed, or has not synced within [`cache_sync_timeout`](super::ControllerOptions::cache_sync_timeout). The
    /// controller continues without it, and the source is retried.
    pub async fn synced(&self) -> Result<(), NotSyncedError> {
        let mut state = self.state.clone();
        let decided = |state: &SourceState| !matches!(state.phase, SourcePhase::Idle | SourcePhase::Waiting);
        let phase = match state.wait_for(decided).await {
            Ok(state) => state.phase,
            Err(_) => SourcePhase::Failing("the source was removed".to_owned()),
        };
        match phase {
            SourcePhase::Failing(reason) => Err(NotSyncedError { name: self.name.to_string(), reason }),
            _ => Ok(()),
        }
    }

    /// Removes the source, and waits until it has ended. Its watch stops, unless another source or cache uses it.
    /// Requests that it has put into the queue stay there.
    ///
    /// # Cancellation
    ///
    /// Dropping the future only ends the wait.
    pub async fn remove(mut self) {
        (self.remove)();
        // An error means that the entry of the source, which holds the sender, was dropped: the source has ended.
        let _ =
            self.state.wait_for(|state| matches!(state.phase, SourcePhase::Idle | SourcePhase::Ended)).await;
    }
}

impl fmt::Debug for SourceHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceHandle").field("name", &self.name).finish_non_exhaustive()
    }
}
