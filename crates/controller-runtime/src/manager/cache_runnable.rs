//! Runnable of the caches of a manager's own cluster.

use std::{sync::Arc, time::Duration};

use super::ManagerError;
use crate::{
    cache::{Cache, ForbiddenError, NotSynced},
    error::BoxError,
    runnable::{RunContext, Runnable},
};

/// Runs the caches: their lists and watches.
pub(super) struct CacheRunnable {
    pub(super) cache: Arc<Cache>,
    pub(super) client: kube::Client,
    pub(super) sync_timeout: Duration,
}

impl CacheRunnable {
    /// Waits until all current caches have received their initial lists.
    pub(super) async fn synced(&self) -> Result<(), ManagerError> {
        let timeout = self.sync_timeout;
        self.cache.synced(timeout).await.map_err(|error| match error {
            NotSynced::Forbidden(missing) => ManagerError::Forbidden(ForbiddenError { missing }),
            NotSynced::Late { resource, reason } => ManagerError::CacheSync { resource, timeout, reason },
        })
    }
}

impl Runnable for Arc<CacheRunnable> {
    fn name(&self) -> String {
        "caches".to_owned()
    }

    fn signals_ready(&self) -> bool {
        true
    }

    fn needs_leader_election(&self) -> bool {
        false
    }

    async fn start(&self, mut cx: RunContext) -> Result<(), BoxError> {
        let (shutdown, rng) = (cx.draining.clone(), cx.rng.fork());
        let ready = async {
            self.synced().await?;
            cx.set_ready();
            std::future::pending().await
        };
        tokio::select! {
            // A shutdown must not wait for caches that may never sync.
            biased;
            () = shutdown.cancelled() => Ok(()),
            () = self.cache.run(self.client.clone(), rng) => unreachable!("it runs until dropped"),
            failed = ready => failed,
        }
    }
}
