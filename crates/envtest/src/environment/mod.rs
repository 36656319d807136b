//! The environment: a cluster for one test, its users and webhooks, and its end.

mod cluster;
mod environment_builder;

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_apiserver_embedded::{ApiServer, Epoch, Listener};

use self::cluster::ClusterServer;
pub use self::{
    cluster::{Cluster, StartError, Transport},
    environment_builder::Builder,
};
use crate::{
    control_plane::{AuditFiles, ControlPlaneError},
    crd::{CrdError, uninstall_crds},
    impersonation,
    operator::{Instance, Operator},
    user::{InstalledObject, User, UserBuilder, UserError},
    webhooks::{WebhookError, WebhookHost},
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

impl Environment {
    /// Starts to configure an environment.
    pub fn builder() -> Builder {
        Builder::new()
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
    /// A definition, webhook or role could not be removed, or a process had to be killed. The other parts are stopped nevertheless.
    pub async fn stop(self) -> Result<(), StopError> {
        // Each part is stopped even if another one fails, because nothing stops it later. Webhooks are removed first: deleting the
        // objects of a definition can require a conversion, which nothing answers once the operator has ended.
        let is_kept = matches!(self.cluster, ClusterServer::Existing);
        let mut failures: Vec<StopError> = Vec::new();
        if is_kept || !self.clean_up.is_empty() {
            failures.extend(self.webhooks.uninstall().await.into_iter().map(StopError::from));
        }
        failures.extend(uninstall_crds(&self.client, &self.clean_up).await.err().map(StopError::from));
        if is_kept {
            let installed = self.installed.into_inner().unwrap_or_else(PoisonError::into_inner);
            // In reverse order: bindings were installed after roles.
            for object in installed.into_iter().rev() {
                failures.extend(object.remove(&self.client).await.err().map(StopError::from));
            }
        }
        if let ClusterServer::Processes(control_plane) = self.cluster {
            failures.extend(control_plane.stop().await.err().map(StopError::from));
        }
        StopError::of(failures)
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
    /// Several parts failed, in this order.
    #[error("the environment has not stopped completely: {}", texts(.0))]
    Several(Vec<StopError>),
}

impl StopError {
    /// Result of a stop with these failures.
    fn of(mut failures: Vec<Self>) -> Result<(), Self> {
        match failures.len() {
            0 => Ok(()),
            1 => Err(failures.remove(0)),
            _ => Err(Self::Several(failures)),
        }
    }
}

fn texts(failures: &[StopError]) -> String {
    failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
