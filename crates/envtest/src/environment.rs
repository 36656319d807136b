//! The environment: selection, start and stop of a cluster for one test.

use std::{
    env, fmt,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_apiserver_embedded::{ApiServer, Epoch, Listener, Options, Profile};

use crate::{
    control_plane::{Assets, AssetsError, AuditFiles, ControlPlane, ControlPlaneError, client},
    crd::{CrdError, ESTABLISHED_WITHIN, install_crds, read_crds, uninstall_crds},
    impersonation,
    operator::{Instance, Operator},
    user::{InstalledObject, Requested, User, UserBuilder, UserError, clients_of, tokens_of},
    webhooks::{ANSWER_WITHIN, Router, ServerKind, WebhookError, WebhookHost, WebhookSettings},
};

/// A cluster for one test. The [crate docs](crate) have an example.
///
/// Dropping it closes the socket and stops the controllers of the embedded server; the server's state is freed with the last
/// in-process client, because such a client is a handle of the server. Dropping it also kills the processes of a control plane and
/// removes their files. Objects in an existing cluster remain: see [`Environment::stop`].
#[doc(alias = "envtest.Environment")]
pub struct Environment {
    client: kube::Client,
    kubeconfig: Option<String>,
    users: Vec<User>,
    clean_up: Vec<CustomResourceDefinition>,
    webhooks: WebhookHost,
    /// Roles and bindings of users, which are removed from an existing cluster.
    installed: Mutex<Vec<InstalledObject>>,
    cluster: ClusterServer,
}

/// Server of the cluster.
enum ClusterServer {
    Embedded { server: ApiServer, listener: Option<Listener> },
    Processes(Box<ControlPlane>),
    Existing,
}

/// Cluster of an [`Environment`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Cluster {
    /// The embedded API server, which starts in milliseconds.
    #[default]
    Embedded,
    /// kube-apiserver and etcd as local processes.
    Binaries(Assets),
    /// An existing cluster, which remains after the test.
    Existing(Box<kube::Config>),
}

impl Cluster {
    /// Selects the cluster by the environment variables of Go's envtest: with `USE_EXISTING_CLUSTER=true` the cluster of the
    /// kubeconfig or the pod; otherwise the binaries of [`Assets`], if they are configured; otherwise the embedded server.
    ///
    /// # Errors
    ///
    /// There is no cluster configuration, or a binary does not exist.
    pub async fn from_env() -> Result<Self, StartError> {
        match SelectedCluster::by(&|variable| env::var(variable).ok()) {
            SelectedCluster::Existing => {
                let config = kube::Config::infer().await.map_err(kube::Error::InferConfig)?;
                Ok(Self::Existing(Box::new(config)))
            }
            SelectedCluster::Binaries => Ok(Self::Binaries(Assets::from_env()?)),
            SelectedCluster::Nothing => Ok(Self::Embedded),
        }
    }
}

/// Cluster that the environment variables select.
#[derive(Debug, PartialEq, Eq)]
enum SelectedCluster {
    Existing,
    Binaries,
    Nothing,
}

impl SelectedCluster {
    fn by(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        match variable("USE_EXISTING_CLUSTER") {
            Some(value) if value.eq_ignore_ascii_case("true") => Self::Existing,
            _ if Assets::are_configured_by(variable) => Self::Binaries,
            _ => Self::Nothing,
        }
    }
}

/// Transport between clients and the embedded server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Transport {
    /// Function calls, without a socket and without a delay.
    #[default]
    InProcess,
    /// A socket at this address; port 0 picks a free port.
    Tcp(SocketAddr),
}

impl Environment {
    /// Starts to configure an environment.
    pub fn builder() -> Builder {
        Builder {
            cluster: Cluster::default(),
            transport: Transport::default(),
            options: Options::default().profile(Profile::Dev),
            crds: Vec::new(),
            paths: Vec::new(),
            users: Vec::new(),
            crds_within: ESTABLISHED_WITHIN,
            webhooks: WebhookSettings {
                paths: Vec::new(),
                address: (Ipv4Addr::LOCALHOST, 0).into(),
                within: ANSWER_WITHIN,
            },
            clean_up: false,
        }
    }

