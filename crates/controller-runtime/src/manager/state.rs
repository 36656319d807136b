use tokio::sync::watch;

/// Where a manager is in its life. It goes through the states in this order; only another run begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum State {
    /// It has not been run.
    Built,
    /// Servers begin to listen, caches are being filled.
    Starting,
    /// Everything listens, caches know the present, and controllers work, or with leader election stand by.
    Ready,
    /// No new reconcile begins; those in work may finish.
    Draining,
    /// Nothing runs any more.
    Stopped,
}

/// The manager stopped, or was dropped, before it became ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the manager stopped before it was ready")]
#[non_exhaustive]
pub struct NeverReady;

/// Whether the present run, or the last one, became ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readiness {
    NotYet,
    Ready,
    Never,
}

/// Waits until the manager has been ready, also if it is not any more.
pub(super) async fn wait_until_ready(mut readiness: watch::Receiver<Readiness>) -> Result<(), NeverReady> {
    let decided = readiness.wait_for(|readiness| *readiness != Readiness::NotYet).await;
    match decided.map(|decided| *decided) {
        Ok(Readiness::Ready) => Ok(()),
        _ => Err(NeverReady),
    }
}
