//! Warm-up: sources of a controller that run while its process is on standby.
//!
//! A standby processes no requests, so those of deleted objects stay in its queue. When the queue has doubled, the sources of
//! kinds are restarted with an empty queue. They then deliver the objects that exist, and the deletions of the last ten minutes,
//! as they do to a controller that starts when its process is elected.

use std::{future::pending, sync::Arc};

use tokio::time::{Duration, sleep};

use super::Controller;
use crate::{
    error::BoxError,
    reconcile::Request,
    runnable::{RunContext, Runnable},
};

/// Interval at which the queue of a standby is checked.
const CHECK_EVERY: Duration = Duration::from_secs(10 * 60);

/// Number of requests by which the queue may exceed twice its length at the time when the sources were synced.
const GROWTH: usize = 1000;

/// Runnable of the sources of a controller with warm-up: they fill the queue before the process leads for the first time, and
/// keep running when the process gains or loses the lease.
pub(crate) struct WarmUp<R: Request>(pub(crate) Arc<Controller<R>>);

impl<R: Request> Runnable for WarmUp<R> {
    fn name(&self) -> String {
        format!("warm-up of {}", self.0.name())
    }

    fn signals_ready(&self) -> bool {
        true
    }

    async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
        let Self(controller) = self;
        let ready = async {
            controller.sources.synced().await;
            cx.set_ready();
            // Only the other branches end the runnable.
            pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = cx.shutdown() => Ok(()),
            error = controller.run_sources() => Err(error.into()),
            () = ready => Ok(()),
            () = self.remove_dead_requests() => Ok(()),
        }
    }
}

impl<R: Request> WarmUp<R> {
    /// Keeps the queue of a standby proportional to the objects that exist.
    async fn remove_dead_requests(&self) {
        let Controller { sources, requests, in_use, .. } = &*self.0;
        loop {
            sources.synced().await;
            let living = requests.queue.len();
            while requests.queue.len() <= 2 * living + GROWTH {
                sleep(CHECK_EVERY).await;
            }
            // Restarted sources deliver the deletions of the last ten minutes again, so wait until those that filled the queue
            // are older.
            sleep(CHECK_EVERY).await;
            // If the lock is held, the process leads and its workers empty the queue.
            if let Ok(_standby) = in_use.try_lock() {
                sources.restart(requests.remove_repeatable()).await;
            }
        }
    }
}
