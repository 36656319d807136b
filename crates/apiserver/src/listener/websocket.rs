//! Watches over WebSocket (RFC 6455), which Kubernetes clients for the JVM use. Each event is a message.
//!
//! As in kube-apiserver, only watches over HTTP/1.1 are upgraded; other requests are answered as usual. Events in JSON are text
//! messages that end with a newline, events in protobuf are binary messages without a length. Messages of the client are ignored,
//! except pings and close. The watch ends with close code 1000.
//!
//! Bounds: a message of the client has at most [`MAX_RECEIVED`] bytes. Events are written one chunk at a time, so a client that does not read
//! needs no more memory than with other watches.

use bytes::{Buf, Bytes, BytesMut};
use futures::{SinkExt, StreamExt};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Utf8Bytes};

use crate::response::ResponseBody;

/// Maximum size of a message from the client, in bytes.
const MAX_RECEIVED: usize = 64 << 10;

/// A request for an upgrade to WebSocket.
pub(super) struct Upgrade {
    key: Option<HeaderValue>,
    has_origin: bool,
    protocol: Option<HeaderValue>,
    upgrade: OnUpgrade,
}

impl Upgrade {
    /// Reads the upgrade headers of a request, if it has them.
    pub(super) fn of<B>(request: &mut Request<B>) -> Option<Self> {
        let headers = request.headers();
        let names = |name, token: &str| {
            let lines = headers.get_all(name).iter().filter_map(|line: &HeaderValue| line.to_str().ok());
            lines.flat_map(|line| line.split(',')).any(|part| part.trim().eq_ignore_ascii_case(token))
        };
        let wants = names(header::CONNECTION, "upgrade") && names(header::UPGRADE, "websocket");
        if !wants || request.method() != Method::GET {
            return None;
        }
        let (key, has_origin) =
            (headers.get(header::SEC_WEBSOCKET_KEY).cloned(), headers.contains_key(header::ORIGIN));
        let protocol = only(headers, &header::SEC_WEBSOCKET_PROTOCOL);
        let upgrade = hyper::upgrade::on(request);
        Some(Self { key, has_origin, protocol, upgrade })
    }

    /// Turns the response of a watch into an upgrade, and spawns its task on `tasks`. Other responses are unchanged.
    pub(super) fn accept(self, response: &mut Response<ResponseBody>, tasks: &mut JoinSet<()>) {
        if response.status() != StatusCode::OK || !response.body().is_stream() {
            return;
        }
        // The checks of Go's `golang.org/x/net/websocket`, in its order.
        let Some(key) = &self.key else {
            return refuse(response, StatusCode::BAD_REQUEST, "mismatch challenge/response");
        };
        if !self.has_origin {
            return refuse(response, StatusCode::FORBIDDEN, "");
        }
        let kind = response.headers().get(header::CONTENT_TYPE).cloned();
        let format = match kind.as_ref().map(HeaderValue::as_bytes) {
            Some(kind) if kind.starts_with(b"application/vnd.kubernetes.protobuf") => Framing::Frames,
            _ => Framing::Lines,
        };
        let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes()));
        let body = std::mem::replace(response.body_mut(), ResponseBody::full(Bytes::new()));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.remove(header::CONTENT_TYPE);
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.extend(accept.ok().map(|accept| (header::SEC_WEBSOCKET_ACCEPT, accept)));
        headers.extend(self.protocol.map(|protocol| (header::SEC_WEBSOCKET_PROTOCOL, protocol)));
        tasks.spawn(async move {
            match self.upgrade.await {
                Ok(upgraded) => speak(TokioIo::new(upgraded), body, format).await,
                Err(error) => tracing::debug!(%error, "a connection was not upgraded to WebSocket"),
            }
        });
    }
}

/// Returns the value of a header that occurs once and is not a list. If the client offers several subprotocols, none is chosen.
fn only(headers: &HeaderMap, name: &header::HeaderName) -> Option<HeaderValue> {
    let mut lines = headers.get_all(name).iter();
    let first = lines.next().filter(|line| !line.as_bytes().contains(&b','))?;
    lines.next().is_none().then(|| first.clone())
}

