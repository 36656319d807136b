//! Cluster of a cache, if it is not the manager's own cluster.

use std::{fmt, sync::Arc};

use tokio_util::sync::CancellationToken;

/// A cluster other than the manager's own: its name, and whether it was removed from the manager. Clones refer to the
/// same cluster.
#[derive(Clone)]
pub(crate) struct OtherCluster {
    name: Arc<str>,
    removed: CancellationToken,
}

impl OtherCluster {
    pub(crate) fn new(name: Arc<str>) -> Self {
        Self { name, removed: CancellationToken::new() }
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Records that the cluster was removed from its manager, for good.
    pub(crate) fn remove(&self) {
        self.removed.cancel();
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.removed.is_cancelled()
    }

    /// Waits until the cluster of a cache has been removed. Stays pending for the manager's own cluster (`None`), which is
    /// never removed.
    pub(crate) async fn removal_of(cluster: Option<&Self>) {
        match cluster {
            Some(cluster) => cluster.removed.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

/// Compares the names. That is enough, because queries are compared only within one cache, which belongs to one cluster.
impl PartialEq for OtherCluster {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for OtherCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtherCluster").field("name", &self.name).field("removed", &self.is_removed()).finish()
    }
}
