//! Lookup of the objects to which service account tokens are bound, in the state of the cluster.

use super::{Found, ObjectLookup};
use crate::state::ClusterState;
use crate::store::Key;

impl ObjectLookup for ClusterState {
    fn find(&self, plural: &str, namespace: &str, name: &str) -> Option<Found> {
        let served = self.registry().get("", "v1", plural).cloned()?;
        let stored = self.read(|store| store.get(served.storage(), &Key::new(namespace, name)).cloned())?;
        let object = served.value(&stored);
        let text = |field: &str| object["metadata"][field].as_str();
        Some(Found {
            uid: text("uid").unwrap_or_default().to_owned(),
            deleted: text("deletionTimestamp").and_then(|time| time.parse().ok()),
        })
    }
}
