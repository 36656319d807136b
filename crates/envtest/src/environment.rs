use std::{env, fmt, net::SocketAddr, path::PathBuf, time::Duration};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_apiserver_embedded::{ApiServer, Epoch, Listener, Options, Profile};

use crate::{
    control_plane::{Assets, AssetsError, ControlPlane, ControlPlaneError, client},
    crd::{CrdError, ESTABLISHED_WITHIN, install_crds, read_crds, uninstall_crds},
    user::{Requested, User, clients_of, tokens_of},
};

/// A cluster for one test.
///
/// Dropping it stops the socket and the controllers of the embedded server, and with the last in-process client goes the
/// rest: such a client is a handle of the server. Processes of a control plane are killed, and their files removed. An
/// existing cluster is left as it is: see [`Environment::stop`].
#[doc(alias = "envtest.Environment")]
pub struct Environment {
    client: kube::Client,
    kubeconfig: Option<String>,
    users: Vec<User>,
    clean_up: Vec<CustomResourceDefinition>,
    cluster: Running,
}

/// What answers.
enum Running {
    Embedded { server: ApiServer, listener: Option<Listener> },
    Processes(Box<ControlPlane>),
    Existing,
}

/// Which cluster an [`Environment`] is.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Cluster {
    /// The embedded API server, which starts in milliseconds.
    #[default]
    Embedded,
    /// A kube-apiserver with its etcd, as processes of this machine.
    Binaries(Assets),
    /// A cluster that is there already, and stays.
    Existing(Box<kube::Config>),
}

impl Cluster {
    /// The cluster that the environment variables of Go's envtest ask for: with `USE_EXISTING_CLUSTER=true`, the one of the
    /// kubeconfig or the pod; else, where [`Assets`] are configured, their binaries; else the embedded server.
    ///
    /// # Errors
    ///
    /// There is no configuration of a cluster, or a binary is not there.
    pub async fn from_env() -> Result<Self, StartError> {
        match Asked::by(&|variable| env::var(variable).ok()) {
            Asked::Existing => {
                let config = kube::Config::infer().await.map_err(kube::Error::InferConfig)?;
                Ok(Self::Existing(Box::new(config)))
            }
            Asked::Binaries => Ok(Self::Binaries(Assets::from_env()?)),
            Asked::Nothing => Ok(Self::Embedded),
        }
    }
}

/// Which cluster the environment variables ask for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Existing,
    Binaries,
    Nothing,
}

impl Asked {
    fn by(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        match variable("USE_EXISTING_CLUSTER") {
            Some(value) if value.eq_ignore_ascii_case("true") => Self::Existing,
            _ if Assets::are_configured_by(variable) => Self::Binaries,
            _ => Self::Nothing,
        }
    }
}

/// How clients reach the embedded server.
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
            cluster: Cluster::default(),
            transport: Transport::default(),
            options: Options::default().profile(Profile::Dev),
            crds: Vec::new(),
            paths: Vec::new(),
            users: Vec::new(),
            crds_within: ESTABLISHED_WITHIN,
            clean_up: false,
        }
    }

    /// A client of the cluster's administrator, or for an existing cluster of whoever its configuration says.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// The embedded API server.
    ///
    /// # Panics
    ///
    /// The cluster is another one.
    #[must_use]
    pub fn server(&self) -> &ApiServer {
        self.embedded().expect("a test that asks for the embedded server runs on it")
    }

    /// The embedded API server, if the cluster is one.
    #[must_use]
    pub fn embedded(&self) -> Option<&ApiServer> {
        match &self.cluster {
            Running::Embedded { server, .. } => Some(server),
            _ => None,
        }
    }

    /// Epoch of [`Builder::epoch`], for the managers of the test: with it, they and the server show one time. `None` of other
    /// clusters than the embedded server.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.embedded().and_then(ApiServer::epoch)
    }

    /// The socket of [`Transport::Tcp`]: its address, and a kubeconfig for clients of other processes.
    #[must_use]
    pub fn listener(&self) -> Option<&Listener> {
        match &self.cluster {
            Running::Embedded { listener, .. } => listener.as_ref(),
            _ => None,
        }
    }

    /// A kubeconfig of the administrator, for clients of other processes; `None` in process, and for an existing cluster,
    /// whose users have their own.
    #[must_use]
    pub fn kubeconfig(&self) -> Option<&str> {
        self.kubeconfig.as_deref()
    }

    /// A user of [`Builder::user`].
    #[must_use]
    pub fn user(&self, name: &str) -> Option<&User> {
        self.users.iter().find(|user| user.name() == name)
    }

    /// Ends the environment in order: removes its CustomResourceDefinitions if it was told to
    /// ([`Builder::clean_up`]), asks processes to end, and waits until they have.
    ///
    /// A drop does the rest without this: what it cannot do is wait for an API server.
    ///
    /// # Errors
    ///
    /// A definition stays, or a process had to be killed.
    pub async fn stop(self) -> Result<(), StopError> {
        let removed = uninstall_crds(&self.client, &self.clean_up).await;
        if let Running::Processes(control_plane) = self.cluster {
            control_plane.stop().await?;
        }
        Ok(removed?)
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cluster {
            Running::Embedded { listener, .. } => {
                let url = listener.as_ref().map(Listener::url);
                f.debug_struct("Environment").field("url", &url).finish_non_exhaustive()
            }
            Running::Processes(control_plane) => {
                f.debug_tuple("Environment").field(control_plane).finish_non_exhaustive()
            }
            Running::Existing => f.write_str("Environment(existing cluster)"),
        }
    }
}

