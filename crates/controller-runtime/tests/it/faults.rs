//! A connection with faults that a test chooses.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::{
    Method, Request, Response, StatusCode,
    header::{ACCEPT, ACCEPT_ENCODING},
};
use http_body::Frame;
use http_body_util::{BodyExt, BodyStream, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Outcome of a request.
pub(crate) enum Fault {
    /// The server answers.
    Pass,
    /// The server answers, and each line of the answer arrives twice.
    Twice,
    /// The server answers, and the answer ends when the token is cancelled.
    PassUntil(CancellationToken),
    /// The server answers. After the token is cancelled, nothing else arrives, not even the end.
    SilentFrom(CancellationToken),
    /// The request is refused with this code and reason.
    Refuse(u16, &'static str),
    /// The request is never answered.
    Hang,
    /// The answer is this text.
    Answer(String),
    /// The answer is these lines, and never ends.
    Open(Vec<String>),
}

/// A request as the fault function receives it.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) accept: String,
    pub(crate) accept_encoding: String,
}

impl Seen {
    pub(crate) fn is_watch(&self) -> bool {
        self.path.contains("watch=true")
    }

    /// Whether it is a watch with initial events.
    pub(crate) fn is_stream(&self) -> bool {
        self.path.contains("sendInitialEvents=true")
    }

    /// Whether it is a list or watch of the resource.
    pub(crate) fn is_about(&self, resource: &str) -> bool {
        self.path.contains(resource)
    }
}

/// Wraps `client` so that `judge` decides the outcome of each request.
pub(crate) fn faulty(
    client: kube::Client,
    judge: impl FnMut(&Seen) -> Fault + Send + 'static,
) -> kube::Client {
    kube::Client::new(Faulty { client, judge: Arc::new(Mutex::new(judge)) }, "default")
}

/// Returns a line of a watch.
pub(crate) fn line(kind: &str, object: &serde_json::Value) -> String {
    json!({ "type": kind, "object": object }).to_string()
}

/// Returns the line that reports an expired version.
pub(crate) fn expired() -> String {
    line("ERROR", &status(410, "Expired")) + "\n"
}

fn status(code: u16, reason: &str) -> serde_json::Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "a fault of the test", "reason": reason, "code": code,
    })
}

type Judge = dyn FnMut(&Seen) -> Fault + Send;

struct Faulty {
    client: kube::Client,
    judge: Arc<Mutex<Judge>>,
}

type AnyBody = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

impl tower_service::Service<Request<Body>> for Faulty {
    type Response = Response<AnyBody>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request.uri().path_and_query().map_or_else(String::new, ToString::to_string);
        let header = |name| {
            let value = request.headers().get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let (accept, accept_encoding) = (header(ACCEPT), header(ACCEPT_ENCODING));
        let seen = Seen { method: request.method().clone(), path, accept, accept_encoding };
        let fault = (self.judge.lock().unwrap())(&seen);
        let client = self.client.clone();
        Box::pin(async move {
            let lines = |text: String| stream::iter([Ok(Frame::data(Bytes::from(text)))]);
            let body = match fault {
                Fault::Hang => std::future::pending().await,
                Fault::Pass => {
                    let response = client.send(request).await?;
                    return Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()));
                }
                Fault::Twice => {
                    let response = client.send(request).await?;
                    return Ok(response.map(|body| StreamBody::new(twice(body)).boxed_unsync()));
                }
                Fault::PassUntil(cut) => {
                    let response = client.send(request).await?;
                    return Ok(response.map(|body| {
                        let frames = BodyStream::new(body.map_err(Into::into));
                        StreamBody::new(frames.take_until(cut.cancelled_owned())).boxed_unsync()
                    }));
                }
                Fault::SilentFrom(silent) => {
                    let response = client.send(request).await?;
                    return Ok(response.map(|body| {
                        let frames = BodyStream::new(body.map_err(Into::into));
                        let frames = frames.take_until(silent.cancelled_owned()).chain(stream::pending());
                        StreamBody::new(frames).boxed_unsync()
                    }));
                }
                Fault::Refuse(code, reason) => {
                    let body = StreamBody::new(lines(status(code, reason).to_string())).boxed_unsync();
                    let mut response = Response::new(body);
                    *response.status_mut() = StatusCode::from_u16(code).unwrap();
                    return Ok(response);
                }
                Fault::Answer(text) => StreamBody::new(lines(text)).boxed_unsync(),
                Fault::Open(texts) => {
                    let texts = texts.into_iter().map(|text| text + "\n").collect();
                    StreamBody::new(lines(texts).chain(stream::pending())).boxed_unsync()
                }
            };
            Ok(Response::new(body))
        })
    }
}

/// A body that repeats each complete line.
fn twice(body: Body) -> impl Stream<Item = Result<Frame<Bytes>, Box<dyn std::error::Error + Send + Sync>>> {
    let mut cut = Vec::new();
    body.into_data_stream().map(move |chunk| {
        cut.extend_from_slice(&chunk?);
        let rest = cut.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let rest = cut.split_off(rest);
        let lines = std::mem::replace(&mut cut, rest);
        let lines = lines.split_inclusive(|byte| *byte == b'\n').flat_map(|line| [line, line]);
        Ok(Frame::data(Bytes::from(lines.collect::<Vec<_>>().concat())))
    })
}
