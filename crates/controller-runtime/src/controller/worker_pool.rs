//! The number of workers of a controller, and the running workers.
//!
//! A worker has a number, and runs while its number is below the wanted count. The pool starts the workers of missing numbers. A
//! worker whose number is no longer wanted returns after its reconcile, or continues if its number is wanted again before that. So
//! every sequence of changes ends with the same set of workers.

use std::sync::Arc;

use tokio::{
    sync::watch,
    task::{JoinError, JoinSet},
};
use tracing::Instrument;

use super::worker::{Exit, Worker};
use crate::reconcile::Request;

/// Default number of workers of a controller. See
/// [`ControllerOptions::max_concurrent_reconciles`](super::ControllerOptions::max_concurrent_reconciles) for the reasons.
pub(super) const DEFAULT_WORKERS: usize = 16;

/// Highest number of workers. Each is a task of one to two KiB, so that a number beyond this is a mistake.
pub(super) const MAX_WORKERS: usize = 10_000;

/// Error for a number of workers that is zero or above 10,000.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("controller {controller} cannot have {workers} workers ({setting}): use 1 to {MAX_WORKERS}")]
pub struct WorkersError {
    controller: String,
    workers: usize,
    setting: String,
}

/// Returns `workers` if it is a valid number; `setting` names the option that holds the number.
pub(super) fn check(controller: &str, workers: usize, setting: &str) -> Result<usize, WorkersError> {
    if (1..=MAX_WORKERS).contains(&workers) {
        Ok(workers)
    } else {
        Err(WorkersError { controller: controller.to_owned(), workers, setting: setting.to_owned() })
    }
}

/// The number of workers that a controller should have.
pub(super) type WantedWorkers = watch::Sender<usize>;

/// The workers of one run of a controller. Dropping it aborts them.
pub(super) struct WorkerPool<R: Request> {
    wanted: watch::Receiver<usize>,
    /// Started workers by number; `None` for a retired one.
    workers: Vec<Option<Arc<Worker<R>>>>,
    tasks: JoinSet<Exit>,
}

impl<R: Request> WorkerPool<R> {
    pub(super) fn new(wanted: watch::Receiver<usize>) -> Self {
        Self { wanted, workers: Vec::new(), tasks: JoinSet::new() }
    }

    /// Starts missing workers. Returns all that run.
    pub(super) fn fill(&mut self, make: impl Fn(usize) -> Worker<R>) -> Vec<Arc<Worker<R>>> {
        // Marked as seen, so that `changed` waits for the next change only.
        let wanted = *self.wanted.borrow_and_update();
        if self.workers.len() < wanted {
            self.workers.resize_with(wanted, || None);
        }
        for (number, place) in self.workers.iter_mut().enumerate().take(wanted) {
            place.get_or_insert_with(|| {
                let worker = Arc::new(make(number));
                self.tasks.spawn(Arc::clone(&worker).into_future(self.wanted.clone()).in_current_span());
                worker
            });
        }
        self.workers.iter().flatten().cloned().collect()
    }

    /// Waits until [`fill`](Self::fill) must be called again. Returns an error if a worker panicked.
    ///
    /// # Cancellation
    /// Dropping the future loses nothing: both waits are safe to repeat, and a worker is removed without an `.await` after
    /// its end was seen.
    pub(super) async fn changed(&mut self) -> Result<(), JoinError> {
        loop {
            tokio::select! {
                biased;
                Some(ended) = self.tasks.join_next() => match ended? {
                    Exit::Retired(number) => {
                        self.workers[number] = None;
                        // The number may be wanted again.
                        return Ok(());
                    }
                    // The worker stays in its place, so that it is not started again: its queue was shut down, or the
                    // controller is stopping.
                    Exit::Finished => {}
                },
                changed = self.wanted.changed() => match changed {
                    Ok(()) => return Ok(()),
                    // The controller holds the sender for longer than a run.
                    Err(_) => std::future::pending().await,
                },
            }
        }
    }

    /// Waits until every worker has returned.
    pub(super) async fn drained(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    /// Drops running reconciles at their next `.await`, and puts their requests back into the queue.
    pub(super) async fn stop(mut self) {
        self.tasks.shutdown().await;
        for worker in self.workers.iter().flatten() {
            worker.put_back();
        }
    }
}