/// Says what an [`Environment`] holds when it starts.
#[derive(Debug)]
#[must_use]
pub struct Builder {
    cluster: Cluster,
    transport: Transport,
    options: Options,
    crds: Vec<CustomResourceDefinition>,
    paths: Vec<PathBuf>,
    users: Vec<Requested>,
    crds_within: Duration,
    clean_up: bool,
}

impl Builder {
    /// Which cluster. Default: the embedded one. [`Cluster::from_env`] leaves the choice to whoever runs the tests.
    pub fn cluster(mut self, cluster: Cluster) -> Self {
        self.cluster = cluster;
        self
    }

    /// How clients reach the embedded server. Default: in process.
    pub fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Options of the embedded server, instead of those set before. Default: its defaults with [`Profile::Dev`], in which owned objects are collected
    /// and namespaces emptied, as in a cluster.
    pub fn server_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Seed of the uids and generated names of the embedded server. Default: 0. Together with [`epoch`](Self::epoch), and with
    /// the same two for each manager, a run in paused time is equal to the one before, down to its timestamps.
    pub fn seed(mut self, seed: u64) -> Self {
        self.options = self.options.seed(seed);
        self
    }

    /// Epoch from which the embedded server's wall time advances with tokio's time. Default: none, the system clock; in paused
    /// time, one reading of it that all clocks of the process share.
    ///
    /// Managers take the same one, as [`Environment::epoch`].
    pub fn epoch(mut self, epoch: Epoch) -> Self {
        self.options = self.options.epoch(epoch);
        self
    }

    /// Installs the CustomResourceDefinition of a kind that derives `kube::CustomResource`.
    pub fn crd<K: kube::CustomResourceExt>(mut self) -> Self {
        self.crds.push(K::crd());
        self
    }

    /// Installs these CustomResourceDefinitions.
    #[doc(alias = "CRDs")]
    pub fn crds(mut self, crds: impl IntoIterator<Item = CustomResourceDefinition>) -> Self {
        self.crds.extend(crds);
        self
    }

    /// Installs the CustomResourceDefinitions in a YAML or JSON file, or in all such files of a folder. One
    /// that is not there is an error of the start.
    #[doc(alias = "CRDDirectoryPaths")]
    #[doc(alias = "ErrorIfCRDPathMissing")]
    pub fn crds_from(mut self, path: impl Into<PathBuf>) -> Self {
        self.paths.push(path.into());
        self
    }

    /// How long each CustomResourceDefinition may take to be served. Default: 10 s.
    #[doc(alias = "MaxTime")]
    pub fn crds_within(mut self, time: Duration) -> Self {
        self.crds_within = time;
        self
    }

    /// Removes the CustomResourceDefinitions, with all objects of their kinds, in [`Environment::stop`]. Default: they stay.
    #[doc(alias = "CleanUpAfterUse")]
    pub fn clean_up(mut self) -> Self {
        self.clean_up = true;
        self
    }

    /// Makes a user, whom [`Environment::user`] gives. The embedded server knows who sends a request, and lets everybody do
    /// everything; a real one asks RBAC.
    #[doc(alias = "AddUser")]
    pub fn user<G: Into<String>>(
        mut self,
        name: impl Into<String>,
        groups: impl IntoIterator<Item = G>,
    ) -> Self {
        self.users.push(Requested::new(name, groups));
        self
    }