    /// Client of the administrator, or of the user in the configuration of an existing cluster.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// The embedded API server.
    ///
    /// # Panics
    ///
    /// Panics if the cluster is not the embedded server.
    #[must_use]
    pub fn server(&self) -> &ApiServer {
        self.embedded().expect("a test that asks for the embedded server runs on it")
    }

    /// The embedded API server, or `None` for other clusters.
    #[must_use]
    pub fn embedded(&self) -> Option<&ApiServer> {
        match &self.cluster {
            ClusterServer::Embedded { server, .. } => Some(server),
            _ => None,
        }
    }

    /// The audit log of a kube-apiserver that this environment has started.
    pub(crate) fn audit_log(&self) -> Option<&AuditFiles> {
        match &self.cluster {
            ClusterServer::Processes(control_plane) => control_plane.audit(),
            _ => None,
        }
    }

    /// Epoch set by [`Builder::epoch`]. Pass it to the managers of the test, so that they and the server have the same wall time.
    /// `None` for clusters other than the embedded server.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.embedded().and_then(ApiServer::epoch)
    }

    /// Socket of [`Transport::Tcp`], with its address and a kubeconfig for other processes.
    #[must_use]
    pub fn listener(&self) -> Option<&Listener> {
        match &self.cluster {
            ClusterServer::Embedded { listener, .. } => listener.as_ref(),
            _ => None,
        }
    }

    /// Kubeconfig of the administrator, for other processes. `None` with in-process transport, and for an existing cluster,
    /// which has its own users.
    #[must_use]
    pub fn kubeconfig(&self) -> Option<&str> {
        self.kubeconfig.as_deref()
    }

    /// Client that acts as a user with these groups and `system:authenticated`. The user needs no credentials: the
    /// administrator's client impersonates it. Its permissions are those that roles and bindings grant it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kube::{Api, api::ListParams};
    /// use kube_envtest::Environment;
    ///
    /// let env = Environment::builder().start().await?;
    /// let jane = env.client_for("jane", ["devs"]);
    /// let refused = Api::<Pod>::default_namespaced(jane).list(&ListParams::default()).await.unwrap_err();
    /// assert!(refused.to_string().contains("User \"jane\" cannot list resource \"pods\""));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if a name contains control characters.
    #[must_use]
    pub fn client_for<G: Into<String>>(
        &self,
        name: &str,
        groups: impl IntoIterator<Item = G>,
    ) -> kube::Client {
        let groups: Vec<String> = groups.into_iter().map(Into::into).collect();
        impersonation::client_for(self.client(), name, &groups)
    }

    /// Creates a user that has the rights of manifests, and no others except those of every authenticated user.
    ///
    /// A test that runs as administrator does not find a missing rule, which then stops the operator in production. With such a user,
    /// the RBAC of the API server refuses requests that the manifests do not allow, and [`User::rights`] also lists permissions that the
    /// test did not need.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::{Pod, Secret};
    /// use kube::{Api, api::ListParams};
    /// use kube_envtest::Environment;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let manifests = folder.path().join("rbac.yaml");
    /// # std::fs::write(&manifests, r#"
    /// # apiVersion: rbac.authorization.k8s.io/v1
    /// # kind: ClusterRole
    /// # metadata: {name: manager}
    /// # rules: [{apiGroups: [""], resources: [pods], verbs: [list, watch]}]
    /// # ---
    /// # apiVersion: rbac.authorization.k8s.io/v1
    /// # kind: ClusterRoleBinding
    /// # metadata: {name: manager}
    /// # roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: manager}
    /// # subjects: [{kind: ServiceAccount, name: manager, namespace: system}]
    /// # "#)?;
    /// let env = Environment::builder().start().await?;
    /// // The manifests grant `list` and `watch` of pods.
    /// let operator = env.user("operator").with_manifests(manifests).await?;
    ///
    /// Api::<Pod>::all(operator.client()).list(&ListParams::default()).await?;
    /// let refused = Api::<Secret>::all(operator.client()).list(&ListParams::default()).await.unwrap_err();
    /// assert!(refused.to_string().contains("User \"operator\" cannot list resource \"secrets\""));
    /// assert_eq!(
    ///     operator.rights().expect("the server is embedded").to_string(),
    ///     "rights of operator: 1 used, 1 missing, 1 superfluous\n  missing      list secrets\n  superfluous  watch pods",
    /// );
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// All bindings of the manifests bind the user, and their subjects are ignored; [`service_account`](Self::service_account) keeps
    /// the subjects. Roles and bindings are installed with the user's name as a prefix, so that users do not share them; missing
    /// namespaces are created. A user that was declared with [`Builder::user`] has its own credentials; the administrator
    /// impersonates other users. [`stop`](Self::stop) removes roles and bindings from an existing cluster.
    pub fn user(&self, name: impl Into<String>) -> UserBuilder<'_> {
        UserBuilder::user(self, name.into())
    }

    /// Creates a service account that has the rights which the bindings of manifests grant it by name, as on a real cluster. Otherwise
    /// like [`user`](Self::user).
    ///
    /// Roles and bindings keep their names, and objects without a namespace are placed in that of the account. Bindings to other
    /// accounts are installed, too.
    pub fn service_account(&self, namespace: impl Into<String>, name: impl Into<String>) -> UserBuilder<'_> {
        UserBuilder::service_account(self, namespace.into(), name.into())
    }

    /// User created by [`Builder::user`].
    pub(crate) fn declared_user(&self, name: &str) -> Option<&User> {
        self.users.iter().find(|user| user.name() == name)
    }

    /// Records an object that [`stop`](Self::stop) removes from an existing cluster.
    pub(crate) fn note_installed(&self, object: InstalledObject) {
        self.installed.lock().unwrap_or_else(PoisonError::into_inner).push(object);
    }

    /// Webhooks of the operators of this environment: address and certificate of their server, and installation.
    #[must_use]
    #[doc(alias = "WebhookInstallOptions")]
    pub fn webhooks(&self) -> &WebhookHost {
        &self.webhooks
    }

    /// Creates an operator that sends its requests to [`client`](Self::client) and can
    /// [serve webhooks](Instance::serve_webhooks). It is not started yet.
    pub fn operator<F, Fut>(&self, main: F) -> Operator
    where
        F: Fn(Instance) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        Operator::new(self.client(), main).webhooks(self.webhooks())
    }

    /// Stops the environment: removes its CustomResourceDefinitions if [`Builder::clean_up`] is set, removes webhooks and the roles of
    /// users from an existing cluster, and waits until its processes have exited after SIGTERM.
    ///
    /// Dropping an environment sends no requests to the API server, and kills the processes.
    ///
    /// # Errors
    ///
    /// A definition, webhook or role could not be removed, or a process had to be killed.
    pub async fn stop(self) -> Result<(), StopError> {
        // The processes are stopped even if something was not removed. Webhooks go first: without an operator no conversion is
        // answered, which a definition needs to delete its objects.
        let is_kept = matches!(self.cluster, ClusterServer::Existing);
        let webhooks =
            if is_kept || !self.clean_up.is_empty() { self.webhooks.uninstall().await } else { Ok(()) };
        let removed = uninstall_crds(&self.client, &self.clean_up).await;
        let installed = self.installed.into_inner().unwrap_or_else(PoisonError::into_inner);
        let rights = if is_kept { uninstall(&self.client, installed).await } else { Ok(()) };
        if let ClusterServer::Processes(control_plane) = self.cluster {
            control_plane.stop().await?;
        }
        webhooks?;
        rights?;
        Ok(removed?)
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cluster {
            ClusterServer::Embedded { listener, .. } => {
                let url = listener.as_ref().map(Listener::url);
                f.debug_struct("Environment").field("url", &url).finish_non_exhaustive()
            }
            ClusterServer::Processes(control_plane) => {
                f.debug_tuple("Environment").field(control_plane).finish_non_exhaustive()
            }
            ClusterServer::Existing => f.write_str("Environment(existing cluster)"),
        }
    }
}

