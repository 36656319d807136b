use tokio::sync::watch;

/// Where a manager is in its life. It goes through the states in this order and never back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum State {
    /// It has not been run.
    Built,
    /// Caches are being filled.
    Starting,
    /// Caches know the present and controllers work.
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

/// Waits until the manager has been ready, also if it is not any more.
pub(super) async fn wait_until_ready(mut was_ready: watch::Receiver<bool>) -> Result<(), NeverReady> {
    was_ready.wait_for(|ready| *ready).await.map(|_| ()).map_err(|_| NeverReady)
}
