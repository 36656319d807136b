//! Server certificates: loaded from files and reloaded when they change, or self-signed at the start.

mod files;

use std::{fmt, sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use futures::FutureExt;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::{CryptoProvider, ring},
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
        server::{ClientHello, ResolvesServerCert},
        sign::CertifiedKey,
    },
};

use self::files::Pair;
pub use self::files::{CertFiles, CertificateError};
use super::server_connection::H2;
use crate::metrics::CertificateMetrics;

/// Interval at which files are read even without a notification, as in controller-runtime. Not every system reports the
/// exchange of a symbolic link, by which Secret volumes are updated.
const POLL: Duration = Duration::from_secs(10);

/// Time between the first notification of a change and reading the files: a pair is written in several steps, each of which is
/// notified.
const SETTLE: Duration = Duration::from_millis(100);

/// TLS of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Serving {
    /// No TLS.
    #[default]
    Plain,
    /// TLS with a certificate generated at the start for `localhost` and `127.0.0.1`, which clients cannot verify.
    SelfSigned,
    /// TLS with a certificate from files, which are read again when they change.
    Files(CertFiles),
}

/// Changes of the TLS configuration other than the certificate.
#[derive(Clone)]
pub(crate) struct AdaptTls(pub(crate) Arc<dyn Fn(&mut ServerConfig) + Send + Sync>);

impl AdaptTls {
    /// Also makes the changes of `adapt`, after all others.
    pub(crate) fn and(self, adapt: impl Fn(&mut ServerConfig) + Send + Sync + 'static) -> Self {
        let Self(before) = self;
        Self(Arc::new(move |config| {
            before(config);
            adapt(config);
        }))
    }
}

impl Default for AdaptTls {
    fn default() -> Self {
        Self(Arc::new(|_| {}))
    }
}

impl fmt::Debug for AdaptTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptTls").finish_non_exhaustive()
    }
}

/// The current certificate of a server.
pub(crate) struct Certificates {
    files: Option<CertFiles>,
    current: Arc<CurrentCertificate>,
    /// Contents of the files that the current certificate was loaded from.
    read: parking_lot::Mutex<Option<Pair>>,
    metrics: CertificateMetrics,
}

/// A certificate that can be replaced while a server uses it. Resolves each handshake to the current certificate; without one,
/// handshakes fail.
#[derive(Default)]
pub(crate) struct CurrentCertificate {
    key: ArcSwapOption<CertifiedKey>,
    is_set: watch::Sender<bool>,
}

impl CurrentCertificate {
    fn new(key: CertifiedKey) -> Self {
        Self { key: ArcSwapOption::from_pointee(key), is_set: watch::Sender::new(true) }
    }

    /// Uses another certificate from the next handshake on.
    pub(crate) fn replace(&self, key: CertifiedKey) {
        self.key.store(Some(Arc::new(key)));
        self.is_set.send_replace(true);
    }

    /// Waits until there is a certificate.
    pub(crate) async fn available(&self) {
        // Cannot fail, because `self` holds the sender.
        let _ = self.is_set.subscribe().wait_for(|is_set| *is_set).await;
    }
}

/// Origin of a server's certificate.
#[derive(Clone)]
pub(crate) enum CertificateSource {
    /// Loaded by the server.
    Serving(Serving),
    /// Set by another component, such as the keeper of self-managed certificates.
    Current(Arc<CurrentCertificate>),
}

impl Certificates {
    /// Uses the certificate that another component sets.
    pub(crate) fn of_current(current: Arc<CurrentCertificate>) -> Self {
        let metrics = CertificateMetrics::default();
        Self { files: None, current, read: parking_lot::Mutex::new(None), metrics }
    }

    pub(crate) fn load(serving: &Serving, metrics: CertificateMetrics) -> Result<Self, CertificateError> {
        let (files, key, read) = match serving {
            Serving::Files(files) => {
                metrics.read();
                let loaded = files.read().and_then(|pair| Ok((pair.certified_key(&provider())?, pair)));
                let (key, pair) = loaded.inspect_err(|_| metrics.failed())?;
                (Some(files.clone()), key, Some(pair))
            }
            Serving::Plain | Serving::SelfSigned => (None, self_signed()?, None),
        };
        let current = Arc::new(CurrentCertificate::new(key));
        Ok(Self { files, current, read: parking_lot::Mutex::new(read), metrics })
    }

