//! A TCP listener that serves the API.

mod connection;
mod kubeconfig;
#[cfg_attr(not(feature = "tls"), path = "no_listener_tls.rs")]
mod listener_tls;
#[cfg(feature = "tls")]
mod serving_certificate;
#[cfg_attr(not(feature = "websocket"), path = "no_websocket.rs")]
mod websocket;
mod write_timeout;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Duration;

use self::connection::serve;
use self::listener_tls::Tls;
#[cfg(feature = "tls")]
pub use self::serving_certificate::{
    CannotGenerate, GeneratedCertificate, InvalidServingCertificate, ServingCertificate,
};
use crate::api::authentication::Tokens;
use crate::http::ApiService;
use crate::request::origin::closed;

/// Maximum time for requests in progress after [`Listener::shutdown`].
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
/// Pause after a failed `accept`, for example when the process is out of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Options of a listener. The default is plain HTTP/1.1.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ListenOptions {
    /// Protection of the connections.
    pub transport: Transport,
    /// Certificate to present with TLS. With `None` the listener generates one, with a certificate authority of its own.
    #[cfg(feature = "tls")]
    pub certificate: Option<ServingCertificate>,
    /// Whether clients can inject faults; see [`faults`](Self::faults).
    pub faults: bool,
}

impl ListenOptions {
    /// Serves the [fault API](crate::faults) below `/debug/faults/` to every client of the listener, for tests that are not written in
    /// Rust. Such a listener accepts loopback addresses only.
    #[must_use]
    pub fn faults(mut self) -> Self {
        self.faults = true;
        self
    }

    /// Enables TLS with HTTP/2 and HTTP/1.1, as the client prefers. A certificate authority is generated for this listener;
    /// [`Listener::kubeconfig`] and [`Listener::certificate_authority`] contain it.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.transport = Transport::Tls;
        self
    }

    /// Enables [TLS](Self::tls) with a certificate that clients already trust.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn certificate(mut self, certificate: ServingCertificate) -> Self {
        self.certificate = Some(certificate);
        self.tls()
    }
}

/// Protection of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Transport {
    /// No protection: HTTP/1.1 in plain text. Clients built on client-go send no credentials over it.
    #[default]
    Plain,
    /// TLS with HTTP/2 and HTTP/1.1.
    #[cfg(feature = "tls")]
    Tls,
}

/// Failure to start a listener.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address can be reached from other machines, and the server has neither tokens nor an authority of client certificates.
    #[error(
        "cannot listen on {0}, because every client would be admin: configure tokens, or use a loopback address such as \
         127.0.0.1 or [::1]"
    )]
    NotLoopback(SocketAddr),
    /// The address can be reached from other machines, and every client could inject faults.
    #[error(
        "cannot listen on {0} with the fault API, which every client may use: use a loopback address such as 127.0.0.1 or [::1]"
    )]
    FaultsBeyondLoopback(SocketAddr),
    /// The address is in use, or is not an address of this machine.
    #[error("cannot listen on {address}: {}", if source.kind() == io::ErrorKind::AddrInUse { "the address is in use" } else { "the operating system refused the address" })]
    Bind {
        /// Requested address.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// No certificate could be generated, for example because the operating system has no random numbers.
    #[error("cannot listen on {address} with TLS")]
    Certificate {
        /// Requested address.
        address: SocketAddr,
        /// Error of the cryptography library.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A server on a socket. Dropping it stops accepting and closes its connections.
pub struct Listener {
    address: SocketAddr,
    authority: Option<String>,
    token: Option<String>,
    closing: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// Omits the token, because it is secret.
impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("url", &self.url()).finish_non_exhaustive()
    }
}

impl Listener {
    pub(super) async fn bind(
        service: ApiService,
        address: SocketAddr,
        options: ListenOptions,
    ) -> Result<Self, ListenError> {
        let authenticator = service.authenticator();
        if !address.ip().is_loopback() {
            if !authenticator.requires_credentials() {
                return Err(ListenError::NotLoopback(address));
            }
            if options.faults {
                return Err(ListenError::FaultsBeyondLoopback(address));
            }
            if options.transport == Transport::Plain {
                tracing::warn!(%address, "bearer tokens are sent in plain text: listen with TLS");
            }
        }
        let token = authenticator.tokens().and_then(Tokens::preferred).map(str::to_owned);
        let refused = |source| ListenError::Bind { address, source };
        let socket = TcpListener::bind(address).await.map_err(refused)?;
        let address = socket.local_addr().map_err(refused)?;
        let tls: Option<Tls> = match options.transport {
            Transport::Plain => None,
            #[cfg(feature = "tls")]
            Transport::Tls => {
                let failed = |source| ListenError::Certificate { address, source };
                let certificate = match options.certificate {
                    Some(certificate) => certificate,
                    None => GeneratedCertificate::new(address.ip())
                        .map_err(|error| failed(error.into()))?
                        .to_serving()
                        .map_err(|error| failed(error.into()))?,
                };
                let tls = Tls::new(certificate, authenticator.client_authority());
                Some(tls.map_err(|error| failed(error.into()))?)
            }
        };
        let authority = tls.as_ref().map(|tls| tls.authority().to_owned());
        // The address is published before the first client can connect.
        service.advertise(reached_at(address), authority.as_deref());
        let closing = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(socket, tls.map(Arc::new), service, options.faults, closing.subscribe()));
        Ok(Self { address, authority, token, closing, tasks })
    }

    /// Returns the address, with the port that was picked if port 0 was requested.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns the base URL: `http://127.0.0.1:6443`, or `https://…` with TLS. For a wildcard address it names the loopback
    /// address.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", reached_at(self.address))
    }

    /// Returns the certificates that clients must trust, as PEM: the generated certificate authority, or [`ListenOptions::certificate`].
    /// Returns `None` without TLS.
    #[must_use]
    pub fn certificate_authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }

    /// Returns a kubeconfig with this listener as its current context. With [tokens](super::Options::tokens) it contains the token of the
    /// first user in `system:masters`, or if there is none, of the first user.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        kubeconfig::write(&self.url(), self.certificate_authority(), self.token.as_deref())
    }

    /// Stops accepting, ends watches, gives other requests two seconds to finish, and closes the remaining connections.
    ///
    /// Dropping the future closes the connections at once.
    pub async fn shutdown(mut self) {
        self.closing.send_replace(true);
        if tokio::time::timeout(SHUTDOWN_GRACE, async { while self.tasks.join_next().await.is_some() {} })
            .await
            .is_err()
        {
            self.tasks.shutdown().await;
        }
    }
}

/// Returns the address at which clients on this machine reach the listener.
fn reached_at(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    address
}

/// Accepts connections until the listener closes, and then waits for the open ones to end.
async fn accept(
    socket: TcpListener,
    tls: Option<Arc<Tls>>,
    service: ApiService,
    faults: bool,
    mut closing: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // Poll `closing` first, so that no connection is accepted after it.
            biased;
            () = closed(&mut closing) => break,
            Some(_) = connections.join_next() => {}
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, tls.clone(), service.clone(), faults, closing.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection; retrying");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            },
        }
    }
    // The socket is closed, so that later clients are refused instead of waiting for the open connections to end.
    drop(socket);
    while connections.join_next().await.is_some() {}
}
