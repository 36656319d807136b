//! A relay between a peer and the API server: it can refuse connections, as a server that is down does, and it can fall
//! silent, as a load balancer that has lost its backend does.

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

/// What a connection does with the bytes it receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    /// Connections are accepted and relayed. Otherwise they are closed.
    up: bool,
    /// How often the relay has fallen silent. A connection that is older than the last time takes bytes and passes none
    /// on; the kernel acknowledges them.
    silences: u64,
}

impl Link {
    /// Relays connections to `server`, with a kubeconfig of its own.
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

    /// Refuses connections and closes those that are open, or relays again.
    pub(crate) fn set_up(&self, up: bool) -> Reply {
        self.state.send_modify(|state| state.up = up);
        Reply::figures([("at", clock::monotonic_nanoseconds())])
    }

    /// Passes nothing on any more in connections that are open now. New connections work.
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
                // A failed accept concerns one connection; the peer sees it closed.
                let Ok((peer, _)) = accepted else { continue };
                if states.borrow().up {
                    connections.spawn(relay(peer, target.clone(), states.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Relays one connection until either side closes it, or the relay is down.
async fn relay(mut peer: TcpStream, target: String, mut states: watch::Receiver<State>) {
    let begun = *states.borrow_and_update();
    #[expect(clippy::disallowed_methods, reason = "it stands for the network")]
    let Ok(mut server) = TcpStream::connect(target).await else { return };
    // Small writes must not wait for each other: the relay is to add no delay of its own.
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
            // Its end is not passed on either.
            () = async { let _ = swallow(&mut from_server).await; std::future::pending().await } => {}
            _ = states.wait_for(|state| !state.up) => {}
        }
    }
}

async fn swallow(from: &mut (impl AsyncRead + Unpin)) -> io::Result<u64> {
    let mut nowhere = sink();
    copy(from, &mut nowhere).await
}
