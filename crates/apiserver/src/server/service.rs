//! The server as a tower service: what an in-process client and the listener both call.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::body::ResponseBody;
use super::{Core, inject};
use crate::authentication::Tokens;
use crate::bootstrap;
use crate::faults::ConnectionReset;

/// The server as a service of HTTP requests, without a socket: give it to `kube::Client::new`.
///
/// Clones are cheap and answer from the same state. The server lives as long as any of them. Every request is answered,
/// unless a [fault](crate::faults) says otherwise: then the error is [`ConnectionReset`].
#[derive(Clone)]
pub struct ApiService {
    core: Arc<Core>,
}

impl ApiService {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// The tokens of the server, if it asks for any.
    pub(super) fn tokens(&self) -> Option<&Tokens> {
        self.core.server.authenticator.tokens()
    }

    /// A listener opens at this address, with TLS under this authority.
    pub(super) fn advertise(&self, address: SocketAddr, authority: Option<&str>) {
        bootstrap::advertise(&self.core.server, address, authority);
    }
}

impl fmt::Debug for ApiService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiService").finish_non_exhaustive()
    }
}

impl<B> Service<Request<B>> for ApiService
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: fmt::Display,
{
    type Response = Response<ResponseBody>;
    type Error = ConnectionReset;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectionReset>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), ConnectionReset>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let core = Arc::clone(&self.core);
        Box::pin(async move { inject::answer(&core.server, request).await })
    }
}