    /// Starts the cluster and installs the CustomResourceDefinitions: when it returns, their kinds are served.
    ///
    /// # Errors
    ///
    /// The address is taken or not a loopback one; a process does not start; a CustomResourceDefinition cannot be read or is
    /// refused; a user was asked for of an existing cluster, which makes its own.
    pub async fn start(self) -> Result<Environment, StartError> {
        let mut crds = self.crds;
        for path in &self.paths {
            crds.extend(read_crds(path)?);
        }
        let mut environment = match self.cluster {
            Cluster::Embedded => embedded(self.transport, self.options, &self.users).await?,
            Cluster::Binaries(assets) => processes(&assets, &self.users).await?,
            Cluster::Existing(_) if !self.users.is_empty() => {
                return Err(StartError::UserOfExistingCluster { user: self.users[0].name.clone() });
            }
            Cluster::Existing(config) => existing(*config)?,
        };
        install_crds(&environment.client, &crds).within(self.crds_within).await?;
        if self.clean_up {
            environment.clean_up = crds;
        }
        Ok(environment)
    }
}

async fn embedded(
    transport: Transport,
    mut options: Options,
    users: &[Requested],
) -> Result<Environment, StartError> {
    if !users.is_empty() {
        options.tokens = Some(tokens_of(users));
    }
    let server = ApiServer::start(options);
    let listener = match transport {
        Transport::InProcess => None,
        Transport::Tcp(address) => Some(server.listen(address).await?),
    };
    let kubeconfig = listener.as_ref().map(Listener::kubeconfig);
    let client = match &kubeconfig {
        // A client as another process would make it.
        Some(kubeconfig) => client(kubeconfig).await?,
        None => kube::Client::new(server.service(), "default"),
    };
    let users = clients_of(users, &server, listener.as_ref()).await?;
    let cluster = Running::Embedded { server, listener };
    Ok(Environment { client, kubeconfig, users, clean_up: Vec::new(), cluster })
}

async fn processes(assets: &Assets, requested: &[Requested]) -> Result<Environment, StartError> {
    let control_plane = ControlPlane::start(assets).await?;
    let kubeconfig = control_plane.kubeconfig("envtest-admin", &["system:masters"])?;
    let mut users = Vec::new();
    for Requested { name, groups } in requested {
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        let kubeconfig = control_plane.kubeconfig(name, &groups)?;
        users.push(User::new(name, client(&kubeconfig).await?, Some(kubeconfig)));
    }
    let client = client(&kubeconfig).await?;
    let cluster = Running::Processes(Box::new(control_plane));
    Ok(Environment { client, kubeconfig: Some(kubeconfig), users, clean_up: Vec::new(), cluster })
}

fn existing(config: kube::Config) -> Result<Environment, StartError> {
    let client = kube::Client::try_from(config)?;
    let (users, clean_up, cluster) = (Vec::new(), Vec::new(), Running::Existing);
    Ok(Environment { client, kubeconfig: None, users, clean_up, cluster })
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
    /// There is no cluster to connect to, or no client for it.
    #[error("cannot connect to the cluster")]
    Connect(#[from] kube::Error),
    /// The binaries are not there.
    #[error(transparent)]
    Assets(#[from] AssetsError),
    /// The processes do not start.
    #[error(transparent)]
    ControlPlane(#[from] ControlPlaneError),
    /// An existing cluster makes its users itself.
    #[error("user {user} cannot be made: an existing cluster knows its users itself")]
    UserOfExistingCluster {
        /// The name.
        user: String,
    },
}

/// Why an environment did not end in order.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StopError {
    /// A CustomResourceDefinition stays.
    #[error(transparent)]
    Crd(#[from] CrdError),
    /// A process did not end when it was asked to.
    #[error(transparent)]
    ControlPlane(#[from] ControlPlaneError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_cluster_goes_before_binaries_and_these_before_the_embedded_server() {
        let asked = |variables: &[(&str, &str)]| {
            Asked::by(&|wanted| {
                let found = variables.iter().find(|(name, _)| *name == wanted);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let existing = |value| ("USE_EXISTING_CLUSTER", value);
        let assets = ("KUBEBUILDER_ASSETS", "/opt/kubebuilder");
        assert_eq!(asked(&[]), Asked::Nothing);
        assert_eq!(asked(&[existing("true"), assets]), Asked::Existing);
        assert_eq!(asked(&[existing("TRUE")]), Asked::Existing, "as in Go");
        for value in ["false", "1", "yes", ""] {
            assert_eq!(asked(&[existing(value), assets]), Asked::Binaries, "{value}");
            assert_eq!(asked(&[existing(value)]), Asked::Nothing, "{value}");
        }
        assert_eq!(asked(&[("TEST_ASSET_ETCD", "/opt/etcd")]), Asked::Binaries);
        assert_eq!(asked(&[("KUBEBUILDER_ASSETS", "")]), Asked::Nothing, "an empty path is none");
    }
}
