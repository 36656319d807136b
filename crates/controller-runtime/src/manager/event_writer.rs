//! [`EventWriter`], the task that writes the Kubernetes Events of a run.

use std::time::Duration;

use kube_clock::Clock;
use tokio::{
    task::{JoinError, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::recorder::Recorder;

/// Time for writing the remaining Kubernetes Events when a run ends.
const FLUSH: Duration = Duration::from_secs(2);

/// The task that writes the Kubernetes Events of a run.
pub(super) struct EventWriter {
    /// In a set, so that dropping it aborts the task.
    task: JoinSet<()>,
    /// Asks the task to write the recorded events and to end.
    last_events: CancellationToken,
}

/// Kubernetes Events that were waiting to be written were lost.
pub(super) struct EventsLost;

impl EventWriter {
    /// Starts the task. Returns it with the recorder of its events.
    pub(super) fn start(kube: kube::Client, rng: fastrand::Rng, clock: Clock) -> (Recorder, Self) {
        let (recorder, publisher) = Recorder::new(kube, rng, clock);
        let (mut task, last_events) = (JoinSet::new(), CancellationToken::new());
        task.spawn(publisher.run(last_events.clone()).in_current_span());
        (recorder, Self { task, last_events })
    }

    /// Returns whether the task runs, or [`ended`](Self::ended) has not returned its end yet.
    pub(super) fn is_running(&self) -> bool {
        !self.task.is_empty()
    }

    /// Waits until the task ends. It does not end before [`finish`](Self::finish), unless it panics.
    pub(super) async fn ended(&mut self) -> Option<Result<(), JoinError>> {
        self.task.join_next().await
    }

    /// Waits until the recorded events are written. Called after all runnables have ended, because they may record events until
    /// then.
    pub(super) async fn finish(mut self) -> Result<(), EventsLost> {
        self.last_events.cancel();
        match timeout(FLUSH, self.task.join_next()).await {
            // `None`: `ended` has reported the end of the task.
            Ok(None | Some(Ok(()))) => Ok(()),
            // It panicked, or it did not end in time.
            Ok(Some(Err(_))) | Err(_) => Err(EventsLost),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, pending};

    use super::*;

    async fn loses_events(task: impl Future<Output = ()> + Send + 'static) -> bool {
        let mut tasks = JoinSet::new();
        tasks.spawn(task);
        EventWriter { task: tasks, last_events: CancellationToken::new() }.finish().await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_lost_if_the_task_panics_or_does_not_end() {
        assert!(!loses_events(async {}).await);
        assert!(loses_events(async { panic!("a bug") }).await);
        assert!(loses_events(pending()).await);
    }
}
