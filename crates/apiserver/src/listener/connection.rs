//! A connection: its negotiated protocol and its requests.
//!
//! `hyper_util::server::conn::auto` does not fit. With upgrades, which WebSockets need, it always guesses the protocol from the first
//! bytes, even if one version was chosen. Then [`HEADER_TIMEOUT`] would not apply to a client that sends nothing, and a client without
//! TLS could speak HTTP/2, which kube-apiserver does not offer there.

use std::future::Future;
use std::pin::{Pin, pin};
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

use super::listener_tls::Tls;
use super::websocket::Upgrade;
use super::write_timeout::WriteTimeout;
use crate::http::ApiService;
use crate::request::origin::{ClientCertificate, Closing, FaultApi, closed};
use crate::response::stalled_stream::{StreamProgress, watched};

/// Time for a client to send the head of an HTTP/1.1 request, including the idle time before it.
const HEADER_TIMEOUT: Duration = Duration::from_secs(120);
/// Time for the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(32);
/// Maximum time for which data may stay unread, in buffers of the operating system or in a response over HTTP/2.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time for a client to read a whole response other than a watch, as in kube-apiserver.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of concurrent requests on an HTTP/2 connection, as in kube-apiserver: each watch of an informer is one.
const MAX_STREAMS: u32 = 1000;
/// Maximum size of the headers of an HTTP/2 request, in bytes. Selectors of lists can be long.
const MAX_HEADER_BYTES: u32 = 256 << 10;
/// Flow control window of a request body over HTTP/2, in bytes. Most bodies are smaller.
const STREAM_WINDOW: u32 = 256 << 10;
/// Flow control window of all request bodies on a connection, in bytes.
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Idle time after which an HTTP/2 client is pinged.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Time for a client to answer a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Serves the requests of a connection until the client closes it or the listener shuts down.
pub(super) async fn serve(
    stream: TcpStream,
    tls: Option<Arc<Tls>>,
    service: ApiService,
    faults: bool,
    closing: watch::Receiver<bool>,
) {
    // Send small responses at once.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let stream = WriteTimeout::new(stream, UNREAD_TIMEOUT);
    let Some(tls) = tls else {
        return speak(stream, Protocol::Http1, service, None, faults, closing).await;
    };
    match timeout(HANDSHAKE_TIMEOUT, tls.accept(stream, || service.now())).await {
        Ok(Ok((stream, protocol, certificate))) => {
            speak(stream, protocol, service, certificate, faults, closing).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_elapsed) => tracing::debug!("TLS handshake timed out"),
    }
}

/// HTTP version of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    /// HTTP/2, only if the client chose it in the TLS handshake.
    #[cfg_attr(
        not(any(test, feature = "tls")),
        expect(dead_code, reason = "negotiated only in a TLS handshake")
    )]
    Http2,
}

async fn speak<S>(
    stream: S,
    protocol: Protocol,
    service: ApiService,
    certificate: Option<ClientCertificate>,
    faults: bool,
    mut closing: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let watches = Closing(closing.clone());
    let sockets = Arc::new(Mutex::new(JoinSet::new()));
    // A strong reference in a task would keep its own set alive.
    let upgraded = Arc::downgrade(&sockets);
    let answer = service_fn(move |mut request: Request<Incoming>| {
        let upgraded = Weak::clone(&upgraded);
        request.extensions_mut().insert(watches.clone());
        if let Some(certificate) = &certificate {
            request.extensions_mut().insert(certificate.clone());
        }
        if faults {
            request.extensions_mut().insert(FaultApi);
        }
        let mut service = service.clone();
        let upgrade = Upgrade::of(&mut request);
        async move {
            let mut answered = Service::<Request<Incoming>>::call(&mut service, request).await;
            if let Ok(response) = &mut answered {
                if let (Some(upgrade), Some(sockets)) = (upgrade, upgraded.upgrade()) {
                    upgrade.accept(response, &mut sockets.lock());
                }
                // Only responses over sockets expire: a caller in the process may keep a response.
                response.body_mut().expire_after(RESPONSE_TIMEOUT);
                // HTTP/2 only: over HTTP/1.1 the timeout of the connection's writes detects a client that does not read.
                if let Some(progress) = StreamProgress::current() {
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
                .serve_connection(stream, answer)
                .with_upgrades();
            let ended =
                finish(connection, http1::UpgradeableConnection::graceful_shutdown, &mut closing).await;
            // An upgraded connection lasts as long as its watch, which ends with the listener.
            let mut sockets = std::mem::take(&mut *sockets.lock());
            while sockets.join_next().await.is_some() {}
            ended
        }
        Protocol::Http2 => {
            let requests = Requests::default();
            let connection = http2::Builder::new(requests.executor())
                .timer(TokioTimer::new())
                .max_concurrent_streams(MAX_STREAMS)
                .max_header_list_size(MAX_HEADER_BYTES)
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .keep_alive_interval(PING_INTERVAL)
                .keep_alive_timeout(PING_TIMEOUT)
                .serve_connection(stream, answer);
            finish(connection, http2::Connection::graceful_shutdown, &mut closing).await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection closed with an error");
    }
}

/// Drives a connection to its end. When the listener shuts down, running requests are still answered.
async fn finish<C: Future<Output = hyper::Result<()>>>(
    connection: C,
    shut_down: impl FnOnce(Pin<&mut C>),
    closing: &mut watch::Receiver<bool>,
) -> hyper::Result<()> {
    let mut connection = pin!(connection);
    tokio::select! {
        // A connection that has ended needs no graceful shutdown.
        biased;
        ended = connection.as_mut() => ended,
        () = closed(closing) => {
            shut_down(connection.as_mut());
            connection.await
        }
    }
}

/// Tasks of the requests on an HTTP/2 connection. Dropping this aborts them.
#[derive(Debug, Default)]
struct Requests(Arc<Mutex<JoinSet<()>>>);

impl Requests {
    fn executor(&self) -> RequestExecutor {
        RequestExecutor(Arc::downgrade(&self.0))
    }
}

/// Spawns tasks while the connection exists. A strong reference would form a cycle with the tasks.
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
        // Finished tasks are removed, because they would otherwise stay until the connection ends.
        while requests.try_join_next().is_some() {}
        requests.spawn(watched(task, UNREAD_TIMEOUT));
    }
}

#[cfg(test)]
mod tests;
