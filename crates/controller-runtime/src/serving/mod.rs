//! Servers of a manager, for metrics, probes and webhooks: addresses ([`Endpoint`]), TLS ([`Serving`]), handlers
//! ([`Handler`]), and the options of the metrics server ([`MetricsServerOptions`]).
//!
//! The servers use HTTP/1.1 unless HTTP/2 is enabled: scrapers and the kubelet need only HTTP/1.1, and HTTP/2 allows more kinds of
//! attacks.

mod certificates;
mod endpoint;
mod http_handler;
mod listen;
mod metrics_server;
mod read_timeout;
mod server_connection;

use std::{fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::watch, task::JoinSet, time::timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// Types used by [`MetricsServerOptions::tls`].
#[doc(no_inline)]
pub use tokio_rustls::rustls;

use self::http_handler::ServerHandler;
pub(crate) use self::{
    certificates::{AdaptTls, CertificateSource, Certificates, CurrentCertificate},
    http_handler::{BodyHandler, BoxHandler, ResponseBody, ServerResponse, boxed, text},
    listen::Listen,
    metrics_server::ExtraHandlers,
};
pub use self::{
    certificates::{CertFiles, CertificateError, Serving},
    endpoint::{Endpoint, EndpointError},
    http_handler::{Handler, HttpRequest, HttpResponse},
    metrics_server::{AllowedTo, MetricsServerOptions},
};
use crate::{
    error::BoxError,
    metrics::CertificateMetrics,
    runnable::{RunContext, Runnable},
};

/// Largest number of concurrent connections; others wait until one is closed.
const MAX_CONNECTIONS: usize = 256;
/// Time for running requests when the server stops, as in controller-runtime. A manager with a shorter shutdown
/// ([`graceful_shutdown_timeout`](crate::ManagerOptions::graceful_shutdown_timeout)) drops them together with the server.
const CLOSING: Duration = Duration::from_secs(60);
/// Pause after the system refused to accept a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// A server as a runnable of a manager: ready when it listens.
pub(crate) struct HttpServer {
    name: &'static str,
    listen: Listen,
    certificates: CertificateSource,
    offers_http2: bool,
    adapt_tls: AdaptTls,
    handler: ServerHandler,
    certificate_metrics: CertificateMetrics,
    /// Address that the server currently listens on.
    bound: Arc<watch::Sender<Option<SocketAddr>>>,
}

impl HttpServer {
    pub(crate) fn new(
        name: &'static str,
        listen: Listen,
        serving: Serving,
        handler: impl Into<ServerHandler>,
        certificate_metrics: CertificateMetrics,
        bound: Arc<watch::Sender<Option<SocketAddr>>>,
    ) -> Self {
        let (offers_http2, adapt_tls, handler) = (false, AdaptTls::default(), handler.into());
        let certificates = CertificateSource::Serving(serving);
        Self { name, listen, certificates, offers_http2, adapt_tls, handler, certificate_metrics, bound }
    }

    /// Sets whether HTTP/2 is offered in the TLS handshake.
    pub(crate) fn offering_http2(self, offers_http2: bool) -> Self {
        Self { offers_http2, ..self }
    }

    /// Uses a certificate that another component sets.
    pub(crate) fn with_certificate(self, current: Arc<CurrentCertificate>) -> Self {
        Self { certificates: CertificateSource::Current(current), ..self }
    }

    /// Sets the changes of the TLS configuration.
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
        // Certificates and socket are set up before `set_ready`, so that their errors fail the start.
        let certificates = match &self.certificates {
            CertificateSource::Serving(Serving::Plain) => None,
            CertificateSource::Current(current) => Some(Certificates::of_current(Arc::clone(current))),
            CertificateSource::Serving(serving) => {
                Some(Certificates::load(serving, self.certificate_metrics.clone())?)
            }
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
        // The reload never completes; it stops with the server.
        tokio::select! {
            // The server comes first: its end is the result.
            biased;
            () = self.serve(&listener, tls, &cx) => {}
            () = reload => {}
        }
        self.bound.send_replace(None);
        Ok(())
    }
}

impl HttpServer {
    /// Serves until the shutdown, then finishes running requests.
    async fn serve(&self, listener: &TcpListener, tls: Option<TlsAcceptor>, cx: &RunContext) {
        let closing = CancellationToken::new();
        // Dropping the set aborts the connections.
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                // The shutdown comes first, and finished connections come before new ones, which may be waiting for
                // room.
                () = cx.shutdown() => break,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                    Ok((stream, _)) => {
                        let (handler, tls, closing) = (self.handler.clone(), tls.clone(), closing.clone());
                        connections.spawn(server_connection::serve(stream, tls, handler, closing).in_current_span());
                    }
                    Err(error) => {
                        tracing::warn!(server = self.name, "the server could not accept a connection: {error}");
                        // An error such as too many open files lasts for a while, so a loop without a pause would only use CPU.
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        }
        closing.cancel();
        let closed = timeout(CLOSING, async { while connections.join_next().await.is_some() {} }).await;
        if closed.is_err() {
            let (server, cut) = (self.name, connections.len());
            tracing::warn!(
                server,
                cut,
                "closed connections with requests that were still running a minute after the server stopped"
            );
        }
    }
}

/// Error of a server that cannot listen on its address.
#[derive(Debug, thiserror::Error)]
#[error("the server of {server} cannot listen on {on}: check that no other process uses the address")]
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
