//! Runnable of the caches of a manager's own cluster.

use std::{sync::Arc, time::Duration};

use super::Error;
use crate::{
    cache::{Cache, ForbiddenError, NotSynced},
    error::BoxError,
    runnable::{RunContext, Runnable},
};

/// Runs the caches: their lists and watches.
pub(super) struct Caches {
    pub(super) cache: Arc<Cache>,
    pub(super) client: kube::Client,
    pub(super) sync_timeout: Duration,
}

impl Caches {
    /// Waits until all current caches have received their initial lists.
    pub(super) async fn synced(&self) -> Result<(), Error> {
        let timeout = self.sync_timeout;
        self.cache.synced(timeout).await.map_err(|error| match error {
            NotSynced::Forbidden(missing) => Error::Forbidden(ForbiddenError { missing }),
            NotSynced::Late { resource, reason } => Error::CacheSync { resource, timeout, reason },
        })
    }
}

impl Runnable for Arc<Caches> {
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