/// Configures and starts an [`Environment`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use kube_envtest::{Cluster, Environment};
///
/// // The embedded API server, in process, with its objects named in the same way in every run:
/// let env = Environment::builder().seed(1).start().await?;
/// # drop(env);
/// # async fn on_the_selected_cluster() -> Result<(), Box<dyn std::error::Error>> {
/// // The cluster that the environment variables of Go's envtest select, with the definitions of a folder:
/// let env = Environment::builder().cluster(Cluster::from_env().await?).crds_from("config/crd").start().await?;
/// # Ok(())
/// # }
/// # Ok(())
/// # }
/// ```
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
    webhooks: WebhookSettings,
    clean_up: bool,
}

impl Builder {
    /// Selects the cluster. Default: [`Cluster::Embedded`]. With [`Cluster::from_env`], environment variables select it.
    pub fn cluster(mut self, cluster: Cluster) -> Self {
        self.cluster = cluster;
        self
    }

    /// Sets the transport to the embedded server. Default: in process.
    pub fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Replaces the options of the embedded server, including those set before. Default: [`Options::default`] with
    /// [`Profile::Dev`], which collects owned objects and empties deleted namespaces, as a real cluster does.
    pub fn server_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Sets the seed for uids and generated names of the embedded server. Default: 0. Together with [`epoch`](Self::epoch),
    /// and with the same two values for each manager, every run in paused time is identical, including timestamps.
    pub fn seed(mut self, seed: u64) -> Self {
        self.options = self.options.seed(seed);
        self
    }

