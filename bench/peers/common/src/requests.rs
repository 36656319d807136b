//! Requests that leave a process, counted where all of them pass.

use std::fs;
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
        self.counted(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
    }

    /// The same in a pod: of the API server at `host`, with the authority and the token that are in `secrets`. kube reads them
    /// from a folder of a fixed name.
    ///
    /// # Errors
    ///
    /// The files are not there, or there is no client for what they say.
    pub fn client_in_pod(&self, host: &str, secrets: impl AsRef<Path>) -> anyhow::Result<Client> {
        let secrets = secrets.as_ref();
        let mut config = Config::new(host.parse()?);
        let authority = pem::parse_many(fs::read(secrets.join("ca.crt"))?)?;
        config.root_cert = Some(authority.into_iter().map(pem::Pem::into_contents).collect());
        config.auth_info.token_file = Some(secrets.join("token").display().to_string());
        self.counted(config)
    }

    fn counted(&self, config: Config) -> anyhow::Result<Client> {
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
