//! The server as a tower service, which in-process clients and listeners call.

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

use super::{Core, fault_layer};
use crate::api::authentication::Tokens;
use crate::bootstrap;
use crate::faults::ConnectionReset;
use crate::response::ResponseBody;

/// The server as an HTTP service without a socket: pass it to `kube::Client::new`.
///
/// Clones are cheap and share the server, which lives as long as any of them. Calls only fail due to an injected
/// [fault](crate::faults), with [`ConnectionReset`].
#[derive(Clone)]
pub struct ApiService {
    core: Arc<Core>,
}

impl ApiService {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// Returns the tokens of the server, if it requires any.
    pub(crate) fn tokens(&self) -> Option<&Tokens> {
        self.core.server.context.authenticator.tokens()
    }

    /// Publishes the address of a listener, and the certificate authority if it uses TLS.
    pub(crate) fn advertise(&self, address: SocketAddr, authority: Option<&str>) {
        bootstrap::advertise(&self.core.server.cluster, address, authority);
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
        Box::pin(async move { fault_layer::answer(&core.server, request).await })
    }
}
