//! TLS in a build without the feature `tls`: there never is any.

use std::io;

use tokio::net::TcpStream;

use super::connection::Protocol;
use super::patience::Patient;

/// No value of this exists.
pub(super) enum Tls {}

impl Tls {
    pub(super) fn authority(&self) -> &str {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "the same signature as where there is TLS")]
    pub(super) async fn accept(
        &self,
        _stream: Patient<TcpStream>,
    ) -> io::Result<(Patient<TcpStream>, Protocol)> {
        match *self {}
    }
}
