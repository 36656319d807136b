//! An API server that knows pods and nothing else, answers at once, and tells changes when asked to.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use tokio::sync::mpsc;

use crate::pods::Pods;

/// Bytes that a socket hands over at once.
const CHUNK: usize = 64 << 10;

type Lines = mpsc::UnboundedReceiver<Bytes>;

/// Answers a list with so many pods, made as they are asked for, and a watch with the lines that are sent to it.
#[derive(Clone)]
pub(crate) struct Server {
    count: usize,
    listed: Arc<Mutex<(Pods, usize)>>,
    lines: Arc<Mutex<Option<Lines>>>,
}

impl Server {
    pub(crate) fn new(count: usize, seed: u64) -> (Self, mpsc::UnboundedSender<Bytes>) {
        let (send, lines) = mpsc::unbounded_channel();
        let listed = Arc::new(Mutex::new((Pods::new(seed), 0)));
        (Self { count, listed, lines: Arc::new(Mutex::new(Some(lines))) }, send)
    }

    fn page(&self) -> impl Stream<Item = Bytes> + Send + use<> {
        let (listed, end) = (Arc::clone(&self.listed), self.count);
        let begin = listed.lock().expect("nobody panics").1;
        let last = (begin + 500).min(end);
        let token = if last == end { String::new() } else { format!(r#","continue":"{last}""#) };
        let head = format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"900000000"{token}}},"items":["#
        );
        let items = stream::iter(begin..last).map(move |number| {
            let mut listed = listed.lock().expect("nobody panics");
            listed.1 = number + 1;
            if number == begin { listed.0.next() } else { format!(",{}", listed.0.next()) }
        });
        let text = stream::iter([head]).chain(items).chain(stream::iter(["]}".to_owned()]));
        text.ready_chunks(CHUNK / 7000).map(|texts| Bytes::from(texts.concat()))
    }

    fn watch(&self) -> impl Stream<Item = Bytes> + Send + use<> {
        let lines = self.lines.lock().expect("nobody panics").take();
        stream::unfold(lines, |lines| async move {
            match lines {
                Some(mut lines) => lines.recv().await.map(|line| (line, Some(lines))),
                None => std::future::pending().await, // a second watch has nothing to tell
            }
        })
    }
}

type AnyBody = UnsyncBoxBody<Bytes, Infallible>;

impl tower_service::Service<Request<Body>> for Server {
    type Response = Response<AnyBody>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let query = request.uri().query().unwrap_or_default();
        let mut status = StatusCode::OK;
        let text: Pin<Box<dyn Stream<Item = Bytes> + Send>> = match request.uri().path() {
            "/api/v1/pods" if query.contains("sendInitialEvents") => {
                status = StatusCode::UNPROCESSABLE_ENTITY;
                let text = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"sendInitialEvents is forbidden","reason":"Invalid","code":422}"#;
                Box::pin(stream::iter([Bytes::from(text)]))
            }
            "/api/v1/pods" if query.contains("watch=true") => Box::pin(self.watch()),
            "/api/v1/pods" => Box::pin(self.page()),
            _ => {
                status = StatusCode::NOT_FOUND;
                Box::pin(stream::empty())
            }
        };
        let body = StreamBody::new(text.map(|text| Ok(Frame::data(text)))).boxed_unsync();
        let mut response = Response::new(body);
        *response.status_mut() = status;
        drop(request);
        ready(Ok(response))
    }
}
