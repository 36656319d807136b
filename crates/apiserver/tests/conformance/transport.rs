//! Requests to the server under test, and its responses.

use bytes::{Bytes, BytesMut};
use futures::future::{BoxFuture, FutureExt};
use http::{HeaderMap, Request, Response, header};
use http_body::Body;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tokio::time::{Duration, Instant, timeout_at};
use tower_service::Service;

type Call = dyn Fn(Request<Full<Bytes>>) -> BoxFuture<'static, Result<Answer, String>> + Send + Sync;

/// A server that answers HTTP requests, in process or over a socket.
pub(crate) struct Transport {
    call: Box<Call>,
    /// Bearer token of the admin; `None` if the server requires none.
    token: Option<String>,
}

impl Transport {
    /// Sends every request to a clone of `service`.
    pub(crate) fn over<S, B>(service: S) -> Self
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: std::fmt::Display,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: std::fmt::Display,
    {
        let call: Box<Call> = Box::new(move |request| {
            let mut service = service.clone();
            async move {
                let ready = std::future::poll_fn(|context| service.poll_ready(context)).await;
                ready.map_err(|error| error.to_string())?;
                let response = service.call(request).await.map_err(|error| error.to_string())?;
                let (head, body) = response.into_parts();
                let body = body.map_err(|error| error.to_string()).boxed_unsync();
                Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
            }
            .boxed()
        });
        Self { call, token: None }
    }

    /// Sets the bearer token of the admin.
    pub(crate) fn with_token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// Returns the bearer token of the admin.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Sends a request; the body of the response may still be arriving.
    ///
    /// # Errors
    ///
    /// The reason why there is no response.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Answer, String> {
        (self.call)(request).await
    }
}

/// A response with a body that is read on demand, so that a watch can stream.
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: HeaderMap,
    body: UnsyncBoxBody<Bytes, String>,
}

impl Answer {
    /// Returns the content type without its charset; empty if there is none.
    pub(crate) fn content_type(&self) -> String {
        let header = self.headers.get(header::CONTENT_TYPE);
        media_type(header.and_then(|value| value.to_str().ok()).unwrap_or_default())
    }

    /// The texts of the warnings, as `299 text`, without those that kube-apiserver does not give: an object has no effect in
    /// this server.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let headers = self.headers.get_all(header::WARNING).into_iter();
        // The recording reads headers as Latin-1.
        let text = |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect::<String>();
        let texts = headers.map(|value| warning_text(&text(value.as_bytes())));
        texts.filter(|text| !text.starts_with("299 kube-apiserver-embedded: ")).collect()
    }

    /// Returns the whole body.
    ///
    /// # Errors
    ///
    /// The reason why the body ended too early.
    pub(crate) async fn text(self) -> Result<String, String> {
        let bytes = self.body.collect().await?.to_bytes();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads the events of a watch, one JSON value per line, until there are `count`, the stream ends or time is up.
    /// Also returns whether the stream ended.
    pub(crate) async fn events(mut self, count: usize, within: Duration) -> (Vec<Value>, bool) {
        let deadline = Instant::now() + within;
        let mut buffer = BytesMut::new();
        let mut events = Vec::new();
        while events.len() < count {
            if let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line = buffer.split_to(end + 1);
                if !line.trim_ascii().is_empty() {
                    events.push(json_or_text(&String::from_utf8_lossy(&line)));
                }
                continue;
            }
            match timeout_at(deadline, self.body.frame()).await {
                Err(_elapsed) => return (events, false),
                Ok(None | Some(Err(_))) => return (events, true),
                Ok(Some(Ok(frame))) => buffer.extend(frame.into_data().ok()),
            }
        }
        (events, false)
    }
}

/// Parses JSON; other text becomes a string.
pub(crate) fn json_or_text(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

/// Normalizes a content type and removes its charset.
pub(crate) fn media_type(header: &str) -> String {
    let parts = header.split(';').map(str::trim);
    let kept: Vec<&str> = parts.filter(|part| !part.to_ascii_lowercase().starts_with("charset=")).collect();
    kept.join(";")
}

/// Converts `299 - "a \"b\""` to `299 a "b"`.
pub(crate) fn warning_text(header: &str) -> String {
    let mut pieces = header.splitn(3, ' ');
    let (Some(code), Some(_agent), Some(quoted)) = (pieces.next(), pieces.next(), pieces.next()) else {
        return header.to_owned();
    };
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(quoted);
    let mut text = format!("{code} ");
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        let escaped = if character == '\\' { characters.next() } else { None };
        text.push(escaped.unwrap_or(character));
    }
    text
}
