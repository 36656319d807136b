//! TLS of a listener, with a certificate authority of its own.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

use super::connection::Protocol;
use super::write_timeout::WriteTimeout;

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
}

impl Tls {
    /// Generates a certificate authority and a certificate for `address`, the loopback addresses, and the names above.
    ///
    /// Keys come from the operating system, not from the server's seed, which would make them predictable. The
    /// certificates never expire, because they live as long as the listener, and the clocks of tests may show any time.
    pub(super) fn generate(address: IpAddr) -> Result<Self, CannotCertify> {
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
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![server.der().clone()], key)?;
        config.alpn_protocols = PROTOCOLS.map(|(name, _)| name.to_vec()).to_vec();
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), authority: authority.pem() })
    }

    /// Returns the certificate of the authority as PEM.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// Performs the handshake. Clients that negotiate no protocol use HTTP/1.1.
    pub(super) async fn accept(
        &self,
        stream: WriteTimeout<TcpStream>,
    ) -> io::Result<(TlsStream<WriteTimeout<TcpStream>>, Protocol)> {
        let stream = self.acceptor.accept(stream).await?;
        let chosen = stream.get_ref().1.alpn_protocol();
        let protocol = PROTOCOLS.iter().find(|(name, _)| chosen == Some(name));
        let protocol = protocol.map_or(Protocol::Http1, |(_, protocol)| *protocol);
        Ok((stream, protocol))
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
