//! [`ReadError`], the error of reads from a cache.

use crate::cache::objects::decode_error::DecodeError;

/// Reason why a cache cannot answer a read.
///
/// A cache that does not know whether an object exists returns this error instead of reporting the object as absent:
/// code that removes orphans would otherwise delete everything.
///
/// In a reconciler, return it with `?`. A reconcile that fails with [`ReadError::NotSynced`] is retried with back-off,
/// and logged at DEBUG at first. [`ReadError::Decode`] and [`ReadError::ClusterRemoved`] are
/// [terminal](crate::ReconcileError::terminal), and so is [`ReadError::OutsideNamespaces`] if the namespaces of the cache
/// are fixed.
///
/// ```
/// use controller_runtime::{Cached, Client, ReadError, ReconcileError};
/// use k8s_openapi::api::core::v1::{Node, Secret};
///
/// /// Deletes the secrets whose owner is gone.
/// async fn collect(secrets: &Cached<Secret>, node: &Node, client: &Client) -> Result<(), ReconcileError> {
///     for secret in secrets.owned_by(node)? {
///         client.delete(&*secret).await?;
///     }
///     Ok(())
/// }
///
/// /// Outside of a reconciler: waits for the cache once, instead of returning the error.
/// async fn count(secrets: &Cached<Secret>) -> Result<usize, ReadError> {
///     secrets.synced().await;
///     secrets.len()
/// }
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
#[doc(alias = "ErrCacheNotStarted")]
pub enum ReadError {
    /// An object cannot be decoded as its Rust type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The objects have not been listed yet.
    ///
    /// A cache that was created before the manager runs is complete within every reconcile. A cache that is created
    /// later, or belongs to a cluster that cannot be reached, is incomplete for a while.
    #[error(
        "the cache of {resource} is not complete yet{}: await Cached::synced before reading, or return the error from the \
         reconcile to have it retried",
        trouble.as_ref().map(|trouble| format!(" ({trouble})")).unwrap_or_default()
    )]
    NotSynced {
        /// Resource and selection of the cache.
        resource: String,
        /// Reason why the list or watch fails now, if it does.
        trouble: Option<String>,
    },
    /// The cluster was removed from the manager ([`Cluster::remove`](crate::manager::Cluster::remove)).
    ///
    /// Its objects have left the cache. They may still exist in the cluster.
    #[error("the cache of {resource} cannot be read: cluster {cluster} was removed from the manager")]
    ClusterRemoved {
        /// Resource and selection of the cache.
        resource: String,
        /// Name of the cluster.
        cluster: String,
    },
    /// The cache does not contain the namespace.
    #[error(
        "the cache of {resource} does not hold {}: add the namespace to the cache (CacheOptions::namespaces, \
         CacheBuilder::namespaces or cache::Namespaces::add), or read with Client::get or Client::list",
        namespace.as_ref().map_or_else(|| "objects without namespace".to_owned(), |name| format!("namespace {name}"))
    )]
    OutsideNamespaces {
        /// Resource and selection of the cache.
        resource: String,
        /// The requested namespace.
        namespace: Option<String>,
        /// Whether the namespaces of the cache may change while the manager runs
        /// ([`CacheBuilder::namespace_set`](crate::cache::CacheBuilder::namespace_set)).
        may_change: bool,
    },
}

impl ReadError {
    /// Returns the decoding error, if an object cannot be decoded as its Rust type.
    #[must_use]
    pub fn decode_error(&self) -> Option<&DecodeError> {
        match self {
            Self::Decode(error) => Some(error),
            Self::NotSynced { .. } | Self::ClusterRemoved { .. } | Self::OutsideNamespaces { .. } => None,
        }
    }

    /// Whether the objects have not been listed yet.
    #[must_use]
    pub fn is_not_synced(&self) -> bool {
        matches!(self, Self::NotSynced { .. })
    }

    /// Whether the cluster was removed from the manager.
    #[must_use]
    pub fn is_cluster_removed(&self) -> bool {
        matches!(self, Self::ClusterRemoved { .. })
    }

    /// Whether the cache does not contain the namespace.
    #[must_use]
    pub fn is_outside_namespaces(&self) -> bool {
        matches!(self, Self::OutsideNamespaces { .. })
    }

    /// Whether a repeated read fails again until the object changes or the operator is restarted with other options.
    pub(crate) fn is_permanent(&self) -> bool {
        matches!(
            self,
            Self::Decode(_) | Self::ClusterRemoved { .. } | Self::OutsideNamespaces { may_change: false, .. }
        )
    }
}
