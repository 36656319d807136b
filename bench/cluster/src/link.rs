//! A relay between a peer and the API server. It can refuse connections, like a server that is down, and it can fall silent, like
//! a load balancer that has lost its backend.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bench_peer::{Reply, clock};
use kube::config::Kubeconfig;
use tokio::io::{AsyncRead, copy, copy_bidirectional, sink};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::server::Server;

/// A running relay. Dropping it closes its connections.
pub(crate) struct Link {
    state: watch::Sender<State>,
    kubeconfig: PathBuf,
    _relaying: JoinSet<()>,
}

/// Behaviour of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    /// Whether connections are accepted and relayed. Otherwise they are closed.
    up: bool,
    /// Number of silences so far. A connection that is older than the latest one accepts bytes, which the kernel
    /// acknowledges, and forwards none.
    silences: u64,
}

impl Link {
    /// Relays connections to `server`. The relay has a kubeconfig of its own.
    pub(crate) async fn start(server: &Server) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let mut config = Kubeconfig::read_from(server.kubeconfig())?;
        let cluster = config.clusters.first_mut().and_then(|named| named.cluster.as_mut());
        let url = cluster.and_then(|cluster| cluster.server.as_mut()).context("a kubeconfig has a server")?;
        let target =
            url.strip_prefix("https://").context("the server speaks TLS")?.trim_end_matches('/').to_owned();
        *url = format!("https://{}", listener.local_addr()?);
        let kubeconfig = server.files().join("link.kubeconfig");
        std::fs::write(&kubeconfig, serde_json::to_vec(&config)?)?;
        let (state, states) = watch::channel(State { up: true, silences: 0 });
        let mut relaying = JoinSet::new();
        relaying.spawn(accept(listener, target, states));
        Ok(Self { state, kubeconfig, _relaying: relaying })
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Refuses connections and closes open ones (`false`), or relays again (`true`).
    pub(crate) fn set_up(&self, up: bool) -> Reply {
        self.state.send_modify(|state| state.up = up);
        Reply::figures([("at", clock::monotonic_nanoseconds())])
    }

    /// Stops forwarding on connections that are open now. New connections work.
    pub(crate) fn fall_silent(&self) -> Reply {
        self.state.send_modify(|state| state.silences += 1);
        Reply::figures([("at", clock::monotonic_nanoseconds())])
    }
}

async fn accept(listener: TcpListener, target: String, states: watch::Receiver<State>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A failed accept concerns a single connection, which the peer sees closed.
                let Ok((peer, _)) = accepted else { continue };
                if states.borrow().up {
                    connections.spawn(relay(peer, target.clone(), states.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Relays one connection until either side closes it, or the relay goes down.
async fn relay(mut peer: TcpStream, target: String, mut states: watch::Receiver<State>) {
    let begun = *states.borrow_and_update();
    #[expect(clippy::disallowed_methods, reason = "it stands for the network")]
    let Ok(mut server) = TcpStream::connect(target).await else { return };
    // Disable Nagle's algorithm, so that the relay adds no delay.
    let _ = (peer.set_nodelay(true), server.set_nodelay(true));
    let changed = tokio::select! {
        _ = copy_bidirectional(&mut peer, &mut server) => return,
        changed = states.wait_for(|state| !state.up || state.silences > begun.silences) => changed.map(|state| *state),
    };
    if changed.is_ok_and(|state| state.up) {
        let (mut from_peer, _to_peer) = peer.split();
        let (mut from_server, _to_server) = server.split();
        tokio::select! {
            _ = swallow(&mut from_peer) => {}
            // The end of the server's side is not forwarded either.
            () = async { let _ = swallow(&mut from_server).await; std::future::pending().await } => {}
            _ = states.wait_for(|state| !state.up) => {}
        }
    }
}

async fn swallow(from: &mut (impl AsyncRead + Unpin)) -> io::Result<u64> {
    let mut nowhere = sink();
    copy(from, &mut nowhere).await
}