    /// Sets the epoch from which the embedded server's wall time advances with tokio's time. Default: none. Wall time then follows
    /// the system clock; in paused time it advances from one reading of the system clock, which all clocks of the process share.
    ///
    /// Pass the same epoch to the managers, see [`Environment::epoch`].
    pub fn epoch(mut self, epoch: Epoch) -> Self {
        self.options = self.options.epoch(epoch);
        self
    }

    /// Installs the CustomResourceDefinition of a kind that derives `kube::CustomResource`.
    pub fn crd<K: kube::CustomResourceExt>(mut self) -> Self {
        self.crds.push(K::crd());
        self
    }

    /// Installs CustomResourceDefinitions.
    #[doc(alias = "CRDs")]
    pub fn crds(mut self, crds: impl IntoIterator<Item = CustomResourceDefinition>) -> Self {
        self.crds.extend(crds);
        self
    }

    /// Installs the CustomResourceDefinitions in a YAML or JSON file, or in all such files of a folder. A missing path is an
    /// error of [`start`](Self::start).
    #[doc(alias = "CRDDirectoryPaths")]
    #[doc(alias = "ErrorIfCRDPathMissing")]
    pub fn crds_from(mut self, path: impl Into<PathBuf>) -> Self {
        self.paths.push(path.into());
        self
    }

    /// Sets the time limit for each CustomResourceDefinition to be served. Default: 10 s.
    #[doc(alias = "MaxTime")]
    pub fn crds_within(mut self, time: Duration) -> Self {
        self.crds_within = time;
        self
    }

    /// Reads the webhook configurations in a YAML or JSON file, or in all such files of a folder, such as `config/webhook`.
    /// Services must have the ports that the configurations name; other objects are skipped.
    ///
    /// The configurations are installed when an operator [serves](Instance::serve_webhooks) them. References to Services, in
    /// configurations and in [definitions](Self::crds_from), are replaced by the address of the operator.
    #[doc(alias = "WebhookInstallOptions.Paths")]
    pub fn webhooks_from(mut self, path: impl Into<PathBuf>) -> Self {
        self.webhooks.paths.push(path.into());
        self
    }

    /// Sets the time limit for the webhooks of an operator to answer. Default: 10 s.
    #[doc(alias = "WebhookInstallOptions.MaxTime")]
    pub fn webhooks_within(mut self, time: Duration) -> Self {
        self.webhooks.within = time;
        self
    }

