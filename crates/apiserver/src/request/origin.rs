//! Origin of a request that came over a socket, as extensions of the request.

use tokio::sync::watch;

/// Reports to the watches of a listener that it shuts down. Travels in the extensions of a request, where its presence also means
/// that the request came over a socket.
#[derive(Debug, Clone)]
pub(crate) struct Closing(pub(crate) watch::Receiver<bool>);

/// Marks a request to a listener that serves the fault API; travels in the request's extensions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FaultApi;

/// Waits until the listener shuts down or is dropped.
pub(crate) async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error means that the listener was dropped.
    let _ = closing.wait_for(|closed| *closed).await;
}
