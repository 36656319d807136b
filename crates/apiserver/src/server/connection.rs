//! One connection: the protocol that its client chose, and the requests on it.

use std::future::Future;
use std::sync::{Arc, Weak};

use http::Request;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Duration, timeout};
use tower_service::Service;

use super::listener::{Closing, FaultApi};
use super::patience::Patient;
use super::progress::{Progress, watched};
use super::service::ApiService;
use super::tls::Tls;

/// How long a client may take to send the head of a request over HTTP/1.1, idle time before it included.
const HEADER_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a client may take for the handshake of TLS.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(32);
/// How long a client may leave what is sent to it in the buffers of the operating system, or an answer over HTTP/2 unread.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a client may take for all of an answer that is no watch, as kube-apiserver has it.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// Requests under way on one connection of HTTP/2, as a kube-apiserver has it: each watch of an informer is one.
const STREAMS: u32 = 1000;
/// Bytes of headers in a request over HTTP/2. Selectors of lists can be long.
const HEADERS: u32 = 256 << 10;
/// Bytes of a body that a client may send ahead of what is read, over HTTP/2: most bodies are smaller.
const STREAM_WINDOW: u32 = 256 << 10;
/// The same for all bodies on a connection.
const CONNECTION_WINDOW: u32 = 4 << 20;
/// After this long without a sign of life a client of HTTP/2 is asked for one.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How long it may take to answer.
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Serves the requests of a connection until the client leaves or the listener closes.
pub(super) async fn serve(
    stream: TcpStream,
    tls: Option<Arc<Tls>>,
    service: ApiService,
    faults: bool,
    closing: watch::Receiver<bool>,
) {
    // Small answers must not wait for the next one.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY is not available");
    }
    let stream = Patient::new(stream, PATIENCE);
    let Some(tls) = tls else {
        return speak(stream, Protocol::Http1, service, faults, closing).await;
    };
    match timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
        Ok(Ok((stream, protocol))) => speak(stream, protocol, service, faults, closing).await,
        Ok(Err(error)) => tracing::debug!(%error, "a handshake of TLS failed"),
        Err(_elapsed) => tracing::debug!("a handshake of TLS took too long"),
    }
}

/// A version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    /// Only where the client asked for it during the handshake.
    #[cfg_attr(
        not(any(test, feature = "tls")),
        expect(dead_code, reason = "it is negotiated in the handshake of TLS")
    )]
    Http2,
}

async fn speak<S>(
    stream: S,
    protocol: Protocol,
    service: ApiService,
    faults: bool,
    mut closing: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let watches = Closing(closing.clone());
    let answer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(watches.clone());
        if faults {
            request.extensions_mut().insert(FaultApi);
        }
        let mut service = service.clone();
        async move {
            let mut answered = Service::<Request<Incoming>>::call(&mut service, request).await;
            if let Ok(response) = &mut answered {
                response.body_mut().expire_after(ANSWER_TIME);
                if let Some(progress) = Progress::current() {
                    response.body_mut().report_to(progress);
                }
            }
            answered
        }
    });
    let stream = TokioIo::new(stream);
    let ended = match protocol {
        Protocol::Http1 => {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .serve_connection(stream, answer);
            let mut connection = std::pin::pin!(connection);
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = closed(&mut closing) => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            }
        }
        Protocol::Http2 => {
            let requests = Requests::default();
            let connection = http2::Builder::new(requests.executor())
                .timer(TokioTimer::new())
                .max_concurrent_streams(STREAMS)
                .max_header_list_size(HEADERS)
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .keep_alive_interval(PING_INTERVAL)
                .keep_alive_timeout(PING_TIMEOUT)
                .serve_connection(stream, answer);
            let mut connection = std::pin::pin!(connection);
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = closed(&mut closing) => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Waits until the listener closes or is dropped.
pub(super) async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error means that the listener was dropped, which closes it too.
    let _ = closing.wait_for(|closed| *closed).await;
}

/// The requests of a connection of HTTP/2, each a task. Dropping this aborts them.
#[derive(Debug, Default)]
struct Requests(Arc<Mutex<JoinSet<()>>>);

impl Requests {
    fn executor(&self) -> RequestExecutor {
        RequestExecutor(Arc::downgrade(&self.0))
    }
}

/// Starts tasks for as long as their owner is there. A strong reference could be kept alive by the tasks themselves.
#[derive(Debug, Clone)]
struct RequestExecutor(Weak<Mutex<JoinSet<()>>>);

impl<F> Executor<F> for RequestExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        let Some(requests) = self.0.upgrade() else {
            return;
        };
        let mut requests = requests.lock();
        // Those that are done would be kept until the connection ends.
        while requests.try_join_next().is_some() {}
        requests.spawn(watched(task, PATIENCE));
    }
}

#[cfg(test)]
mod tests;