    /// Sets the address of webhook servers, which the API server must be able to reach; port 0 picks a free port. Default:
    /// `127.0.0.1:0`. Has no effect if the API server calls webhooks in process.
    #[doc(alias = "LocalServingHost")]
    #[doc(alias = "LocalServingPort")]
    pub fn webhooks_at(mut self, address: SocketAddr) -> Self {
        self.webhooks.address = address;
        self
    }

    /// Lets [`Environment::stop`] remove the CustomResourceDefinitions with all objects of their kinds. Default: they remain.
    #[doc(alias = "CleanUpAfterUse")]
    pub fn clean_up(mut self) -> Self {
        self.clean_up = true;
        self
    }

    /// Declares a user with its own credentials; [`Environment::user`] returns it. Its permissions are those that roles and bindings
    /// grant it.
    #[doc(alias = "AddUser")]
    pub fn user<G: Into<String>>(
        mut self,
        name: impl Into<String>,
        groups: impl IntoIterator<Item = G>,
    ) -> Self {
        self.users.push(Requested::new(name, groups));
        self
    }

    /// Starts the cluster, installs the CustomResourceDefinitions, and waits until their kinds are served.
    ///
    /// # Errors
    ///
    /// The address is in use or not a loopback address; a process does not start; a CustomResourceDefinition cannot be read or is
    /// rejected; webhook configurations cannot be read; a user was requested for an existing cluster.
    pub async fn start(self) -> Result<Environment, StartError> {
        let mut crds = self.crds;
        for path in &self.paths {
            crds.extend(read_crds(path)?);
        }
        let manifests = WebhookHost::read(&self.webhooks)?;
        let server = match &self.cluster {
            Cluster::Embedded => ServerKind::Embedded,
            Cluster::Binaries(_) => ServerKind::Process,
            Cluster::Existing(_) => ServerKind::Shared,
        };
        let started = match self.cluster {
            Cluster::Embedded => embedded(self.transport, self.options, &self.users).await?,
            Cluster::Binaries(assets) => processes(&assets, &self.users).await?,
            Cluster::Existing(_) if !self.users.is_empty() => {
                return Err(StartError::UserOfExistingCluster { user: self.users[0].name.clone() });
            }
            Cluster::Existing(config) => existing(*config)?,
        };
        let Started { client, kubeconfig, users, cluster, router } = started;
        let webhooks =
            WebhookHost::new(client.clone(), router, server, &self.webhooks, manifests, &mut crds)?;
        install_crds(&client, &crds).within(self.crds_within).await?;
        let clean_up = if self.clean_up { crds } else { Vec::new() };
        let installed = Mutex::default();
        Ok(Environment { client, kubeconfig, users, clean_up, webhooks, installed, cluster })
    }
}

/// Removes roles and bindings of users.
async fn uninstall(client: &kube::Client, objects: Vec<InstalledObject>) -> Result<(), UserError> {
    // Bindings were installed last.
    for object in objects.into_iter().rev() {
        object.remove(client).await?;
    }
    Ok(())
}

/// A cluster without definitions and webhooks.
struct Started {
    client: kube::Client,
    kubeconfig: Option<String>,
    users: Vec<User>,
    cluster: ClusterServer,
    /// Present if the API server calls webhooks in the process.
    router: Option<Router>,
}

async fn embedded(
    transport: Transport,
    mut options: Options,
    users: &[Requested],
) -> Result<Started, StartError> {
    if !users.is_empty() {
        options.tokens = Some(tokens_of(users));
    }
    let router = (transport == Transport::InProcess).then(|| Router::new(options.webhook_transport.take()));
    if let Some(router) = &router {
        options.webhook_transport = Some(Arc::new(router.clone()));
    }
    let server = ApiServer::start(options);
    let listener = match transport {
        Transport::InProcess => None,
        Transport::Tcp(address) => Some(server.listen(address).await?),
    };
    let kubeconfig = listener.as_ref().map(Listener::kubeconfig);
    let client = match &kubeconfig {
        // Over TCP the test uses the same kubeconfig as other processes.
        Some(kubeconfig) => client(kubeconfig).await?,
        None => kube::Client::new(server.service(), "default"),
    };
    let users = clients_of(users, &server, listener.as_ref()).await?;
    let cluster = ClusterServer::Embedded { server, listener };
    Ok(Started { client, kubeconfig, users, cluster, router })
}

