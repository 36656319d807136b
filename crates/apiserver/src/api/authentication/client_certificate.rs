//! Users of client certificates: the common name of the subject is the user, its organizations are the groups.
//!
//! As in kube-apiserver, an invalid certificate does not end the connection. Its requests are answered with 401, unless they have a valid
//! token. Validity is checked against the server's clock.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::time::Duration;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{self, RootCertStore};
use x509_parser::oid_registry::{Oid, asn1_rs::oid};
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, X509Certificate};

use super::UserInfo;
use crate::request::origin::ClientCertificate;

/// Attribute of a subject with the UID of the user.
const UID: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);

/// Certificate authorities that sign the certificates of clients, like kube-apiserver's `--client-ca-file`.
#[derive(Clone)]
pub struct ClientAuthority {
    verifier: Arc<dyn ClientCertVerifier>,
    pem: Arc<str>,
}

/// Reason why certificate authorities of clients are refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InvalidClientAuthority {
    /// The file cannot be read.
    #[error("client CA file {} cannot be read", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The content of a file is refused.
    #[error("client CA file {}", path.display())]
    InFile {
        /// Path of the file.
        path: PathBuf,
        /// The problem.
        source: Box<Self>,
    },
    /// The text has no certificate.
    #[error("there is no certificate of a client CA: write one or more PEM blocks CERTIFICATE")]
    Empty,
    /// A PEM block or a certificate is malformed.
    #[error("certificate {number} of the client CA is malformed")]
    Malformed {
        /// Number of the certificate, counted from 1.
        number: usize,
        /// The problem.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl ClientAuthority {
    /// Reads a file with one or more certificates in PEM.
    ///
    /// # Errors
    /// [`InvalidClientAuthority`] names the file and the certificate.
    pub fn from_file(path: &Path) -> Result<Self, InvalidClientAuthority> {
        let read = |source| InvalidClientAuthority::Read { path: path.to_owned(), source };
        let in_file = |why| InvalidClientAuthority::InFile { path: path.to_owned(), source: Box::new(why) };
        Self::from_pem(&std::fs::read(path).map_err(read)?).map_err(in_file)
    }

    /// Reads one or more certificates in PEM.
    ///
    /// # Errors
    /// [`InvalidClientAuthority`] names the certificate.
    pub fn from_pem(pem: &[u8]) -> Result<Self, InvalidClientAuthority> {
        let mut roots = RootCertStore::empty();
        for (index, certificate) in CertificateDer::pem_slice_iter(pem).enumerate() {
            let malformed = |source| InvalidClientAuthority::Malformed { number: index + 1, source };
            let certificate = certificate.map_err(|error| malformed(error.to_string().into()))?;
            roots.add(certificate).map_err(|error| malformed(error.into()))?;
        }
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        // Building the verifier only fails if there is no certificate.
        let verifier = verifier.map_err(|_| InvalidClientAuthority::Empty)?;
        Ok(Self { verifier, pem: String::from_utf8_lossy(pem).into() })
    }

    /// Returns the text that the certificates were read from.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// Returns the verifier of handshakes and certificates.
    pub(crate) fn verifier(&self) -> &Arc<dyn ClientCertVerifier> {
        &self.verifier
    }

    /// Verifies the certificates that a client presented in a handshake, its own first. Returns `None` if there are none, or if the subject
    /// has no common name.
    pub(crate) fn verify(
        &self,
        presented: &[CertificateDer<'_>],
        now: Timestamp,
    ) -> Option<ClientCertificate> {
        let (own, intermediates) = presented.split_first()?;
        let seconds = u64::try_from(now.as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let verified =
            self.verifier.verify_client_cert(own, intermediates, now).map_err(CertificateRefusal::Invalid);
        match verified.and_then(|_| user_of(own)) {
            Ok(user) => user,
            Err(reason) => {
                tracing::debug!(%reason, "client certificate refused");
                Some(ClientCertificate::Invalid)
            }
        }
    }
}

impl fmt::Debug for ClientAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientAuthority").field(&self.verifier.root_hint_subjects().len()).finish()
    }
}

/// Reason why a certificate is refused.
#[derive(Debug, Error)]
enum CertificateRefusal {
    #[error("{0}")]
    Invalid(rustls::Error),
    #[error("the certificate cannot be parsed")]
    Unparsed,
    #[error("the subject has more than one UID, or an empty one")]
    Uid,
}

