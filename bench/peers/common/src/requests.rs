//! Requests that leave a process, counted where all of them pass.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::util::MapRequestLayer;

/// How many requests a client has sent.
#[derive(Debug, Clone, Default)]
pub struct Requests(Arc<AtomicU64>);

impl Requests {
    /// A client of the cluster of this kubeconfig, with kube's defaults, whose requests are counted here.
    ///
    /// # Errors
    ///
    /// The file is no kubeconfig, or there is no client for what it says.
    pub async fn client(&self, kubeconfig: impl AsRef<Path>) -> anyhow::Result<Client> {
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let count = Arc::clone(&self.0);
        let counting = MapRequestLayer::new(move |request: http::Request<Body>| {
            count.fetch_add(1, Ordering::Relaxed);
            request
        });
        Ok(ClientBuilder::try_from(config)?.with_layer(&counting).build())
    }

    /// So many until now.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
