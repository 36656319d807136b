//! The API server on which the operator runs: one of the session's own, or that of an existing cluster.

use std::path::{Path, PathBuf};

use kube_envtest::dev::{DevError, Progress, Rendered, Session, SessionFlags};

use super::cluster::Cluster;
use crate::failure::Failure;

/// An API server for the operator.
pub(super) enum Target {
    /// The server of this session, and the lines about its objects.
    Own(Box<(Session, Progress)>),
    /// A cluster.
    Cluster(Cluster),
}

impl Target {
    /// Waits for the next line about the objects. A cluster has none.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses no line.
    pub(super) async fn next_line(&mut self) -> String {
        match self {
            Self::Own(own) => own.1.next_line().await,
            Self::Cluster(_) => std::future::pending().await,
        }
    }

    /// Installs definitions, and in a server of the session's own the rights of the operator.
    pub(super) async fn install(&mut self, rendered: &Rendered) -> Result<(), Failure> {
        match self {
            Self::Own(own) => {
                own.0.define(&rendered.definitions).await.map_err(failed)?;
                own.0.grant(rendered).await.map_err(failed)
            }
            Self::Cluster(cluster) => cluster.define(rendered).await,
        }
    }

    /// Kubeconfig with which the operator connects.
    pub(super) fn operator_kubeconfig(&self) -> PathBuf {
        match self {
            Self::Own(own) => own.0.operator_kubeconfig(),
            Self::Cluster(cluster) => cluster.kubeconfig().to_owned(),
        }
    }

    /// User name of the operator; empty in a cluster, where it is that of the user.
    pub(super) fn user(&self) -> &str {
        match self {
            Self::Own(own) => own.0.user(),
            Self::Cluster(_) => "",
        }
    }

    pub(super) async fn apply_samples(&self, path: &Path) -> Result<usize, Failure> {
        match self {
            Self::Own(own) => own.0.apply_samples(path).await.map_err(failed),
            Self::Cluster(cluster) => cluster.apply_samples(path).await,
        }
    }

    /// Writes the file by which `explain` finds the operator, and returns the address of the page of explanations. A cluster has none.
    pub(super) fn publish(&self, flags: &SessionFlags) -> Result<Option<String>, Failure> {
        match self {
            Self::Own(own) => own.0.publish(flags).map_err(failed),
            Self::Cluster(_) => Ok(None),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "map_err passes it")]
pub(super) fn failed(error: DevError) -> Failure {
    Failure::new(error.to_string())
}
