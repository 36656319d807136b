//! The server on a TCP socket.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Duration;

use super::connection::{closed, serve};
use super::kubeconfig;
use super::service::ApiService;
use super::tls::Tls;
use crate::authentication::Tokens;

/// How long answers under way may take after [`Listener::shutdown`].
const GRACE: Duration = Duration::from_secs(2);
/// Pause after an `accept` that failed, for example for want of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// How a listener is reached. The default is plain HTTP/1.1.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ListenOptions {
    /// What protects the connections.
    pub transport: Transport,
    /// Whether clients can make the server misbehave; see [`faults`](Self::faults).
    pub faults: bool,
}

impl ListenOptions {
    /// The same options with [faults](crate::faults) for everybody who reaches the listener, below `/debug/faults/`. For tests
    /// that are not written in Rust. Only loopback addresses are served so.
    #[must_use]
    pub fn faults(mut self) -> Self {
        self.faults = true;
        self
    }

    /// The same options with TLS: HTTP/2 and HTTP/1.1, as the client prefers, with a certificate authority made for this
    /// listener. [`Listener::kubeconfig`] carries it, [`Listener::certificate_authority`] too.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.transport = Transport::Tls;
        self
    }
}

/// What protects connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Transport {
    /// Nothing: HTTP/1.1 in plain text. Clients built on client-go send no credentials over it.
    #[default]
    Plain,
    /// TLS with HTTP/2 and HTTP/1.1, and a certificate authority of the listener's own.
    #[cfg(feature = "tls")]
    Tls,
}

/// Why a server does not listen.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address can be reached from other machines, and there are no tokens to tell users by.
    #[error(
        "cannot listen on {0}: everybody would be admin: give users tokens, or use a loopback address such as 127.0.0.1 or [::1]"
    )]
    NotLoopback(SocketAddr),
    /// The address can be reached from other machines, and whoever reaches it could make the server misbehave.
    #[error("cannot listen on {0} with faults: use a loopback address such as 127.0.0.1 or [::1]")]
    FaultsBeyondLoopback(SocketAddr),
    /// The address is taken, or not one of this machine.
    #[error("cannot listen on {address}: {}", if source.kind() == io::ErrorKind::AddrInUse { "the address is in use" } else { "the operating system refused" })]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
    /// There is no certificate for TLS, for example because the operating system has no random numbers.
    #[error("cannot listen on {address} with TLS")]
    Certificate {
        /// The address asked for.
        address: SocketAddr,
        /// What the cryptography said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Told to the watches of a listener when it shuts down; travels in the extensions of a request, and so tells also that the
/// request came over a socket.
#[derive(Debug, Clone)]
pub(crate) struct Closing(pub(crate) watch::Receiver<bool>);

/// Tells that the listener of a request takes faults; travels in its extensions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FaultApi;

/// A server on a socket. Dropping it stops accepting and cuts its connections.
pub struct Listener {
    address: SocketAddr,
    authority: Option<String>,
    token: Option<String>,
    closing: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// Without the token: it is a secret.
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
        let tokens = service.tokens();
        if !address.ip().is_loopback() {
            if tokens.is_none() {
                return Err(ListenError::NotLoopback(address));
            }
            if options.faults {
                return Err(ListenError::FaultsBeyondLoopback(address));
            }
            if options.transport == Transport::Plain {
                tracing::warn!(%address, "tokens travel in plain text: use TLS");
            }
        }
        let token = tokens.and_then(Tokens::preferred).map(str::to_owned);
        let refused = |source| ListenError::Bind { address, source };
        let socket = TcpListener::bind(address).await.map_err(refused)?;
        let address = socket.local_addr().map_err(refused)?;
        let tls: Option<Tls> = match options.transport {
            Transport::Plain => None,
            #[cfg(feature = "tls")]
            Transport::Tls => Some(
                Tls::generate(address.ip())
                    .map_err(|error| ListenError::Certificate { address, source: Box::new(error) })?,
            ),
        };
        let authority = tls.as_ref().map(|tls| tls.authority().to_owned());
        // Before the first client.
        service.advertise(reached_at(address), authority.as_deref());
        let closing = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(socket, tls.map(Arc::new), service, options.faults, closing.subscribe()));
        Ok(Self { address, authority, token, closing, tasks })
    }

    /// The address, with the port that was picked if 0 was asked for.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:6443`, with TLS `https://127.0.0.1:6443`. A listener on all addresses is reached at loopback.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", reached_at(self.address))
    }

    /// With TLS, the certificate that clients have to trust, as PEM.
    #[must_use]
    pub fn certificate_authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }

    /// The text of a kubeconfig whose current context leads here, where there are [tokens](super::Options::tokens) with the one of the
    /// first user in `system:masters`, or else of the first user.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        kubeconfig::write(&self.url(), self.certificate_authority(), self.token.as_deref())
    }

    /// Stops accepting, ends watches, lets other answers finish within two seconds, and cuts what is left.
    ///
    /// Dropping the future cuts the connections at once.
    pub async fn shutdown(mut self) {
        self.closing.send_replace(true);
        if tokio::time::timeout(GRACE, async { while self.tasks.join_next().await.is_some() {} })
            .await
            .is_err()
        {
            self.tasks.shutdown().await;
        }
    }
}

/// Where clients on this machine reach a listener with this address.
fn reached_at(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    address
}

/// Accepts connections until the listener closes, then waits for those under way.
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
            // Closing is asked first, so that no connection is accepted after it.
            biased;
            () = closed(&mut closing) => break,
            Some(_) = connections.join_next() => {}
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, tls.clone(), service.clone(), faults, closing.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            },
        }
    }
    drop(socket);
    while connections.join_next().await.is_some() {}
}