fn refuse(response: &mut Response<ResponseBody>, status: StatusCode, why: &'static str) {
    *response = Response::new(ResponseBody::full(Bytes::from_static(why.as_bytes())));
    *response.status_mut() = status;
}

/// Framing of events in the body of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// One line per event.
    Lines,
    /// A length in four bytes before each event.
    Frames,
}

impl Framing {
    /// Removes the first complete event from the buffer.
    fn next(self, read: &mut BytesMut) -> Option<Bytes> {
        match self {
            Self::Lines => {
                let end = read.iter().position(|byte| *byte == b'\n')?;
                Some(read.split_to(end + 1).freeze())
            }
            Self::Frames => {
                let length = read.get(..4).map(|mut length| length.get_u32())?;
                let length = usize::try_from(length).ok()?;
                if read.len() < 4 + length {
                    return None;
                }
                read.advance(4);
                Some(read.split_to(length).freeze())
            }
        }
    }

    fn message(self, event: Bytes) -> Message {
        match self {
            Self::Lines => match Utf8Bytes::try_from(event.clone()) {
                Ok(text) => Message::Text(text),
                Err(_) => Message::Binary(event),
            },
            Self::Frames => Message::Binary(event),
        }
    }
}

/// Sends the events of a watch until it ends or the client closes. Dropping the future closes the connection at once.
async fn speak<S>(stream: S, mut body: ResponseBody, format: Framing)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let config =
        WebSocketConfig::default().max_message_size(Some(MAX_RECEIVED)).max_frame_size(Some(MAX_RECEIVED));
    let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    let (mut sink, mut received) = socket.split();
    let mut read = BytesMut::new();
    let ended = loop {
        // Messages of the client take precedence, so that nothing is sent after it closed. Reading a ping queues the pong, which the flush
        // sends.
        tokio::select! {
            biased;
            message = received.next() => match message {
                Some(Ok(Message::Close(_)) | Err(_)) | None => break false,
                Some(Ok(_)) => if sink.flush().await.is_err() {
                    break false;
                },
            },
            frame = body.frame() => match frame {
                Some(Ok(frame)) => {
                    read.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
                    if send(&mut sink, &mut read, format).await.is_err() {
                        break false;
                    }
                }
                // A fault cut the watch off: the connection ends without a close frame, as if it was reset.
                Some(Err(_)) => return,
                None => break true,
            },
        }
    };
    if ended {
        let close = CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::from_static("") };
        // The client may have disconnected.
        let _ = sink.send(Message::Close(Some(close))).await;
    } else {
        let _ = sink.flush().await;
    }
}

async fn send(
    sink: &mut (impl SinkExt<Message, Error = tungstenite::Error> + Unpin),
    read: &mut BytesMut,
    format: Framing,
) -> Result<(), tungstenite::Error> {
    while let Some(event) = format.next(read) {
        sink.feed(format.message(event)).await?;
    }
    sink.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_separated_wherever_chunks_end() {
        let cut = |format: Framing, pieces: &[&[u8]]| {
            let mut read = BytesMut::new();
            let mut events = Vec::new();
            for piece in pieces {
                read.extend_from_slice(piece);
                while let Some(event) = format.next(&mut read) {
                    events.push(event);
                }
            }
            (events, read.to_vec())
        };
        let expected = vec![Bytes::from_static(b"{1}\n"), Bytes::from_static(b"{22}\n")];
        assert_eq!(cut(Framing::Lines, &[b"{1}\n{2", b"2}\n{"]), (expected, b"{".to_vec()));
        let expected = vec![Bytes::from_static(b"abc"), Bytes::from_static(b"")];
        let pieces: &[&[u8]] = &[b"\0\0", b"\0\x03ab", b"c\0\0\0\0\0"];
        assert_eq!(cut(Framing::Frames, pieces), (expected, b"\0".to_vec()));
    }
}
