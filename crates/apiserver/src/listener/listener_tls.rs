//! TLS of a listener.

use std::io;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::sign::SingleCertAndKey;
use tokio_rustls::rustls::{self, DigitallySignedStruct, ServerConfig, SignatureScheme};
use tokio_rustls::server::TlsStream;

use super::connection::Protocol;
use super::serving_certificate::ServingCertificate;
use super::write_timeout::WriteTimeout;
use crate::api::authentication::ClientAuthority;
use crate::request::origin::ClientCertificate;

/// Supported protocols in order of preference.
const PROTOCOLS: [(&[u8], Protocol); 2] = [(b"h2", Protocol::Http2), (b"http/1.1", Protocol::Http1)];

/// Performs TLS handshakes.
pub(super) struct Tls {
    acceptor: TlsAcceptor,
    certificate: ServingCertificate,
    /// Authority of client certificates.
    clients: Option<ClientAuthority>,
}

impl Tls {
    /// Presents `certificate`, and accepts client certificates if there are authorities for them.
    pub(super) fn new(
        certificate: ServingCertificate,
        clients: Option<&ClientAuthority>,
    ) -> Result<Self, rustls::Error> {
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?;
        let config = match clients {
            Some(clients) => {
                config.with_client_cert_verifier(Arc::new(AnyCertificate(Arc::clone(clients.verifier()))))
            }
            None => config.with_no_client_auth(),
        };
        let presented = SingleCertAndKey::from(Arc::clone(certificate.certified()));
        let mut config = config.with_cert_resolver(Arc::new(presented));
        config.alpn_protocols = PROTOCOLS.map(|(name, _)| name.to_vec()).to_vec();
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificate, clients: clients.cloned() })
    }

    /// Returns the certificates that clients trust, as PEM.
    pub(super) fn authority(&self) -> &str {
        self.certificate.authority()
    }

    /// Performs the handshake, and verifies the certificate of the client at the time `now`. A client that negotiates no protocol uses
    /// HTTP/1.1.
    pub(super) async fn accept(
        &self,
        stream: WriteTimeout<TcpStream>,
        now: impl FnOnce() -> Timestamp,
    ) -> io::Result<(TlsStream<WriteTimeout<TcpStream>>, Protocol, Option<ClientCertificate>)> {
        let stream = self.acceptor.accept(stream).await?;
        let chosen = stream.get_ref().1.alpn_protocol();
        let protocol = PROTOCOLS.iter().find(|(name, _)| chosen == Some(name));
        let protocol = protocol.map_or(Protocol::Http1, |(_, protocol)| *protocol);
        let presented = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let certificate = self.clients.as_ref().and_then(|clients| clients.verify(presented, now()));
        Ok((stream, protocol, certificate))
    }
}

/// Accepts every client certificate in the handshake if the client has its key. Its validity is checked afterwards, so that a client with
/// an invalid certificate gets a response.
#[derive(Debug)]
struct AnyCertificate(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        // Clients may authenticate by a token instead.
        false
    }

    fn root_hint_subjects(&self) -> &[rustls::DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
