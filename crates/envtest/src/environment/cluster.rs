//! The cluster of an environment: its selection, and its start without definitions and webhooks.

use std::{env, net::SocketAddr, sync::Arc};

use kube_apiserver_embedded::{ApiServer, Listener, Options};

use crate::{
    control_plane::{Assets, AssetsError, ControlPlane, ControlPlaneError, client},
    crd::CrdError,
    user::{DeclaredUser, User, connect_users, tokens_of},
    webhooks::{Router, WebhookError},
};

/// Cluster of an [`Environment`](crate::Environment).
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

/// Server of the cluster.
pub(super) enum ClusterServer {
    Embedded { server: ApiServer, listener: Option<Listener> },
    Processes(Box<ControlPlane>),
    Existing,
}

/// A cluster without definitions and webhooks.
pub(super) struct Started {
    pub(super) client: kube::Client,
    pub(super) kubeconfig: Option<String>,
    pub(super) users: Vec<User>,
    pub(super) cluster: ClusterServer,
    /// Present if the API server calls webhooks in the process.
    pub(super) router: Option<Router>,
}

/// Starts the embedded server.
pub(super) async fn embedded(
    transport: Transport,
    mut options: Options,
    users: &[DeclaredUser],
) -> Result<Started, StartError> {
    if !users.is_empty() {
        // The embedded server knows users by their tokens, which only this environment knows.
        options.tokens = Some(tokens_of(users));
    }
    // Over TCP the operator may be another process, which only a socket reaches.
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
    let users = connect_users(users, &server, listener.as_ref()).await?;
    let cluster = ClusterServer::Embedded { server, listener };
    Ok(Started { client, kubeconfig, users, cluster, router })
}

/// Starts kube-apiserver and etcd.
pub(super) async fn processes(assets: &Assets, requested: &[DeclaredUser]) -> Result<Started, StartError> {
    let control_plane = ControlPlane::start(assets).await?;
    let kubeconfig = control_plane.kubeconfig("envtest-admin", &["system:masters"])?;
    let mut users = Vec::new();
    for DeclaredUser { name, groups } in requested {
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        let kubeconfig = control_plane.kubeconfig(name, &groups)?;
        users.push(User::new(name, client(&kubeconfig).await?, Some(kubeconfig)));
    }
    let client = client(&kubeconfig).await?;
    let cluster = ClusterServer::Processes(Box::new(control_plane));
    Ok(Started { client, kubeconfig: Some(kubeconfig), users, cluster, router: None })
}

/// Connects to an existing cluster.
pub(super) fn existing(config: kube::Config) -> Result<Started, StartError> {
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
