//! Public state of a manager.

use tokio::sync::watch;

/// State of a manager. A run goes through the states in this order; another run starts over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum State {
    /// The manager has not been run.
    Built,
    /// Servers start to listen, and caches receive their initial lists.
    Starting,
    /// Servers listen, caches have their initial lists, and controllers run or, with leader election, may be on standby.
    Ready,
    /// No new reconcile begins; running ones may finish.
    Draining,
    /// All runnables have ended.
    Stopped,
}

/// The manager stopped, or was dropped, before it became ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the manager stopped before it was ready")]
#[non_exhaustive]
pub struct NeverReadyError;

/// Whether the current or last run became ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    NotYet,
    Ready,
    Never,
}

/// Waits until the manager has become ready, even if it is not ready any more.
pub(crate) async fn wait_until_ready(
    mut readiness: watch::Receiver<Readiness>,
) -> Result<(), NeverReadyError> {
    let decided = readiness.wait_for(|readiness| *readiness != Readiness::NotYet).await;
    match decided.map(|decided| *decided) {
        Ok(Readiness::Ready) => Ok(()),
        _ => Err(NeverReadyError),
    }
}
