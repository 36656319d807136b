//! One connection: its protocol, and the requests on it.
//!
//! `hyper_util::server::conn::auto` would not shorten this: the TLS handshake has chosen the version, and the two versions need
//! different streams, limits and ways to close. hyper-util's `GracefulShutdown` waits without a limit; here, a client in the middle of
//! a request has five seconds.

#[cfg(feature = "http2")]
mod http2;

use std::{
    convert::Infallible,
    future::{Future, pending},
    pin::{Pin, pin},
    time::Duration,
};

use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::{
    http_handler::{ServerHandler, ServerResponse},
    read_timeout::{ReadTimeout, TimedStream},
};

/// Time for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that a client which is sending a request has to complete it when the server closes, as with Go's `Server.Shutdown`.
const ASKING: Duration = Duration::from_secs(5);
/// Largest request head, as in controller-runtime.
const MAX_HEADER_BYTES: u32 = 1 << 20;
/// Name of HTTP/2 in TLS negotiation (ALPN).
pub(crate) const H2: &[u8] = b"h2";

/// Serves the requests of a connection until the client closes it, a timeout expires, or the server closes.
pub(super) async fn serve(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    handler: ServerHandler,
    closing: CancellationToken,
) {
    // A response is sent at once, not when the client has acknowledged the previous bytes.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!("cannot set TCP_NODELAY: {error}");
    }
    let Some(tls) = tls else { return http1(stream, handler, closing).await };
    match timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
        #[cfg(feature = "http2")]
        Ok(Ok(stream)) if stream.get_ref().1.alpn_protocol() == Some(H2) => {
            http2::serve(stream, handler, closing).await;
        }
        Ok(Ok(stream)) => http1(stream, handler, closing).await,
        Ok(Err(error)) => tracing::debug!("a client's TLS handshake failed: {error}"),
        Err(_) => tracing::debug!("a client's TLS handshake timed out"),
    }
}

async fn http1(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    handler: impl Into<ServerHandler>,
    closing: CancellationToken,
) {
    let handler = handler.into();
    let read_timeout = ReadTimeout::new();
    let stream = TokioIo::new(TimedStream { stream, read_timeout: read_timeout.clone() });
    let mut builder = http1::Builder::new();
    // hyper's timeout is off, because `ReadTimeout` distinguishes idle time from the time of a request.
    builder.header_read_timeout(None).max_buf_size(MAX_HEADER_BYTES as usize);
    let (timeout, ending) = (read_timeout.clone(), closing.clone());
    let service =
        service_fn(move |request| answer(request, handler.clone(), timeout.clone(), ending.clone()));
    let connection = builder.serve_connection(stream, service);
    // No grace period: a client that has sent half a request expects no response.
    finish(connection, http1::Connection::graceful_shutdown, &closing, &read_timeout, Duration::ZERO).await;
}

/// Answers one request. A handler that reads the body limits the time for that itself.
async fn answer(
    request: http::Request<Incoming>,
    handler: ServerHandler,
    read_timeout: ReadTimeout,
    closing: CancellationToken,
) -> Result<ServerResponse, Infallible> {
    // Dropped with the response, or at the end of a streamed one; then the idle time starts.
    let running = read_timeout.request_begins();
    Ok(handler.handle(request).await.map(|body| body.ending_with(closing, running)))
}

/// Drives a connection to its end. When the server closes, running requests are answered, and a client in the middle of a
/// request gets five seconds. A client that exceeded its time has `farewell` to receive data in flight.
async fn finish<C: Future<Output = hyper::Result<()>>>(
    connection: C,
    shut_down: impl FnOnce(Pin<&mut C>),
    closing: &CancellationToken,
    read_timeout: &ReadTimeout,
    farewell: Duration,
) {
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        // A connection that has ended needs no farewell.
        biased;
        ended = &mut connection => ended,
        () = closing.cancelled() => {
            shut_down(connection.as_mut());
            let asks_on = async {
                sleep(ASKING).await;
                // A client that waits for a response is limited only by the server's own time for closing.
                if !read_timeout.is_inside_request() {
                    pending::<()>().await;
                }
            };
            tokio::select! {
                // A connection that has ended needs no message.
                biased;
                ended = connection => ended,
                () = asks_on => {
                    tracing::debug!("closed the connection of a client that was still sending a request when the server stopped");
                    Ok(())
                }
            }
        }
        () = read_timeout.elapsed() => {
            tracing::debug!("closed the connection of a client that took too long to send a request or to read its response");
            shut_down(connection.as_mut());
            timeout(farewell, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a client's connection failed: {error}");
    }
}

#[cfg(test)]
mod tests;
