use std::{future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header::CONTENT_TYPE};

/// What was asked. Bodies are not read.
pub type Request = http::Request<()>;

/// What is answered.
pub type Response = http::Response<Bytes>;

/// Answers requests. Every `async` function from [`Request`] to [`Response`] is one.
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

/// A handler behind a pointer.
pub(crate) type BoxHandler =
    Arc<dyn Fn(Request) -> Pin<Box<dyn Future<Output = Response> + Send>> + Send + Sync>;

pub(crate) fn boxed(handler: impl Handler) -> BoxHandler {
    let handler = Arc::new(handler);
    Arc::new(move |request| {
        let handler = Arc::clone(&handler);
        Box::pin(async move { handler.handle(request).await })
    })
}

/// An answer of plain text.
pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Response {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}
