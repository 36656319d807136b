//! Requests that the `kube` client underneath cannot repeat.
//!
//! With [`kube::Config::default_retry`], which is on by default, a [`kube::Client`] sends a request of any verb again after
//! 429, 503 and 504, up to 15 times, within one attempt as this client counts it. Deadlines, metrics, the write gate and
//! [`ClientError::is_outcome_unknown`](crate::ClientError::is_outcome_unknown) would then be wrong about it. The retry layer
//! can neither be detected nor removed from outside. But it repeats only requests with a body that can be cloned
//! ([`kube::client::Body::try_clone`]), and a body that arrived as a response cannot be: so each request body is first passed
//! through a client that echoes it.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    task::{Context, Poll},
};

use http::{Request, Response};
use kube::client::Body;
use tower_service::Service;

/// Sends each request through a client once.
#[derive(Clone)]
pub(super) struct SendOnce {
    kube: kube::Client,
    /// Responds with the body of the request.
    bodies: kube::Client,
}

impl SendOnce {
    pub(super) fn through(kube: kube::Client) -> Self {
        Self { kube, bodies: kube::Client::new(Echo, "") }
    }

    pub(super) fn default_namespace(&self) -> &str {
        self.kube.default_namespace()
    }

    pub(super) async fn send(&self, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        // The echoed body is a response body, which `kube` cannot clone, and therefore cannot send twice.
        let (head, body) = request.into_parts();
        let body = self.bodies.send(Request::new(body)).await?.into_body();
        self.kube.send(Request::from_parts(head, body)).await
    }
}

struct Echo;

impl Service<Request<Body>> for Echo {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        ready(Ok(Response::new(request.into_body())))
    }
}
