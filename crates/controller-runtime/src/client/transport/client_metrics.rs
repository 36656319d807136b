//! Metrics of a client's requests.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use kube::client::Body;
use tokio::time::Instant;

use super::direct::ReceivedBody;

/// Receives measurements of requests, with the meaning and labels of client-go's metrics.
///
/// `verb` and `method` are HTTP methods in capitals, as in client-go. `host` is the value of
/// [`ClientBuilder::host`](crate::client::ClientBuilder::host). Called during every request, so implementations must not block.
pub trait ClientMetrics: Send + Sync + 'static {
    /// `rest_client_requests_total`: a request was answered with `code`; `<error>` if it was cancelled or got no response.
    fn request(&self, code: &str, method: &str, host: &str);

    /// `rest_client_request_duration_seconds`: time from sending a request until its response began.
    fn request_duration(&self, _verb: &str, _host: &str, _took: Duration) {}

    /// `rest_client_rate_limiter_duration_seconds`: time that a request waited for the rate limit.
    fn rate_limiter_duration(&self, _verb: &str, _host: &str, _waited: Duration) {}

    /// `rest_client_request_size_bytes`: length of a request's body.
    fn request_size(&self, _verb: &str, _host: &str, _bytes: u64) {}

    /// `rest_client_response_size_bytes`: length of a response's body. Not reported for watches.
    fn response_size(&self, _verb: &str, _host: &str, _bytes: u64) {}

    /// `controller_runtime_undeclared_requests_total`: a request needs a right that no registration declares. `verb` is
    /// the verb of RBAC. `resource` has the form `deployments.apps/scale`, and is empty for paths outside of the resource API.
    fn undeclared(&self, _verb: &str, _resource: &str) {}

    /// `rest_client_request_retries_total`: a request is sent again after a response with `code`.
    fn retry(&self, _code: &str, _verb: &str, _host: &str) {}
}

/// Discards all measurements.
pub(in crate::client) struct NoMetrics;

impl ClientMetrics for NoMetrics {
    fn request(&self, _: &str, _: &str, _: &str) {}
}

/// Sends a request by `send`, and reports it to `metrics`.
pub(super) async fn measured(
    request: Request<Body>,
    host: &Arc<str>,
    metrics: &Arc<dyn ClientMetrics>,
    send: impl AsyncFnOnce(Request<Body>) -> Result<Response<ReceivedBody>, kube::Error>,
) -> Result<Response<CountedBody>, kube::Error> {
    let verb = request.method().clone();
    // Requests arrive here as plain HTTP; only the query shows whether one is a watch.
    let is_watch =
        request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"));
    if let Some(bytes) = request.body().size_hint().exact() {
        metrics.request_size(verb.as_str(), host, bytes);
    }
    let mut unanswered = Unanswered { verb: &verb, host, metrics: &**metrics, sent: Some(Instant::now()) };
    let result = send(request).await;
    let status = result.as_ref().ok().map(Response::status);
    unanswered.end(status.as_ref().map_or("<error>", StatusCode::as_str));
    // Dropped here to end its borrow of `verb`, which moves into the body.
    drop(unanswered);
    result.map(|response| {
        response.map(|body| {
            let (host, metrics) = (Arc::clone(host), Arc::clone(metrics));
            let size = (!is_watch).then(|| ResponseSize { verb, host, metrics, bytes: 0 });
            CountedBody { body, size }
        })
    })
}

/// A request without a response so far. If it is dropped, for example at its deadline, it counts as failed, as in client-go.
struct Unanswered<'a> {
    verb: &'a http::Method,
    host: &'a str,
    metrics: &'a dyn ClientMetrics,
    /// `None` once it has been counted.
    sent: Option<Instant>,
}

impl Unanswered<'_> {
    fn end(&mut self, code: &str) {
        let Some(sent) = self.sent.take() else { return };
        self.metrics.request_duration(self.verb.as_str(), self.host, sent.elapsed());
        self.metrics.request(code, self.verb.as_str(), self.host);
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.end("<error>");
    }
}

/// A body that reports its length when it has been read or dropped.
pub(in crate::client) struct CountedBody {
    body: ReceivedBody,
    size: Option<ResponseSize>,
}

/// Size of a response so far, reported when it is dropped.
struct ResponseSize {
    verb: http::Method,
    host: Arc<str>,
    metrics: Arc<dyn ClientMetrics>,
    bytes: u64,
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = kube::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let (Some(Ok(frame)), Some(size)) = (&frame, &mut self.size) {
            size.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ResponseSize {
    fn drop(&mut self) {
        self.metrics.response_size(self.verb.as_str(), &self.host, self.bytes);
    }
}
