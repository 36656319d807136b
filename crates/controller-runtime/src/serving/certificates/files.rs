//! Certificate and key files of a server.

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
    /// Takes the two files. The certificate file may hold intermediate certificates after the server's.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { certificate: certificate.into(), key: key.into() }
    }

    /// `tls.crt` and `tls.key` in this folder, as Secrets of type `kubernetes.io/tls` are mounted.
    #[doc(alias = "CertDir")]
    pub fn in_dir(folder: impl AsRef<Path>) -> Self {
        Self::new(folder.as_ref().join("tls.crt"), folder.as_ref().join("tls.key"))
    }

    /// The folder of both files; `None` if they are in two.
    #[cfg(feature = "manifests")]
    pub(crate) fn folder(&self) -> Option<&Path> {
        let folder = self.certificate.parent()?;
        (self.key.parent() == Some(folder)).then_some(folder)
    }

    /// The folders to watch: a mounted volume is updated by replacing a symbolic link in its folder.
    pub(super) fn folders(&self) -> Vec<&Path> {
        let mut folders: Vec<_> =
            [&self.certificate, &self.key].into_iter().filter_map(|file| file.parent()).collect();
        // Usually both files are in one folder.
        folders.dedup();
        folders
    }

    pub(super) fn read(&self) -> Result<Pair, CertificateError> {
        let read = |file: &Path| {
            fs::read(file).map_err(|source| CertificateError::Read { file: file.to_owned(), source })
        };
        // The files may be replaced between the two reads. A pair that does not match then fails in `certified_key`.
        Ok(Pair { files: self.clone(), certificate: read(&self.certificate)?, key: read(&self.key)? })
    }
}

impl fmt::Display for CertFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {}", self.certificate.display(), self.key.display())
    }
}

/// Contents of the two files.
#[derive(PartialEq, Eq)]
pub(super) struct Pair {
    files: CertFiles,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Pair {
    /// Parses certificate and key, and checks that they belong together.
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

/// Error of loading a server's certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("{} cannot be read", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is not in PEM.
    #[error("{} is not in PEM format, or holds something other than a certificate or key", file.display())]
    Parse {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: pem::Error,
    },
    /// The file contains no certificate.
    #[error("{} contains no certificate", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// Certificate and key do not belong together, or are of an unsupported type.
    #[error("{files} are not a matching certificate and key")]
    Mismatch {
        /// The files.
        files: CertFiles,
        /// The cause.
        source: rustls::Error,
    },
    /// The self-signed certificate cannot be generated.
    #[error("cannot generate a self-signed certificate")]
    Generate(#[source] rcgen::Error),
    /// The TLS library rejects its configuration.
    #[error("TLS cannot be set up")]
    Tls(#[source] rustls::Error),
}
