//! Addresses of servers.

use std::{
    fmt, io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

/// Largest number of connections waiting to be accepted.
const BACKLOG: i32 = 1024;

/// Address that a server listens on, or none.
///
/// The text form is that of Go's flags: `:8080` for all addresses of the host, IPv6 and IPv4, `127.0.0.1:8080` for one,
/// `0` for none.
///
/// ```
/// use controller_runtime::serving::Endpoint;
///
/// assert_eq!("0".parse(), Ok(Endpoint::Disabled));
/// assert_eq!(":8080".parse(), Ok(Endpoint::Port(8080)));
/// assert!("8080".parse::<Endpoint>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Endpoint {
    /// No server.
    #[default]
    Disabled,
    /// This port on all addresses of the host; 0 selects a free port. On a host without IPv6, only IPv4 addresses.
    Port(u16),
    /// This address; port 0 selects a free port.
    At(SocketAddr),
}

impl Endpoint {
    /// Starts listening; `None` if disabled.
    pub(super) async fn listen(self) -> io::Result<Option<TcpListener>> {
        match self {
            Self::Disabled => Ok(None),
            Self::At(address) => TcpListener::bind(address).await.map(Some),
            Self::Port(port) => match dual_stack(port) {
                // Any other error may mean that the host has no IPv6.
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await.map(Some)
                }
                listener => listener.map(Some),
            },
        }
    }
}

/// Listens on IPv6 and IPv4 with one socket, whatever the host's default for IPv6 sockets.
fn dual_stack(port: u16) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV6, Type::STREAM, None)?;
    // Set explicitly: on some hosts IPv6 sockets do not accept IPv4 by default.
    socket.set_only_v6(false)?;
    // As tokio does: a server may restart while connections of its predecessor linger. On Windows the option has another
    // meaning.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Error of parsing an [`Endpoint`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} is not a valid address: give `host:port` with the host's IP address, `:port`, or `0` for none"
)]
pub struct EndpointError {
    given: String,
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(given: &str) -> Result<Self, EndpointError> {
        let invalid = || EndpointError { given: given.to_owned() };
        match given {
            "" | "0" => Ok(Self::Disabled),
            given => match given.strip_prefix(':') {
                Some(port) => port.parse().map(Self::Port).map_err(|_| invalid()),
                None => given.parse().map(Self::At).map_err(|_| invalid()),
            },
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("0"),
            Self::Port(port) => write!(f, ":{port}"),
            Self::At(address) => write!(f, "{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn an_endpoint_parses_and_prints_the_same_text() {
        for text in ["0", ":8080", "127.0.0.1:8080", "[::1]:8080"] {
            assert_eq!(text.parse::<Endpoint>().map(|endpoint| endpoint.to_string()), Ok(text.to_owned()));
        }
        assert!(":many".parse::<Endpoint>().is_err());
    }

    #[tokio::test]
    async fn a_port_is_reached_by_ipv4_and_ipv6() {
        let listener = Endpoint::Port(0).listen().await.expect("a port is free").expect("it listens");
        let port = listener.local_addr().expect("it has an address").port();
        let reach = |address: SocketAddr| TcpStream::connect(address);
        assert!(reach((Ipv4Addr::LOCALHOST, port).into()).is_ok());
        let has_ipv6 = std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
        assert_eq!(reach((Ipv6Addr::LOCALHOST, port).into()).is_ok(), has_ipv6);
    }

    #[tokio::test]
    async fn a_port_that_another_one_has_on_ipv4_alone_is_taken() {
        let other = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.expect("a port is free");
        let port = other.local_addr().expect("it has an address").port();
        let refused = Endpoint::Port(port).listen().await.expect_err("it is taken");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
    }
}
