//! The caches of a manager as one of its runnables.

use std::{sync::Arc, time::Duration};

use super::{BoxError, Error, RunContext, Runnable};
use crate::cache::{Cache, NotSynced};

/// Fills the caches and keeps them up to date.
pub(super) struct Caches {
    /// The name of the cluster, if it is another one than the manager's.
    pub(super) cluster: Option<Arc<str>>,
    pub(super) cache: Arc<Cache>,
    pub(super) client: kube::Client,
    pub(super) sync_timeout: Duration,
}

impl Caches {
    /// Waits until the caches that are there by now know the present.
    pub(super) async fn synced(&self) -> Result<(), Error> {
        let timeout = self.sync_timeout;
        let there = |resource: String| match &self.cluster {
            None => resource,
            Some(name) => format!("{resource} in cluster {name}"),
        };
        self.cache.synced(timeout).await.map_err(|error| match error {
            NotSynced::Forbidden(mut missing) => {
                for right in &mut missing {
                    right.resource = there(std::mem::take(&mut right.resource));
                }
                Error::Forbidden { missing }
            }
            NotSynced::Late { resource, reason } => {
                Error::CacheSync { resource: there(resource), timeout, reason }
            }
        })
    }
}

impl Runnable for Arc<Caches> {
    fn name(&self) -> String {
        self.cluster.as_ref().map_or_else(|| "caches".to_owned(), |name| format!("cluster {name}"))
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
            // A shutdown must not wait for caches that may never become complete.
            biased;
            () = shutdown.cancelled() => Ok(()),
            () = self.cache.run(self.client.clone(), rng) => unreachable!("it runs until dropped"),
            failed = ready => failed,
        }
    }
}
