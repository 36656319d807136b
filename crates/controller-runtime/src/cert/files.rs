use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use tokio_rustls::rustls::{
    self,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject},
    sign::CertifiedKey,
};

/// The files with a server's certificate and its key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertFiles {
    certificate: PathBuf,
    key: PathBuf,
}

impl CertFiles {
    /// These two files. The first may hold intermediate certificates after the server's.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { certificate: certificate.into(), key: key.into() }
    }

    /// `tls.crt` and `tls.key` in this folder, as Secrets of type `kubernetes.io/tls` are mounted.
    #[doc(alias = "CertDir")]
    pub fn in_dir(folder: impl AsRef<Path>) -> Self {
        Self::new(folder.as_ref().join("tls.crt"), folder.as_ref().join("tls.key"))
    }

    /// The folders to watch: volumes exchange a link in them.
    pub(super) fn folders(&self) -> Vec<&Path> {
        let mut folders: Vec<_> =
            [&self.certificate, &self.key].into_iter().filter_map(|file| file.parent()).collect();
        folders.dedup();
        folders
    }

    pub(super) fn read(&self) -> Result<Pair, CertificateError> {
        let read = |file: &Path| {
            fs::read(file).map_err(|source| CertificateError::Read { file: file.to_owned(), source })
        };
        Ok(Pair { files: self.clone(), certificate: read(&self.certificate)?, key: read(&self.key)? })
    }
}

impl fmt::Display for CertFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {}", self.certificate.display(), self.key.display())
    }
}

/// What the two files held when they were read.
#[derive(PartialEq, Eq)]
pub(super) struct Pair {
    files: CertFiles,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Pair {
    /// The pair as it is used, if both parts can be read and belong together.
    pub(super) fn certified_key(&self, provider: &CryptoProvider) -> Result<CertifiedKey, CertificateError> {
        let invalid = |file: &Path, source| CertificateError::Parse { file: file.to_owned(), source };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.certificate).collect();
        let chain = chain.map_err(|source| invalid(&self.files.certificate, source))?;
        let key =
            PrivateKeyDer::from_pem_slice(&self.key).map_err(|source| invalid(&self.files.key, source))?;
        if chain.is_empty() {
            return Err(CertificateError::Empty { file: self.files.certificate.clone() });
        }
        CertifiedKey::from_der(chain, key, provider)
            .map_err(|source| CertificateError::Mismatch { files: self.files.clone(), source })
    }
}

/// Why a server has no certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("{} cannot be read", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not in PEM.
    #[error("{} is not in PEM or holds something else", file.display())]
    Parse {
        /// The file.
        file: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// There is no certificate in the file.
    #[error("{} holds no certificate", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// Certificate and key do not belong together, or are of a kind that is not supported.
    #[error("{files} do not make a certificate and its key")]
    Mismatch {
        /// The files.
        files: CertFiles,
        /// Why.
        source: rustls::Error,
    },
    /// No certificate can be made.
    #[error("a self-signed certificate cannot be made")]
    Generate(#[source] rcgen::Error),
    /// The TLS library refuses its configuration.
    #[error("TLS cannot be set up")]
    Tls(#[source] rustls::Error),
}
