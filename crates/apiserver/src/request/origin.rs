//! Origin of a request that came over a socket, as extensions of the request.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;

use crate::user::UserInfo;

/// Signals the shutdown of a listener to its watches. An extension of each request over a socket, whose presence distinguishes these
/// requests from those in process.
#[derive(Debug, Clone)]
pub(crate) struct Closing(pub(crate) watch::Receiver<bool>);

/// Marks requests to a listener that serves the fault API. An extension of the request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FaultApi;

/// User of a request without credentials, for callers in the process. An extension of the request.
#[derive(Debug, Clone)]
pub(crate) struct Caller(pub(crate) Arc<UserInfo>);

/// Certificate that a client presented in the TLS handshake. An extension of the client's requests.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "presented in TLS handshakes only"))]
pub(crate) enum ClientCertificate {
    /// A valid certificate, its user, and the time at which it expires.
    Of { user: Arc<UserInfo>, expires: Timestamp },
    /// A certificate that authenticates no user.
    Invalid,
}

/// Waits until the listener shuts down or is dropped.
pub(crate) async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error means that the listener was dropped.
    let _ = closing.wait_for(|closed| *closed).await;
}
