//! Task-local mark of reconciles without leader election, for clients that must not be used in them.

use std::{future::Future, sync::Arc};

tokio::task_local! {
    /// Name of the controller while one of its reconciles is polled, if it needs no leader election.
    static UNELECTED: Arc<str>;
}

/// Runs a reconcile of a controller that needs no leader election.
pub(crate) async fn without_election<T>(controller: &Arc<str>, reconcile: impl Future<Output = T>) -> T {
    UNELECTED.scope(Arc::clone(controller), reconcile).await
}

/// Name of the controller without leader election that runs the calling reconcile; `None` in any other code.
pub(crate) fn unelected_controller() -> Option<Arc<str>> {
    UNELECTED.try_with(Arc::clone).ok()
}
