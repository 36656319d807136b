//! Request handlers of the manager's servers.

use std::{future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header::CONTENT_TYPE};
use hyper::body::Incoming;

/// A request. Its body is not read.
pub type HttpRequest = http::Request<()>;

/// A response.
pub type HttpResponse = http::Response<Bytes>;

/// Answers requests. Implemented by every `async` function from [`HttpRequest`] to [`HttpResponse`].
pub trait Handler: Send + Sync + 'static {
    /// Answers one request.
    fn handle(&self, request: HttpRequest) -> impl Future<Output = HttpResponse> + Send;
}

impl<F, A> Handler for F
where
    F: Fn(HttpRequest) -> A + Send + Sync + 'static,
    A: Future<Output = HttpResponse> + Send,
{
    fn handle(&self, request: HttpRequest) -> impl Future<Output = HttpResponse> + Send {
        self(request)
    }
}

/// Object-safe form of [`Handler`].
pub(crate) type BoxHandler =
    Arc<dyn Fn(HttpRequest) -> Pin<Box<dyn Future<Output = HttpResponse> + Send>> + Send + Sync>;

/// Handler that reads the bodies of requests, and limits their size and the time to read them.
pub(crate) type BodyHandler =
    Arc<dyn Fn(http::Request<Incoming>) -> Pin<Box<dyn Future<Output = HttpResponse> + Send>> + Send + Sync>;

/// Handler of all requests of a server.
#[derive(Clone)]
pub(crate) enum ServerHandler {
    /// Does not read bodies.
    WithoutBody(BoxHandler),
    /// Reads bodies.
    WithBody(BodyHandler),
}

impl ServerHandler {
    pub(super) async fn handle(&self, request: http::Request<Incoming>) -> HttpResponse {
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
pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> HttpResponse {
    let mut response = HttpResponse::new(text.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}
