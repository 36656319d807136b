//! Sockets of servers.

use std::{fmt, io, net, sync::Arc};

use tokio::net::TcpListener;

use super::Endpoint;

/// Origin of a server's socket.
#[derive(Debug, Clone)]
pub(crate) enum Listen {
    /// The server opens a socket.
    At(Endpoint),
    /// The caller provided a socket.
    On(Arc<net::TcpListener>),
}

impl Listen {
    /// Returns whether the server is disabled.
    pub(crate) fn is_nowhere(&self) -> bool {
        matches!(self, Self::At(Endpoint::Disabled))
    }

    /// Starts listening; `None` if disabled.
    pub(super) async fn listen(&self) -> io::Result<Option<TcpListener>> {
        match self {
            Self::At(endpoint) => endpoint.listen().await,
            Self::On(listener) => {
                // The socket is cloned, so that a server can stop and start again.
                let listener = listener.try_clone()?;
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener).map(Some)
            }
        }
    }
}

impl Default for Listen {
    fn default() -> Self {
        Self::At(Endpoint::Disabled)
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(endpoint) => write!(f, "{endpoint}"),
            Self::On(listener) => match listener.local_addr() {
                Ok(address) => write!(f, "{address}"),
                Err(_) => f.write_str("the given socket"),
            },
        }
    }
}
