//! Certificates of servers: from files that are read again when they change, or made at the start.

mod files;

use std::{fmt, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use futures::FutureExt;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::{sync::Notify, time::sleep};
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
use crate::{http_server::H2, metrics::CertificateMetrics};

/// How often files are looked at, whatever the system tells of them: as controller-runtime. Secret volumes are links that
/// are exchanged, of which not every system tells.
const POLL: Duration = Duration::from_secs(10);

/// How long after the first sign of a change the files are read: a pair is written in several steps, and each is a sign.
const SETTLE: Duration = Duration::from_millis(100);

/// Whether a server encrypts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Serving {
    /// It does not.
    #[default]
    Plain,
    /// With a certificate made at the start, for `localhost` and `127.0.0.1`, which nobody can verify.
    SelfSigned,
    /// With that in files, which are read again when they change.
    Files(CertFiles),
}

/// What is said of a server's TLS beside its certificate.
#[derive(Clone)]
pub(crate) struct AdaptTls(pub(crate) Arc<dyn Fn(&mut ServerConfig) + Send + Sync>);

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

/// The certificate of a server, as it is now.
pub(crate) struct Certificates {
    files: Option<CertFiles>,
    current: Arc<Current>,
    /// What the current one was read from.
    read: parking_lot::Mutex<Option<Pair>>,
    metrics: CertificateMetrics,
}

/// Takes the current certificate for each handshake.
struct Current(ArcSwap<CertifiedKey>);

impl Certificates {
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
        let current = Arc::new(Current(ArcSwap::from_pointee(key)));
        Ok(Self { files, current, read: parking_lot::Mutex::new(read), metrics })
    }

    /// Accepts TLS connections with the certificate that is current at each, for HTTP/1.1 and perhaps HTTP/2, as `adapt` has it.
    pub(crate) fn acceptor(&self, http2: bool, adapt: &AdaptTls) -> Result<TlsAcceptor, CertificateError> {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(CertificateError::Tls)?;
        let resolver: Arc<dyn ResolvesServerCert> = Arc::clone(&self.current) as _;
        let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
        // The best first.
        let protocols = http2.then_some(H2).into_iter().chain([&b"http/1.1"[..]]);
        config.alpn_protocols = protocols.map(<[u8]>::to_vec).collect();
        (adapt.0)(&mut config);
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Reads the files when they change, until dropped.
    pub(crate) async fn keep_up(&self) {
        let Some(files) = &self.files else { return std::future::pending().await };
        let changed = Arc::new(Notify::new());
        let tell = Arc::clone(&changed);
        // Watched for as long as this lives.
        let _watcher = watch(files, move |event| {
            if is_change(&event) {
                tell.notify_one();
            }
        });
        loop {
            // At the start too, for what changed before it was watched.
            self.reload(files);
            tokio::select! {
                () = changed.notified() => {
                    sleep(SETTLE).await;
                    // What was told meanwhile is read now.
                    let _told = changed.notified().now_or_never();
                }
                () = sleep(POLL) => {}
            }
        }
    }

    /// Takes over what the files hold, if it is another certificate and a good one.
    fn reload(&self, files: &CertFiles) {
        self.metrics.read();
        let mut read = self.read.lock();
        let new = files.read().and_then(|pair| match read.as_ref() == Some(&pair) {
            true => Ok(None),
            false => Ok(Some((pair.certified_key(&provider())?, pair))),
        });
        match new {
            Ok(None) => {}
            Ok(Some((key, pair))) => {
                self.current.0.store(Arc::new(key));
                *read = Some(pair);
                tracing::info!("the certificate in {files} is taken over");
            }
            Err(error) => {
                self.metrics.failed();
                tracing::warn!("the certificate stays as it was: {error}");
            }
        }
    }
}

/// Tells of what happens in the folders of the files, as far as the system does.
fn watch(
    files: &CertFiles,
    tell: impl Fn(notify::Result<notify::Event>) + Send + 'static,
) -> Option<RecommendedWatcher> {
    let polled = |what: &dyn fmt::Display, error: &notify::Error| {
        tracing::debug!("{what} is looked at every 10 s, because it cannot be watched: {error}");
    };
    let watcher = notify::recommended_watcher(tell);
    let mut watcher = watcher.inspect_err(|error| polled(files, error)).ok()?;
    for folder in files.folders() {
        let watched = watcher.watch(folder, RecursiveMode::NonRecursive);
        let _ = watched.inspect_err(|error| polled(&folder.display(), error));
    }
    Some(watcher)
}

/// Whether files may have changed. Who reads them, as we do then, is told of as well: that must not lead to another read.
fn is_change(event: &notify::Result<notify::Event>) -> bool {
    !matches!(event, Ok(notify::Event { kind: EventKind::Access(_), .. }))
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current").finish_non_exhaustive()
    }
}

/// The cryptography, chosen here and not for the process.
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
