//! Request handlers of the manager's servers.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use http::{HeaderValue, StatusCode, header::CONTENT_TYPE};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;

/// A request. Its body is not read.
pub type HttpRequest = http::Request<()>;

/// A response.
pub type HttpResponse = http::Response<Bytes>;

/// A response as a server sends it.
pub(crate) type ServerResponse = http::Response<ResponseBody>;

/// Body of a response.
pub(crate) enum ResponseBody {
    /// The whole body; `None` when it has been sent.
    Whole(Option<Bytes>),
    /// Pieces that are sent as they come, until the stream ends or the server stops.
    Stream(BoxStream<'static, Bytes>),
}

impl ResponseBody {
    /// Lets a stream end when `closing` is cancelled, and drops `guard` when the stream is dropped. A whole body needs neither: its
    /// `guard` is dropped at once.
    pub(super) fn ending_with<G: Send + 'static>(self, closing: CancellationToken, guard: G) -> Self {
        match self {
            Self::Whole(bytes) => Self::Whole(bytes),
            Self::Stream(pieces) => {
                let ending = pieces.take_until(closing.cancelled_owned());
                Self::Stream(ending.inspect(move |_| _ = &guard).boxed())
            }
        }
    }
}

impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(Some(bytes))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().filter(|bytes| !bytes.is_empty())),
            Self::Stream(pieces) => pieces.poll_next_unpin(cx),
        };
        next.map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.as_ref().is_none_or(Bytes::is_empty))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

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

/// Object-safe form of [`Handler`], which may answer with a stream.
pub(crate) type BoxHandler =
    Arc<dyn Fn(HttpRequest) -> Pin<Box<dyn Future<Output = ServerResponse> + Send>> + Send + Sync>;

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
    pub(super) async fn handle(&self, request: http::Request<Incoming>) -> ServerResponse {
        match self {
            Self::WithoutBody(handler) => handler(request.map(drop)).await,
            Self::WithBody(handler) => handler(request).await.map(ResponseBody::from),
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
        Box::pin(async move { handler.handle(request).await.map(ResponseBody::from) })
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
