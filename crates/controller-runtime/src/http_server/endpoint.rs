use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    str::FromStr,
};

/// Where a server listens, if it does.
///
/// As text it is what Go's flags take: `:8080` for all addresses of the host, `127.0.0.1:8080` for one, `0` for none.
///
/// ```
/// use controller_runtime::manager::Endpoint;
///
/// assert_eq!("0".parse(), Ok(Endpoint::Disabled));
/// assert_eq!(":8080".parse(), Ok(Endpoint::At(([0, 0, 0, 0], 8080).into())));
/// assert!("8080".parse::<Endpoint>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Endpoint {
    /// Nowhere.
    #[default]
    Disabled,
    /// At this address; port 0 takes a free one.
    At(SocketAddr),
}

/// It is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no address: give `host:port` with the host's IP address, `:port`, or `0` for none")]
pub struct InvalidEndpoint {
    given: String,
}

impl FromStr for Endpoint {
    type Err = InvalidEndpoint;

    fn from_str(given: &str) -> Result<Self, InvalidEndpoint> {
        let invalid = || InvalidEndpoint { given: given.to_owned() };
        match given {
            "" | "0" => Ok(Self::Disabled),
            given => match given.strip_prefix(':') {
                Some(port) => {
                    let port = port.parse().map_err(|_| invalid())?;
                    Ok(Self::At(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))))
                }
                None => given.parse().map(Self::At).map_err(|_| invalid()),
            },
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("0"),
            Self::At(address) => write!(f, "{address}"),
        }
    }
}
