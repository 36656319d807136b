//! TLS of a listener, with a certificate authority of its own.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{self, DigitallySignedStruct, ServerConfig, SignatureScheme};
use tokio_rustls::server::TlsStream;

use super::connection::Protocol;
use super::write_timeout::WriteTimeout;
use crate::api::authentication::ClientAuthority;
use crate::request::origin::ClientCertificate;

/// DNS names in the certificate, besides the addresses: those of in-cluster clients.
const NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];
/// Supported protocols in order of preference.
const PROTOCOLS: [(&[u8], Protocol); 2] = [(b"h2", Protocol::Http2), (b"http/1.1", Protocol::Http1)];

/// Performs TLS handshakes, and holds the certificate authority.
pub(super) struct Tls {
    acceptor: TlsAcceptor,
    authority: String,
    /// Authority of client certificates.
    clients: Option<ClientAuthority>,
}

impl Tls {
    /// Generates a certificate authority and a certificate for `address`, the loopback addresses, and the names above.
    ///
    /// Keys come from the operating system, not from the server's seed, which would make them predictable. The
    /// certificates never expire, because they live as long as the listener, and the clocks of tests may show any time.
    pub(super) fn generate(
        address: IpAddr,
        clients: Option<&ClientAuthority>,
    ) -> Result<Self, CannotCertify> {
        let mut authority = CertificateParams::default();
        authority.distinguished_name = named("kube-apiserver-embedded-ca");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

        let mut names: Vec<String> = NAMES.map(str::to_owned).to_vec();
        names.extend(["127.0.0.1".to_owned(), "::1".to_owned(), address.to_string()]);
        names.sort();
        names.dedup();
        let mut server = CertificateParams::new(names)?;
        server.distinguished_name = named("kube-apiserver-embedded");
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // Strict clients, such as Python's, do not find the issuer without it.
        server.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let server = server.signed_by(&key, &authority)?;

        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?;
        let config = match clients {
            Some(clients) => {
                config.with_client_cert_verifier(Arc::new(AnyCertificate(Arc::clone(clients.verifier()))))
            }
            None => config.with_no_client_auth(),
        };
        let mut config = config.with_single_cert(vec![server.der().clone()], key)?;
        config.alpn_protocols = PROTOCOLS.map(|(name, _)| name.to_vec()).to_vec();
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            authority: authority.pem(),
            clients: clients.cloned(),
        })
    }

    /// Returns the certificate of the authority as PEM.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// Performs the handshake, and verifies the certificate of the client at the time `now`. Clients that negotiate no protocol use
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

/// Accepts every client certificate in the handshake, if the client has its key. Whether it is valid is decided afterwards, so
/// that a client with an invalid one gets a response.
#[derive(Debug)]
struct AnyCertificate(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
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

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// Failure to generate a certificate.
#[derive(Debug, thiserror::Error)]
pub(super) enum CannotCertify {
    #[error("cannot generate a certificate")]
    Make(#[from] rcgen::Error),
    #[error("cannot use the generated certificate")]
    Use(#[from] rustls::Error),
}
