//! What the log says, once a cache, to who reads it where or when it cannot know: what it returns looks as if nothing was there.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::query::Query;

/// What has been said of a cache, or need not be any more.
#[derive(Default)]
pub(super) struct Hints {
    outside: AtomicBool,
    early: AtomicBool,
}

impl Hints {
    /// Somebody looks into a namespace.
    pub(super) fn looked_into(&self, namespace: Option<&str>, query: &Query) {
        if !query.namespaces.contain(namespace) && !self.outside.swap(true, Relaxed) {
            tracing::warn!(
                resource = query.label(),
                namespace,
                "objects are looked for in a namespace that their cache is not about: add it to the cache, or ask the API \
                 server by Client::get"
            );
        }
    }

    /// Somebody looks, and `synced` says whether the present was known ever.
    pub(super) fn looked(&self, synced: impl FnOnce() -> bool, query: &Query) {
        if self.early.load(Relaxed) {
            return;
        }
        let is_early = !synced();
        if !self.early.swap(true, Relaxed) && is_early {
            tracing::warn!(
                resource = query.label(),
                "objects are looked for before their cache is complete, and what it does not hold yet looks as if it did not \
                 exist: await Cached::synced or Manager::ready first, or read within a reconcile"
            );
        }
    }
}