async fn processes(assets: &Assets, requested: &[Requested]) -> Result<Started, StartError> {
    let control_plane = ControlPlane::start(assets).await?;
    let kubeconfig = control_plane.kubeconfig("envtest-admin", &["system:masters"])?;
    let mut users = Vec::new();
    for Requested { name, groups } in requested {
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        let kubeconfig = control_plane.kubeconfig(name, &groups)?;
        users.push(User::new(name, client(&kubeconfig).await?, Some(kubeconfig)));
    }
    let client = client(&kubeconfig).await?;
    let cluster = ClusterServer::Processes(Box::new(control_plane));
    Ok(Started { client, kubeconfig: Some(kubeconfig), users, cluster, router: None })
}

fn existing(config: kube::Config) -> Result<Started, StartError> {
    let client = kube::Client::try_from(config)?;
    Ok(Started {
        client,
        kubeconfig: None,
        users: Vec::new(),
        cluster: ClusterServer::Existing,
        router: None,
    })
}

/// Failure to start an environment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The server could not listen at the address.
    #[error(transparent)]
    Listen(#[from] kube_apiserver_embedded::ListenError),
    /// A CustomResourceDefinition does not exist, is invalid or was rejected.
    #[error(transparent)]
    Crd(#[from] CrdError),
    /// Webhook configurations cannot be read or used, or there is no address for webhooks.
    #[error(transparent)]
    Webhooks(#[from] WebhookError),
    /// No cluster configuration was found, or no client could be created.
    #[error("cannot connect to the cluster")]
    Connect(#[from] kube::Error),
    /// The binaries cannot be used.
    #[error(transparent)]
    Assets(#[from] AssetsError),
    /// The processes did not start.
    #[error(transparent)]
    ControlPlane(#[from] ControlPlaneError),
    /// Users can only be created in clusters that the environment starts.
    #[error("cannot create user {user}: an existing cluster manages its own users")]
    UserOfExistingCluster {
        /// Name of the user.
        user: String,
    },
}

/// Failure to stop an environment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StopError {
    /// A CustomResourceDefinition was not removed.
    #[error(transparent)]
    Crd(#[from] CrdError),
    /// A role or binding of a user was not removed.
    #[error(transparent)]
    User(#[from] UserError),
    /// The configurations of webhooks were not removed.
    #[error(transparent)]
    Webhooks(#[from] WebhookError),
    /// A process did not exit after SIGTERM.
    #[error(transparent)]
    ControlPlane(#[from] ControlPlaneError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_cluster_takes_precedence_over_binaries_and_the_embedded_server() {
        let asked = |variables: &[(&str, &str)]| {
            SelectedCluster::by(&|wanted| {
                let found = variables.iter().find(|(name, _)| *name == wanted);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let existing = |value| ("USE_EXISTING_CLUSTER", value);
        let assets = ("KUBEBUILDER_ASSETS", "/opt/kubebuilder");
        assert_eq!(asked(&[]), SelectedCluster::Nothing);
        assert_eq!(asked(&[existing("true"), assets]), SelectedCluster::Existing);
        assert_eq!(asked(&[existing("TRUE")]), SelectedCluster::Existing, "as in Go");
        for value in ["false", "1", "yes", ""] {
            assert_eq!(asked(&[existing(value), assets]), SelectedCluster::Binaries, "{value}");
            assert_eq!(asked(&[existing(value)]), SelectedCluster::Nothing, "{value}");
        }
        assert_eq!(asked(&[("TEST_ASSET_ETCD", "/opt/etcd")]), SelectedCluster::Binaries);
        assert_eq!(asked(&[("KUBEBUILDER_ASSETS", "")]), SelectedCluster::Nothing, "an empty path is none");
    }
}
