//! One run of a manager, from the first list to the last drained reconcile.

use std::{fmt, future::Future, pin::pin, sync::Arc, time::Duration};

use tokio::{sync::watch, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{Manager, Shutdown, State};
use crate::{
    cache::{AnyInformer, Status, Subscription},
    clock::Clock,
    controller::{AnyController, InWork, Surroundings},
    recorder::Recorder,
};

/// How long the events that wait may take to be written when the manager stops.
const FLUSH: Duration = Duration::from_secs(2);

/// Why a manager's run failed.
///
/// Its `Debug` form is the message as well, because that is what a `main` that returns it prints.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A cache did not become complete in time.
    #[error("the cache of {resource} is not complete after {} s: {reason}", timeout.as_secs_f32())]
    CacheSync {
        /// The resource, e.g. `deployments.apps`.
        resource: String,
        /// How long the manager waited.
        timeout: Duration,
        /// What last went wrong with its list or watch.
        reason: String,
    },
    /// Reconciles did not finish in time when the manager stopped. They were dropped.
    #[error("still running {} s after the shutdown began: {}", timeout.as_secs_f32(), unfinished.join(", "))]
    ShutdownTimeout {
        /// Controller and request of each.
        unfinished: Vec<String>,
        /// How long the manager waited.
        timeout: Duration,
    },
    /// A task of the manager ended although it never should: this is a bug.
    #[error("{task} ended unexpectedly: {reason}")]
    TaskEnded {
        /// What the task did.
        task: String,
        /// How it ended.
        reason: String,
    },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Manager {
    /// Runs until `shutdown` is done, then drains.
    ///
    /// # Cancellation
    ///
    /// Dropping the future stops everything, as a crash would: no task is left behind, and every reconcile in work is
    /// dropped at its next `.await`. On a runtime with several threads that may be a moment later, so a manager started
    /// right after may meet the end of such a reconcile. [`State::Stopped`] after a shutdown is free of that.
    ///
    /// # Errors
    ///
    /// A cache did not become complete in time, or reconciles did not finish in time.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let _stopped = Stopped(&self.state);
        let mut rng = self.options.rng();
        let kube = self.client.kube();

        // Each set of tasks aborts them when it is dropped, wherever this future stops.
        self.state.send_replace(State::Starting);
        let mut caches = JoinSet::new();
        let informers = self.cache.informers();
        for informer in &informers {
            caches.spawn(Arc::clone(informer).run(kube.clone(), rng.fork()));
        }
        let result = self.work(shutdown, &informers, &mut caches, rng).await;
        caches.shutdown().await;
        result
    }

    /// From the first list to the last drained reconcile.
    async fn work(
        &self,
        shutdown: impl Future<Output = ()>,
        informers: &[Arc<dyn AnyInformer>],
        caches: &mut JoinSet<()>,
        mut rng: fastrand::Rng,
    ) -> Result<(), Error> {
        let mut shutdown = pin!(shutdown);
        tokio::select! {
            // A shutdown during the start must not wait for caches that may never become complete.
            biased;
            () = &mut shutdown => return Ok(()),
            ended = next_end(caches, "a cache") => return Err(ended),
            synced = all_synced(informers, self.options.cache_sync_timeout) => synced?,
        }

        let clock = Clock::start();
        let instance = format!("{}-{:08x}", self.options.name, rng.u32(..));
        let (recorder, publisher) = Recorder::new(self.client.kube().clone(), instance, rng.fork(), clock);
        let (mut publishing, last_events) = (JoinSet::new(), CancellationToken::new());
        publishing.spawn(publisher.run(last_events.clone()));
        let mut crew = Crew::default();
        for controller in std::mem::take(&mut *self.controllers.lock()) {
            crew.start(controller, recorder.clone(), rng.fork(), clock);
        }
        self.state.send_replace(State::Ready);
        self.was_ready.send_replace(true);

        let ended = tokio::select! {
            biased;
            () = shutdown => None,
            ended = next_end(caches, "a cache") => Some(ended),
            ended = next_end(&mut crew.workers, "a worker") => Some(ended),
            ended = next_end(&mut publishing, "the writer of events") => Some(ended),
        };

        self.state.send_replace(State::Draining);
        let drained = crew.drain(self.options.graceful_shutdown_timeout).await;
        last_events.cancel();
        if timeout(FLUSH, publishing.join_next()).await.is_err() {
            tracing::warn!("events that waited to be written were lost at the shutdown");
        }
        ended.map_or(drained, Err)
    }
}

/// Says that a manager has stopped, however it did.
struct Stopped<'m>(&'m watch::Sender<State>);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.send_replace(State::Stopped);
    }
}

/// The workers of all controllers.
#[derive(Default)]
struct Crew {
    workers: JoinSet<()>,
    in_work: Vec<InWork>,
    subscriptions: Vec<Subscription>,
    draining: CancellationToken,
}

impl Crew {
    fn start(
        &mut self,
        controller: Box<dyn AnyController>,
        recorder: Recorder,
        rng: fastrand::Rng,
        clock: Clock,
    ) {
        let draining = self.draining.clone();
        let started = controller.start(Surroundings { recorder, draining, rng, clock });
        for worker in started.workers {
            self.workers.spawn(worker);
        }
        self.in_work.push(started.in_work);
        self.subscriptions.extend(started.subscriptions);
    }

    /// Lets the workers finish what they do, as long as `shutdown` allows, and stops them.
    async fn drain(mut self, shutdown: Shutdown) -> Result<(), Error> {
        self.subscriptions.clear();
        self.draining.cancel();
        let limit = match shutdown {
            Shutdown::Immediate => Duration::ZERO,
            Shutdown::Within(limit) => limit,
            Shutdown::Unbounded => Duration::MAX,
        };
        let finished = async {
            while let Some(end) = self.workers.join_next().await {
                if let Err(error) = end {
                    tracing::error!("a worker ended unexpectedly: {error}");
                }
            }
        };
        let result = match timeout(limit, finished).await {
            Err(_) if shutdown != Shutdown::Immediate => {
                let unfinished = self.in_work.iter().flat_map(|in_work| in_work()).collect();
                Err(Error::ShutdownTimeout { unfinished, timeout: limit })
            }
            _ => Ok(()),
        };
        self.workers.shutdown().await;
        result
    }
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
async fn next_end(tasks: &mut JoinSet<()>, task: &str) -> Error {
    match tasks.join_next().await {
        None => std::future::pending().await,
        Some(end) => {
            let reason = end.map_or_else(|error| error.to_string(), |()| "it returned".to_owned());
            Error::TaskEnded { task: task.to_owned(), reason }
        }
    }
}
