use std::{fmt, net::SocketAddr, path::PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube_apiserver_embedded::{ApiServer, Listener, Options, Profile};

use crate::crd::{CrdError, install_crds, read_crds};

/// A cluster for one test.
///
/// Dropping it stops the socket and the controllers of the server, and with the last in-process client goes the rest:
/// such a client is a handle of the server.
#[doc(alias = "envtest.Environment")]
pub struct Environment {
    client: kube::Client,
    server: ApiServer,
    listener: Option<Listener>,
}

/// How clients reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Transport {
    /// By function call: no socket, no time passes.
    #[default]
    InProcess,
    /// Over a socket at this address; port 0 takes a free one.
    Tcp(SocketAddr),
}

impl Environment {
    /// Begins an environment.
    pub fn builder() -> Builder {
        Builder {
            transport: Transport::default(),
            options: Options::default().profile(Profile::Dev),
            crds: Vec::new(),
            paths: Vec::new(),
        }
    }

    /// A client of the cluster's administrator.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// The API server.
    #[must_use]
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// The socket of [`Transport::Tcp`]: its address, and a kubeconfig for clients of other processes.
    #[must_use]
    pub fn listener(&self) -> Option<&Listener> {
        self.listener.as_ref()
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("url", &self.listener.as_ref().map(Listener::url))
            .finish_non_exhaustive()
    }
}

/// Says what an [`Environment`] holds when it starts.
#[derive(Debug)]
#[must_use]
pub struct Builder {
    transport: Transport,
    options: Options,
    crds: Vec<CustomResourceDefinition>,
    paths: Vec<PathBuf>,
}

impl Builder {
    /// How clients reach the server. Default: in process.
    pub fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Options of the API server. Default: its defaults with [`Profile::Dev`], in which owned objects are collected
    /// and namespaces emptied, as in a cluster.
    pub fn server_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Installs the CustomResourceDefinition of a kind that derives `kube::CustomResource`.
    pub fn crd<K: kube::CustomResourceExt>(mut self) -> Self {
        self.crds.push(K::crd());
        self
    }

    /// Installs the CustomResourceDefinitions in a YAML or JSON file, or in all such files of a folder.
    #[doc(alias = "CRDDirectoryPaths")]
    pub fn crds_from(mut self, path: impl Into<PathBuf>) -> Self {
        self.paths.push(path.into());
        self
    }

    /// Starts the server and installs the CustomResourceDefinitions: when it returns, their kinds are served.
    ///
    /// # Errors
    ///
    /// The address is taken or not a loopback one; a CustomResourceDefinition cannot be read or is refused.
    pub async fn start(self) -> Result<Environment, StartError> {
        let mut crds = self.crds;
        for path in &self.paths {
            crds.extend(read_crds(path)?);
        }
        let server = ApiServer::start(self.options);
        let (client, listener) = match self.transport {
            Transport::InProcess => (kube::Client::new(server.service(), "default"), None),
            Transport::Tcp(address) => {
                let listener = server.listen(address).await?;
                (client_of(&listener).await?, Some(listener))
            }
        };
        install_crds(&client, &crds).await?;
        Ok(Environment { client, server, listener })
    }
}

/// A client as another process would make it.
async fn client_of(listener: &Listener) -> Result<kube::Client, StartError> {
    let kubeconfig = Kubeconfig::from_yaml(&listener.kubeconfig()).map_err(kube::Error::InferKubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Ok(kube::Client::try_from(config.map_err(kube::Error::InferKubeconfig)?)?)
}

/// Why an environment did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The server cannot listen where it was told to.
    #[error(transparent)]
    Listen(#[from] kube_apiserver_embedded::ListenError),
    /// A CustomResourceDefinition is not there, not readable or not accepted.
    #[error(transparent)]
    Crd(#[from] CrdError),
    /// The server does not accept a client.
    #[error("cannot connect to the embedded API server")]
    Connect(#[from] kube::Error),
}
