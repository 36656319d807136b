//! Calls of webhooks that are answered within the process.

use std::fmt;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};

/// Answers calls of webhooks within the process, instead of a socket.
///
/// Such calls need no certificates and work in paused time: a webhook that is slow takes no real time.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
///
/// use bytes::Bytes;
/// use futures::FutureExt;
/// use futures::future::BoxFuture;
/// use http::{Request, Response};
/// use kube_apiserver_embedded::{Options, WebhookTransport};
///
/// /// Answers calls to one host; those to other hosts use sockets.
/// #[derive(Debug)]
/// struct Unavailable;
///
/// impl WebhookTransport for Unavailable {
///     fn call(&self, request: &Request<Bytes>) -> Option<BoxFuture<'static, Result<Response<Bytes>, String>>> {
///         let is_ours = request.uri().host() == Some("hooks.default.svc");
///         is_ours.then(|| async { Err("connection refused".to_owned()) }.boxed())
///     }
/// }
///
/// let options = Options::default().webhook_transport(Arc::new(Unavailable));
/// ```
pub trait WebhookTransport: fmt::Debug + Send + Sync {
    /// Answers a POST; with `None` it is sent over a socket. The URI is absolute: for a webhook behind a service
    /// `https://<service>.<namespace>.svc:443/path`. When the timeout of the webhook has passed, the future is dropped.
    ///
    /// The future fails with the reason why there is no response, such as `EOF`.
    fn call(&self, request: &Request<Bytes>) -> Option<BoxFuture<'static, Result<Response<Bytes>, String>>>;
}
