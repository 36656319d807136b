//! Runs a runnable with the resources of a manager, but outside of its lifecycle.

use std::{future::Future, sync::Arc};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{
    Manager, ManagerError,
    event_writer::{EventWriter, EventsLost},
    run::own_or_named,
};
use crate::runnable::{RunContext, Runnable};

impl Manager {
    /// Runs `runnable` until it ends. When `shutdown` completes, the runnable is asked to finish.
    pub(crate) async fn run_alone(
        &self,
        runnable: &impl Runnable,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ManagerError> {
        let mut rng = self.shared.options.rng();
        let clock = self.clock();
        let kube = self.shared.client.kube().clone();
        let (recorder, event_writer) = EventWriter::start(kube, rng.fork(), clock);

        let draining = CancellationToken::new();
        let failure = Arc::new(Mutex::new(None));
        let failed = Arc::clone(&failure);
        let cx = RunContext {
            manager: self.for_context(),
            draining: draining.clone(),
            aborting: CancellationToken::new(),
            ready: Arc::new(|| {}),
            failed: Arc::new(move |error| {
                failed.lock().get_or_insert(error);
            }),
            transitions: None,
            recorder,
            rng,
            clock,
        };
        let work = runnable.start(cx);
        let draining_began = async {
            shutdown.await;
            draining.cancel();
            // Never completes, so that the runnable itself ends the `select!`.
            std::future::pending().await
        };
        let ended = tokio::select! {
            biased;
            ended = work => ended,
            ended = draining_began => ended,
        };
        if let Err(EventsLost) = event_writer.finish().await {
            tracing::warn!(
                "Kubernetes Events that were waiting to be written were lost at the end of {}",
                runnable.name()
            );
        }
        // A failure that the runnable reported takes precedence over its return value, which may be only a consequence.
        let failure = failure.lock().take().or(ended.err());
        failure.map_or(Ok(()), |error| Err(own_or_named(error, &runnable.name())))
    }
}