    /// Makes an acceptor of TLS connections for HTTP/1.1 and, if `http2`, HTTP/2, with the configuration changed by `adapt`.
    /// Each handshake uses the certificate current at that time.
    pub(crate) fn acceptor(&self, http2: bool, adapt: &AdaptTls) -> Result<TlsAcceptor, CertificateError> {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(CertificateError::Tls)?;
        // A resolver instead of a fixed certificate, so that a reload takes effect at the next handshake.
        let resolver: Arc<dyn ResolvesServerCert> = Arc::clone(&self.current) as _;
        let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
        // In order of preference.
        let protocols = http2.then_some(H2).into_iter().chain([&b"http/1.1"[..]]);
        config.alpn_protocols = protocols.map(<[u8]>::to_vec).collect();
        // Last, so that the user's changes override all of the above.
        (adapt.0)(&mut config);
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Reloads the files when they change, until dropped.
    pub(crate) async fn keep_up(&self) {
        let Some(files) = &self.files else { return std::future::pending().await };
        let changed = Arc::new(Notify::new());
        let notify = Arc::clone(&changed);
        // Watching ends when this is dropped.
        let _watcher = watch_files(files, move |event| {
            if is_change(&event) {
                notify.notify_one();
            }
        });
        loop {
            // The first pass covers changes from before the files were watched.
            self.reload(files);
            tokio::select! {
                // Both lead to a read of the files. A change comes first.
                biased;
                () = changed.notified() => {
                    sleep(SETTLE).await;
                    // Consumes a notification that arrived during the wait, because the next read covers it.
                    let _covered = changed.notified().now_or_never();
                }
                () = sleep(POLL) => {}
            }
        }
    }

    /// Loads the certificate in the files, if it has changed and is valid.
    fn reload(&self, files: &CertFiles) {
        self.metrics.read();
        // Compared with the files of the last load: most reads find no change.
        let mut read = self.read.lock();
        let new = files.read().and_then(|pair| match read.as_ref() == Some(&pair) {
            true => Ok(None),
            false => Ok(Some((pair.certified_key(&provider())?, pair))),
        });
        match new {
            Ok(None) => {}
            Ok(Some((key, pair))) => {
                self.current.replace(key);
                *read = Some(pair);
                tracing::info!("loaded the changed certificate in {files}");
            }
            // This also happens while a pair is half written; the next notification or poll reads it again.
            Err(error) => {
                self.metrics.failed();
                tracing::warn!(
                    "cannot load the changed certificate, the server keeps the previous one: {error}"
                );
            }
        }
    }
}

/// Watches the folders of the files, as far as the system supports it.
fn watch_files(
    files: &CertFiles,
    on_event: impl Fn(notify::Result<notify::Event>) + Send + 'static,
) -> Option<RecommendedWatcher> {
    let polled = |what: &dyn fmt::Display, error: &notify::Error| {
        tracing::debug!("{what} cannot be watched for changes and is read every 10 s instead: {error}");
    };
    let watcher = notify::recommended_watcher(on_event);
    let mut watcher = watcher.inspect_err(|error| polled(files, error)).ok()?;
    for folder in files.folders() {
        let watched = watcher.watch(folder, RecursiveMode::NonRecursive);
        let _ = watched.inspect_err(|error| polled(&folder.display(), error));
    }
    Some(watcher)
}

/// Returns whether files may have changed. Reads are notified as well, including ours, and must not lead to another read.
fn is_change(event: &notify::Result<notify::Event>) -> bool {
    !matches!(event, Ok(notify::Event { kind: EventKind::Access(_), .. }))
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.key.load_full()
    }
}

impl fmt::Debug for CurrentCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CurrentCertificate").finish_non_exhaustive()
    }
}

/// Cryptography for these servers only; the process's default provider is not set.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn self_signed() -> Result<CertifiedKey, CertificateError> {
    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    let made = rcgen::generate_simple_self_signed(names).map_err(CertificateError::Generate)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let chain = vec![made.cert.der().clone()];
    CertifiedKey::from_der(chain, key, &provider()).map_err(CertificateError::Tls)
}

#[cfg(test)]
mod tests;
