//! Certificates that a listener presents.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose,
};
use thiserror::Error;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;

/// DNS names in a generated certificate, in addition to the addresses: those of in-cluster clients.
const NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// Certificate and private key that a listener presents, like kube-apiserver's `--tls-cert-file` and `--tls-private-key-file`.
#[derive(Clone)]
pub struct ServingCertificate {
    certified: Arc<CertifiedKey>,
    authority: Arc<str>,
}

/// Omits the private key.
impl fmt::Debug for ServingCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingCertificate").finish_non_exhaustive()
    }
}

/// Reason why a certificate or its key is refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InvalidServingCertificate {
    /// A file cannot be read.
    #[error("serving certificate file {} cannot be read", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The content of a file is refused.
    #[error("serving certificate file {}", path.display())]
    InFile {
        /// Path of the file.
        path: PathBuf,
        /// The problem.
        source: Box<Self>,
    },
    /// The text has no certificate, or one that is malformed.
    #[error("there is no valid serving certificate: write PEM blocks CERTIFICATE, that of the server first")]
    Certificate,
    /// The text has no private key, or one that is malformed.
    #[error("there is no valid private key of the serving certificate: write a PEM block PRIVATE KEY")]
    Key,
    /// The key does not belong to the certificate, or is of an unsupported kind.
    #[error("the private key does not fit the serving certificate")]
    Pair {
        /// Error of the TLS library.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl ServingCertificate {
    /// Reads a certificate, followed by those of intermediate authorities, and its private key from files in PEM.
    ///
    /// # Errors
    /// [`InvalidServingCertificate`] names the file and the problem.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, InvalidServingCertificate> {
        let read = |path: &Path| {
            std::fs::read(path)
                .map_err(|source| InvalidServingCertificate::Read { path: path.to_owned(), source })
        };
        Self::from_pem(&read(certificate)?, &read(key)?).map_err(|why| {
            let path = if matches!(why, InvalidServingCertificate::Certificate) { certificate } else { key };
            InvalidServingCertificate::InFile { path: path.to_owned(), source: Box::new(why) }
        })
    }

    /// Reads a certificate, followed by those of intermediate authorities, and its private key: PKCS#8, PKCS#1 or SEC 1.
    ///
    /// # Errors
    /// [`InvalidServingCertificate`] names the problem.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, InvalidServingCertificate> {
        let chain = CertificateDer::pem_slice_iter(certificates).collect::<Result<Vec<_>, _>>();
        let chain =
            chain.ok().filter(|chain| !chain.is_empty()).ok_or(InvalidServingCertificate::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| InvalidServingCertificate::Key)?;
        let certified = CertifiedKey::from_der(chain, key, &ring::default_provider())
            .map_err(|error| InvalidServingCertificate::Pair { source: error.into() })?;
        // Lossless for the blocks, which are ASCII. Other bytes can only be comments between them.
        let authority = String::from_utf8_lossy(certificates).into();
        Ok(Self { certified: Arc::new(certified), authority })
    }

    /// Returns the certificates that clients trust, as PEM: the authority of a generated certificate, or else the given certificates.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    pub(super) fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }
}

/// A new certificate, signed by a new certificate authority. The key of the authority is dropped.
///
/// Keys come from the operating system, not from the server's seed, which would make them predictable. Certificates do not expire:
/// the clocks of tests may show any time.
pub struct GeneratedCertificate {
    /// The certificate and the certificate of its authority, as PEM.
    certificates: String,
    /// The private key in PKCS#8, as PEM.
    key: String,
    /// The certificate of the authority, as PEM.
    authority: String,
}

/// Omits the private key.
impl fmt::Debug for GeneratedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GeneratedCertificate").finish_non_exhaustive()
    }
}

/// The certificate could not be generated, for example because the operating system has no random numbers.
#[derive(Debug, Error)]
#[error("cannot generate a certificate")]
pub struct CannotGenerate {
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl GeneratedCertificate {
    /// Generates a certificate for an address, the loopback addresses, and the DNS names that in-cluster clients use.
    ///
    /// # Errors
    /// [`CannotGenerate`]
    pub fn new(address: IpAddr) -> Result<Self, CannotGenerate> {
        Self::generate(address).map_err(|error| CannotGenerate { source: error.into() })
    }

    fn generate(address: IpAddr) -> Result<Self, rcgen::Error> {
        let mut authority = CertificateParams::default();
        authority.distinguished_name = named("kube-apiserver-embedded-ca");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

        let mut names: Vec<String> = NAMES.map(str::to_owned).to_vec();
        names.extend(["127.0.0.1".to_owned(), "::1".to_owned(), address.to_string()]);
        // The address is often one of the loopback addresses.
        names.sort();
        names.dedup();
        let mut server = CertificateParams::new(names)?;
        server.distinguished_name = named("kube-apiserver-embedded");
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // Strict clients, such as Python's, do not find the issuer without this extension.
        server.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let server = server.signed_by(&key, &authority)?;
        Ok(Self {
            certificates: server.pem() + &authority.pem(),
            key: key.serialize_pem(),
            authority: authority.pem(),
        })
    }

    /// Returns the certificate, followed by that of its authority, as PEM.
    #[must_use]
    pub fn certificates(&self) -> &str {
        &self.certificates
    }

    /// Returns the private key in PKCS#8, as PEM.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the certificate and its key for a listener.
    ///
    /// # Errors
    /// [`InvalidServingCertificate`] if the TLS library refuses them.
    pub fn to_serving(&self) -> Result<ServingCertificate, InvalidServingCertificate> {
        let mut serving = ServingCertificate::from_pem(self.certificates.as_bytes(), self.key.as_bytes())?;
        serving.authority = self.authority.as_str().into();
        Ok(serving)
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}
