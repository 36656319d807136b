use std::{fmt, io, net, sync::Arc};

use tokio::net::TcpListener;

use super::Endpoint;

/// How a server comes by its socket.
#[derive(Debug, Clone)]
pub(crate) enum Listen {
    /// It makes one.
    At(Endpoint),
    /// It was given one.
    On(Arc<net::TcpListener>),
}

impl Listen {
    /// Whether it never will.
    pub(crate) fn is_nowhere(&self) -> bool {
        matches!(self, Self::At(Endpoint::Disabled))
    }

    /// Listens; `None` if it is nowhere.
    pub(super) async fn listen(&self) -> io::Result<Option<TcpListener>> {
        match self {
            Self::At(endpoint) => endpoint.listen().await,
            Self::On(listener) => {
                // A clone, so that a server can stop and start again.
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
