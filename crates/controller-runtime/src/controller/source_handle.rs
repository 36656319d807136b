//! Handle of a source that was added to a running controller.

use std::{fmt, sync::Arc};

use super::sources::{Phase, Sources, Standing};
use crate::{ordered_watch, reconcile::Request, source::DynSource};

/// Handle of a source that was added after its controller was made. Dropping it has no effect. Made by
/// [`ControllerHandle::watch`](super::ControllerHandle::watch).
///
/// ```no_run
/// # use controller_runtime::{MapMeta, ObjectKey, cache::Meta, controller::{self, NotSyncedError}, source::Kind};
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
    standing: ordered_watch::Receiver<Standing>,
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
        let (id, name, standing) = sources.add(source);
        let sources = Arc::clone(sources);
        Self { name, standing, remove: Arc::new(move || sources.remove(id)) }
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
    /// The source failed, or has not synced within [`cache_sync_timeout`](super::Options::cache_sync_timeout). The controller
    /// continues without it, and the source is retried.
    pub async fn synced(&self) -> Result<(), NotSyncedError> {
        let mut standing = self.standing.clone();
        let decided = |standing: &Standing| !matches!(standing.phase, Phase::Idle | Phase::Waiting);
        let phase = match standing.wait_for(decided).await {
            Ok(standing) => standing.phase,
            Err(_) => Phase::Failing("the source was removed".to_owned()),
        };
        match phase {
            Phase::Failing(reason) => Err(NotSyncedError { name: self.name.to_string(), reason }),
            _ => Ok(()),
        }
    }

    /// Removes the source, and waits until it has ended. Its watch stops, unless something else reads it.
    /// Requests that it has put into the queue stay there.
    ///
    /// # Cancellation
    ///
    /// Dropping the future only ends the wait.
    pub async fn remove(mut self) {
        (self.remove)();
        // An error means that nothing of the source is left.
        let _ = self.standing.wait_for(|standing| matches!(standing.phase, Phase::Idle | Phase::Ended)).await;
    }
}

impl fmt::Debug for SourceHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceHandle").field("name", &self.name).finish_non_exhaustive()
    }
}
