//! Where the operator runs: on an API server of its own, or on a cluster that exists.

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

/// A cluster that serves Guestbooks.
pub struct Cluster {
    /// The way to it.
    pub client: kube::Client,
    /// What other programs need to reach it, if it is our own.
    pub embedded: Option<Embedded>,
}

/// An API server of our own. Dropping it stops the server and removes the kubeconfig.
#[derive(Debug)]
pub struct Embedded {
    /// The kubeconfig file.
    pub kubeconfig: PathBuf,
    _environment: Environment,
    _folder: TempDir,
}

impl Cluster {
    /// Starts an API server that listens on `address`, and writes a kubeconfig for it to a temporary folder.
    ///
    /// # Errors
    ///
    /// The address is taken, or the kubeconfig cannot be written.
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
    /// The kubeconfig cannot be read or lacks the context, the API server cannot be reached or refuses.
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
        if let Err(error) = client.apiserver_version().await {
            let cause = innermost(&error);
            anyhow::bail!(
                "cannot reach the API server at {url}: {cause}: is it running, and is the context right?"
            );
        }
        install_crds(&client, &[Guestbook::crd()]).await?;
        Ok(Self { client, embedded: None })
    }
}

/// What it was in the end that failed.
fn innermost<'a>(error: &'a (dyn std::error::Error + 'static)) -> &'a (dyn std::error::Error + 'static) {
    error.source().map_or(error, innermost)
}
