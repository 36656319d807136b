//! The caches of a manager as one of its runnables.

use std::{sync::Arc, time::Duration};

use tokio::{task::JoinSet, time::timeout};

use super::{BoxError, Error, RunContext, Runnable};
use crate::cache::{AnyInformer, Cache, Status};

/// Fills the caches and keeps them up to date.
pub(super) struct Caches {
    pub(super) cache: Arc<Cache>,
    pub(super) client: kube::Client,
    pub(super) sync_timeout: Duration,
}

impl Caches {
    /// Waits until the caches that are there by now know the present.
    pub(super) async fn synced(&self) -> Result<(), Error> {
        all_synced(&self.cache.informers(), self.sync_timeout).await
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
        // The set stops its tasks when it is dropped, wherever this future stops.
        let mut tasks = JoinSet::new();
        let mut informers = self.cache.informers();
        for informer in &informers {
            tasks.spawn(Arc::clone(informer).run(self.client.clone(), cx.rng.fork()));
        }
        let shutdown = cx.draining.clone();
        tokio::select! {
            // A shutdown must not wait for caches that may never become complete.
            biased;
            () = shutdown.cancelled() => return finish(tasks).await,
            ended = next_end(&mut tasks) => return Err(ended.into()),
            synced = all_synced(&informers, self.sync_timeout) => synced?,
        }
        cx.set_ready();
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return finish(tasks).await,
                ended = next_end(&mut tasks) => return Err(ended.into()),
                () = self.cache.changed() => {
                    for informer in self.cache.informers() {
                        if !informers.iter().any(|known| Arc::ptr_eq(known, &informer)) {
                            tasks.spawn(Arc::clone(&informer).run(self.client.clone(), cx.rng.fork()));
                            informers.push(informer);
                        }
                    }
                }
            }
        }
    }
}

async fn finish(mut tasks: JoinSet<()>) -> Result<(), BoxError> {
    tasks.shutdown().await;
    Ok(())
}

/// Waits until every cache knows the present.
async fn all_synced(informers: &[Arc<dyn AnyInformer>], limit: Duration) -> Result<(), Error> {
    let all = async {
        for informer in informers {
            // The sender lives in the informer, which the slice keeps alive.
            let _ = informer.status().wait_for(|status| status.synced).await;
        }
    };
    if timeout(limit, all).await.is_ok() {
        return Ok(());
    }
    for informer in informers {
        let Status { synced, error } = informer.status().borrow().clone();
        if !synced {
            let reason = error.unwrap_or_else(|| "the API server has not answered yet".to_owned());
            return Err(Error::CacheSync { resource: informer.resource(), timeout: limit, reason });
        }
    }
    Ok(()) // the last one came in at the last moment
}

/// Waits for the end of a task that should never end by itself. Pending while there are no tasks.
async fn next_end(tasks: &mut JoinSet<()>) -> Error {
    match tasks.join_next().await {
        None => std::future::pending().await,
        Some(end) => {
            let reason = end.map_or_else(|error| error.to_string(), |()| "it returned".to_owned());
            Error::TaskEnded { task: "a cache".to_owned(), reason }
        }
    }
}
