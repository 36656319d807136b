//! A server behind a port, as a service.

use std::net::SocketAddr;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tower_service::Service;

/// Sends requests over HTTP; connections are used again.
#[derive(Clone)]
pub(crate) struct Tcp {
    address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Tcp {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, client: Client::builder(TokioExecutor::new()).build_http() }
    }
}

impl Service<Request<Full<Bytes>>> for Tcp {
    type Response = Response<Incoming>;
    type Error = String;
    type Future = BoxFuture<'static, Result<Self::Response, String>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), String>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Full<Bytes>>) -> Self::Future {
        let client = self.client.clone();
        let absolute = format!("http://{}{}", self.address, request.uri());
        async move {
            *request.uri_mut() = absolute.parse().map_err(|error| format!("{absolute}: {error}"))?;
            client.request(request).await.map_err(|error| error.to_string())
        }
        .boxed()
    }
}
