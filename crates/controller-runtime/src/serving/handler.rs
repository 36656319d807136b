//! Request handlers of the manager's servers.

use std::{future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header::CONTENT_TYPE};
use hyper::body::Incoming;

/// A request. Its body is not read.
pub type Request = http::Request<()>;

/// A response.
pub type Response = http::Response<Bytes>;

/// Answers requests. Implemented by every `async` function from [`Request`] to [`Response`].
pub trait Handler: Send + Sync + 'static {
    /// Answers one request.
    fn handle(&self, request: Request) -> impl Future<Output = Response> + Send;
}

impl<F, A> Handler for F
where
    F: Fn(Request) -> A + Send + Sync + 'static,
    A: Future<Output = Response> + Send,
{
    fn handle(&self, request: Request) -> impl Future<Output = Response> + Send {
        self(request)
    }
}

/// Object-safe form of [`Handler`].
pub(crate) type BoxHandler =
    Arc<dyn Fn(Request) -> Pin<Box<dyn Future<Output = Response> + Send>> + Send + Sync>;

/// Handler that reads the bodies of requests, and limits their size and the time to read them.
pub(crate) type BodyHandler =
    Arc<dyn Fn(http::Request<Incoming>) -> Pin<Box<dyn Future<Output = Response> + Send>> + Send + Sync>;

/// Handler of all requests of a server.
#[derive(Clone)]
pub(crate) enum ServerHandler {
    /// Does not read bodies.
    WithoutBody(BoxHandler),
    /// Reads bodies.
    WithBody(BodyHandler),
}

impl ServerHandler {
    pub(super) async fn handle(&self, request: http::Request<Incoming>) -> Response {
        match self {
            Self::WithoutBody(handler) => handler(request.map(drop)).await,
            Self::WithBody(handler) => handler(request).await,
        }
    }
}

impl From<BoxHandler> for ServerHandler {
    fn from(handler: BoxHandler) -> Self {
        Self::WithoutBody(handler)
    }
}

impl From<BodyHandler> for ServerHandler {
    fn from(handler: BodyHandler) -> Self {
        Self::WithBody(handler)
    }
}

pub(crate) fn boxed(handler: impl Handler) -> BoxHandler {
    let handler = Arc::new(handler);
    Arc::new(move |request| {
        let handler = Arc::clone(&handler);
        Box::pin(async move { handler.handle(request).await })
    })
}

/// A response with plain text.
pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Response {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}
