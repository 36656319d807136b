//! One connection: the protocol that was agreed on, and the requests on it.

#[cfg(feature = "http2")]
mod http2;

use std::{
    convert::Infallible,
    future::{Future, pending},
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
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
    BoxHandler,
    patience::{Heard, Patience},
};

/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client that has begun to ask may go on with it when we close, as with Go's `Server.Shutdown`.
const ASKING: Duration = Duration::from_secs(5);
/// How long the head of a request may be. As controller-runtime.
const MAX_HEADER_BYTES: u32 = 1 << 20;
/// In a handshake of TLS, the name of HTTP/2.
pub(crate) const H2: &[u8] = b"h2";

/// Serves the requests of a connection until its client leaves, has taken too long, or we close.
pub(super) async fn serve(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    handler: BoxHandler,
    closing: CancellationToken,
) {
    let Some(tls) = tls else { return http1(stream, handler, closing).await };
    match timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
        #[cfg(feature = "http2")]
        Ok(Ok(stream)) if stream.get_ref().1.alpn_protocol() == Some(H2) => {
            http2::serve(stream, handler, closing).await;
        }
        Ok(Ok(stream)) => http1(stream, handler, closing).await,
        Ok(Err(error)) => tracing::debug!("a TLS handshake failed: {error}"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

async fn http1(stream: impl AsyncRead + AsyncWrite + Unpin, handler: BoxHandler, closing: CancellationToken) {
    let patience = Patience::new();
    let stream = TokioIo::new(Heard { stream, patience: patience.clone() });
    let mut builder = http1::Builder::new();
    builder.header_read_timeout(None).max_buf_size(MAX_HEADER_BYTES as usize);
    let asked = patience.clone();
    let service = service_fn(move |request| answer(request, Arc::clone(&handler), asked.clone()));
    let connection = builder.serve_connection(stream, service);
    // Nobody is to be told: who has sent half a request has no right to the rest.
    finish(connection, http1::Connection::graceful_shutdown, &closing, &patience, Duration::ZERO).await;
}

/// Answers one request. Its body is not read.
async fn answer(
    request: http::Request<Incoming>,
    handler: BoxHandler,
    patience: Patience,
) -> Result<http::Response<Full<Bytes>>, Infallible> {
    let _asked = patience.asked();
    let (head, _) = request.into_parts();
    let answer = handler(http::Request::from_parts(head, ())).await;
    Ok(answer.map(Full::new))
}

/// Drives a connection to its end. When we close, the requests in work are answered, and who is about to ask has to be quick;
/// a client with which we have lost patience has as long as `farewell` for what is on its way.
async fn finish<C: Future<Output = hyper::Result<()>>>(
    connection: C,
    shut_down: impl FnOnce(Pin<&mut C>),
    closing: &CancellationToken,
    patience: &Patience,
    farewell: Duration,
) {
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = closing.cancelled() => {
            shut_down(connection.as_mut());
            let asks_on = async {
                sleep(ASKING).await;
                if !patience.is_for_the_rest() {
                    pending::<()>().await;
                }
            };
            tokio::select! {
                ended = connection => ended,
                () = asks_on => {
                    tracing::debug!("a client was still asking when the server stopped");
                    Ok(())
                }
            }
        }
        () = patience.lost() => {
            tracing::debug!("a client took too long to ask");
            shut_down(connection.as_mut());
            timeout(farewell, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection ended early: {error}");
    }
}

#[cfg(test)]
mod tests;
