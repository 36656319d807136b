use std::{collections::BTreeMap, sync::Arc};

use parking_lot::RwLock;

use crate::http_server::BoxHandler;

/// Where metrics are: nothing else answers there.
pub(super) const METRICS: &str = "/metrics";

/// What answers, by path, beside the metrics. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct ExtraHandlers {
    by_path: Arc<RwLock<BTreeMap<String, BoxHandler>>>,
}

impl ExtraHandlers {
    /// Puts a handler in the place of the one of that path, if there is one.
    pub(crate) fn insert(&self, path: String, handler: BoxHandler) {
        if path == METRICS {
            tracing::warn!(
                "a handler of {METRICS} is not used: the metrics are there, so give it another path"
            );
            return;
        }
        self.by_path.write().insert(path, handler);
    }

    /// What answers requests to a path.
    pub(super) fn get(&self, path: &str) -> Option<BoxHandler> {
        self.by_path.read().get(path).cloned()
    }
}
