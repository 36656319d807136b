//! Webhooks of all configurations of a kind. A configuration is parsed when it changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use super::webhook::Webhook;
use crate::kind::resource::StorageKey;
use crate::state::{ClusterState, CommitObserver};
use crate::store::{Key, TypeMeta};

const GROUP: &str = "admissionregistration.k8s.io";

/// Webhooks in the order in which they are called.
pub(super) type Webhooks = Arc<[Arc<Webhook>]>;

/// Observer of commits that holds the parsed configurations of a kind.
pub(crate) struct Configurations {
    table: StorageKey,
    kind: TypeMeta,
    webhooks: RwLock<Webhooks>,
    /// Parsed configurations by name. The lock is held while the store is read, so that the latest state is parsed last.
    parsed: Mutex<BTreeMap<String, Parsed>>,
}

/// A parsed configuration.
struct Parsed {
    /// Revision of the stored object.
    revision: u64,
    webhooks: Vec<Arc<Webhook>>,
}

impl Configurations {
    /// Creates an observer of MutatingWebhookConfigurations.
    pub(super) fn mutating() -> Self {
        Self::of("mutatingwebhookconfigurations", "MutatingWebhookConfiguration")
    }

    /// Creates an observer of ValidatingWebhookConfigurations.
    pub(super) fn validating() -> Self {
        Self::of("validatingwebhookconfigurations", "ValidatingWebhookConfiguration")
    }

    fn of(plural: &str, kind: &str) -> Self {
        Self {
            table: StorageKey { group: GROUP.to_owned(), plural: plural.to_owned() },
            kind: TypeMeta::new(&format!("{GROUP}/v1"), kind),
            webhooks: RwLock::new(Arc::new([])),
            parsed: Mutex::default(),
        }
    }

    /// Whether there is a webhook.
    pub(super) fn has_webhooks(&self) -> bool {
        !self.webhooks.read().is_empty()
    }

    /// Returns the current webhooks.
    pub(super) fn webhooks(&self) -> Webhooks {
        Arc::clone(&self.webhooks.read())
    }

    /// Parses the configurations that have changed.
    pub(crate) fn refresh(&self, cluster: &ClusterState) {
        let mut parsed = self.parsed.lock();
        let snapshot = cluster.read(|store| store.snapshot(&self.table));
        let mut former = std::mem::take(&mut *parsed);
        for (key, stored) in snapshot.range("", None) {
            let name = key.name().to_owned();
            let before = former.remove(&name);
            let current = match before {
                Some(before) if before.revision == stored.revision => before,
                before => {
                    let object = stored.document.to_value(&self.kind, stored.revision);
                    let before = before.map(|before| before.webhooks).unwrap_or_default();
                    let read = |hook: &Value| {
                        let former = before.iter().find(|before| hook["name"] == *before.name);
                        Arc::new(Webhook::read(hook, former.map(|former| &**former)))
                    };
                    let webhooks = object["webhooks"].as_array().into_iter().flatten().map(read).collect();
                    Parsed { revision: stored.revision, webhooks }
                }
            };
            parsed.insert(name, current);
        }
        // Under the lock of `parsed`, so that a later state is not replaced by an earlier one.
        *self.webhooks.write() = parsed.values().flat_map(|parsed| parsed.webhooks.iter().cloned()).collect();
    }
}

impl CommitObserver for Arc<Configurations> {
    fn committed(&self, cluster: &ClusterState, storage: &StorageKey, _key: &Key) {
        if *storage == self.table {
            self.refresh(cluster);
        }
    }
}
