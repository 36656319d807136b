//! Runs a runnable with the resources of a manager, but outside of its lifecycle.

use std::{future::Future, sync::Arc};

use parking_lot::Mutex;
use tokio::{task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{
    Manager, ManagerError,
    run::{FLUSH, own_or_named},
};
use crate::{
    recorder::Recorder,
    runnable::{RunContext, Runnable},
};

impl Manager {
    /// Runs `runnable` until it ends; it is asked to finish when `shutdown` completes.
    pub(crate) async fn run_alone(
        &self,
        runnable: &impl Runnable,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ManagerError> {
        let mut rng = self.shared.options.rng();
        let clock = self.clock();
        let kube = self.shared.client.kube().clone();
        let (recorder, publisher) = Recorder::new(kube, rng.fork(), clock);
        let (mut publishing, last_events) = (JoinSet::new(), CancellationToken::new());
        publishing.spawn(publisher.run(last_events.clone()).in_current_span());

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
        last_events.cancel();
        if timeout(FLUSH, publishing.join_next()).await.is_err() {
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
