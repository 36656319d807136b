//! Cluster of the operator: an embedded API server, or an existing cluster.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::Context;
use kube::{
    CustomResourceExt,
    config::{KubeConfigOptions, Kubeconfig},
};
use kube_envtest::{Environment, Transport, install_crds};
use tempfile::TempDir;

use crate::api::Guestbook;

/// A cluster with the Guestbook kind installed.
pub struct Cluster {
    /// Client of the cluster.
    pub client: kube::Client,
    /// The embedded API server; `None` for an existing cluster.
    pub embedded: Option<Embedded>,
}

/// An embedded API server. Dropping it stops the server and removes the kubeconfig.
#[derive(Debug)]
pub struct Embedded {
    /// Path of the kubeconfig file, for other programs.
    pub kubeconfig: PathBuf,
    _environment: Environment,
    _folder: TempDir,
}

impl Cluster {
    /// Starts an API server that listens on `address`, and writes a kubeconfig for it to a temporary folder.
    ///
    /// # Errors
    ///
    /// The address is in use, or the kubeconfig cannot be written.
    pub async fn embedded(address: SocketAddr) -> anyhow::Result<Self> {
        let environment =
            Environment::builder().transport(Transport::Tcp(address)).crd::<Guestbook>().start().await?;
        let folder = tempfile::Builder::new().prefix("guestbook-").tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        let listener = environment.listener().context("an environment over TCP has a listener")?;
        fs::write(&kubeconfig, listener.kubeconfig())
            .map_err(|error| anyhow::anyhow!("cannot write {}: {error}", kubeconfig.display()))?;
        let client = environment.client();
        Ok(Self {
            client,
            embedded: Some(Embedded { kubeconfig, _environment: environment, _folder: folder }),
        })
    }

    /// Connects to an existing cluster and installs the Guestbook kind there.
    ///
    /// # Errors
    ///
    /// The kubeconfig cannot be read or lacks the context, or the API server cannot be reached or rejects the definition.
    pub async fn existing(kubeconfig: Option<&Path>, context: Option<String>) -> anyhow::Result<Self> {
        let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
        let file = match kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let shown = kubeconfig.map_or_else(|| "the kubeconfig".to_owned(), |path| path.display().to_string());
        let usable = |error| anyhow::anyhow!("cannot use {shown}: {error}");
        let config =
            kube::Config::from_custom_kubeconfig(file.map_err(usable)?, &options).await.map_err(usable)?;
        let url = config.cluster_url.clone();
        let client = controller_runtime::client::connect(config)?;
        // A first request with a clear error, before the manager tries again and again.
        if let Err(error) = client.apiserver_version().await {
            let cause = innermost(&error);
            anyhow::bail!(
                "cannot reach the API server at {url}: {cause}: check that it is running, and that the context is the right one"
            );
        }
        install_crds(&client, &[Guestbook::crd()]).await?;
        Ok(Self { client, embedded: None })
    }
}

/// Returns the root cause of an error.
fn innermost<'a>(error: &'a (dyn std::error::Error + 'static)) -> &'a (dyn std::error::Error + 'static) {
    error.source().map_or(error, innermost)
}
