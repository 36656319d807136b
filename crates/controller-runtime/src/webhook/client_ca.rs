//! Certificates of clients, checked against an authority from a file that may change.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_rustls::rustls::{
    self, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, UnixTime, pem::PemObject},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};

use crate::error::BoxError;

/// Interval at which the file is read.
const POLL: Duration = Duration::from_secs(10);

/// The current authority. A handle: clones share it.
#[derive(Clone)]
pub(crate) struct ClientCa {
    file: PathBuf,
    /// Contents of the file from which `current` was made.
    read: Arc<Mutex<Vec<u8>>>,
    current: Arc<ArcSwap<Arc<dyn ClientCertVerifier>>>,
}

impl ClientCa {
    pub(crate) fn load(file: &Path) -> Result<Self, BoxError> {
        let pem = read(file)?;
        let current = Arc::new(ArcSwap::from_pointee(verifier(file, &pem)?));
        Ok(Self { file: file.to_owned(), read: Arc::new(Mutex::new(pem)), current })
    }

    /// Requires a certificate of the authority from clients.
    pub(crate) fn require(&self, config: &mut ServerConfig) {
        // rustls cannot change the verifier of a configuration, so a new one is made with the same certificate and protocols.
        let builder = ServerConfig::builder_with_provider(config.crypto_provider().clone());
        let builder =
            builder.with_safe_default_protocol_versions().expect("ring has the default versions of TLS");
        let verifier: Arc<dyn ClientCertVerifier> = Arc::new(self.clone());
        let resolver = Arc::clone(&config.cert_resolver);
        let mut changed = builder.with_client_cert_verifier(verifier).with_cert_resolver(resolver);
        changed.alpn_protocols = std::mem::take(&mut config.alpn_protocols);
        // A resumed session would skip the check against an authority that has changed since.
        changed.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        changed.send_tls13_tickets = 0;
        *config = changed;
    }

    /// Reads the file again every 10 s, until dropped.
    pub(crate) async fn keep_up(&self) {
        loop {
            sleep(POLL).await;
            self.reload();
        }
    }

    fn reload(&self) {
        let new = read(&self.file).and_then(|pem| match *self.read.lock() == pem {
            true => Ok(None),
            false => Ok(Some((verifier(&self.file, &pem)?, pem))),
        });
        match new {
            Ok(None) => {}
            Ok(Some((verifier, pem))) => {
                self.current.store(Arc::new(verifier));
                *self.read.lock() = pem;
                tracing::info!("loaded the changed client CA in {}", self.file.display());
            }
            Err(error) => {
                tracing::warn!(
                    "cannot load the changed client CA, the server keeps the previous one: {error}"
                );
            }
        }
    }
}

fn read(file: &Path) -> Result<Vec<u8>, BoxError> {
    fs::read(file).map_err(|error| format!("client CA {} cannot be read: {error}", file.display()).into())
}

fn verifier(file: &Path, pem: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, BoxError> {
    let invalid = |error: &dyn fmt::Display| format!("client CA {} is invalid: {error}", file.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate.map_err(|error| invalid(&error))?).map_err(|error| invalid(&error))?;
    }
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    // The builder fails if there is no root certificate.
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    Ok(verifier.map_err(|error| invalid(&error))?)
}

impl ClientCertVerifier for ClientCa {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // The names would have to be borrowed from an authority that may be replaced meanwhile. Hints are optional.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.current.load().verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.current.load().verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.current.load().verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.current.load().supported_verify_schemes()
    }
}

impl fmt::Debug for ClientCa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCa").field("file", &self.file).finish_non_exhaustive()
    }
}
