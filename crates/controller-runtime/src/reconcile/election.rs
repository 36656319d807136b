//! Whether a reconcile is one of a controller without leader election, for clients that must not be used there.

use std::{future::Future, sync::Arc};

tokio::task_local! {
    /// Name of the controller, while a reconcile of one that needs no leader election is polled.
    static UNELECTED: Arc<str>;
}

/// Runs a reconcile of a controller that needs no leader election.
pub(crate) async fn without_election<T>(controller: &Arc<str>, reconcile: impl Future<Output = T>) -> T {
    UNELECTED.scope(Arc::clone(controller), reconcile).await
}

/// Name of the controller without leader election whose reconcile calls this; `None` anywhere else.
pub(crate) fn unelected_controller() -> Option<Arc<str>> {
    UNELECTED.try_with(Arc::clone).ok()
}
