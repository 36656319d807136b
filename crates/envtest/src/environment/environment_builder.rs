//! [`Builder`], the options of an environment and its start.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Mutex,
    time::Duration,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_apiserver_embedded::{Epoch, Options, Profile};

use super::{
    Environment,
    cluster::{self, Cluster, StartError, Started, Transport},
};
use crate::{
    crd::{ESTABLISHED_WITHIN, install_crds, read_crds},
    user::DeclaredUser,
    webhooks::{ANSWER_WITHIN, ServerKind, WebhookHost, WebhookSettings},
};

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
    users: Vec<DeclaredUser>,
    crds_within: Duration,
    webhooks: WebhookSettings,
    clean_up: bool,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
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
    /// The configurations are installed when an operator [serves](crate::Instance::serve_webhooks) them. References to Services, in
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
        self.users.push(DeclaredUser::new(name, groups));
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
        // All files are read before a server starts, so that a mistake in a manifest fails at once.
        let manifests = WebhookHost::read(&self.webhooks)?;
        let server = match &self.cluster {
            Cluster::Embedded => ServerKind::Embedded,
            Cluster::Binaries(_) => ServerKind::Process,
            Cluster::Existing(_) => ServerKind::Shared,
        };
        let started = match self.cluster {
            Cluster::Embedded => cluster::embedded(self.transport, self.options, &self.users).await?,
            Cluster::Binaries(assets) => cluster::processes(&assets, &self.users).await?,
            Cluster::Existing(_) if !self.users.is_empty() => {
                return Err(StartError::UserOfExistingCluster { user: self.users[0].name.clone() });
            }
            Cluster::Existing(config) => cluster::existing(*config)?,
        };
        let Started { client, kubeconfig, users, cluster, router } = started;
        let webhooks =
            // Before the definitions are installed, because it points their conversions at the webhook
            // server.
            WebhookHost::new(client.clone(), router, server, &self.webhooks, manifests, &mut crds)?;
        install_crds(&client, &crds).within(self.crds_within).await?;
        let clean_up = if self.clean_up { crds } else { Vec::new() };
        let installed = Mutex::default();
        Ok(Environment { client, kubeconfig, users, clean_up, webhooks, installed, cluster })
    }
}
