//! The API server on which the operator runs: the server of the session, or that of an existing cluster.

use std::path::{Path, PathBuf};

use super::{cluster::Cluster, operator_log::FailedReconcile, rendered::Rendered, session::Session};
use crate::failure::Failure;

/// An API server for the operator.
pub(super) enum Target {
    /// The server of this session.
    Own(Box<Session>),
    /// A cluster.
    Cluster(Cluster),
}

impl Target {
    /// Waits for the next line to print; an error if the server has ended. A cluster has no lines.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses no line.
    pub(super) async fn next_line(&mut self) -> Result<String, Failure> {
        match self {
            Self::Own(session) => session.next_line().await,
            Self::Cluster(_) => std::future::pending().await,
        }
    }

    /// Installs definitions, and on the server of a session the rights of the operator.
    pub(super) async fn install(&mut self, rendered: &Rendered) -> Result<(), Failure> {
        match self {
            Self::Own(session) => session.install(rendered).await,
            Self::Cluster(cluster) => cluster.define(rendered).await,
        }
    }

    /// Announces the start of another program of the operator, after the end of the program before.
    pub(super) async fn starting(&mut self, rendered: &Rendered) -> Result<(), Failure> {
        match self {
            Self::Own(session) => session.starting(rendered).await,
            Self::Cluster(_) => Ok(()),
        }
    }

    /// Adds a failed reconcile to the line of its object. A cluster has no such lines: the line to print is returned.
    pub(super) async fn failed(&mut self, failed: &FailedReconcile) -> Result<Option<String>, Failure> {
        match self {
            Self::Own(session) => session.failed(failed).await.map(|()| None),
            Self::Cluster(_) => Ok(Some(failed.to_string())),
        }
    }

    /// Kubeconfig with which the operator connects.
    pub(super) fn operator_kubeconfig(&self) -> PathBuf {
        match self {
            Self::Own(session) => session.operator_kubeconfig().to_owned(),
            Self::Cluster(cluster) => cluster.kubeconfig().to_owned(),
        }
    }

    /// Whether a session before has left objects, which the operator reconciles after its start.
    pub(super) fn has_earlier_objects(&self) -> bool {
        matches!(self, Self::Own(session) if session.has_earlier_objects())
    }

    /// Whether the operator explains itself in this session. On a cluster it would need a token.
    pub(super) fn has_explanations(&self) -> bool {
        matches!(self, Self::Own(_))
    }

    pub(super) async fn apply_samples(&mut self, path: &Path) -> Result<usize, Failure> {
        match self {
            Self::Own(session) => session.apply(path).await,
            Self::Cluster(cluster) => cluster.apply_samples(path).await,
        }
    }

    /// Writes the file by which `explain` finds the operator, and returns the address of the page of explanations. A cluster has none.
    pub(super) async fn publish(&mut self) -> Result<Option<String>, Failure> {
        match self {
            Self::Own(session) => session.publish().await,
            Self::Cluster(_) => Ok(None),
        }
    }

    /// Ends the server of the session, or removes the credentials for the cluster.
    pub(super) async fn end(self) {
        match self {
            Self::Own(session) => session.end().await,
            Self::Cluster(cluster) => cluster.end(),
        }
    }
}
