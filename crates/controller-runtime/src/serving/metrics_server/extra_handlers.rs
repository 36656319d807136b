//! Additional handlers of the metrics server.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::RwLock;

use crate::serving::BoxHandler;

/// Path of the metrics, which no handler can replace.
pub(super) const METRICS: &str = "/metrics";

/// Handlers by path, other than the metrics. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct ExtraHandlers {
    by_path: Arc<RwLock<BTreeMap<String, BoxHandler>>>,
}

impl ExtraHandlers {
    /// Adds a handler; replaces an earlier one of that path.
    pub(crate) fn insert(&self, path: String, handler: BoxHandler) {
        if path == METRICS {
            tracing::warn!(
                "the extra handler for {METRICS} is ignored, because metrics are served at that path: give it another one"
            );
            return;
        }
        self.by_path.write().insert(path, handler);
    }

    /// The handler of a path.
    pub(super) fn get(&self, path: &str) -> Option<BoxHandler> {
        self.by_path.read().get(path).cloned()
    }
}
