//! Requests that leave a process, counted where all of them pass.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::service_fn;
use tower::util::MapRequestLayer;

/// The configuration of this kubeconfig.
///
/// # Errors
///
/// The file is no kubeconfig.
pub async fn config(kubeconfig: impl AsRef<Path>) -> anyhow::Result<Config> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// The configuration that a program finds in a pod: of the API server at `host`, with the authority and the token that are in
/// `secrets`. kube reads them from a folder of a fixed name.
///
/// # Errors
///
/// The files are not there, or are no authority.
pub fn config_in_pod(host: &str, secrets: impl AsRef<Path>) -> anyhow::Result<Config> {
    let secrets = secrets.as_ref();
    let mut config = Config::new(host.parse()?);
    let authority = pem::parse_many(fs::read(secrets.join("ca.crt"))?)?;
    config.root_cert = Some(authority.into_iter().map(pem::Pem::into_contents).collect());
    config.auth_info.token_file = Some(secrets.join("token").display().to_string());
    Ok(config)
}

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
        self.connected(config(kubeconfig).await?)
    }

    /// Counts the requests of a client that was made in another way. They pass one more service than those of
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

    /// A client of the cluster that `config` names, with kube's defaults, whose requests are counted here.
    ///
    /// # Errors
    ///
    /// There is no client for what the configuration says.
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

    /// So many until now.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
