//! The server on a TCP socket.

use std::io;
use std::net::SocketAddr;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Duration;
use tower_service::Service;

use super::kubeconfig;
use super::service::ApiService;

/// How long a client may take to send the head of a request, idle time before it included.
const HEADER_TIMEOUT: Duration = Duration::from_secs(120);
/// How long answers under way may take after [`Listener::shutdown`].
const GRACE: Duration = Duration::from_secs(2);
/// Pause after an `accept` that failed, for example for want of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Why a server does not listen.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address can be reached from other machines.
    #[error(
        "cannot listen on {0}: without credentials only a loopback address such as 127.0.0.1 or [::1] is served"
    )]
    NotLoopback(SocketAddr),
    /// The address is taken, or not one of this machine.
    #[error("cannot listen on {address}: {}", if source.kind() == io::ErrorKind::AddrInUse { "the address is in use" } else { "the operating system refused" })]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
}

/// Told to the watches of a listener when it shuts down; travels in the extensions of a request.
#[derive(Debug, Clone)]
pub(crate) struct Closing(pub(crate) watch::Receiver<bool>);

/// A server on a socket. Dropping it stops accepting and cuts its connections.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    closing: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Listener {
    pub(super) async fn bind(service: ApiService, address: SocketAddr) -> Result<Self, ListenError> {
        if !address.ip().is_loopback() {
            return Err(ListenError::NotLoopback(address));
        }
        let refused = |source| ListenError::Bind { address, source };
        let socket = TcpListener::bind(address).await.map_err(refused)?;
        let address = socket.local_addr().map_err(refused)?;
        let closing = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(socket, service, closing.subscribe()));
        Ok(Self { address, closing, tasks })
    }

    /// The address, with the port that was picked if 0 was asked for.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:6443`
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The text of a kubeconfig whose current context leads here.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        kubeconfig::write(&self.url())
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

/// Accepts connections until the listener closes, then waits for those under way.
async fn accept(socket: TcpListener, service: ApiService, mut closing: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // Closing is asked first, so that no connection is accepted after it.
            biased;
            () = closed(&mut closing) => break,
            Some(_) = connections.join_next() => {}
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, service.clone(), closing.clone()));
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

/// Waits until the listener closes or is dropped.
async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error means that the listener was dropped, which closes it too.
    let _ = closing.wait_for(|closed| *closed).await;
}

/// Serves the requests of one connection.
async fn serve(stream: TcpStream, service: ApiService, mut closing: watch::Receiver<bool>) {
    // Small answers must not wait for the next one.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY is not available");
    }
    let watches = Closing(closing.clone());
    let answer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(watches.clone());
        let mut service = service.clone();
        async move { Service::<Request<Incoming>>::call(&mut service, request).await }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), answer);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = closed(&mut closing) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
