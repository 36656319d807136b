//! Small HTTP servers, for metrics and probes.
//!
//! HTTP/1.1 alone: what a scraper or the kubelet asks needs no more, and HTTP/2 has had attacks of its own.

mod endpoint;
mod handler;

use std::{convert::Infallible, fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

pub(crate) use self::handler::{BoxHandler, boxed, text};
pub use self::{
    endpoint::{Endpoint, InvalidEndpoint},
    handler::{Handler, Request, Response},
};
use crate::{
    cert::{AdaptTls, Certificates, Serving},
    manager::{BoxError, RunContext, Runnable},
    metrics::CertificateMetrics,
};

/// How long a client may take to send the head of a request, and be idle before. As controller-runtime.
const READ_HEADER_TIMEOUT: Duration = Duration::from_secs(32);
/// How long the head of a request may be. As controller-runtime.
const MAX_HEADER_BYTES: usize = 1 << 20;
/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How many connections are served at the same time; more wait until one is closed.
const MAX_CONNECTIONS: usize = 256;
/// How long requests in work may take when the server stops.
const CLOSING: Duration = Duration::from_secs(5);
/// How long to wait after the system refused to accept a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// A server as a runnable of a manager: ready when it listens.
pub(crate) struct HttpServer {
    name: &'static str,
    endpoint: Endpoint,
    serving: Serving,
    adapt_tls: AdaptTls,
    handler: BoxHandler,
    certificate_metrics: CertificateMetrics,
    /// Where it listens now.
    bound: Arc<watch::Sender<Option<SocketAddr>>>,
}

impl HttpServer {
    pub(crate) fn new(
        name: &'static str,
        endpoint: Endpoint,
        serving: Serving,
        handler: BoxHandler,
        certificate_metrics: CertificateMetrics,
        bound: Arc<watch::Sender<Option<SocketAddr>>>,
    ) -> Self {
        Self { name, endpoint, serving, adapt_tls: AdaptTls::default(), handler, certificate_metrics, bound }
    }
}

impl HttpServer {
    /// With this said of its TLS.
    pub(crate) fn adapting_tls(self, adapt_tls: AdaptTls) -> Self {
        Self { adapt_tls, ..self }
    }
}

impl Runnable for HttpServer {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn needs_leader_election(&self) -> bool {
        false
    }

    fn signals_ready(&self) -> bool {
        true
    }

    async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
        let refused = |source| ListenError { server: self.name, endpoint: self.endpoint, source };
        let certificates = match &self.serving {
            Serving::Plain => None,
            serving => Some(Certificates::load(serving, self.certificate_metrics.clone())?),
        };
        let tls =
            certificates.as_ref().map(|certificates| certificates.acceptor(&self.adapt_tls)).transpose()?;
        let Some(listener) = self.endpoint.listen().await.map_err(refused)? else { return Ok(()) };
        let address = listener.local_addr().map_err(refused)?;
        tracing::info!(server = self.name, %address, secure = tls.is_some(), "listening");
        self.bound.send_replace(Some(address));
        cx.set_ready();
        let reload = async {
            match &certificates {
                Some(certificates) => certificates.keep_up().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.serve(&listener, tls, &cx) => {}
            () = reload => {}
        }
        self.bound.send_replace(None);
        Ok(())
    }
}

impl HttpServer {
    /// Serves until the shutdown, then finishes the requests in work.
    async fn serve(&self, listener: &TcpListener, tls: Option<TlsAcceptor>, cx: &RunContext) {
        let closing = CancellationToken::new();
        // The set stops the connections when it is dropped.
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = cx.shutdown() => break,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                    Ok((stream, _)) => {
                        let (handler, tls, closing) = (Arc::clone(&self.handler), tls.clone(), closing.clone());
                        connections.spawn(connection(stream, tls, handler, closing).in_current_span());
                    }
                    Err(error) => {
                        tracing::warn!(server = self.name, "a connection was not accepted: {error}");
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        }
        closing.cancel();
        // Whoever sends a request slowly must not hold up the stop.
        let _late = timeout(CLOSING, async { while connections.join_next().await.is_some() {} }).await;
    }
}

async fn connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    handler: BoxHandler,
    closing: CancellationToken,
) {
    match tls {
        None => exchange(stream, handler, closing).await,
        Some(tls) => match timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
            Ok(Ok(stream)) => exchange(stream, handler, closing).await,
            Ok(Err(error)) => tracing::debug!("a TLS handshake failed: {error}"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        },
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    handler: BoxHandler,
    closing: CancellationToken,
) {
    let service = service_fn(move |request: http::Request<Incoming>| {
        let handler = Arc::clone(&handler);
        async move {
            let (head, _) = request.into_parts();
            let answer = handler(http::Request::from_parts(head, ())).await;
            Ok::<_, Infallible>(answer.map(Full::<Bytes>::new))
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(READ_HEADER_TIMEOUT).max_buf_size(MAX_HEADER_BYTES);
    let mut served = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = &mut served => ended,
        () = closing.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection ended early: {error}");
    }
}

/// A server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("the server of {server} cannot listen on {endpoint}: is another process there?")]
struct ListenError {
    server: &'static str,
    endpoint: Endpoint,
    source: io::Error,
}

impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer")
            .field("name", &self.name)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}
