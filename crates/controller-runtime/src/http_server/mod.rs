//! Small HTTP servers, for metrics and probes.
//!
//! HTTP/1.1 unless asked for more: what a scraper or the kubelet asks needs no more, and HTTP/2 has had attacks of its own.

mod connection;
mod endpoint;
mod handler;
mod listen;
mod patience;

use std::{fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::watch, task::JoinSet, time::timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

pub(crate) use self::{
    connection::H2,
    handler::{BoxHandler, boxed, text},
    listen::Listen,
};
pub use self::{
    endpoint::{Endpoint, InvalidEndpoint},
    handler::{Handler, Request, Response},
};
use crate::{
    cert::{AdaptTls, Certificates, Serving},
    manager::{BoxError, RunContext, Runnable},
    metrics::CertificateMetrics,
};

/// How many connections are served at the same time; more wait until one is closed.
const MAX_CONNECTIONS: usize = 256;
/// How long requests in work may take when the server stops, as with controller-runtime. A manager that gives its shutdown less
/// ([`graceful_shutdown_timeout`](crate::manager::Options::graceful_shutdown_timeout)) drops them with the server.
const CLOSING: Duration = Duration::from_secs(60);
/// How long to wait after the system refused to accept a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// A server as a runnable of a manager: ready when it listens.
pub(crate) struct HttpServer {
    name: &'static str,
    listen: Listen,
    serving: Serving,
    offers_http2: bool,
    adapt_tls: AdaptTls,
    handler: BoxHandler,
    certificate_metrics: CertificateMetrics,
    /// Where it listens now.
    bound: Arc<watch::Sender<Option<SocketAddr>>>,
}

impl HttpServer {
    pub(crate) fn new(
        name: &'static str,
        listen: Listen,
        serving: Serving,
        handler: BoxHandler,
        certificate_metrics: CertificateMetrics,
        bound: Arc<watch::Sender<Option<SocketAddr>>>,
    ) -> Self {
        let (offers_http2, adapt_tls) = (false, AdaptTls::default());
        Self { name, listen, serving, offers_http2, adapt_tls, handler, certificate_metrics, bound }
    }

    /// With HTTP/2 for those who ask for it in the handshake of TLS, or without.
    pub(crate) fn offering_http2(self, offers_http2: bool) -> Self {
        Self { offers_http2, ..self }
    }

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
        let refused = |source| ListenError { server: self.name, on: self.listen.clone(), source };
        let certificates = match &self.serving {
            Serving::Plain => None,
            serving => Some(Certificates::load(serving, self.certificate_metrics.clone())?),
        };
        let acceptor =
            |certificates: &Certificates| certificates.acceptor(self.offers_http2, &self.adapt_tls);
        let tls = certificates.as_ref().map(acceptor).transpose()?;
        let Some(listener) = self.listen.listen().await.map_err(refused)? else { return Ok(()) };
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
                        connections.spawn(connection::serve(stream, tls, handler, closing).in_current_span());
                    }
                    Err(error) => {
                        tracing::warn!(server = self.name, "a connection was not accepted: {error}");
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        }
        closing.cancel();
        let closed = timeout(CLOSING, async { while connections.join_next().await.is_some() {} }).await;
        if closed.is_err() {
            let (server, cut) = (self.name, connections.len());
            tracing::warn!(server, cut, "requests were cut that took longer than a minute after the stop");
        }
    }
}

/// A server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("the server of {server} cannot listen on {on}: is another process there?")]
struct ListenError {
    server: &'static str,
    on: Listen,
    source: io::Error,
}

impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer")
            .field("name", &self.name)
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}
