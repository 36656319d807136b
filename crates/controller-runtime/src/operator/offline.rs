//! A connection without an API server.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use http::{Request, Response, StatusCode};
use kube::client::Body;
use serde_json::json;

/// Answers each request with an error, and records the first one.
#[derive(Debug, Clone, Default)]
pub(super) struct Offline {
    first: Arc<OnceLock<String>>,
}

impl Offline {
    /// A client with this connection, and with this default namespace.
    pub(super) fn client(&self, namespace: &str) -> kube::Client {
        kube::Client::new(self.clone(), namespace)
    }

    /// Method and path of the first request.
    pub(super) fn first_request(&self) -> Option<String> {
        self.first.get().cloned()
    }
}

impl tower_service::Service<Request<Body>> for Offline {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let asked = format!("{} {}", request.method(), request.uri().path());
        self.first.get_or_init(|| asked.clone());
        // Clients do not retry a request after this code.
        let code = StatusCode::METHOD_NOT_ALLOWED;
        let status = json!({
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "reason": "MethodNotAllowed",
            "code": code.as_u16(),
            "message": format!("{asked}: there is no API server while manifests are printed"),
        });
        let mut response = Response::new(Body::from(status.to_string().into_bytes()));
        *response.status_mut() = code;
        ready(Ok(response))
    }
}
