//! TLS in a build without the feature `tls`: there never is any.

use std::io;

use tokio::net::TcpStream;

use super::connection::Protocol;

/// No value of this exists.
pub(super) enum Tls {}

impl Tls {
    pub(super) fn authority(&self) -> &str {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "the same signature as where there is TLS")]
    pub(super) async fn accept(&self, _stream: TcpStream) -> io::Result<(TcpStream, Protocol)> {
        match *self {}
    }
}
