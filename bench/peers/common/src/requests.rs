//! Counts the requests that leave a process.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::service_fn;
use tower::util::MapRequestLayer;

/// Reads the configuration from a kubeconfig.
///
/// # Errors
///
/// The file is not a valid kubeconfig.
pub async fn config(kubeconfig: impl AsRef<Path>) -> anyhow::Result<Config> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// Builds the configuration of a program in a pod, from the address of the API server and the authority and token in
/// `secrets`. kube's own function reads them from a fixed folder.
///
/// # Errors
///
/// The files do not exist or are invalid.
pub fn config_in_pod(host: &str, secrets: impl AsRef<Path>) -> anyhow::Result<Config> {
    let secrets = secrets.as_ref();
    let mut config = Config::new(host.parse()?);
    let authority = pem::parse_many(fs::read(secrets.join("ca.crt"))?)?;
    config.root_cert = Some(authority.into_iter().map(pem::Pem::into_contents).collect());
    config.auth_info.token_file = Some(secrets.join("token").display().to_string());
    Ok(config)
}

/// Counter of the requests that its clients have sent.
#[derive(Debug, Clone, Default)]
pub struct Requests(Arc<AtomicU64>);

impl Requests {
    /// Creates a counted client with kube's defaults from a kubeconfig.
    ///
    /// # Errors
    ///
    /// The kubeconfig is invalid, or no client can be created from it.
    pub async fn client(&self, kubeconfig: impl AsRef<Path>) -> anyhow::Result<Client> {
        self.connected(config(kubeconfig).await?)
    }

    /// Counts the requests of an existing client. They pass one more service than those of
    /// [`Requests::client`].
    #[must_use]
    pub fn counted(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let count = Arc::clone(&self.0);
        let counting = service_fn(move |request: http::Request<Body>| {
            count.fetch_add(1, Ordering::Relaxed);
            let client = client.clone();
            async move { client.send(request).await }
        });
        Client::new(counting, namespace)
    }

    /// Creates a counted client with kube's defaults from a configuration.
    ///
    /// # Errors
    ///
    /// No client can be created from the configuration.
    pub fn connected(&self, config: Config) -> anyhow::Result<Client> {
        Ok(ClientBuilder::try_from(config)?.with_layer(&self.counting()).build())
    }

    fn counting(
        &self,
    ) -> MapRequestLayer<impl Fn(http::Request<Body>) -> http::Request<Body> + Clone + use<>> {
        let count = Arc::clone(&self.0);
        MapRequestLayer::new(move |request: http::Request<Body>| {
            count.fetch_add(1, Ordering::Relaxed);
            request
        })
    }

    /// Number of requests so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