/// Returns the user of a verified certificate; `None` if its subject has no common name.
fn user_of(certificate: &CertificateDer<'_>) -> Result<Option<ClientCertificate>, CertificateRefusal> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| CertificateRefusal::Unparsed)?;
    let subject = parsed.subject();
    // As in Go, the last of several names counts.
    let names = texts(subject.iter_common_name())?;
    let Some(name) = names.into_iter().next_back().filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let groups = texts(subject.iter_organization())?;
    let uid = match texts(subject.iter_by_oid(&UID))?.as_slice() {
        [] => String::new(),
        [uid] if !uid.is_empty() => uid.clone(),
        _ => return Err(CertificateRefusal::Uid),
    };
    let mut user = UserInfo::new(name, uid, groups);
    let fingerprint: String = Sha256::digest(certificate).iter().map(|byte| format!("{byte:02x}")).collect();
    user.extra.insert(
        "authentication.kubernetes.io/credential-id".to_owned(),
        vec![format!("X509SHA256={fingerprint}")],
    );
    let expires = parsed.validity().not_after.timestamp();
    let expires = Timestamp::from_second(expires).unwrap_or(Timestamp::MAX);
    Ok(Some(ClientCertificate::Of { user: Arc::new(user), expires }))
}

/// Returns the values of attributes of a subject.
fn texts<'a, 'b: 'a>(
    attributes: impl Iterator<Item = &'a AttributeTypeAndValue<'b>>,
) -> Result<Vec<String>, CertificateRefusal> {
    attributes
        .map(|attribute| attribute.as_str().map(str::to_owned).map_err(|_| CertificateRefusal::Unparsed))
        .collect()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
        date_time_ymd,
    };

    use super::*;

    fn authority() -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    /// Creates a client certificate that is valid in 2026.
    fn client(
        issuer: &CertifiedIssuer<'static, KeyPair>,
        subject: &[(DnType, &str)],
        usage: ExtendedKeyUsagePurpose,
    ) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in subject {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.extended_key_usages = vec![usage];
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2026, 12, 31);
        params.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap().der().clone()
    }

    #[expect(clippy::needless_pass_by_value, reason = "`expect!` returns values")]
    fn check(authority: &ClientAuthority, presented: &[CertificateDer<'_>], day: &str, expected: Expect) {
        let now: Timestamp = format!("{day}T00:00:00Z").parse().unwrap();
        expected.assert_eq(&match authority.verify(presented, now) {
            None => "nobody".to_owned(),
            Some(ClientCertificate::Invalid) => "invalid".to_owned(),
            Some(ClientCertificate::Of { user, expires }) => {
                let id = &user.extra["authentication.kubernetes.io/credential-id"][0];
                assert!(id.starts_with("X509SHA256=") && id.len() == 75, "{id}");
                format!("{} {} {} until {expires}", user.name, user.uid, user.groups.join("+"))
            }
        });
    }

    #[test]
    fn a_certificate_of_the_authority_names_its_user() {
        let issuer = authority();
        let trusted = ClientAuthority::from_pem(issuer.pem().as_bytes()).unwrap();
        let usage = ExtendedKeyUsagePurpose::ClientAuth;
        let uid = DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
        let (name, group) = ((DnType::CommonName, "jane"), (DnType::OrganizationName, "devs"));
        let jane = client(&issuer, &[name.clone(), group.clone(), (uid, "u1")], usage.clone());
        check(
            &trusted,
            std::slice::from_ref(&jane),
            "2026-05-05",
            expect!["jane u1 devs+system:authenticated until 2026-12-31T00:00:00Z"],
        );
        check(&trusted, &[], "2026-05-05", expect!["nobody"]);
        check(&trusted, &[client(&issuer, &[group], usage)], "2026-05-05", expect!["nobody"]);
        // The certificates are expired, not valid yet, for servers, of another authority, and no certificate at all.
        check(&trusted, std::slice::from_ref(&jane), "2027-05-05", expect!["invalid"]);
        check(&trusted, std::slice::from_ref(&jane), "2025-05-05", expect!["invalid"]);
        let server = client(&issuer, std::slice::from_ref(&name), ExtendedKeyUsagePurpose::ServerAuth);
        check(&trusted, &[server], "2026-05-05", expect!["invalid"]);
        let foreign = client(&authority(), &[name], ExtendedKeyUsagePurpose::ClientAuth);
        check(&trusted, &[foreign], "2026-05-05", expect!["invalid"]);
        check(
            &trusted,
            &[CertificateDer::from(b"no certificate".to_vec())],
            "2026-05-05",
            expect!["invalid"],
        );
    }

    #[test]
    fn an_authority_without_a_certificate_is_refused() {
        let told = |pem: &[u8]| ClientAuthority::from_pem(pem).unwrap_err().to_string();
        assert_eq!(
            told(b""),
            "there is no certificate of a client CA: write one or more PEM blocks CERTIFICATE"
        );
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(told(broken.as_bytes()), "certificate 1 of the client CA is malformed");
        let absent = ClientAuthority::from_file(Path::new("absent.crt")).unwrap_err();
        assert_eq!(absent.to_string(), "client CA file absent.crt cannot be read");
    }
}
