//! Stand-in for TLS in a build without the feature `tls`.

use std::io;

use jiff::Timestamp;
use tokio::net::TcpStream;

use super::connection::Protocol;
use super::write_timeout::WriteTimeout;
use crate::request::origin::ClientCertificate;

/// Uninhabited: there is no TLS in this build.
pub(super) enum Tls {}

impl Tls {
    pub(super) fn authority(&self) -> &str {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "same signature as with the feature `tls`")]
    pub(super) async fn accept(
        &self,
        _stream: WriteTimeout<TcpStream>,
        _now: impl FnOnce() -> Timestamp,
    ) -> io::Result<(WriteTimeout<TcpStream>, Protocol, Option<ClientCertificate>)> {
        match *self {}
    }
}
