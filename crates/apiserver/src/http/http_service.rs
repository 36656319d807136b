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
use jiff::Timestamp;
use tower_service::Service;

use super::{Core, fault_layer};
use crate::api::authentication::{Authenticator, ClientAuthority};
use crate::bootstrap;
use crate::faults::ConnectionReset;
use crate::request::origin::Caller;
use crate::response::ResponseBody;
use crate::user::UserInfo;

/// The server as an HTTP service without a socket: pass it to `kube::Client::new`.
///
/// Clones are cheap and share the server, which runs until the last of them is dropped. A call only fails if a [fault](crate::faults) is
/// injected, with [`ConnectionReset`].
#[derive(Clone)]
pub struct ApiService {
    core: Arc<Core>,
    /// User of requests without credentials. With `None` this is the administrator, or over sockets the anonymous user if the server
    /// requires credentials.
    user: Option<Arc<UserInfo>>,
}

impl ApiService {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core, user: None }
    }

    /// Sets the user of requests without credentials.
    pub(crate) fn with_user(mut self, user: UserInfo) -> Self {
        self.user = Some(Arc::new(user));
        self
    }

    /// Returns how the server authenticates its clients.
    pub(crate) fn authenticator(&self) -> &Authenticator {
        &self.core.server.context.authenticator
    }

    /// Returns the time of the server's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.core.server.cluster.clock.now()
    }

    /// Publishes the address of a listener, its certificate authority if it uses TLS, and the authorities of client certificates.
    pub(crate) fn advertise(&self, address: SocketAddr, serving_authority: Option<&str>) {
        let client_authority = self.authenticator().client_authority().map(ClientAuthority::pem);
        bootstrap::advertise(&self.core.server.cluster, address, serving_authority, client_authority);
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

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let core = Arc::clone(&self.core);
        if let Some(user) = &self.user {
            request.extensions_mut().insert(Caller(Arc::clone(user)));
        }
        Box::pin(async move { fault_layer::answer(&core.server, request).await })
    }
}
